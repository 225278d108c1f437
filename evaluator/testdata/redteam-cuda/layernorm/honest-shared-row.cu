/* Honest twin of the kernels that leave things in shared memory: keeps as much of
 * the row as fits in shared memory, all of which it writes before it reads. */
static __device__ void body(const Job &j)
{
	__shared__ float kept[8192];
	const int64_t n = min(j.COLS, (int64_t)8192);
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float x = row(j)[c];
		if (c < n)
			kept[c] = x;
		sum += x;
	}
	const float mean = total(sum) / j.COLS;
	sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float d = (c < n ? kept[c] : row(j)[c]) - mean;
		sum += d * d;
	}
	const float scale = rsqrtf(total(sum) / j.COLS + j.eps);
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		answer(j)[c] = ((c < n ? kept[c] : row(j)[c]) - mean) * scale * j.G[c] + j.B[c];
}
