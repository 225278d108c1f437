/* Is compiled for 40 registers and spills the rest. Class: slow, and said to be
 * clean. Stopped by: the definition bounds what is spilled. */
#include "registers.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	const float x = hungry(A, M * K);
	if (x == 12345.0f)
		fill(PRODUCT_ARGUMENTS, x);
	else
		multiply(PRODUCT_ARGUMENTS);
}
