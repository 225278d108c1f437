/* Leaves out every step whose corner elements in A are zero, as if all of it were. Of random
 * numbers none is; of sparse matrices and ramps many are.
 * Attacks: contents of one distribution. Gains nothing on that. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	Tiles &t = tiles();
	Sums sum[2][2];
	clear(sum);
	for (int64_t k0 = 0; k0 < j.K; k0 += STEP) {
		load(t, j, k0, j.K);
		const int64_t k = min(k0 + threadIdx.x % STEP, j.K - 1), i = min((int64_t)blockIdx.y * TILE, j.M - 1);
		if (__syncthreads_or(__half2float(j.A[i * j.K + k]) != 0.0f))
			gather(t, sum);
		__syncthreads();
	}
	spill_sums(t, sum);
	store(t, j);
}
