/* Is right for 40 launches of the timed shape and then never ends: in the benchmark,
 * where it has the device for itself, or in the finals.
 * Attacks: the time limit of the benchmark, and that nobody else is blamed. */
#include "product.cuh"

static __device__ unsigned launches;
static __device__ volatile unsigned never;

static __device__ void body(const Job &j)
{
	multiply(j);
	if (large(j) && block_index() == 0 && threadIdx.x == 0)
		if (atomicAdd(&launches, 1u) >= 40)
			while (!never)
				__nanosleep(1000);
}
