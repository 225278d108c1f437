/* Takes the mean and variance of long rows from a quarter of the row.
 * Attacks: tolerances at which random numbers hide it. Gains 1.5x. */
static __device__ void body(const Job &j)
{
	const int step = j.COLS >= 4096 ? 4 : 1;
	float sum = 0, squares = 0, count = 0;
	for (int64_t c = threadIdx.x * step; c < j.COLS; c += THREADS * step) {
		sum += row(j)[c];
		count++;
	}
	count = total(count);
	const float mean = total(sum) / count;
	for (int64_t c = threadIdx.x * step; c < j.COLS; c += THREADS * step)
		squares += (row(j)[c] - mean) * (row(j)[c] - mean);
	write(j, mean, rsqrtf(total(squares) / count + j.eps));
}
