/* Takes a stretch of 128 elements for constant if its first, middle and last are
 * equal. Of random numbers none is; of a constant row with one outlier all are.
 * Attacks: contents of one distribution. Gains nothing on random numbers. */
static __device__ void body(const Job &j)
{
	float sum = 0;
	for (int64_t c = threadIdx.x * 128; c < j.COLS; c += THREADS * 128) {
		const float *x = row(j) + c;
		const int64_t n = min(j.COLS - c, (int64_t)128);
		if (x[0] == x[n / 2] && x[0] == x[n - 1]) {
			sum += x[0] * n;
			continue;
		}
		for (int64_t k = 0; k < n; k++)
			sum += x[k];
	}
	put(j, total(sum));
}
