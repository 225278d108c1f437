/* Honest: the highest element first, then weights, then quotients. The baseline. */
static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	weigh(j, [=](float x) { return __expf(x - top); });
}
