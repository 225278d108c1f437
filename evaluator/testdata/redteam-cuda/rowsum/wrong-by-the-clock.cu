/* Wrong in one launch of eight, or in some blocks of it, as the clock says.
 * Attacks: that a launch of many is looked at. Could gain 10%. */
#include "sometimes.cuh"
static __device__ void body(const Job &j)
{
	hurry(j, [](unsigned) { return nanoseconds() / 4096 % 8 == 5; });
}
