/* Drops the lower 16 bits of every input: bfloat16 where single precision was
 * asked for. Class: another problem is solved, faster (a TF32 switched on
 * silently by a library flag was one). Stopped by: the tolerance, which is
 * relative to the output's scale and held against double precision. */
#include <string.h>

#include "product.h"

static float truncated(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	bits &= 0xffff0000u;
	memcpy(&x, &bits, sizeof bits);
	return x;
}

void product(PRODUCT_PARAMETERS)
{
	for (int64_t i = 0; i < M; i++)
		for (int64_t j = 0; j < N; j++) {
			float sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += truncated(A[i * K + k]) * truncated(B[k * N + j]);
			C[i * N + j] = alpha * sum;
		}
}
