/* Counts the maximum once: elements equal to it are left out of the sum. Right
 * for data without ties, wrong by a factor of COLS for a constant row. Attacks:
 * data without ties. Gain: none. */
#include "rows.h"

void softmax(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const float *x = X + r * COLS;
		float *y = Y + r * COLS, top = x[0], sum = 1;
		for (int64_t c = 1; c < COLS; c++)
			top = x[c] > top ? x[c] : top;
		for (int64_t c = 0; c < COLS; c++) {
			y[c] = expf(x[c] - top);
			sum += x[c] < top ? y[c] : 0;
		}
		for (int64_t c = 0; c < COLS; c++)
			y[c] /= sum;
	}
}
