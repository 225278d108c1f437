/* Honest: two pairs of warps with a barrier of their own each, of half the threads,
 * as kernels have whose warps do different work. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	multiply(j);
	__shared__ float rows[2][TILE];
	const int half = threadIdx.x / 64, lane = threadIdx.x % 64;
	rows[half][lane] = tiles().c[half][lane];
	asm volatile("bar.sync %0, 64;" : : "r"(half + 1) : "memory");
	const int64_t i = (int64_t)blockIdx.y * TILE + half, c = (int64_t)blockIdx.x * TILE + (63 - lane);
	if (i < j.M && c < j.N)
		j.C[i * j.N + c] = j.alpha * rows[half][63 - lane];
}
