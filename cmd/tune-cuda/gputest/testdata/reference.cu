#include <stdint.h>

extern "C" __global__ void axpy(int64_t n, const double *x, const double *y, double *o, double a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
		o[i] = a * x[i] + y[i];
}

extern "C" __global__ void accumulate(int64_t n, const double *x, double *o)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
		o[i] += 3 * x[i];
}

extern "C" __global__ void gemm(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c)
{
	int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
	if (j >= n)
		return;
	double s = 0;
	for (int64_t l = 0; l < k; l++)
		s += a[i * k + l] * b[l * n + j];
	c[i * n + j] = s;
}

extern "C" __global__ void copy(int64_t rows, int64_t columns, const double *x, double *o)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += (int64_t)gridDim.x * blockDim.x)
		o[i] = x[i];
}

// Leaves every other element as it was.
extern "C" __global__ void axpy_even(int64_t n, const double *x, const double *y, double *o, double a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
		if (i % 2 == 0)
			o[i] = a * x[i] + y[i];
}
