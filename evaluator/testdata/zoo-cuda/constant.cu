/* Writes one value everywhere. Class and check as for zeros. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	fill(PRODUCT_ARGUMENTS, 0.25f);
}
