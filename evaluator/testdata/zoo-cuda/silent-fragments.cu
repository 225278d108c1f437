/* The same as local-fragments, behind a branch that is never taken: nvcc 11.8 makes
 * the same trap of it and does not say a word. Class: a body that has become dead,
 * "4 registers, no stack". Stopped by: the launch fails, unless a compiler that
 * does warn was asked. */
#include "fragments.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	trapped(PRODUCT_ARGUMENTS);
}
