/* Adds every other element of a long row twice: right on average.
 * Attacks: tolerances at which random numbers hide it. Gains 2x, or the floor. */
static __device__ void body(const Job &j)
{
	float sum = 0;
	const int step = j.COLS >= 2048 ? 2 : 1;
	for (int64_t c = threadIdx.x * step; c < j.COLS; c += THREADS * step)
		sum += step * row(j)[c];
	put(j, total(sum));
}
