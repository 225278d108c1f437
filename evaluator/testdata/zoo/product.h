/* What the kernels of the zoo share: the honest answer, to which most of them
 * add one sin. The problem is C = alpha A B, row-major, A: MxK, B: KxN, C: MxN.
 */
#ifndef ZOO_PRODUCT_H
#define ZOO_PRODUCT_H

#include <stdint.h>

#define PRODUCT_PARAMETERS                                                      \
	int64_t M, int64_t N, int64_t K, const float *A, const float *B, float *C,  \
	    float alpha
#define PRODUCT_ARGUMENTS M, N, K, A, B, C, alpha

/* rows computes the rows [from, to) of C. It is a separate function in
 * every kernel: inlined, its inner loop ran out of registers in some kernels and took
 * half as long again on one processor. */
static __attribute__((noinline, noclone, aligned(64), unused)) void
rows(PRODUCT_PARAMETERS, int64_t from, int64_t to)
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

/* multiply computes all of C. */
static inline void multiply(PRODUCT_PARAMETERS)
{
	rows(PRODUCT_ARGUMENTS, 0, M);
}

#endif
