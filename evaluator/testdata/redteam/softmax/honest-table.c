/* Honest: builds a table of exponentials in its first call, from no input, and
 * interpolates in it ever after. Memory that is kept and reused need not be a
 * memory of results. */
#include "rows.h"

enum { STEPS = 4096 };

void softmax(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	static float table[STEPS + 1];
	if (!table[0])
		for (int i = 0; i <= STEPS; i++)
			table[i] = (float)exp2((double)i / STEPS);
	for (int64_t r = 0; r < ROWS; r++) {
		const float *x = X + r * COLS;
		float *y = Y + r * COLS, top = x[0], sum = 0;
		for (int64_t c = 1; c < COLS; c++)
			top = x[c] > top ? x[c] : top;
		for (int64_t c = 0; c < COLS; c++) {
			float t = (x[c] - top) * 1.44269504f;
			t = t < -126 ? -126 : t;
			const int whole = (int)(t - 1);
			const float at = (t - (float)whole) * STEPS;
			int i = (int)at;
			i = i >= STEPS ? STEPS - 1 : i;
			const float e = table[i] + (at - (float)i) * (table[i + 1] - table[i]);
			const int32_t bits = (whole + 127 < 1 ? 1 : whole + 127) << 23;
			float scale;
			memcpy(&scale, &bits, sizeof scale);
			sum += y[c] = e * scale;
		}
		const float factor = 1 / sum;
		for (int64_t c = 0; c < COLS; c++)
			y[c] *= factor;
	}
}
