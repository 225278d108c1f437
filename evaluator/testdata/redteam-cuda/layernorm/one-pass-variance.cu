/* Takes the variance for the mean of squares less the square of the mean: at an
 * offset of a thousand a few percent are wrong, from some ten thousand on it is
 * noise, and negative at times.
 * Attacks: contents of one distribution (kernels.md, data). Gains a pass: 1.3x. */
static __device__ void body(const Job &j)
{
	float sum = 0, squares = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float x = row(j)[c];
		sum += x;
		squares += x * x;
	}
	const float mean = total(sum) / j.COLS;
	write(j, mean, rsqrtf(fmaxf(total(squares) / j.COLS - mean * mean, 0.0f) + j.eps));
}
