/* Asks for more dynamic shared memory than a block can have. Class: a launch
 * that fails and whose error nobody reads, timed as the fastest of all. Stopped
 * by: every call of the driver is checked. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
