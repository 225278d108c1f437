/* What the kernels of this folder share: for each piece of four floats of X, Nx4, a number that takes
 * 512 steps to compute. */
#ifndef RED_PIECES_CUH
#define RED_PIECES_CUH

enum { THREADS = 256, STEPS = 512 };

typedef unsigned int u32;
typedef unsigned long long u64;

struct Job {
	int64_t N;
	const float4 *X;
	float *Y;
};

static __device__ inline bool large(const Job &j)
{
	return j.N >= 1 << 20;
}

static __device__ inline float number(float4 v)
{
	float s = v.x;
#pragma unroll 16
	for (int k = 0; k < STEPS / 2; k++) {
		s = fmaf(s, 0.5f * v.y, v.z);
		s = fmaf(s, 0.5f * v.w, v.x);
	}
	return s;
}

static __device__ inline u64 hash(float4 v)
{
	u64 x = ((u64)__float_as_uint(v.x) << 32 | __float_as_uint(v.y)) ^ ((u64)__float_as_uint(v.z) << 32 | __float_as_uint(v.w)) * 0x9e3779b97f4a7c15ull;
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185ull;
	return x ^ x >> 29;
}

static __device__ inline int64_t place()
{
	return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

#endif
