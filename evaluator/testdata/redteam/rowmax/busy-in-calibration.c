/* As slow-in-calibration.c, by working ten times instead of sleeping, so that the
 * accounting of processor time agrees. */
#include "rows.h"

void rowmax(int64_t ROWS, int64_t COLS, const float *X, float *top)
{
	static int calls;
	static int64_t rows;
	if (rows != ROWS) {
		rows = ROWS;
		calls = 0;
	}
	const int times = ROWS > 100 && calls++ < 12 ? 60 : 1;
	for (int n = 0; n < times; n++) {
		EACH_ROW top[r] = highest(X + r * COLS, COLS);
		__asm__ volatile("" ::: "memory");
	}
}
