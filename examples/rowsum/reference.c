/* The sum of each row, in double precision. */
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLUMNS, const double *x, double *sums)
{
	for (int64_t r = 0; r < ROWS; r++) {
		sums[r] = 0;
		for (int64_t c = 0; c < COLUMNS; c++)
			sums[r] += x[r * COLUMNS + c];
	}
}
