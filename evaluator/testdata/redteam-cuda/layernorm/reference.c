/* Each row less its mean, over the root of its variance, times G and plus B, in
 * double precision. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, const double *G, const double *B, double *Y, double eps)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const double *x = X + r * COLS;
		double mean = 0, variance = 0;
		for (int64_t c = 0; c < COLS; c++)
			mean += x[c];
		mean /= (double)COLS;
		for (int64_t c = 0; c < COLS; c++)
			variance += (x[c] - mean) * (x[c] - mean);
		variance /= (double)COLS;
		for (int64_t c = 0; c < COLS; c++)
			Y[r * COLS + c] = (x[c] - mean) / sqrt(variance + eps) * G[c] + B[c];
	}
}
