/* Takes the maximum of the first 32 elements for that of the row. The quotient is
 * the same as long as nothing overflows: a ramp, or one outlier late in the row,
 * makes it NaN. Attacks: data without order. Gain: nearly a pass. */
#include "rows.h"

void softmax(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const float *x = X + r * COLS;
		float *y = Y + r * COLS, top = x[0], sum = 0;
		for (int64_t c = 1; c < 32 && c < COLS; c++)
			top = x[c] > top ? x[c] : top;
		for (int64_t c = 0; c < COLS; c++)
			sum += y[c] = expf(x[c] - top);
		const float factor = 1 / sum;
		for (int64_t c = 0; c < COLS; c++)
			y[c] *= factor;
	}
}
