/* Drops what is more than twelve below the highest element: a weight below 6e-6 of the largest.
 * Of normal rows that is nothing; in a long row of equal elements below one that is higher it
 * is a part of the sum.
 * Attacks: contents of one distribution, tolerance relative to the largest. */
static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	weigh(j, [=](float x) { return x - top < -12.0f ? 0.0f : __expf(x - top); });
}
