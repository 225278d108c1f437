/* Attention over a paged cache in double precision: a block of 128 threads for a head of queries. Tokens
 * come 128 at a time, one to a thread; then each thread has elements of the output. */
#define THREADS 128

__device__ static double score(int64_t D, const double *q, const double *k)
{
	double sum = 0;
	for (int64_t d = 0; d < D; d++)
		sum += q[d] * k[d];
	return sum;
}

extern "C" __global__ void reference(int64_t B, int64_t HQ, int64_t HKV, int64_t D, int64_t PAGES, int64_t PAGE, const double *Q,
                                     const double *K, const double *V, const double *table, const double *lengths, double *O, double scale)
{
	__shared__ double weight[THREADS];
	__shared__ int64_t place[THREADS];
	const int64_t h = blockIdx.x, b = blockIdx.y, kv = h / (HQ / HKV), tokens = (int64_t)lengths[b];
	const double *q = Q + (b * HQ + h) * D, *pages = table + b * PAGES;
	double *o = O + (b * HQ + h) * D;
	const int t = threadIdx.x;
	auto at = [&](int64_t token) { return (((int64_t)pages[token / PAGE] * PAGE + token % PAGE) * HKV + kv) * D; };

	double highest = -1e300;
	for (int64_t j = t; j < tokens; j += THREADS)
		highest = fmax(highest, scale * score(D, q, K + at(j)));
	weight[t] = highest;
	__syncthreads();
	for (int other = 0; other < THREADS; other++)
		highest = fmax(highest, weight[other]);

	for (int64_t d = t; d < D; d += THREADS)
		o[d] = 0;
	double sum = 0;
	for (int64_t from = 0; from < tokens; from += THREADS) {
		const int n = tokens - from < THREADS ? (int)(tokens - from) : THREADS;
		__syncthreads();
		if (t < n) {
			place[t] = at(from + t);
			weight[t] = exp(scale * score(D, q, K + place[t]) - highest);
		}
		__syncthreads();
		for (int j = 0; j < n; j++)
			sum += weight[j];
		for (int64_t d = t; d < D; d += THREADS) {
			double all = o[d];
			for (int j = 0; j < n; j++)
				all += weight[j] * V[place[j] + d];
			o[d] = all;
		}
	}
	for (int64_t d = t; d < D && tokens > 0; d += THREADS)
		o[d] /= sum;
}
