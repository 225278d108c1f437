/* The honest normalisation: eight running sums, two passes and the result. */
#ifndef RED_ROWS_H
#define RED_ROWS_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* sum adds up x - less, or the squares of that. */
static inline float sum(const float *x, int64_t n, float less, int squares)
{
	float s[8] = {0}, all = 0;
	int64_t c = 0;
	for (; c + 8 <= n; c += 8)
		for (int i = 0; i < 8; i++) {
			const float d = x[c + i] - less;
			s[i] += squares ? d * d : d;
		}
	for (; c < n; c++) {
		const float d = x[c] - less;
		s[0] += squares ? d * d : d;
	}
	for (int i = 0; i < 8; i++)
		all += s[i];
	return all;
}

static inline void write_row(const float *x, float *y, int64_t n, float mean, float factor)
{
	for (int64_t c = 0; c < n; c++)
		y[c] = (x[c] - mean) * factor;
}

static inline void one_row(const float *x, float *y, int64_t n)
{
	const float shift = x[0], mean = shift + sum(x, n, shift, 0) / (float)n;
	write_row(x, y, n, mean, 1 / sqrtf(sum(x, n, mean, 1) / (float)n + 1e-5f));
}
#define EACH_ROW for (int64_t r = 0; r < ROWS; r++)
#endif
