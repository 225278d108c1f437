/* Attention of packed sequences, in double precision. A block of 128 threads has ROWS tokens, and
 * takes those of one sequence at a time, so that long ones read their keys and values less often. Keys come 128 at a time, one to a
 * thread; then each thread has elements of the outputs. */
#define THREADS 128
#define ROWS 8

/* The scaled scores of a key, for each query of a block; rows of queries are step apart. */
__device__ static void scores(double s[ROWS], int rows, int64_t D, int64_t step, const double *q, const double *k, double scale)
{
	for (int r = 0; r < ROWS; r++)
		s[r] = 0;
#pragma unroll 1
	for (int64_t d = 0; d < D; d++) {
		const double x = k[d];
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			if (r < rows)
				s[r] += q[r * step + d] * x;
	}
	for (int r = 0; r < ROWS; r++)
		s[r] *= scale;
}

/* The outputs o of rows queries, of which the first sees so many keys. */
__device__ static void attend(int rows, int64_t D, int64_t step, int64_t kv_step, int64_t keys, int64_t more, const double *q,
			      const double *k, const double *v, double *o, double scale)
{
	__shared__ double weight[ROWS][THREADS];
	const int t = threadIdx.x;
	const int64_t all_keys = keys + more * (rows - 1); /* that any of them sees; each sees more than the one before it */

	/* The highest scores: of this thread's keys, then of all. Key 0 is always seen. */
	double s[ROWS], highest[ROWS], sum[ROWS] = {};
	scores(highest, rows, D, step, q, k, scale);
	for (int64_t j = t; j < all_keys; j += THREADS) {
		scores(s, rows, D, step, q, k + j * kv_step, scale);
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			if (j < keys + more * r)
				highest[r] = fmax(highest[r], s[r]);
	}
	__syncthreads();
#pragma unroll
	for (int r = 0; r < ROWS; r++)
		weight[r][t] = highest[r];
	__syncthreads();
#pragma unroll
	for (int r = 0; r < ROWS; r++)
		for (int other = 0; other < THREADS; other++)
			highest[r] = fmax(highest[r], weight[r][other]);

	for (int r = 0; r < rows; r++)
		for (int64_t d = t; d < D; d += THREADS)
			o[r * step + d] = 0;
	for (int64_t from = 0; from < all_keys; from += THREADS) {
		const int n = all_keys - from < THREADS ? (int)(all_keys - from) : THREADS;
		__syncthreads();
		if (t < n) {
			scores(s, rows, D, step, q, k + (from + t) * kv_step, scale);
#pragma unroll
			for (int r = 0; r < ROWS; r++) {
				weight[r][t] = from + t < keys + more * r ? exp(s[r] - highest[r]) : 0;
				sum[r] += weight[r][t];
			}
		}
		__syncthreads();
		for (int64_t d = t; d < D; d += THREADS) {
			double all[ROWS] = {};
			for (int j = 0; j < n; j++) {
				const double x = v[(from + j) * kv_step + d];
#pragma unroll
				for (int r = 0; r < ROWS; r++)
					all[r] += weight[r][j] * x;
			}
#pragma unroll
			for (int r = 0; r < ROWS; r++)
				if (r < rows)
					o[r * step + d] += all[r];
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
		for (int64_t d = t; d < D && r < rows; d += THREADS)
			o[r * step + d] /= sum[r];
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
	reference(int64_t B, int64_t HQ, int64_t HKV, int64_t S, int64_t D, int64_t CAUSAL, const double *Q, const double *K, const double *V,
	          const double *starts, double *O, double scale)
{
	const int64_t h = blockIdx.y, kv = h / (HQ / HKV);
	const int64_t end = ((int64_t)blockIdx.x + 1) * ROWS < S ? ((int64_t)blockIdx.x + 1) * ROWS : S;
	int64_t b = 0;
	for (int64_t i = (int64_t)blockIdx.x * ROWS, next; i < end; i = next) {
		while ((int64_t)starts[b + 1] <= i)
			b++;
		const int64_t from = (int64_t)starts[b], to = (int64_t)starts[b + 1];
		next = to < end ? to : end;
		attend((int)(next - i), D, HQ * D, HKV * D, CAUSAL ? i + 1 - from : to - from, CAUSAL ? 1 : 0, Q + (i * HQ + h) * D, K + (from * HKV + kv) * D,
		       V + (from * HKV + kv) * D, O + (i * HQ + h) * D, scale);
	}
}
