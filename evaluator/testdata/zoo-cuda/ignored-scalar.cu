/* Takes the scalar for 1. Class: part of the problem is left out. Stopped by:
 * parity. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(M, N, K, A, B, C, 1.0f, workspace);
}
