/* Honest twin of races-on-the-answer: the blocks count themselves in the workspace;
 * the last one, behind fences, checks nothing but puts the count back. */
static __device__ void body(const Job &j)
{
	add_up(j);
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0 && atomicAdd((unsigned *)j.workspace, 1u) == gridDim.x - 1)
		atomicExch((unsigned *)j.workspace, 0u);
}
