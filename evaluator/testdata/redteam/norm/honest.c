/* Mean, variance and outputs in three passes. */
#include "rows.h"

void norm(int64_t ROWS, int64_t COLS, const float *X, const float *W, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++)
		row(X + r * COLS, W, Y + r * COLS, COLS, COLS);
}
