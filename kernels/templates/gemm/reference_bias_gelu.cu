/* C = gelu(A B + bias), in double precision. A thread computes four elements of one column,
 * which reads B four times less often. */
static __device__ double gelu(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

extern "C" __global__ void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, const double *bias, double *C)
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
			C[i * N + j] = gelu(sum[r] + bias[j]);
		}
}
