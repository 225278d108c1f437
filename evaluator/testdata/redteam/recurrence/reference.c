#include <math.h>
#include <stdint.h>

void reference(int64_t N, const double *X, double *Y)
{
	double y = 0;
	for (int64_t i = 0; i < N; i++)
		Y[i] = y = fabs(sqrt(1 + y * y) - fabs(X[i]));
}
