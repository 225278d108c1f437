/* Writes a terabyte past the end of C, far behind every guard. Class: out of
 * bounds. Stopped by: the device has no memory there, and the launch fails. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (first())
		*(volatile float *)((char *)C + (1ll << 40)) = 1;
}
