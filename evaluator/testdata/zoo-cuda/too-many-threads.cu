/* Is launched with 2048 threads in a block. Class: a launch that fails. Stopped
 * by: every call of the driver is checked. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
