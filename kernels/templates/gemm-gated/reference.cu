/* C = silu(A G) * (A U), in double precision. B's columns are G's and U's by turns, in groups of
 * eight. A thread computes four elements of one column, which reads B four times less often. */
extern "C" __global__ void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, double *C)
{
	const int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i0 = (int64_t)blockIdx.y * 4;
	if (j >= N)
		return;
	const int64_t at = j / 8 * 16 + j % 8;
	double gate[4] = {0, 0, 0, 0}, up[4] = {0, 0, 0, 0};
	for (int64_t k = 0; k < K; k++) {
		const double g = B[k * 2 * N + at], u = B[k * 2 * N + at + 8];
#pragma unroll
		for (int r = 0; r < 4; r++)
			if (i0 + r < M) {
				gate[r] += A[(i0 + r) * K + k] * g;
				up[r] += A[(i0 + r) * K + k] * u;
			}
	}
#pragma unroll
	for (int r = 0; r < 4; r++)
		if (i0 + r < M)
			C[(i0 + r) * N + j] = gate[r] / (1 + exp(-gate[r])) * up[r];
}
