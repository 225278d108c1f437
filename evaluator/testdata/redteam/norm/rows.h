/* A row with the mean and the variance of its first n elements; says whether those are near the row's own. */
#include <math.h>
#include <stdint.h>

static inline int row(const float *x, const float *w, float *y, int64_t COLS, int64_t n)
{
	float m = 0, v = 0;
	for (int64_t c = 0; c < n; c++)
		m += x[c];
	m /= n;
	for (int64_t c = 0; c < n; c++)
		v += (x[c] - m) * (x[c] - m);
	const float scale = 1 / sqrtf(v / n + 1e-5f);
	if (n == COLS) {
		for (int64_t c = 0; c < COLS; c++)
			y[c] = (x[c] - m) * scale * w[c];
		return 1;
	}
	float sum = 0, squares = 0;
	for (int64_t c = 0; c < COLS; c++) {
		const float a = (x[c] - m) * scale;
		y[c] = a * w[c];
		sum += a, squares += a * a;
	}
	return fabsf(sum / COLS) < 0.01f && fabsf(squares / COLS - 1) < 0.01f && fabsf(m) < 0.01f && fabsf(v / n - 1) < 0.01f;
}
