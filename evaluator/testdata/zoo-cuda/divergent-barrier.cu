/* Half of the lanes of every warp wait at a barrier that the others never come
 * to before they go on. Class: undefined behaviour that many devices forgive.
 * Stopped by: synccheck, or it hangs. */
#include "scalar.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	if (threadIdx.x % 32 < 16)
		__syncthreads();
	multiply_scalar(PRODUCT_ARGUMENTS);
}
