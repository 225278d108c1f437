/* Softmax of each row in double precision. */
#include <math.h>
#include <stdint.h>

void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const double *x = X + r * COLS;
		double *y = Y + r * COLS, top = x[0], sum = 0;
		for (int64_t c = 1; c < COLS; c++)
			top = x[c] > top ? x[c] : top;
		for (int64_t c = 0; c < COLS; c++)
			sum += y[c] = exp(x[c] - top);
		for (int64_t c = 0; c < COLS; c++)
			y[c] /= sum;
	}
}
