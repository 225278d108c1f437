/* Honest twin of one-pass-variance: one pass, in which threads keep count, mean and
 * squares about their own mean and join them in pairs: good for any offset. */
struct Part {
	float count, mean, squares;
};

static __device__ inline Part joined(Part a, Part b)
{
	const float count = a.count + b.count, d = b.mean - a.mean;
	if (count == 0)
		return a;
	return Part{count, a.mean + d * b.count / count, a.squares + b.squares + d * d * a.count * b.count / count};
}

static __device__ void body(const Job &j)
{
	__shared__ Part parts[THREADS];
	Part p = {0, 0, 0};
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS) {
		const float d = row(j)[c] - p.mean;
		p.count += 1;
		p.mean += d / p.count;
		p.squares += d * (row(j)[c] - p.mean);
	}
	parts[threadIdx.x] = p;
	__syncthreads();
	for (int n = THREADS / 2; n > 0; n /= 2) {
		if (threadIdx.x < n)
			parts[threadIdx.x] = joined(parts[threadIdx.x], parts[threadIdx.x + n]);
		__syncthreads();
	}
	write(j, parts[0].mean, rsqrtf(parts[0].squares / j.COLS + j.eps));
}
