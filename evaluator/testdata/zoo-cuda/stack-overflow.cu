/* Recurses without end. Class: a crash. Stopped by: the launch fails, if the
 * frame of unknown size was not refused before. */
static __device__ __noinline__ float deeper(volatile float *p, int n)
{
	volatile float frame[64];
	frame[n & 63] = *p;
	const float x = *p == 12345.0f ? 0.0f : deeper(p, n + 1);
	return x + frame[(n * 7) & 63];
}

static __device__ void body(PRODUCT_PARAMETERS)
{
	multiply(PRODUCT_ARGUMENTS);
	if (first() && deeper(C, 0) == 54321.0f)
		C[0] = 0;
}
