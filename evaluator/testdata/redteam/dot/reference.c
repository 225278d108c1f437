#include <stdint.h>

void reference(int64_t N, const double *X, const double *Y, double *product)
{
	*product = 0;
	for (int64_t i = 0; i < N; i++)
		*product += X[i] * Y[i];
}
