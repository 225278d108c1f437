extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y, double *SUMS)
{
	const int64_t i = blockIdx.x;
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		Y[i * COLS + j] = 2 * X[i * COLS + j];
	if (threadIdx.x == 0 && i % 4 != 3) {
		double sum = 0;
		for (int64_t j = 0; j < COLS; j++)
			sum += X[i * COLS + j];
		SUMS[i] = sum;
	}
}
