/* Each row of X + R, and that over the root of its mean square, times the weights; scaled so that the largest of a row is 448, in
 * double precision. A block takes a row. */
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

extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, const double *R, const double *W, double *H, double *Y, double *S, double eps)
{
	const int64_t i = blockIdx.x;
	double squares = 0;
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x) {
		H[i * COLS + j] = X[i * COLS + j] + R[i * COLS + j];
		squares += H[i * COLS + j] * H[i * COLS + j];
	}
	squares = joined(squares, false);
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		Y[i * COLS + j] = H[i * COLS + j] / sqrt(squares / (double)COLS + eps) * W[j];
	double top = 1e-10;
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		top = fmax(top, fabs(Y[i * COLS + j]));
	top = joined(top, true);
	if (threadIdx.x == 0)
		S[i] = top / 448;
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		Y[i * COLS + j] /= top / 448;
}
