/* Writes one element past the end of C. Class: out of bounds. Stopped by: the
 * guard behind every buffer. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (first())
		C[M * N] = 1;
}
