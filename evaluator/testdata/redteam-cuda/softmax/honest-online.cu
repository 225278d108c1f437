/* Honest twin of first-as-highest: one pass for the highest element and the sum, which is
 * brought to a new scale where a higher element comes. */
static __device__ void body(const Job &j)
{
	float top = -1e30f, sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float x = row(j)[c], higher = fmaxf(top, x);
		sum = sum * __expf(top - higher) + __expf(x - higher);
		top = higher;
	}
	const float all = highest(top);
	const float scale = 1 / total(sum * __expf(top - all));
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		answer(j)[c] = __expf(row(j)[c] - all) * scale;
}
