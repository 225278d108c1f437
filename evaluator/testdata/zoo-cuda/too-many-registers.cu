/* Is launched with 1024 threads, of which each has more registers than the
 * multiprocessor can give it. Class: a launch that fails. Stopped by: every call
 * of the driver is checked. */
#include "registers.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	const float x = hungry(A, M * K);
	if (threadIdx.x < THREADS && blockIdx.z == 0)
		fill(PRODUCT_ARGUMENTS, x);
}
