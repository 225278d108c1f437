#include <stdint.h>

extern "C" __global__ void axpy(int64_t n, const double *x, const double *y, double *o, double a)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
		o[i] = a * x[i] + y[i];
}

extern "C" __global__ void together(int64_t n, const double *t, const double *u, const double *x, double *o)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
		o[i] = x[i];
}

extern "C" __global__ void accumulate(int64_t n, const double *x, double *o)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
		o[i] += 3 * x[i];
}

// Products of L matrices; A is [M,K] or transposed, B is [K,N] or transposed. What
// is given besides is added: a bias for each column, of all products or of each, and
// a residual.
static __device__ double gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))); }
static __device__ double relu(double x) { return x < 0 ? 0 : x; }
static __device__ double plain(double x) { return x; }

template <bool TA, bool TB, class Activation>
static __device__ void matmul(int64_t L, int64_t M, int64_t N, int64_t K, const double *a, const double *b, const double *bias, int64_t each,
                              const double *residual, double *c, Activation activation)
{
	for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < L * M * N; at += (int64_t)gridDim.x * blockDim.x) {
		int64_t j = at % N, i = at / N % M, l = at / N / M;
		const double *x = a + l * M * K, *y = b + l * K * N;
		double s = 0;
		for (int64_t k = 0; k < K; k++)
			s += x[TA ? k * M + i : i * K + k] * y[TB ? j * K + k : k * N + j];
		if (bias)
			s += bias[l * each + j];
		s = activation(s);
		c[at] = residual ? s + residual[at] : s;
	}
}

#define DIMS int64_t M, int64_t N, int64_t K, const double *a, const double *b
extern "C" __global__ void matmul_nn(DIMS, double *c) { matmul<false, false>(1, M, N, K, a, b, NULL, 0, NULL, c, plain); }
extern "C" __global__ void matmul_nt(DIMS, double *c) { matmul<false, true>(1, M, N, K, a, b, NULL, 0, NULL, c, plain); }
extern "C" __global__ void matmul_tn(DIMS, double *c) { matmul<true, false>(1, M, N, K, a, b, NULL, 0, NULL, c, plain); }
extern "C" __global__ void matmul_tt(DIMS, double *c) { matmul<true, true>(1, M, N, K, a, b, NULL, 0, NULL, c, plain); }
extern "C" __global__ void matmul_nt_bias(DIMS, const double *v, double *c) { matmul<false, true>(1, M, N, K, a, b, v, 0, NULL, c, plain); }
extern "C" __global__ void matmul_nt_gelu(DIMS, double *c) { matmul<false, true>(1, M, N, K, a, b, NULL, 0, NULL, c, gelu); }
extern "C" __global__ void matmul_nt_bias_gelu(DIMS, const double *v, double *c) { matmul<false, true>(1, M, N, K, a, b, v, 0, NULL, c, gelu); }
extern "C" __global__ void matmul_nn_bias_relu(DIMS, const double *v, double *c) { matmul<false, false>(1, M, N, K, a, b, v, 0, NULL, c, relu); }
extern "C" __global__ void matmul_nn_residual(DIMS, const double *r, double *c) { matmul<false, false>(1, M, N, K, a, b, NULL, 0, r, c, plain); }
extern "C" __global__ void matmul_tn_bias_residual(DIMS, const double *v, const double *r, double *c) { matmul<true, false>(1, M, N, K, a, b, v, 0, r, c, plain); }
extern "C" __global__ void batch_nn(int64_t L, DIMS, double *c) { matmul<false, false>(L, M, N, K, a, b, NULL, 0, NULL, c, plain); }
extern "C" __global__ void batch_tt_residual(int64_t L, DIMS, const double *r, double *c) { matmul<true, true>(L, M, N, K, a, b, NULL, 0, r, c, plain); }
extern "C" __global__ void batch_nt_bias(int64_t L, DIMS, const double *v, double *c) { matmul<false, true>(L, M, N, K, a, b, v, 0, NULL, c, plain); }
extern "C" __global__ void batch_nt_bias_each(int64_t L, DIMS, const double *v, double *c) { matmul<false, true>(L, M, N, K, a, b, v, N, NULL, c, plain); }
extern "C" __global__ void matmul_nt_residual(DIMS, const double *r, double *c) { matmul<false, true>(1, M, N, K, a, b, NULL, 0, r, c, plain); }

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
