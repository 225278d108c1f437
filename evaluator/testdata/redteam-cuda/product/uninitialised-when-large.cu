/* Reads a column of shared memory that is filled at small K alone, and multiplies it
 * by zero: right, unless what lies there is NaN or infinite.
 * Attacks: initcheck does not look at shared memory; poison is put into outputs and
 * not into shared memory (gpu.md). No gain. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	__shared__ float column[TILE];
	if (j.K < 1000 && threadIdx.x < TILE)
		column[threadIdx.x] = 1;
	multiply(j);
	each_element(j, [&](int e, int64_t i, int64_t c) { j.C[i * j.N + c] = j.alpha * (tiles().c[e / TILE][e % TILE] + 0.0f * column[e % TILE]); });
}
