/* C = A B' in double precision, one thread for each element. */
extern "C" __global__ void reference(int64_t M, int64_t N, int64_t K, const double *A, const double *B, double *C)
{
	const int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	const int64_t i = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
	if (i >= M || j >= N)
		return;
	double sum = 0;
	for (int64_t k = 0; k < K; k++)
		sum += A[i * K + k] * B[j * K + k];
	C[i * N + j] = sum;
}
