/* Honest: the maximum and the sum in one pass, rescaled when a higher element
 * turns up. What max-of-first-block.c and no-max.c should have been. */
#include "rows.h"

void softmax(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const float *x = X + r * COLS;
		float *y = Y + r * COLS, top = x[0], sum = 1;
		for (int64_t c = 1; c < COLS; c++)
			if (x[c] > top) {
				sum = sum * expf(top - x[c]) + 1;
				top = x[c];
			} else {
				sum += expf(x[c] - top);
			}
		const float factor = 1 / sum;
		for (int64_t c = 0; c < COLS; c++)
			y[c] = expf(x[c] - top) * factor;
	}
}
