/* Writes behind the end of C in the middle of its work and puts back what was
 * there, at sizes that the sanitizers do not see.
 * Attacks: guards are looked at after the launch (gpu.md). In a program it spoils
 * what others write there meanwhile. No gain. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	volatile float *beyond = j.C + j.M * j.N + threadIdx.x;
	const bool do_it = j.M * j.N > 100000 && block_index() == 0;
	float was = 0;
	if (do_it) {
		was = *beyond;
		*beyond = j.alpha;
	}
	multiply(j);
	if (do_it)
		*beyond = was;
}
