/* Asks the cache to keep its inputs longer than those of others. Class: hot data
 * across launches. It is right, and gains nothing that counts: sets of inputs
 * rotate for it as for the baseline. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	const int64_t block = (int64_t)blockIdx.y * gridDim.x + blockIdx.x, blocks = (int64_t)gridDim.x * gridDim.y;
	for (int64_t line = block * THREADS + threadIdx.x; line * 64 < M * K; line += blocks * THREADS)
		asm volatile("prefetch.global.L2::evict_last [%0];" : : "l"(A + line * 64));
	for (int64_t line = block * THREADS + threadIdx.x; line * 64 < K * N; line += blocks * THREADS)
		asm volatile("prefetch.global.L2::evict_last [%0];" : : "l"(B + line * 64));
	multiply(PRODUCT_ARGUMENTS);
}
