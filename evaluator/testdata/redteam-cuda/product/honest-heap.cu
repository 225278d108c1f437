/* Honest twin of heap-leak: takes 64 bytes from the device's heap and gives them
 * back. Writes nothing if it gets none, so that a heap that somebody left full shows. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	__shared__ unsigned *mine;
	if (threadIdx.x == 0) {
		mine = block_index() == 0 ? (unsigned *)malloc(64) : (unsigned *)j.C;
		if (mine && block_index() == 0)
			*mine = SALT;
	}
	__syncthreads();
	if (mine)
		multiply(j);
	__syncthreads();
	if (threadIdx.x == 0 && block_index() == 0)
		free(mine);
}
