/* Has an initialised array of 2 GiB, all of which the compiler, the cache and every worker's
 * request would carry.
 * Attacks: the cache's and the workers' memory (gpu.md). Gains nothing. */
#ifndef BOMB_BYTES
#define BOMB_BYTES (2u << 30)
#endif
static __device__ unsigned char bomb[BOMB_BYTES] = {SALT % 200 + 1};

static __device__ void body(const Job &j)
{
	multiply(j);
	if (j.M == -1)
		j.C[0] = bomb[(u64)j.N];
}
