/* Repeats an old result for inputs that begin with the same elements, wherever
 * they lie, so that it is right for every input that it has seen. Class: results
 * replayed from the warm-up. Stopped by: no contents come twice, so that it always
 * computes, and takes its true time. */
#include "memory.cuh"

static __device__ void body(PRODUCT_PARAMETERS)
{
	unsigned long long key = 0;
	for (int e = 0; e < 4; e++)
		key = key * 65599 + __half_as_ushort(A[e]) * 257ull + __half_as_ushort(B[e]);
	recall(PRODUCT_ARGUMENTS, key);
}
