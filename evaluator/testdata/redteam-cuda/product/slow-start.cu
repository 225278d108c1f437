/* Takes 60 milliseconds for each of its first five launches of the timed shape, and
 * is itself from then on: whoever sizes batches by the first launches times single
 * ones, with the rests, clocks and caches of single launches.
 * Attacks: "a launch that takes longer than 50 ms is timed alone" (gpu.md). Should
 * gain nothing; may change what a sample is. */
#include "state.cuh"

static __device__ unsigned launches[BLOCKS];

static __device__ void body(const Job &j)
{
	if (large(j) && block_index() < BLOCKS) {
		__shared__ unsigned nth;
		if (threadIdx.x == 0)
			nth = launches[block_index()]++;
		__syncthreads();
		if (nth < 5 && block_index() < 100)
			wait_until(nanoseconds() + 60000000);
	}
	multiply(j);
}
