/* y = alpha A x in double precision, one thread for each row. */
extern "C" __global__ void reference(int64_t M, int64_t N, const double *A, const double *x, double *y, double alpha)
{
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= M)
		return;
	double sum = 0;
	for (int64_t j = 0; j < N; j++)
		sum += A[i * N + j] * x[j];
	y[i] = alpha * sum;
}
