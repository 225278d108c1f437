#include <stdint.h>
void reference(int64_t N, const double *x, double *y, double factor)
{
	for (int64_t i = 0; i < N; i++)
		y[i] = factor * x[i];
}
