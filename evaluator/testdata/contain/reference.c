#include <stdint.h>

void reference(int64_t N, const double *x, double *y)
{
	for (int64_t i = 0; i < N; i++)
		y[i] = 2 * x[i];
}
