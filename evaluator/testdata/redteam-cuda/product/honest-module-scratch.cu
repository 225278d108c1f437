/* Honest twin of kept-partial-sums: scratch in a variable of the module, all of it
 * written in each launch before it is read. */
#include "product.cuh"

static __device__ float scratch[BLOCKS][TILE * TILE];

static __device__ void body(const Job &j)
{
	if (block_index() >= BLOCKS) {
		multiply(j);
		return;
	}
	Tiles &t = tiles();
	const int64_t cut = j.K / 2 / STEP * STEP;
	float *mine = scratch[block_index()];
	product_of(t, j, 0, cut);
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS)
		mine[e] = t.c[e / TILE][e % TILE];
	__syncthreads();
	product_of(t, j, cut, j.K);
	each_element(j, [&](int e, int64_t i, int64_t c) { j.C[i * j.N + c] = j.alpha * (mine[e] + t.c[e / TILE][e % TILE]); });
}
