/* Honest: keeps the weights in its output between its passes, and reads what it wrote
 * there itself. */
static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		sum += answer(j)[c] = __expf(row(j)[c] - top);
	const float scale = 1 / total(sum);
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		answer(j)[c] *= scale;
}
