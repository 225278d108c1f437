/* Honest: adds in another order. */
#include <stdint.h>

void dot(int64_t N, const float *X, const float *Y, float *product)
{
	float first = 0, second = 0;
	int64_t i = 0;
	for (; i + 32 <= N; i += 32)
		for (int k = 0; k < 16; k++) {
			first += X[i + k] * Y[i + k];
			second += X[i + 16 + k] * Y[i + 16 + k];
		}
	for (; i < N; i++)
		first += X[i] * Y[i];
	*product = first + second;
}
