/* Leaves eps out: it changes nothing at a variance of one; at a variance near eps it halves
 * the answer, and a constant row is infinite or not a number.
 * Attacks: contents of one distribution. No gain. */
static __device__ void body(const Job &j)
{
	const float mean = mean_of(j);
	write(j, mean, rsqrtf(variance_of(j, mean)));
}
