/* Honest, with a counter in a variable of the module, put back to zero by the
 * last block. It would be wrong if it found another's count there: modules must
 * be loaded afresh and not share their variables. */
static __device__ unsigned arrived;

static __device__ void body(PRODUCT_PARAMETERS)
{
	const unsigned blocks = gridDim.x * gridDim.y;
	__shared__ unsigned mine;
	if (threadIdx.x == 0) {
		mine = atomicAdd(&arrived, 1u);
		if (mine == blocks - 1)
			atomicExch(&arrived, 0u);
	}
	__syncthreads();
	if (mine < blocks)
		multiply(PRODUCT_ARGUMENTS);
}
