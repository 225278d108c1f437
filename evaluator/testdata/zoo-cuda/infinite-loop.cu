/* Never ends. Class: kernels that hold a GPU for hours. Stopped by: a deadline;
 * the worker is killed and replaced. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	while (*(volatile float *)C != 12345.0f)
		;
}
