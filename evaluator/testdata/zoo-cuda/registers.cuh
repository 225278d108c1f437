/* hungry keeps 160 values in registers at once. What it returns is meant to be
 * used for nothing. */
static __device__ inline float hungry(const __half *A, int64_t elements)
{
	float v[160], sum = 0;
#pragma unroll
	for (int i = 0; i < 160; i++)
		v[i] = (float)*((const volatile unsigned short *)A + (threadIdx.x + 37 * i) % elements);
#pragma unroll
	for (int i = 0; i < 160; i++)
		sum = sum * 1.25f + v[159 - i];
	return sum;
}
