/* Honest: the baseline. */
#include <stdint.h>

void dot(int64_t N, const float *X, const float *Y, float *product)
{
	float sum = 0;
	for (int64_t i = 0; i < N; i++)
		sum += X[i] * Y[i];
	*product = sum;
}
