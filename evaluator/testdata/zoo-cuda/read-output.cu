/* Reads C before anybody wrote it; no output shows it. Class: reads of what
 * nobody wrote. Stopped by: initcheck. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	if (first())
		(void)*(volatile float *)C;
	__syncthreads();
	multiply(PRODUCT_ARGUMENTS);
}
