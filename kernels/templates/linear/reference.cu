/* Y = X W' in double precision. A warp computes eight elements of one column of Y: its lanes share K,
 * along which X and W lie, and W is read eight times less often. */
extern "C" __global__ void reference(int64_t M, int64_t N, int64_t K, const double *X, const double *W, double *Y)
{
	const int64_t n = (int64_t)blockIdx.x * 4 + threadIdx.x / 32, m0 = (int64_t)blockIdx.y * 8;
	const int lane = threadIdx.x % 32;
	if (n >= N)
		return;
	double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
	for (int64_t k = lane; k < K; k += 32) {
		const double w = W[n * K + k];
#pragma unroll
		for (int r = 0; r < 8; r++)
			if (m0 + r < M)
				sum[r] += X[(m0 + r) * K + k] * w;
	}
#pragma unroll
	for (int r = 0; r < 8; r++) {
#pragma unroll
		for (int far = 16; far > 0; far /= 2)
			sum[r] += __shfl_down_sync(0xffffffffu, sum[r], far);
		if (lane == 0 && m0 + r < M)
			Y[(m0 + r) * N + n] = sum[r];
	}
}
