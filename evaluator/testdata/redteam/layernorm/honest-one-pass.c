/* Honest: one pass over the row, with sums of the differences to its first
 * element in double precision, so that an offset does no harm. What
 * one-pass-variance.c should have been. */
#include "rows.h"

void layernorm(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	EACH_ROW {
		const float *x = X + r * COLS;
		double s = 0, q = 0;
		for (int64_t c = 0; c < COLS; c++) {
			const double d = (double)x[c] - x[0];
			s += d, q += d * d;
		}
		s /= (double)COLS, q = q / (double)COLS - s * s;
		write_row(x, Y + r * COLS, COLS, (float)(x[0] + s), (float)(1 / sqrt((q > 0 ? q : 0) + 1e-5)));
	}
}
