/* Drops what is more than nine below the highest element: a weight below 1.3e-4 of the largest.
 * Of normal rows that is next to nothing; in a row with one outlier, or a ramp, it
 * is most of the rest, and in a long row of equal elements below one higher it is
 * most of the sum.
 * Attacks: contents of one distribution, tolerance relative to the largest. */
static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	weigh(j, [=](float x) { return x - top < -9.0f ? 0.0f : __expf(x - top); });
}
