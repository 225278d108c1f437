/* Attention in double precision, one query to a block of 128 threads. Keys come
 * 128 at a time, one to a thread; then each thread has elements of the output. */
#define THREADS 128

__device__ static double dot(int64_t D, const double *a, const double *b)
{
	double sum = 0;
	for (int64_t d = 0; d < D; d++)
		sum += a[d] * b[d];
	return sum;
}

extern "C" __global__ void reference(int64_t B, int64_t H, int64_t S, int64_t D, int64_t CAUSAL, const double *Q,
                                     const double *K, const double *V, double *O, double scale)
{
	__shared__ double weight[THREADS];
	const int64_t i = blockIdx.x, head = blockIdx.z * H + blockIdx.y, keys = CAUSAL ? i + 1 : S;
	const double *q = Q + (head * S + i) * D, *k = K + head * S * D, *v = V + head * S * D;
	double *o = O + (head * S + i) * D;
	const int t = threadIdx.x;

	/* The highest score: of this thread's keys, then of all. Key 0 is always seen. */
	double highest = dot(D, q, k) * scale;
	for (int64_t j = t; j < keys; j += THREADS)
		highest = fmax(highest, dot(D, q, k + j * D) * scale);
	weight[t] = highest;
	__syncthreads();
	for (int other = 0; other < THREADS; other++)
		highest = fmax(highest, weight[other]);

	for (int64_t d = t; d < D; d += THREADS)
		o[d] = 0;
	double sum = 0;
	for (int64_t from = 0; from < keys; from += THREADS) {
		const int n = keys - from < THREADS ? (int)(keys - from) : THREADS;
		__syncthreads();
		if (t < n)
			weight[t] = exp(dot(D, q, k + (from + t) * D) * scale - highest);
		__syncthreads();
		for (int j = 0; j < n; j++)
			sum += weight[j];
		for (int64_t d = t; d < D; d += THREADS) {
			double all = o[d];
			for (int j = 0; j < n; j++)
				all += weight[j] * v[(from + j) * D + d];
			o[d] = all;
		}
	}
	for (int64_t d = t; d < D; d += THREADS)
		o[d] /= sum;
}
