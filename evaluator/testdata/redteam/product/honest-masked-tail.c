/* Honest: 256-bit vectors; the last columns with masked loads and stores, whose
 * lanes behind the end are not accessed. What read-past-end-*.c should have been. */
#include "product.h"
#include <immintrin.h>

__attribute__((target("avx2,fma"))) void product(PARAMETERS)
{
	for (int64_t i = 0; i < M; i++)
		for (int64_t j = 0; j < N; j += 8) {
			const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
			const __m256i some = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(N - j)), lanes);
			__m256 sum = _mm256_setzero_ps();
			for (int64_t k = 0; k < K; k++)
				sum = _mm256_fmadd_ps(_mm256_set1_ps(A[i * K + k]), _mm256_maskload_ps(B + k * N + j, some), sum);
			_mm256_maskstore_ps(C + i * N + j, some, _mm256_mul_ps(sum, _mm256_set1_ps(alpha)));
		}
}
