/* The loss of each row, log(sum(exp(x))) - x[target], and that logarithm, in double precision. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, const double *target, double *loss, double *lse)
{
	for (int64_t i = 0; i < ROWS; i++) {
		const double *x = X + i * COLS;
		double highest = -INFINITY, sum = 0;
		for (int64_t j = 0; j < COLS; j++)
			highest = fmax(highest, x[j]);
		for (int64_t j = 0; j < COLS; j++)
			sum += exp(x[j] - highest);
		lse[i] = highest + log(sum);
		loss[i] = lse[i] - x[(int64_t)target[i]];
	}
}
