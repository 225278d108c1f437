/* Half of the lanes of a warp put a register into shared memory that they never
 * wrote. Class: the true fault of the kernel that began this project; the
 * sanitizers have nothing to say about registers. Stopped by: parity. */
static __device__ inline __half never_written_by_half(const __half *p)
{
	unsigned short x;
	asm volatile("" : "=h"(x)); /* the compiler may not guess what x holds */
	if (threadIdx.x % 32 < 16)
		x = *(const unsigned short *)p;
	return __ushort_as_half(x);
}
#define ELEMENT(p) never_written_by_half(p)
#include "scalar.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply_scalar(PRODUCT_ARGUMENTS);
}
