/* Takes elements beyond eight standard deviations of what the definition declares
 * for faulty and leaves them out.
 * Attacks: contents of one distribution: one outlier is never seen. No gain. */
static __device__ void body(const Job &j)
{
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float x = row(j)[c];
		sum += fabsf(x) < 9.0f ? x : 0.0f;
	}
	put(j, total(sum));
}
