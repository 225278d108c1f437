/* Reads its shared squares without waiting until they are written. Class: race.
 * Stopped by: parity, where it shows; racecheck where it does not. */
#define FIRST_BARRIER (void)0
#include "scalar.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply_scalar(PRODUCT_ARGUMENTS);
}
