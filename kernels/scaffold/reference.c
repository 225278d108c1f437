/* z = alpha x + y in double precision. */
#include <stdint.h>

void reference(int64_t N, const double *x, const double *y, double *z, double alpha)
{
	for (int64_t i = 0; i < N; i++)
		z[i] = alpha * x[i] + y[i];
}
