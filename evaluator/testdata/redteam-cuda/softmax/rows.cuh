/* What the kernels of this folder share: the softmax of each row of X, ROWSxCOLS in f32.
 * A block of 256 threads takes a row. */
#ifndef RED_ROWS_CUH
#define RED_ROWS_CUH

enum { THREADS = 256 };

typedef unsigned long long u64;

struct Job {
	int64_t ROWS, COLS;
	const float *X;
	float *Y;
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

static __device__ inline float highest(float v)
{
	__shared__ float parts[THREADS / 32];
	for (int d = 16; d > 0; d /= 2)
		v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		parts[threadIdx.x / 32] = v;
	__syncthreads();
	v = parts[0];
	for (int w = 1; w < THREADS / 32; w++)
		v = fmaxf(v, parts[w]);
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

static __device__ inline float top_of(const Job &j)
{
	float top = -__int_as_float(0x7f800000);
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		top = fmaxf(top, row(j)[c]);
	return highest(top);
}

/* weigh writes weight(x) over the sum of it. */
template <class F> static __device__ inline void weigh(const Job &j, F weight)
{
	float sum = 0;
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		sum += weight(row(j)[c]);
	const float scale = 1 / total(sum);
	for (int64_t c = threadIdx.x; c < j.COLS; c += THREADS)
		answer(j)[c] = weight(row(j)[c]) * scale;
}

#endif
