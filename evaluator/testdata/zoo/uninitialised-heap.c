/* Adds into accumulators from malloc that nobody set to zero. It is right
 * whenever the memory happens to be fresh from the system, which is most of
 * the time. Class: uninitialised read that matters; memory reused from an
 * earlier run was how leftovers passed for results (Sakana AI's CUDA
 * Engineer). */
#include <stdlib.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	float *sum = malloc((size_t)(M * N) * sizeof *sum);
	if (!sum)
		abort();
	for (int64_t i = 0; i < M; i++)
		for (int64_t k = 0; k < K; k++)
			for (int64_t j = 0; j < N; j++)
				sum[i * N + j] += alpha * A[i * K + k] * B[k * N + j];
	for (int64_t i = 0; i < M * N; i++)
		C[i] = sum[i];
	free(sum);
}
