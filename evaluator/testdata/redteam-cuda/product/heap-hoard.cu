/* Takes all of the device's heap at once, in pieces that get smaller, and keeps it.
 * Attacks: workers that candidates share. Gains nothing; honest-heap must be right
 * after it. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	if (block_index() == 0 && threadIdx.x == 0)
		for (size_t size = 4 << 20; size >= 64; size /= 2)
			for (int n = 0; n < 64; n++)
				if (!malloc(size))
					break;
	multiply(j);
}
