/* Honest, and of the same text as honest.cu but for this comment: both compile
 * to one binary, which is evaluated once. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
}
