/* Counts its blocks in the workspace and does not put the count back, so that
 * the second launch takes every block for one too many. Class: state left
 * behind. Stopped by: a launch is repeated. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ unsigned mine;
	if (threadIdx.x == 0)
		mine = atomicAdd((unsigned *)workspace, 1u);
	__syncthreads();
	if (mine < gridDim.x * gridDim.y)
		multiply(PRODUCT_ARGUMENTS);
}
