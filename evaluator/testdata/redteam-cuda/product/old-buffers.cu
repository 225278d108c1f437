/* Keeps the address of the output of a small shape and writes there during launches
 * of the timed shape: to memory that is freed by then, or belongs to somebody else.
 * Attacks: guards on both sides of the buffers of this launch (gpu.md); what is far
 * away nobody looks at. Gains nothing; may spoil a neighbor's reference. */
#include "product.cuh"

static __device__ float *small;

static __device__ void body(const Job &j)
{
	multiply(j);
	if (block_index() != 0 || threadIdx.x != 0)
		return;
	if (!large(j))
		small = j.C;
	else if (small && small != j.C)
		for (int e = 0; e < 25; e++)
			small[e] = 1e30f;
}
