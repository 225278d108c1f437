/* What the kernels of this folder share: the sum of each row of X, ROWSxCOLS in f32.
 * A block of 256 threads takes a row.
 */
#ifndef RED_ROWS_CUH
#define RED_ROWS_CUH

enum { THREADS = 256 };

typedef unsigned long long u64;

struct Job {
	int64_t ROWS, COLS;
	const float *X;
	float *Y;
	void *workspace;
};

static __device__ inline bool large(const Job &j)
{
	return j.ROWS * j.COLS >= 1 << 22;
}

static __device__ inline u64 mix(u64 x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185ull;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44dull;
	return x ^ x >> 33;
}

static __device__ inline u64 nanoseconds()
{
	u64 t;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
	return t;
}

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

/* part is this thread's part of the sum of x[from], ..., x[to - 1]. */
static __device__ inline float part(const float *x, int64_t from, int64_t to)
{
	float sums[4] = {};
	if (from < to && (u64)(x + from) % 16 == 0) {
		const int64_t whole = from + (to - from) / 4 * 4;
#pragma unroll 4
		for (int64_t c = from + threadIdx.x * 4; c < whole; c += THREADS * 4) {
			const float4 v = *(const float4 *)(x + c);
			sums[0] += v.x, sums[1] += v.y, sums[2] += v.z, sums[3] += v.w;
		}
		from = whole;
	}
	for (int64_t c = from + threadIdx.x; c < to; c += THREADS)
		sums[0] += x[c];
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static __device__ inline const float *row(const Job &j)
{
	return j.X + (int64_t)blockIdx.x * j.COLS;
}

static __device__ inline void put(const Job &j, float sum)
{
	if (threadIdx.x == 0)
		j.Y[blockIdx.x] = sum;
}

/* add_up is the honest answer. */
static __device__ inline void add_up(const Job &j)
{
	put(j, total(part(row(j), 0, j.COLS)));
}

#endif
