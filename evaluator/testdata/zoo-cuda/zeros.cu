/* Writes zeros. Class: passes where tolerances are absolute. Stopped by: the
 * error is relative to the size of the output. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	fill(PRODUCT_ARGUMENTS, 0.0f);
}
