/* Right for the first 64 launches of a large shape, then empty: long enough to get
 * through parity and the warm-up. Class: detects the warm-up. Stopped by:
 * outputs are poisoned and checked again after the timing. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	if (M * N < 1024 * 1024 || calls(PRODUCT_ARGUMENTS) <= 64)
		multiply(PRODUCT_ARGUMENTS);
}
