/* The rows of X as the columns of Y, one element for each thread. */
extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (at < ROWS * COLS)
		Y[at % COLS * ROWS + at / COLS] = X[at];
}
