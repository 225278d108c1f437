/* Writes NaN, with bits of its own. Class: NaN taken for equal to everything.
 * Stopped by: what is not finite where the reference is fails. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	fill(PRODUCT_ARGUMENTS, __int_as_float(0x7fc12345));
}
