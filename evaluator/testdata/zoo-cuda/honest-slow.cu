/* Honest, and does everything three times. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	for (volatile int n = 0; n < 3; n++)
		multiply(PRODUCT_ARGUMENTS);
}
