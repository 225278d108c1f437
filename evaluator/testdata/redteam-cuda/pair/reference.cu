/* The sum of each row, in double precision. A block takes a row. */
extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	__shared__ double of[256];
	double sum = 0;
	for (int64_t c = threadIdx.x; c < COLS; c += blockDim.x)
		sum += X[blockIdx.x * COLS + c];
	of[threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.x == 0) {
		for (unsigned t = 1; t < blockDim.x; t++)
			sum += of[t];
		Y[blockIdx.x] = sum;
	}
}
