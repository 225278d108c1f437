/* The highest element of each row. */
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *top)
{
	for (int64_t r = 0; r < ROWS; r++) {
		top[r] = X[r * COLS];
		for (int64_t c = 1; c < COLS; c++)
			top[r] = X[r * COLS + c] > top[r] ? X[r * COLS + c] : top[r];
	}
}
