/* Drops most of the bits of every input. Class: less precise than asked for.
 * Stopped by: the tolerance. */
static __device__ inline __half coarse(__half x)
{
	return __ushort_as_half(__half_as_ushort(x) & 0xff80u);
}
#define ELEMENT(p) coarse(*(p))
#include "scalar.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply_scalar(PRODUCT_ARGUMENTS);
}
