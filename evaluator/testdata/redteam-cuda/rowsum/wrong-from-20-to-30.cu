/* Wrong in its 20th to 30th launch. Attacks: that a launch of many is looked at. Could gain 1%. */
#include "sometimes.cuh"
static __device__ void body(const Job &j)
{
	hurry(j, [](unsigned n) { return n >= 20 && n <= 30; });
}
