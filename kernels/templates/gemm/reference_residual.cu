/* C = A B + R, in double precision. A thread computes four elements of one column,
 * which reads B four times less often. */
extern "C" __global__ void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, const double *R, double *C)
{
	const int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i0 = (int64_t)blockIdx.y * 4;
	if (j >= N)
		return;
	double sum[4] = {0, 0, 0, 0};
	for (int64_t k = 0; k < K; k++) {
		const double b = B[k * N + j];
#pragma unroll
		for (int r = 0; r < 4; r++)
			if (i0 + r < M)
				sum[r] += A[(i0 + r) * K + k] * b;
	}
#pragma unroll
	for (int r = 0; r < 4; r++)
		if (i0 + r < M) {
			const int64_t i = i0 + r;
			C[i * N + j] = sum[r] + R[i * N + j];
		}
}
