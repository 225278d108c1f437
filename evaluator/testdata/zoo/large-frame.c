/* Right, but keeps 128 KiB of accumulators in one stack frame. Class: arrays
 * that were meant to be registers and are memory ("0 spills, clean", with
 * 800 to 1376 bytes of stack for each thread of a GPU). Stopped by: the bound
 * that its definition sets on stack frames. */
#include <stdlib.h>

#include "product.h"

void product(PRODUCT_PARAMETERS)
{
	float sum[32768];
	if (M * N > 32768)
		abort();
	multiply(M, N, K, A, B, sum, alpha);
	for (int64_t i = 0; i < M * N; i++)
		C[i] = sum[i];
}
