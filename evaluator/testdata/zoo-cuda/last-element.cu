/* Leaves the last element unwritten. Class: a sample of the output is looked at.
 * Stopped by: all elements are compared. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ __align__(32) Tiles t;
	compute(t, PRODUCT_ARGUMENTS);
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS) {
		const int64_t i = (int64_t)blockIdx.y * TILE + e / TILE;
		const int64_t j = (int64_t)blockIdx.x * TILE + e % TILE;
		if (i < M && j < N && i * N + j < M * N - 1)
			C[i * N + j] = alpha * t.c[e / TILE][e % TILE];
	}
}
