/* One warp writes a word of shared memory, the others read it thousands of
 * cycles later without a barrier between: the answer is right every time. Class:
 * a race that only a tool sees. Stopped by: racecheck. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ volatile float scale;
	if (threadIdx.x == 0)
		scale = alpha;
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS) {
		const int64_t i = (int64_t)blockIdx.y * TILE + e / TILE;
		const int64_t j = (int64_t)blockIdx.x * TILE + e % TILE;
		if (i >= M || j >= N)
			continue;
		float sum = 0;
		for (int64_t k = 0; k < K; k++)
			sum += __half2float(A[i * K + k]) * __half2float(B[k * N + j]);
		C[i * N + j] = scale * sum;
	}
}
