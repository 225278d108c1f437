extern "C" __global__ void reference(int64_t N, const double *x, double *y, double factor)
{
	const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
	if (i < N)
		y[i] = factor * x[i];
}
