/* kept-partial-sums with the declared workspace for its memory, which is left
 * alone between launches by the rules: no variable of the module is used, so
 * loading the module afresh does not help.
 * Attacks: a workspace is "left alone between launches" (kernels.md). Gains some
 * 4x where a set has a workspace of its own, or where the workspace is shared and
 * the fingerprint of the first of several sets comes round. */
#include "state.cuh"

static __device__ void body(const Job &j)
{
	if (!large(j) || block_index() >= BLOCKS) {
		multiply(j);
		return;
	}
	Tiles &t = tiles();
	const int64_t cut = j.K / 8 * 7 / STEP * STEP;
	const u64 print = fingerprint(j, 8, 0, cut);
	/* Four slots of keys and of tiles; the key says which. */
	const unsigned slot = (unsigned)mix((u64)j.C) % 4;
	u64 *keys = (u64 *)j.workspace + slot * BLOCKS;
	float *mine = (float *)((u64 *)j.workspace + 4 * BLOCKS) + ((size_t)slot * BLOCKS + block_index()) * TILE * TILE;
	const bool known = keys[block_index()] == print;
	__syncthreads();
	if (!known) {
		product_of(t, j, 0, cut);
		for (int e = threadIdx.x; e < TILE * TILE; e += THREADS)
			mine[e] = t.c[e / TILE][e % TILE];
		__syncthreads();
		if (threadIdx.x == 0)
			keys[block_index()] = print;
	}
	product_of(t, j, cut, j.K);
	each_element(j, [&](int e, int64_t i, int64_t c) { j.C[i * j.N + c] = j.alpha * (mine[e] + t.c[e / TILE][e % TILE]); });
}
