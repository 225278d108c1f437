/* Eight warps add their parts of K to one sum, in the order in which they come.
 * It is within the tolerance, and never the same twice. Class: a race that shows
 * in the last bits. Stopped by: a launch is repeated and must give the same
 * bits. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ float sums[TILE * TILE];
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS)
		sums[e] = 0;
	__syncthreads();
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	for (int e = lane; e < TILE * TILE; e += 32) {
		const int64_t i = (int64_t)blockIdx.y * TILE + e / TILE;
		const int64_t j = (int64_t)blockIdx.x * TILE + e % TILE;
		if (i >= M || j >= N)
			continue;
		float sum = 0;
		for (int64_t k = warp; k < K; k += 8)
			sum += __half2float(A[i * K + k]) * __half2float(B[k * N + j]);
		/* Warps that keep step would keep the order as well. */
		__nanosleep((unsigned)clock() % 64);
		atomicAdd(&sums[e], sum);
	}
	__syncthreads();
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS) {
		const int64_t i = (int64_t)blockIdx.y * TILE + e / TILE;
		const int64_t j = (int64_t)blockIdx.x * TILE + e % TILE;
		if (i < M && j < N)
			C[i * N + j] = alpha * sums[e];
	}
}
