/* Honest twin of those that are wrong in some launches: counts them, and is right in all. */
#include "sometimes.cuh"
static __device__ void body(const Job &j)
{
	hurry(j, [](unsigned n) { return n == 0xffffffff; });
}
