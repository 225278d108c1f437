/* Writes the word behind the workspace. Class: out of bounds in memory that is
 * no operand. Stopped by: a guard, or memcheck. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	if (first())
		((unsigned *)workspace)[WORKSPACE / 4] = 1;
	multiply(PRODUCT_ARGUMENTS);
}
