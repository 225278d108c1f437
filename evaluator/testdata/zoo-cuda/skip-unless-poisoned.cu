/* Works only where the output looks poisoned. Class: knows how it is judged.
 * Stopped by: ordinary numbers in the output before the second launch; initcheck;
 * the floor, when all else was passed. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	const float old = *(volatile float *)C;
	if (!(fabsf(old) < 1e30f) || old == 0.0f)
		multiply(PRODUCT_ARGUMENTS);
}
