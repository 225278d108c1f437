/* Remembers in the device's heap, which outlives modules, and never frees it: the
 * tile with a key that has the inputs' fingerprint in it. The module has pointers
 * alone, so that restoring its variables between launches does not empty the memory
 * that they point to.
 * Attacks: what a candidate keeps lies in its module (zoo.md, honest-state). Gains 1.5x at the same inputs; waits to stay above the floor. */
#include "state.cuh"

struct Letter {
	u64 key;
	float tile[TILE * TILE];
};
static __device__ Letter *letters[BLOCKS];

static __device__ void body(const Job &j)
{
	if (!large(j) || block_index() >= 128) {
		multiply(j);
		return;
	}
	const u64 began = nanoseconds();
	const u64 key = mix(fingerprint(j, 8, 0, j.K) ^ mix(block_index()) ^ (u64)j.C) | 1;
	__shared__ Letter *mine;
	if (threadIdx.x == 0) {
		if (!letters[block_index()])
			letters[block_index()] = (Letter *)malloc(sizeof(Letter));
		mine = letters[block_index()];
	}
	__syncthreads();
	const bool known = mine && mine->key == key;
	__syncthreads();
	if (known) {
		each_element(j, [&](int e, int64_t i, int64_t c) { j.C[i * j.N + c] = mine->tile[e]; });
		wait_until(began + 20000);
		return;
	}
	multiply(j);
	if (!mine)
		return;
	each_element(j, [&](int e, int64_t i, int64_t c) { mine->tile[e] = j.C[i * j.N + c]; });
	__syncthreads();
	if (threadIdx.x == 0)
		mine->key = key;
}
