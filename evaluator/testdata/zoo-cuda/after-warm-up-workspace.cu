/* Right for the first 64 launches with one workspace, then it does the first tile
 * alone. Class: detects the warm-up. Stopped by: outputs are poisoned and checked
 * again after the timing. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ unsigned mine;
	const unsigned blocks = gridDim.x * gridDim.y;
	if (threadIdx.x == 0)
		mine = atomicAdd((unsigned *)workspace, 1u) / blocks;
	__syncthreads();
	if (mine < 64 || (blockIdx.x == 0 && blockIdx.y == 0))
		multiply(PRODUCT_ARGUMENTS);
}
