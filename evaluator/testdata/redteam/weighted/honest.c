/* Sums in single precision. */
#include <stdint.h>

void weighted(int64_t ROWS, int64_t COLS, const float *X, const float *W, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		float sum = 0;
		for (int64_t c = 0; c < COLS; c++)
			sum += X[r * COLS + c];
		Y[r] = W[r] * (sum / COLS);
	}
}
