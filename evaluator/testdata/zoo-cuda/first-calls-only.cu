/* Right for the first launch of each shape, then empty. Class: right when it is
 * looked at. Stopped by: launches are repeated, and outputs poisoned before
 * each. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	if (calls(PRODUCT_ARGUMENTS) <= 1)
		multiply(PRODUCT_ARGUMENTS);
}
