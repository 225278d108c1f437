/* Honest: peels elements until a row of C lies on 16 bytes, works on vectors with
 * aligned stores, and finishes the rest one by one. */
#include "product.h"
#include <emmintrin.h>

void product(PARAMETERS)
{
	for (int64_t i = 0; i < M; i++) {
		float *c = C + i * N;
		for (int64_t j = 0; j < N; j++)
			c[j] = 0;
		for (int64_t k = 0; k < K; k++) {
			const float a = alpha * A[i * K + k];
			const float *b = B + k * N;
			int64_t j = 0;
			for (; j < N && (uintptr_t)(c + j) % 16; j++)
				c[j] += a * b[j];
			for (; j + 4 <= N; j += 4)
				_mm_store_ps(c + j, _mm_add_ps(_mm_load_ps(c + j), _mm_mul_ps(_mm_set1_ps(a), _mm_loadu_ps(b + j))));
			for (; j < N; j++)
				c[j] += a * b[j];
		}
	}
}
