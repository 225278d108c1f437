/* Does not parse. Stopped by: the compiler. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS)
}
