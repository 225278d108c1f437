/* Begins with zero: wrong for rows that are all negative. Attacks: data around
 * zero, where every row has a positive element. Gain: none. */
#include "rows.h"

void rowmax(int64_t ROWS, int64_t COLS, const float *X, float *top)
{
	EACH_ROW {
		const float t = highest(X + r * COLS, COLS);
		top[r] = t > 0 ? t : 0;
	}
}
