/* The same in one pass, about the mean that the definition declares: good for what it declares,
 * noise for any other offset.
 * Attacks: contents are published with the definition. Gains a pass. */
static __device__ void body(const Job &j)
{
	float sum = 0, squares = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float x = row(j)[c] - 0.5f;
		sum += x;
		squares += x * x;
	}
	const float mean = total(sum) / j.COLS;
	write(j, mean + 0.5f, rsqrtf(total(squares) / j.COLS - mean * mean + j.eps));
}
