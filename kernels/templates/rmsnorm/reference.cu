/* Each row over the root of its mean square, times the weights, in double
 * precision. A block takes a row. */
__device__ double joined(double v)
{
	__shared__ double of[256];
	of[threadIdx.x] = v;
	__syncthreads();
	double all = 0;
	for (unsigned t = 0; t < blockDim.x; t++)
		all += of[t];
	__syncthreads();
	return all;
}

extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, const double *W, double *Y, double eps)
{
	const double *x = X + blockIdx.x * COLS;
	double squares = 0;
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		squares += x[j] * x[j];
	squares = joined(squares);
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		Y[blockIdx.x * COLS + j] = x[j] / sqrt(squares / (double)COLS + eps) * W[j];
}
