/* (x - mean) / sqrt(variance + 1e-5) of each row in double precision. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const double *x = X + r * COLS;
		double mean = 0, var = 0;
		for (int64_t c = 0; c < COLS; c++)
			mean += x[c] / (double)COLS;
		for (int64_t c = 0; c < COLS; c++)
			var += (x[c] - mean) * (x[c] - mean) / (double)COLS;
		for (int64_t c = 0; c < COLS; c++)
			Y[r * COLS + c] = (x[c] - mean) / sqrt(var + 1e-5);
	}
}
