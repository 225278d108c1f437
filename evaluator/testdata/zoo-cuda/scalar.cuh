/* The same product without tensor cores: 256 threads make sixteen squares of
 * 16 x 16 one after the other. Slow, and easy to spoil: a kernel defines what
 * it wants to be different before it includes this file.
 *
 *   FIRST_BARRIER   between writing and reading the shared squares
 *   PAD             what stands for the elements behind the end of K
 *   ELEMENT         how an element of B gets from memory into a register
 */
#ifndef ZOO_SCALAR_CUH
#define ZOO_SCALAR_CUH

#include "product.cuh"

#ifndef FIRST_BARRIER
#define FIRST_BARRIER __syncthreads()
#endif
#ifndef PAD
#define PAD(square, x, y) square[y][x] = __half(0.0f)
#endif
#ifndef ELEMENT
#define ELEMENT(p) (*(p))
#endif

static __device__ inline void multiply_scalar(PRODUCT_PARAMETERS)
{
	__shared__ __half a[16][16], b[16][16];
	const int x = threadIdx.x % 16, y = threadIdx.x / 16;
	for (int square = 0; square < 16; square++) {
		const int64_t i = (int64_t)blockIdx.y * TILE + square / 4 * 16 + y;
		const int64_t j = (int64_t)blockIdx.x * TILE + square % 4 * 16 + x;
		float sum = 0;
		for (int64_t k = 0; k < K; k += 16) {
			if (k + x < K)
				a[y][x] = i < M ? A[i * K + k + x] : __half(0.0f);
			else
				PAD(a, x, y);
			if (k + y < K)
				b[y][x] = j < N ? ELEMENT(B + (k + y) * N + j) : __half(0.0f);
			else
				PAD(b, x, y);
			FIRST_BARRIER;
			for (int e = 0; e < 16; e++)
				sum += __half2float(a[y][e]) * __half2float(b[e][x]);
			__syncthreads();
		}
		if (i < M && j < N)
			C[i * N + j] = alpha * sum;
	}
}

#endif
