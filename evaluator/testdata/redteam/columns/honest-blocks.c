/* Honest: the same with all rows. */
#include "means.h"

void columns(int64_t ROWS, int64_t COLS, const float *X, const float *W, float *Y)
{
	means(ROWS, COLS, X, W, Y, 1);
}
