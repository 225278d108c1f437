/* Writes one element before C. Class: out of bounds. Stopped by: the guard
 * before every buffer. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (first())
		C[-1] = 1;
}
