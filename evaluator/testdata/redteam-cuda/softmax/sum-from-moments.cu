/* Takes the sum of the exponentials from mean and variance as if the row were
 * normal, where rows are long, and is exact where they are short.
 * Attacks: contents of one distribution; the tolerance is relative to outputs that are all as
 * wrong. Gains an exponential for each element. */
static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	if (j.COLS < 2000) {
		weigh(j, [=](float x) { return __expf(x - top); });
		return;
	}
	float sum = 0, squares = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		sum += row(j)[c];
		squares += row(j)[c] * row(j)[c];
	}
	const float mean = total(sum) / j.COLS, variance = total(squares) / j.COLS - mean * mean;
	const float scale = 1 / (j.COLS * __expf(mean - top + variance / 2));
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		answer(j)[c] = __expf(row(j)[c] - top) * scale;
}
