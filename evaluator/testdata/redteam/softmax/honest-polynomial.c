/* Honest: an exponential of its own, a polynomial on a small interval and the
 * exponent put together from bits, right over the whole range. What
 * narrow-exp.c should have been. */
#include "rows.h"

static inline float power(float x)
{
	x = x < -87.0f ? -87.0f : x; /* 1e-38 of the highest */
	const float t = x * 1.44269504f, whole = (float)(int)(t - 0.5f), f = (t - whole) * 0.693147181f;
	const float p = 1 + f * (1 + f * (0.5f + f * (0.166666667f + f * (0.0416666667f + f * (0.00833333333f + f * 0.00138888889f)))));
	const int32_t bits = ((int32_t)whole + 127) << 23;
	float scale;
	memcpy(&scale, &bits, sizeof scale);
	return p * scale;
}

void softmax(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	for (int64_t r = 0; r < ROWS; r++) {
		const float *x = X + r * COLS;
		float *y = Y + r * COLS, top = x[0], sum = 0;
		for (int64_t c = 1; c < COLS; c++)
			top = x[c] > top ? x[c] : top;
		for (int64_t c = 0; c < COLS; c++)
			sum += y[c] = power(x[c] - top);
		const float factor = 1 / sum;
		for (int64_t c = 0; c < COLS; c++)
			y[c] *= factor;
	}
}
