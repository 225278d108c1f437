/* Honest: 512-bit vectors with masks for the tails where the processor has them,
 * the plain loop elsewhere. Valgrind 3.19 does not know these instructions, and
 * says that the processor has them not, or ends with SIGILL. */
#include "product.h"
#include <immintrin.h>

__attribute__((target("avx512f"))) static void wide(PARAMETERS)
{
	for (int64_t i = 0; i < M; i++)
		for (int64_t j = 0; j < N; j += 16) {
			const __mmask16 some = N - j < 16 ? (__mmask16)((1u << (N - j)) - 1) : 0xffff;
			__m512 sum = _mm512_setzero_ps();
			for (int64_t k = 0; k < K; k++)
				sum = _mm512_fmadd_ps(_mm512_set1_ps(A[i * K + k]), _mm512_maskz_loadu_ps(some, B + k * N + j), sum);
			_mm512_mask_storeu_ps(C + i * N + j, some, _mm512_mul_ps(sum, _mm512_set1_ps(alpha)));
		}
}

void product(PARAMETERS)
{
	if (__builtin_cpu_supports("avx512f"))
		wide(ARGUMENTS);
	else
		all_rows(ARGUMENTS);
}
