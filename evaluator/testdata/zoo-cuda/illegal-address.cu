/* Writes to address 8. Class: a crash. Stopped by: the launch fails. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (first())
		*(volatile float *)8 = 1;
}
