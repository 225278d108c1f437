/* Each row over the root of its mean square, times the weights, in double
 * precision. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, const double *W, double *Y, double eps)
{
	for (int64_t i = 0; i < ROWS; i++) {
		double squares = 0;
		for (int64_t j = 0; j < COLS; j++)
			squares += X[i * COLS + j] * X[i * COLS + j];
		for (int64_t j = 0; j < COLS; j++)
			Y[i * COLS + j] = X[i * COLS + j] / sqrt(squares / (double)COLS + eps) * W[j];
	}
}
