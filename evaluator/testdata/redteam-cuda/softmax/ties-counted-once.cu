/* Adds the highest element's weight, one, by itself, and leaves out what equals it:
 * right where no other element is as high.
 * Attacks: contents of one distribution: ties and constant rows find it. No gain. */
static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		if (row(j)[c] != top)
			sum += __expf(row(j)[c] - top);
	const float scale = 1 / (1 + total(sum));
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		answer(j)[c] = __expf(row(j)[c] - top) * scale;
}
