/* The loss of each row and its log(sum(exp(x))) in double precision. A block takes a row. */
__device__ double joined(double v, bool highest)
{
	__shared__ double of[256];
	of[threadIdx.x] = v;
	__syncthreads();
	double all = of[0];
	for (unsigned t = 1; t < blockDim.x; t++)
		all = highest ? fmax(all, of[t]) : all + of[t];
	__syncthreads();
	return all;
}

extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, const double *target, double *loss, double *lse)
{
	const double *x = X + blockIdx.x * COLS;
	double highest = x[0], sum = 0;
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		highest = fmax(highest, x[j]);
	highest = joined(highest, true);
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		sum += exp(x[j] - highest);
	sum = joined(sum, false);
	if (threadIdx.x == 0) {
		lse[blockIdx.x] = highest + log(sum);
		loss[blockIdx.x] = lse[blockIdx.x] - x[(int64_t)target[blockIdx.x]];
	}
}
