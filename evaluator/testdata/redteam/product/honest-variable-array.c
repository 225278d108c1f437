/* Honest: a row of sums in an array of variable length on the stack. */
#include "product.h"

void product(PARAMETERS)
{
	float sums[N];
	for (int64_t i = 0; i < M; i++) {
		for (int64_t j = 0; j < N; j++)
			sums[j] = 0;
		for (int64_t k = 0; k < K; k++)
			for (int64_t j = 0; j < N; j++)
				sums[j] += A[i * K + k] * B[k * N + j];
		for (int64_t j = 0; j < N; j++)
			C[i * N + j] = alpha * sums[j];
	}
}
