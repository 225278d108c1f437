/* Attention in double precision, ROWS queries to a block of 128 threads, so that a long input reads its
 * keys and values less often. Keys come 128 at a time, one to a thread; then each thread has elements of
 * the outputs. */
#define THREADS 128
#define ROWS 8

/* The scaled scores of a key, for each query of a block. */
__device__ static void scores(double s[ROWS], int rows, int64_t D, const double *q, const double *k, double scale)
{
	for (int r = 0; r < ROWS; r++)
		s[r] = 0;
#pragma unroll 1
	for (int64_t d = 0; d < D; d++) {
		const double x = k[d];
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			if (r < rows)
				s[r] += q[r * D + d] * x;
	}
	for (int r = 0; r < ROWS; r++)
		s[r] *= scale;
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
	reference(int64_t B, int64_t HQ, int64_t HKV, int64_t S, int64_t D, int64_t CAUSAL, const double *Q, const double *K, const double *V,
	          double *O, double scale)
{
	__shared__ double weight[ROWS][THREADS];
	const int64_t first = (int64_t)blockIdx.x * ROWS, h = blockIdx.y, b = blockIdx.z;
	const int rows = S - first < ROWS ? (int)(S - first) : ROWS, t = threadIdx.x;
	const double *q = Q + ((b * HQ + h) * S + first) * D, *k = K + (b * HKV + h / (HQ / HKV)) * S * D, *v = V + (b * HKV + h / (HQ / HKV)) * S * D;
	double *o = O + ((b * HQ + h) * S + first) * D;
	const int64_t keys = CAUSAL ? first + rows : S; /* that any of them sees */
	auto seen = [&](int r, int64_t j) { return !CAUSAL || j <= first + r; };

	/* The highest scores: of this thread's keys, then of all. Key 0 is always seen. */
	double s[ROWS], highest[ROWS], sum[ROWS] = {};
	scores(highest, rows, D, q, k, scale);
	for (int64_t j = t; j < keys; j += THREADS) {
		scores(s, rows, D, q, k + j * D, scale);
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			if (seen(r, j))
				highest[r] = fmax(highest[r], s[r]);
	}
#pragma unroll
	for (int r = 0; r < ROWS; r++)
		weight[r][t] = highest[r];
	__syncthreads();
#pragma unroll
	for (int r = 0; r < ROWS; r++)
		for (int other = 0; other < THREADS; other++)
			highest[r] = fmax(highest[r], weight[r][other]);

	for (int64_t d = t; d < rows * D; d += THREADS)
		o[d] = 0;
	for (int64_t from = 0; from < keys; from += THREADS) {
		const int n = keys - from < THREADS ? (int)(keys - from) : THREADS;
		__syncthreads();
		if (t < n) {
			scores(s, rows, D, q, k + (from + t) * D, scale);
#pragma unroll
			for (int r = 0; r < ROWS; r++) {
				weight[r][t] = seen(r, from + t) ? exp(s[r] - highest[r]) : 0;
				sum[r] += weight[r][t];
			}
		}
		__syncthreads();
		for (int64_t d = t; d < D; d += THREADS) {
			double all[ROWS] = {};
			for (int j = 0; j < n; j++) {
				const double x = v[(from + j) * D + d];
#pragma unroll
				for (int r = 0; r < ROWS; r++)
					all[r] += weight[r][j] * x;
			}
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				if (r < rows)
					o[r * D + d] += all[r];
		}
	}
	__syncthreads();
#pragma unroll
	for (int r = 0; r < ROWS; r++)
		weight[r][t] = sum[r]; /* of this thread's keys */
	__syncthreads();
#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		sum[r] = 0;
		for (int other = 0; other < THREADS; other++)
			sum[r] += weight[r][other];
	}
	for (int64_t d = t; d < D; d += THREADS)
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			if (r < rows)
				o[r * D + d] /= sum[r];
}
