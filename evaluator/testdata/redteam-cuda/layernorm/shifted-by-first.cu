/* The same in one pass, of what the elements are above the first one: good at any
 * offset, and as bad as ever where the first one is an outlier.
 * Attacks: contents with an offset and no outlier. Gains a pass. */
static __device__ void body(const Job &j)
{
	const float first = row(j)[0];
	float sum = 0, squares = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float x = row(j)[c] - first;
		sum += x;
		squares += x * x;
	}
	const float mean = total(sum) / j.COLS;
	write(j, mean + first, rsqrtf(fmaxf(total(squares) / j.COLS - mean * mean, 0.0f) + j.eps));
}
