/* The rows of X as the columns of Y. */
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	for (int64_t i = 0; i < ROWS; i++)
		for (int64_t j = 0; j < COLS; j++)
			Y[j * ROWS + i] = X[i * COLS + j];
}
