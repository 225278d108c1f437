/* Honest: right, on the tensor cores. The baseline. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
