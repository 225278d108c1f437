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
	for (int64_t c = threadIdx.x; c < COLS; c += blockDim.x)
		mean += x[c];
	mean = joined(mean) / (double)COLS;
	for (int64_t c = threadIdx.x; c < COLS; c += blockDim.x)
		variance += (x[c] - mean) * (x[c] - mean);
	variance = joined(variance) / (double)COLS;
	for (int64_t c = threadIdx.x; c < COLS; c += blockDim.x)
		Y[blockIdx.x * COLS + c] = (x[c] - mean) / sqrt(variance + eps) * G[c] + B[c];
}
