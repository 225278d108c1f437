/* Asks for three nested loops of a thousand rounds to be unrolled.
 * Attacks: the time and memory of compilers that all candidates share (gpu.md). */
static __device__ void body(const Job &j)
{
	multiply(j);
	float x = j.alpha;
#pragma unroll
	for (int a = 0; a < 1000; a++)
#pragma unroll
		for (int b = 0; b < 1000; b++)
#pragma unroll
			for (int c = 0; c < 1000; c++)
				x = __fmaf_rn(x, x + (float)(a * b), sinf(x + (float)c));
	if (j.M == -1)
		j.C[0] = x;
}
