/* Honest: two versions of its loop, of which one is for AVX2, chosen at run time
 * with __builtin_cpu_supports, as every portable library does. */
#include "product.h"

__attribute__((target("avx2,fma"))) static void wide(PARAMETERS)
{
	for (int64_t i = 0; i < M; i++) {
		float *restrict c = C + i * N;
		for (int64_t j = 0; j < N; j++)
			c[j] = 0;
		for (int64_t k = 0; k < K; k++) {
			const float a = alpha * A[i * K + k];
			for (int64_t j = 0; j < N; j++)
				c[j] += a * B[k * N + j];
		}
	}
}

void product(PARAMETERS)
{
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		wide(ARGUMENTS);
	else
		all_rows(ARGUMENTS);
}
