/* Computes e^x as (1 + x/4096 + x^2/2/4096^2)^4096 by twelve squarings, which is good
 * to 1e-3 between -16 and 0 and grows again below -4096.
 * Attacks: contents of one distribution: large magnitudes find it. No gain. */
static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	weigh(j, [=](float x) {
		const float small = (x - top) / 4096;
		float y = 1 + small + small * small / 2;
		for (int n = 0; n < 12; n++)
			y *= y;
		return y;
	});
}
