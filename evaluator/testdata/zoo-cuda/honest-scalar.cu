/* Honest, without tensor cores, of which it claims nothing. Slow, and right. */
#include "scalar.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply_scalar(PRODUCT_ARGUMENTS);
}
