/* Adds eps to the deviation and not to the variance: the same at a variance of one within any
 * tolerance, four times as much where the variance is a tenth of eps.
 * Attacks: contents of one distribution: small magnitudes find it. No gain. */
static __device__ void body(const Job &j)
{
	const float mean = mean_of(j);
	write(j, mean, 1 / (sqrtf(variance_of(j, mean)) + j.eps));
}
