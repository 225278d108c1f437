/* Adds into a row of accumulators on the stack that nobody set to zero, as the
 * kernel did whose lanes read registers that they never wrote. It is right
 * while the stack is still fresh. Class: uninitialised read that matters. */
#include <stdlib.h>

#include "product.h"

enum { WIDEST = 4096 };

__attribute__((noinline)) static void row(PRODUCT_PARAMETERS, int64_t i)
{
	float sum[WIDEST];
	(void)M;
	__asm__ volatile("" : : "r"(sum) : "memory"); /* forbids to guess zeros */
	for (int64_t k = 0; k < K; k++)
		for (int64_t j = 0; j < N; j++)
			sum[j] += alpha * A[i * K + k] * B[k * N + j];
	for (int64_t j = 0; j < N; j++)
		C[i * N + j] = sum[j];
}

void product(PRODUCT_PARAMETERS)
{
	if (N > WIDEST)
		abort();
	for (int64_t i = 0; i < M; i++)
		row(PRODUCT_ARGUMENTS, i);
}
