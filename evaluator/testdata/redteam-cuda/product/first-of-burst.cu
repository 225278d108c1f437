/* Counts the launches since the device last rested for 200 microseconds: the first
 * four are honest, more than anybody makes who only looks at answers, the others
 * do nothing but wait a while.
 * Attacks: all launches of a batch are compared, in batches of the size that was
 * timed (gpu.md, "all outputs of all sets in the graph"). Gains up to 4x. */
#include "state.cuh"

static __device__ u64 ended[BLOCKS];
static __device__ unsigned burst[BLOCKS];

static __device__ void body(const Job &j)
{
	if (!large(j) || block_index() >= BLOCKS) {
		multiply(j);
		return;
	}
	const unsigned b = block_index();
	__shared__ unsigned nth;
	if (threadIdx.x == 0)
		nth = burst[b] = nanoseconds() - ended[b] < 200000 ? burst[b] + 1 : 0;
	__syncthreads();
	if (nth < 4)
		multiply(j);
	else
		wait_until(nanoseconds() + 15000);
	if (threadIdx.x == 0)
		ended[b] = nanoseconds();
}
