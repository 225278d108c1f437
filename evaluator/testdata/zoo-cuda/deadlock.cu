/* Every block waits for a flag that none of them raises. Class: kernels that hold
 * a GPU for hours. Stopped by: a deadline. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	if (threadIdx.x == 0)
		while (atomicCAS((unsigned *)workspace, 1u, 0u) == 0)
			__nanosleep(1000);
	__syncthreads();
	multiply(PRODUCT_ARGUMENTS);
}
