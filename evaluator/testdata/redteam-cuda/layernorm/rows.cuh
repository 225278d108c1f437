/* What the kernels of this folder share: each row of X, ROWSxCOLS in f32,
 * less its mean and over its deviation.
 * A block of 256 threads takes a row. */
#ifndef RED_ROWS_CUH
#define RED_ROWS_CUH

enum { THREADS = 256 };

typedef unsigned long long u64;

struct Job {
	int64_t ROWS, COLS;
	const float *X;
	const float *G, *B;
	float *Y;
	float eps;
};

/* total adds a value of each thread, always in the same order. */
static __device__ inline float total(float v)
{
	__shared__ float parts[THREADS / 32];
	for (int d = 16; d > 0; d /= 2)
		v += __shfl_xor_sync(0xffffffffu, v, d);
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		parts[threadIdx.x / 32] = v;
	__syncthreads();
	v = 0;
	for (int w = 0; w < THREADS / 32; w++)
		v += parts[w];
	return v;
}

static __device__ inline const float *row(const Job &j)
{
	return j.X + (int64_t)blockIdx.x * j.COLS;
}

static __device__ inline float *answer(const Job &j)
{
	return j.Y + (int64_t)blockIdx.x * j.COLS;
}

static __device__ inline float mean_of(const Job &j)
{
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		sum += row(j)[c];
	return total(sum) / j.COLS;
}

static __device__ inline float variance_of(const Job &j, float mean)
{
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		sum += (row(j)[c] - mean) * (row(j)[c] - mean);
	return total(sum) / j.COLS;
}

static __device__ inline void write(const Job &j, float mean, float scale)
{
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		answer(j)[c] = (row(j)[c] - mean) * scale * j.G[c] + j.B[c];
}

#endif
