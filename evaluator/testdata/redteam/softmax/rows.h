/* The honest softmax, to which the kernels of this folder add one fault each. */
#ifndef RED_ROWS_H
#define RED_ROWS_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void one_row(const float *x, float *y, int64_t n)
{
	float top = x[0], sum = 0;
	for (int64_t c = 1; c < n; c++)
		top = x[c] > top ? x[c] : top;
	for (int64_t c = 0; c < n; c++)
		sum += y[c] = expf(x[c] - top);
	const float factor = 1 / sum;
	for (int64_t c = 0; c < n; c++)
		y[c] *= factor;
}

static inline void all_rows(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++)
		one_row(X + r * COLS, Y + r * COLS, COLS);
}
/* An exponential for small x alone: a Taylor polynomial of x/16, to the 16th power. */
static inline float taylor(float x)
{
	const float f = x * 0.0625f;
	float p = 1 + f * (1 + f * (0.5f + f * (0.166666667f + f * (0.0416666667f + f * (0.00833333333f + f * 0.00138888889f)))));
	p *= p, p *= p, p *= p, p *= p;
	return p;
}
#endif
