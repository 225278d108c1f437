/* Honest, with a ticket in the workspace: the last block to arrive puts it back
 * to zero, as kernels do that split K. A launch that does not begin at zero is
 * wrong on purpose, so that a harness which clears the workspace too seldom or
 * hands it to others is found out. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	unsigned *ticket = (unsigned *)workspace;
	const unsigned blocks = gridDim.x * gridDim.y;
	__shared__ unsigned mine;
	if (threadIdx.x == 0) {
		mine = atomicAdd(ticket, 1u);
		if (mine == blocks - 1)
			atomicExch(ticket, 0u);
	}
	__syncthreads();
	if (mine < blocks)
		multiply(PRODUCT_ARGUMENTS);
}
