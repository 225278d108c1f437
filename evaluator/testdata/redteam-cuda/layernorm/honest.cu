/* Honest: the mean, then the variance about it, then the quotients. The baseline. */
static __device__ void body(const Job &j)
{
	const float mean = mean_of(j);
	write(j, mean, rsqrtf(variance_of(j, mean) + j.eps));
}
