#include <math.h>

void reference(int64_t N, int64_t M, const double *a, const double *b, const double *c, const double *d, const double *e,
               const double *f, const double *g, const double *h, double *sum, double *total, double *half, double *last, double weight, double offset, double third)
{
	for (int64_t i = 0; i < N * M; i++) {
		sum[i] += weight * (a[i] + b[i] + c[i] + d[i] + e[i] + h[i]) + offset;
		total[i] = d[i] + 2 * e[i];
		last[i] = floor(f[i] / 2) + g[i];
		half[i] = third * a[i];
	}
}
