/* Leaves elements beyond six deviations of the declared distribution out of the
 * variance.
 * Attacks: contents of one distribution: an outlier, or another scale, finds it. */
static __device__ void body(const Job &j)
{
	const float mean = mean_of(j);
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float d = row(j)[c] - mean;
		sum += d * d < 49 ? d * d : 0;
	}
	write(j, mean, rsqrtf(total(sum) / j.COLS + j.eps));
}
