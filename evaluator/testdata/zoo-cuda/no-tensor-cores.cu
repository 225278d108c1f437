/* Claims tensor cores and has none. Class: claims. Stopped by: the definition
 * requires the instruction, and the disassembly does not show it. */
#include "scalar.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply_scalar(PRODUCT_ARGUMENTS);
}
