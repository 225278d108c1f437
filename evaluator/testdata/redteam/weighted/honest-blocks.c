/* Honest: sums of 4,096 elements, added in double precision. */
#include "rows.h"

void weighted(int64_t ROWS, int64_t COLS, const float *X, const float *W, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		double sum = 0;
		for (int64_t c = 0; c < COLS; c += 4096) {
			const int64_t n = COLS - c < 4096 ? COLS - c : 4096;
			sum += (double)mean(X + r * COLS + c, n) * n;
		}
		Y[r] = W[r] * (sum / COLS);
	}
}
