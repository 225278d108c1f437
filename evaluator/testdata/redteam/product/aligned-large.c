/* Takes it for granted that rows of B lie on 16 bytes when N is at least 64,
 * with loads that fault elsewhere. True at every listed shape, wrong at N = 65.
 * Attacks: verify shapes that are public; the sanitize shape is too small for the
 * branch. Gain: what unaligned loads cost. */
#include "product.h"
#include <emmintrin.h>

void product(PARAMETERS)
{
	if (N < 64) {
		all_rows(ARGUMENTS);
		return;
	}
	for (int64_t i = 0; i < M; i++) {
		float *restrict c = C + i * N;
		for (int64_t j = 0; j < N; j++)
			c[j] = 0;
		for (int64_t k = 0; k < K; k++) {
			const float a = alpha * A[i * K + k];
			const float *b = B + k * N;
			int64_t j = 0;
			for (; j + 4 <= N; j += 4)
				_mm_storeu_ps(c + j, _mm_add_ps(_mm_loadu_ps(c + j), _mm_mul_ps(_mm_set1_ps(a), _mm_load_ps(b + j))));
			for (; j < N; j++)
				c[j] += a * b[j];
		}
	}
}
