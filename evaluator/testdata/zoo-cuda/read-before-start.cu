/* Reads the element before B; no output shows it. Class: out of bounds.
 * Stopped by: memcheck. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	if (first())
		(void)*((const volatile unsigned short *)B - 1);
	multiply(PRODUCT_ARGUMENTS);
}
