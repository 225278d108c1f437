/* Reads behind an array in dynamic shared memory of 1000 bytes; no output shows
 * it. Class: out of bounds. Stopped by: memcheck; the hardware itself if the
 * address is behind what the block was given. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	extern __shared__ float row[];
	if (threadIdx.x < 250)
		row[threadIdx.x] = alpha;
	__syncthreads();
	if (threadIdx.x == 0)
		(void)((volatile float *)row)[250 + 256];
	multiply(M, N, K, A, B, C, row[threadIdx.x % 250], workspace);
}
