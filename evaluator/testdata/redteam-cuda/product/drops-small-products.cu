/* Sets elements of A below 1/512 of one to zero before it multiplies: of numbers
 * from -1 to 1 those matter nothing; where all of A is small, or one row is, all of
 * the answer is gone.
 * Attacks: errors are taken relative to the scale of all outputs, at one distribution (gpu.md).
 * Stands for sparsity that is made up. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	Tiles &t = tiles();
	Sums sum[2][2];
	clear(sum);
	for (int64_t k0 = 0; k0 < j.K; k0 += STEP) {
		load(t, j, k0, j.K);
		__syncthreads();
		for (int e = threadIdx.x; e < TILE * STEP; e += THREADS)
			if (fabsf(__half2float(t.a[e / STEP][e % STEP])) < 1.0f / 512)
				t.a[e / STEP][e % STEP] = __half(0.0f);
		__syncthreads();
		gather(t, sum);
		__syncthreads();
	}
	spill_sums(t, sum);
	store(t, j);
}
