/* Reads the element behind A; no output shows it. Class: out of bounds.
 * Stopped by: memcheck, since buffers are exactly as large as the tensors. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	if (first())
		(void)*((const volatile unsigned short *)A + M * K);
	multiply(PRODUCT_ARGUMENTS);
}
