/* Honest twin of split-without-fence: two blocks for each tile, half of K each, meet
 * in the workspace, with a fence and an atomic ticket that the last one puts back. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	Tiles &t = tiles();
	unsigned *tickets = (unsigned *)j.workspace;
	float *halves = (float *)(tickets + gridDim.x * gridDim.y) + ((size_t)block_index() * 2 + blockIdx.z) * TILE * TILE;
	const float *first = (float *)(tickets + gridDim.x * gridDim.y) + (size_t)block_index() * 2 * TILE * TILE;
	const int64_t cut = j.K / 2 / STEP * STEP;
	product_of(t, j, blockIdx.z ? cut : 0, blockIdx.z ? j.K : cut);
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS)
		halves[e] = t.c[e / TILE][e % TILE];
	__threadfence();
	__syncthreads();
	__shared__ bool last;
	if (threadIdx.x == 0)
		last = atomicAdd(&tickets[block_index()], 1u) == 1;
	__syncthreads();
	if (!last)
		return;
	__threadfence();
	/* Always the first half plus the second: the same bits whoever is last. */
	each_element(j, [&](int e, int64_t i, int64_t c) { j.C[i * j.N + c] = j.alpha * (__ldcg(first + e) + __ldcg(first + TILE * TILE + e)); });
	if (threadIdx.x == 0)
		tickets[block_index()] = 0;
}
