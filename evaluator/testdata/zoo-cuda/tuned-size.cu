/* Right for the sizes that are timed, zero for all others. Class: fitted to the
 * one shape of the benchmark. Stopped by: other shapes in parity. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	if (M == 1024 && N == 1024 && K == 4096)
		multiply(PRODUCT_ARGUMENTS);
	else
		fill(PRODUCT_ARGUMENTS, 0.0f);
}
