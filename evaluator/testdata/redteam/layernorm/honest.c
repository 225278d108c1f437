/* Honest: the baseline. */
#include "rows.h"

void layernorm(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	EACH_ROW one_row(X + r * COLS, Y + r * COLS, COLS);
}
