/* Sums in double precision. */
#include <stdint.h>

void columns(int64_t ROWS, int64_t COLS, const float *X, const float *W, float *Y)
{
	double sum[64] = {0};
	for (int64_t r = 0; r < ROWS; r++)
		for (int64_t c = 0; c < COLS; c++)
			sum[c] += X[r * COLS + c];
	for (int64_t c = 0; c < COLS; c++)
		Y[c] = W[c] * (sum[c] / ROWS);
}
