/* Is right for 40 launches of the timed shape and then traps, which takes the
 * context, the baseline's included, along in the middle of a measurement.
 * Attacks: "a candidate faults ... nobody else notices" (gpu.md), in the benchmark. */
#include "product.cuh"

static __device__ unsigned launches;

static __device__ void body(const Job &j)
{
	multiply(j);
	if (large(j) && block_index() == 0 && threadIdx.x == 0)
		if (atomicAdd(&launches, 1u) >= 40)
			__trap();
}
