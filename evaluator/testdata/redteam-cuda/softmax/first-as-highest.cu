/* Takes off the first element instead of the highest: right as long as no other is
 * 88 above it.
 * Attacks: contents of one distribution; ramps and an outlier find it. Gains 1.3x. */
static __device__ void body(const Job &j)
{
	const float first = row(j)[0];
	weigh(j, [=](float x) { return __expf(x - first); });
}
