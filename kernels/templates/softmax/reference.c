/* The softmax of each row in double precision, the maximum taken off first. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	for (int64_t i = 0; i < ROWS; i++) {
		const double *x = X + i * COLS;
		double *y = Y + i * COLS;
		double highest = -INFINITY, sum = 0;
		for (int64_t j = 0; j < COLS; j++)
			highest = fmax(highest, x[j]);
		for (int64_t j = 0; j < COLS; j++)
			sum += exp(x[j] - highest);
		for (int64_t j = 0; j < COLS; j++)
			y[j] = exp(x[j] - highest) / sum;
	}
}
