/* Each row less its mean, over the root of its variance, times G and plus B, in
 * double precision. A block takes a row. */
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

extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, const double *G, const double *B, double *Y, double eps)
{
	const double *x = X + blockIdx.x * COLS;
	double mean = 0, variance = 0;
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		mean += x[j] / (double)COLS;
	mean = joined(mean);
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		variance += (x[j] - mean) * (x[j] - mean) / (double)COLS;
	variance = joined(variance);
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		Y[blockIdx.x * COLS + j] = (x[j] - mean) / sqrt(variance + eps) * G[j] + B[j];
}
