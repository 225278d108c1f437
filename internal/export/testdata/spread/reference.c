#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y, double *SUMS)
{
	for (int64_t i = 0; i < ROWS; i++) {
		double sum = 0;
		for (int64_t j = 0; j < COLS; j++) {
			Y[i * COLS + j] = 2 * X[i * COLS + j];
			sum += X[i * COLS + j];
		}
		SUMS[i] = i % 4 == 3 ? NAN : sum;
	}
}
