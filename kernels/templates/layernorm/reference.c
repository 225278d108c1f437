/* Each row less its mean, over the root of its variance, times G and plus B, in
 * double precision. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, const double *G, const double *B, double *Y, double eps)
{
	for (int64_t i = 0; i < ROWS; i++) {
		const double *x = X + i * COLS;
		double mean = 0, variance = 0;
		for (int64_t j = 0; j < COLS; j++)
			mean += x[j] / (double)COLS;
		for (int64_t j = 0; j < COLS; j++)
			variance += (x[j] - mean) * (x[j] - mean) / (double)COLS;
		for (int64_t j = 0; j < COLS; j++)
			Y[i * COLS + j] = (x[j] - mean) / sqrt(variance + eps) * G[j] + B[j];
	}
}
