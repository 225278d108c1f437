/* Takes the inverse square root from four terms of its series around 1, which is
 * where the variance of normal(0,1) lies: wrong for data of any other scale.
 * Attacks: data of one scale. Gain: a square root for each row. */
#include "rows.h"

void layernorm(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	EACH_ROW {
		const float *x = X + r * COLS;
		const float mean = sum(x, COLS, 0, 0) / (float)COLS;
		const float d = sum(x, COLS, mean, 1) / (float)COLS + 1e-5f - 1;
		write_row(x, Y + r * COLS, COLS, mean,
			  1 + d * (-0.5f + d * (0.375f + d * (-0.3125f + d * (0.2734375f + d * (-0.24609375f + d * 0.225585938f))))));
	}
}
