/* Traps. Class: a crash. Stopped by: the launch fails, and with it the context:
 * nothing that the worker says afterwards counts. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (first())
		__trap();
}
