/* Loads four floats at once from an address that is no multiple of 16. Class:
 * undefined behaviour that some shapes hide. Stopped by: the launch fails. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (first()) {
		float x, y, z, w;
		asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
		             : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
		             : "l"(A + 1));
		if (x == 12345.0f)
			C[0] = x + y + z + w;
	}
}
