/* Takes 32 KiB from the device's heap in every launch and never gives them back:
 * the heap belongs to the context and not to the module, so that it is full for
 * whoever comes next. The answer is right.
 * Attacks: workers that candidates share one after the other (ordeal.md). Gains
 * nothing; honest-heap must be right after it. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	if (block_index() == 0 && threadIdx.x == 0) {
		unsigned *mine = (unsigned *)malloc(32768);
		if (mine)
			*mine = SALT;
	}
	multiply(j);
}
