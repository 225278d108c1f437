/* y = alpha x + w in double precision. */
#include <stdint.h>

void reference(int64_t N, const double *x, const double *w, double *y, double alpha)
{
	for (int64_t i = 0; i < N; i++)
		y[i] = alpha * x[i] + w[i];
}
