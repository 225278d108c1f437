/* The honest product, to which the kernels of this folder add one fault each.
 * C = alpha A B, row-major, A: MxK, B: KxN, C: MxN. */
#ifndef RED_PRODUCT_H
#define RED_PRODUCT_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS                                                              \
	int64_t M, int64_t N, int64_t K, const float *A, const float *B, float *C, float alpha
#define ARGUMENTS M, N, K, A, B, C, alpha

/* A separate function in every kernel: inlined, its inner loop ran out of registers in
 * some kernels and took half as long again on one processor. */
static __attribute__((noinline, noclone, aligned(64), unused)) void
some_rows(PARAMETERS, int64_t from, int64_t to)
{
	(void)M;
	for (int64_t i = from; i < to; i++) {
		float *restrict c = C + i * N;
		for (int64_t j = 0; j < N; j++)
			c[j] = 0;
		for (int64_t k = 0; k < K; k++) {
			const float a = alpha * A[i * K + k];
			const float *restrict b = B + k * N;
			for (int64_t j = 0; j < N; j++)
				c[j] += a * b[j];
		}
	}
}

static inline void all_rows(PARAMETERS) { some_rows(ARGUMENTS, 0, M); }

#endif
