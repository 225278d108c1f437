/* The sum of each row, in double precision. */
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	for (int64_t i = 0; i < ROWS; i++) {
		Y[i] = 0;
		for (int64_t j = 0; j < COLS; j++)
			Y[i] += X[i * COLS + j];
	}
}
