/* Changes an input after reading it. Class: makes a reference that is computed
 * later agree. Stopped by: inputs are hashed before and after. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (first())
		((__half *)A)[M * K - 1] = __half(0.5f);
}
