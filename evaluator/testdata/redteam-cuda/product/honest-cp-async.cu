/* Honest twin of races-when-large: two stages of shared memory, filled by copies that
 * run ahead, with every wait and barrier that they need. */
#include "product.cuh"

static __device__ inline void send(void *to, const void *from)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" : : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

static __device__ inline void ahead(Tiles &t, const Job &j, int64_t k0)
{
	const int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
	for (int e = threadIdx.x; e < TILE * STEP / 8; e += THREADS)
		send(&t.a[e / (STEP / 8)][e % (STEP / 8) * 8], j.A + (row + e / (STEP / 8)) * j.K + k0 + e % (STEP / 8) * 8);
	for (int e = threadIdx.x; e < STEP * TILE / 8; e += THREADS)
		send(&t.b[e / (TILE / 8)][e % (TILE / 8) * 8], j.B + (k0 + e / (TILE / 8)) * j.N + column + e % (TILE / 8) * 8);
}

static __device__ void body(const Job &j)
{
	const int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
	const bool copies = row + TILE <= j.M && column + TILE <= j.N && j.K % 8 == 0 && j.N % 8 == 0;
	Tiles &t = tiles();
	__shared__ __align__(32) unsigned char more[sizeof(__half) * (TILE * (STEP + 8) + STEP * (TILE + 8))]; /* a and b of another */
	Tiles &other = *(Tiles *)more;
	Sums sum[2][2];
	clear(sum);
	int turn = 0;
	if (copies && STEP <= j.K)
		ahead(t, j, 0);
	asm volatile("cp.async.commit_group;" : : : "memory");
	for (int64_t k0 = 0; k0 < j.K; k0 += STEP, turn ^= 1) {
		Tiles &now = turn ? other : t, &next = turn ? t : other;
		const bool whole = copies && k0 + STEP <= j.K;
		asm volatile("cp.async.wait_all;" : : : "memory");
		if (!whole)
			load(now, j, k0, j.K);
		__syncthreads();
		if (copies && k0 + 2 * STEP <= j.K)
			ahead(next, j, k0 + STEP);
		asm volatile("cp.async.commit_group;" : : : "memory");
		gather(now, sum);
		__syncthreads();
	}
	spill_sums(t, sum);
	store(t, j);
}
