/* The softmax of each row in double precision, the highest element taken off first.
 * A block takes a row. */
__device__ double joined(double v, bool largest)
{
	__shared__ double of[256];
	of[threadIdx.x] = v;
	__syncthreads();
	double all = of[0];
	for (unsigned t = 1; t < blockDim.x; t++)
		all = largest ? fmax(all, of[t]) : all + of[t];
	__syncthreads();
	return all;
}

extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	const double *x = X + blockIdx.x * COLS;
	double top = x[0], sum = 0;
	for (int64_t c = threadIdx.x; c < COLS; c += blockDim.x)
		top = fmax(top, x[c]);
	top = joined(top, true);
	for (int64_t c = threadIdx.x; c < COLS; c += blockDim.x)
		sum += exp(x[c] - top);
	sum = joined(sum, false);
	for (int64_t c = threadIdx.x; c < COLS; c += blockDim.x)
		Y[blockIdx.x * COLS + c] = exp(x[c] - top) / sum;
}
