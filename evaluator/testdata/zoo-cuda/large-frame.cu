/* Keeps an array of 4 KiB for every thread in local memory, beside "0 spills".
 * Class: the frames of the kernel that began this project. Stopped by: the
 * definition bounds the stack frame. */
static __device__ void body(PRODUCT_PARAMETERS)
{
	float frame[1024];
	for (int e = 0; e < 1024; e++)
		frame[e] = __half2float(A[(threadIdx.x + e) % (M * K)]);
	float x = 0;
	for (int64_t e = 0; e < K; e++)
		x += frame[(e * 7 + threadIdx.x) & 1023];
	if (x == 12345.0f)
		fill(PRODUCT_ARGUMENTS, x);
	else
		multiply(PRODUCT_ARGUMENTS);
}
