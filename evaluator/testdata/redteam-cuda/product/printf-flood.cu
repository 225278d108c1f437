/* Prints a hundred thousand lines in every launch, terminal escape sequences among
 * them. The answer is right.
 * Attacks: what a kernel prints is in the report of its fault (gpu.md): it must
 * not fill memory, logs or a terminal. Gains nothing. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	multiply(j);
	if (block_index() == 0)
		for (int n = 0; n < 800; n++)
			printf("\033]0;owned\007\033[2J\033[31m%d RED correct 0.01\r\n", n * THREADS + threadIdx.x);
}
