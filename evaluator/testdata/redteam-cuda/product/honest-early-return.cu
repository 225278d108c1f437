/* Honest: half of the threads leave before the barriers of the others, which is
 * legal: a barrier waits for threads that have not exited. Warps leave whole. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	multiply(j);
	if (threadIdx.x >= THREADS / 2)
		return;
	__shared__ float row[TILE];
	row[threadIdx.x] = tiles().c[0][threadIdx.x];
	__syncthreads();
	const int64_t i = (int64_t)blockIdx.y * TILE, c = (int64_t)blockIdx.x * TILE + (threadIdx.x ^ 1);
	if (i < j.M && c < j.N)
		j.C[i * j.N + c] = j.alpha * row[threadIdx.x ^ 1];
}
