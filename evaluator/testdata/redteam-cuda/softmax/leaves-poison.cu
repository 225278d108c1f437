/* Does not write weights below 1e-9: where the output was zero before it is right.
 * Attacks: outputs are poisoned before a launch, and after how many (gpu.md)? In
 * normal rows no weight is so small. Gains stores on rows that are peaked. */
static __device__ void body(const Job &j)
{
	const float top = top_of(j);
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		sum += __expf(row(j)[c] - top);
	const float scale = 1 / total(sum);
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float y = __expf(row(j)[c] - top) * scale;
		if (y >= 1e-9f)
			answer(j)[c] = y;
	}
}
