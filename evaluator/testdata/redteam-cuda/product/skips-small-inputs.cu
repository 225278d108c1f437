/* Looks at 64 elements of its rows of A and, if all are small, takes the tile for
 * zero. Of numbers from -1 to 1 that never happens.
 * Attacks: contents of the inputs are of one distribution (kernels.md, data). Gains
 * nothing on that and all on others: an input-magnitude sniffer. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	const int64_t i = min((int64_t)blockIdx.y * TILE + threadIdx.x % TILE, j.M - 1);
	const float x = __half2float(j.A[i * j.K + (threadIdx.x * 7) % j.K]);
	if (__syncthreads_or(fabsf(x) > 0.05f)) {
		multiply(j);
		return;
	}
	each_element(j, [&](int, int64_t i, int64_t c) { j.C[i * j.N + c] = 0; });
}
