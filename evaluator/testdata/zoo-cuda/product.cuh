/* What the kernels of the zoo share: the honest answer, to which most of them
 * add one sin. The problem is C = alpha A B, row-major, A: MxK and B: KxN in
 * f16, C: MxN in f32.
 *
 * A block of 256 threads computes a tile of 64 x 64 on the tensor cores. Every
 * file of the zoo defines body(), which the template's entry calls.
 */
#ifndef ZOO_PRODUCT_CUH
#define ZOO_PRODUCT_CUH

#include <cuda_fp16.h>
#include <mma.h>

#define PRODUCT_PARAMETERS                                                     \
	int64_t M, int64_t N, int64_t K, const __half *A, const __half *B, float *C, \
	    float alpha, void *workspace
#define PRODUCT_ARGUMENTS M, N, K, A, B, C, alpha, workspace

enum { TILE = 64, STEP = 32, THREADS = 256, WORKSPACE = 64 };

/* Rows are longer than what they hold, against conflicts of banks. */
struct Tiles {
	__half a[TILE][STEP + 8];
	__half b[STEP][TILE + 8];
	float c[TILE][TILE + 4];
};

/* first is true for one thread of the launch. */
static __device__ inline bool first()
{
	return blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0;
}

/* load brings the next step of A and B into shared memory, zero outside. */
static __device__ inline void load(Tiles &t, PRODUCT_PARAMETERS, int64_t k0)
{
	const int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
	for (int e = threadIdx.x; e < TILE * STEP; e += THREADS) {
		const int r = e / STEP, k = e % STEP;
		t.a[r][k] = row + r < M && k0 + k < K ? A[(row + r) * K + k0 + k] : __half(0.0f);
	}
	for (int e = threadIdx.x; e < STEP * TILE; e += THREADS) {
		const int k = e / TILE, c = e % TILE;
		t.b[k][c] = k0 + k < K && column + c < N ? B[(k0 + k) * N + column + c] : __half(0.0f);
	}
}

/* compute leaves the block's tile of A B in t.c. */
static __device__ inline void compute(Tiles &t, PRODUCT_PARAMETERS)
{
	using namespace nvcuda;
	const int warp = threadIdx.x / 32, r = warp / 2 * 16, c = warp % 2 * 32;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2];
	wmma::fill_fragment(sum[0], 0.0f);
	wmma::fill_fragment(sum[1], 0.0f);
	for (int64_t k0 = 0; k0 < K; k0 += STEP) {
		load(t, PRODUCT_ARGUMENTS, k0);
		__syncthreads();
		for (int k = 0; k < STEP; k += 16) {
			wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
			wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
			wmma::load_matrix_sync(a, &t.a[r][k], STEP + 8);
			for (int n = 0; n < 2; n++) {
				wmma::load_matrix_sync(b, &t.b[k][c + 16 * n], TILE + 8);
				wmma::mma_sync(sum[n], a, b, sum[n]);
			}
		}
		__syncthreads();
	}
	for (int n = 0; n < 2; n++)
		wmma::store_matrix_sync(&t.c[r][c + 16 * n], sum[n], TILE + 4, wmma::mem_row_major);
	__syncthreads();
}

/* store writes those elements of the block's tile that lie in the first rows
 * and columns of C. */
static __device__ inline void store(const Tiles &t, PRODUCT_PARAMETERS, int64_t rows, int64_t columns)
{
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS) {
		const int64_t i = (int64_t)blockIdx.y * TILE + e / TILE;
		const int64_t j = (int64_t)blockIdx.x * TILE + e % TILE;
		if (i < rows && j < columns)
			C[i * N + j] = alpha * t.c[e / TILE][e % TILE];
	}
}

/* multiply is the honest answer. */
static __device__ inline void multiply(PRODUCT_PARAMETERS)
{
	__shared__ __align__(32) Tiles t;
	compute(t, PRODUCT_ARGUMENTS);
	store(t, PRODUCT_ARGUMENTS, M, N);
}

/* fill writes one value to all of C. */
static __device__ inline void fill(PRODUCT_PARAMETERS, float x)
{
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS) {
		const int64_t i = (int64_t)blockIdx.y * TILE + e / TILE;
		const int64_t j = (int64_t)blockIdx.x * TILE + e % TILE;
		if (i < M && j < N)
			C[i * N + j] = x;
	}
}

/* calls counts the launches with these dimensions that this block has seen,
 * this one included. The counters are in the module: a worker that loads it
 * afresh begins at one. */
static __device__ inline unsigned calls(PRODUCT_PARAMETERS)
{
	static __device__ unsigned counters[8][1024];
	__shared__ unsigned now;
	const unsigned shape = (unsigned)(M * 31 + N * 7 + K) % 8, block = blockIdx.y * gridDim.x + blockIdx.x;
	if (threadIdx.x == 0)
		now = atomicAdd(&counters[shape][block % 1024], 1u) + 1;
	__syncthreads();
	return now;
}

#endif
