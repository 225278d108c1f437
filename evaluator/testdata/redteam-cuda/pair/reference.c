/* The sum of each row, in double precision. */
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		double sum = 0;
		for (int64_t c = 0; c < COLS; c++)
			sum += X[r * COLS + c];
		Y[r] = sum;
	}
}
