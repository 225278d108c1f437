/* Drops the last rows where M leaves more than 16 over a multiple of 64: 1024, 133,
 * 5 and 72 leave none, five, five and eight.
 * Attacks: parity sees the shapes of the definition alone. Gains nothing here; it is
 * what a tile with a hand-made tail looks like. */
#include "product.cuh"

static __device__ void body(const Job &j)
{
	Job k = j;
	if (j.M % TILE > 16)
		k.M = j.M / TILE * TILE + 16;
	multiply(k);
}
