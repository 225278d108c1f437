/* silu of the first half of the columns times the second half, in
 * double precision. A block takes a row. */
extern "C" __global__ void reference(int64_t ROWS, int64_t COLS, const double *X, double *Y)
{
	const int64_t i = blockIdx.x;
	const double *gate = X + i * 2 * COLS, *up = gate + COLS;
	for (int64_t j = threadIdx.x; j < COLS; j += blockDim.x)
		Y[i * COLS + j] = gate[j] / (1 + exp(-gate[j])) * up[j];
}
