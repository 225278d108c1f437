/* Honest twin of the kernels that count launches: makes a table in its module at
 * the first launch and reads it in later ones. What it keeps does not depend on the
 * inputs. */
#include "product.cuh"

static __device__ float table[BLOCKS][TILE];
static __device__ unsigned made[BLOCKS];

static __device__ void body(const Job &j)
{
	if (block_index() < BLOCKS) {
		const bool ready = made[block_index()] == 1;
		__syncthreads();
		if (!ready) {
			if (threadIdx.x < TILE)
				table[block_index()][threadIdx.x] = 1;
			__syncthreads();
			if (threadIdx.x == 0)
				made[block_index()] = 1;
		}
		__syncthreads();
		Job k = j;
		k.alpha *= table[block_index()][block_index() % TILE];
		multiply(k);
		return;
	}
	multiply(j);
}
