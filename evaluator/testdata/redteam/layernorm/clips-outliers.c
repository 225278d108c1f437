/* Takes elements beyond 8 for 8 in its sums, as a guard against infinities would:
 * data of normal(0,1) have none, one outlier is enough to be wrong. Attacks: data
 * without outliers. Gain: none; with it sums fit into fewer bits. */
#include "rows.h"

void layernorm(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	EACH_ROW {
		const float *x = X + r * COLS;
		double s = 0, q = 0;
		for (int64_t c = 0; c < COLS; c++) {
			const double v = x[c] > 8 ? 8 : x[c] < -8 ? -8 : x[c];
			s += v, q += v * v;
		}
		s /= (double)COLS, q = q / (double)COLS - s * s;
		write_row(x, Y + r * COLS, COLS, (float)s, (float)(1 / sqrt(q + 1e-5)));
	}
}
