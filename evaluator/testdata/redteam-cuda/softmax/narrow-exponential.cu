/* Computes e^x by a polynomial and the bits of the exponent, without a bound on x:
 * right down to -87, and garbage of either sign below, where the exponent's bits run
 * over.
 * Attacks: contents of one distribution: large magnitudes find it. Gains a
 * comparison for each element. */
static __device__ inline float weight(float x)
{
	x *= 1.44269504f;
	const float n = rintf(x), f = x - n;
	float p = 1.5403530e-4f;
	p = p * f + 1.3333558e-3f;
	p = p * f + 9.6181291e-3f;
	p = p * f + 5.5504109e-2f;
	p = p * f + 2.4022651e-1f;
	p = p * f + 6.9314718e-1f;
	p = p * f + 1;
	return p * __int_as_float((int)((unsigned)((int)n + 127) << 23));
}

static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	weigh(j, [=](float x) { return weight(x - top); });
}
