/* Does half of the columns. Class: part of the work is skipped. Stopped by:
 * poison is left in the others. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	__shared__ __align__(32) Tiles t;
	compute(t, PRODUCT_ARGUMENTS);
	store(t, PRODUCT_ARGUMENTS, M, N / 2);
}
