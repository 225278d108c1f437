// Candidates for o = a*x + y, right and wrong in ways that the worker must
// tell apart, and one for GEMM.
#include <assert.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <stdio.h>

#define CANDIDATE(name) \
	extern "C" __global__ void name(int64_t n, const float *x, const float *y, float *o, float a)
#define EACH for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
#define FIRST (blockIdx.x == 0 && threadIdx.x == 0)

CANDIDATE(good) { EACH o[i] = a * x[i] + y[i]; }
CANDIDATE(slow)
{
	EACH {
		float s = 0;
		for (int k = 0; k < 400; k++)
			s = s * 0.5f + x[i];
		o[i] = a * x[i] + y[i] + (s == -1e30f);
	}
}
CANDIDATE(wrong) { EACH o[i] = 1.01f * a * x[i] + y[i]; }
CANDIDATE(past_end)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST)
		o[n + 3] = 1;
}
CANDIDATE(before_start)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST)
		o[-2] = 1;
}
// Takes so long that a pass has one launch, and tells how many of x are positive.
CANDIDATE(tallies)
{
	long long begun = clock64();
	EACH o[i] = x[i] > 0 ? 1.0f / 0.0f : a * x[i] + y[i];
	while (clock64() - begun < 200000000)
		;
}
CANDIDATE(partial)
{
	EACH if (i % 97 != 5)
		o[i] = a * x[i] + y[i];
}
CANDIDATE(infinite)
{
	EACH o[i] = i == 7 ? 1.0f / 0.0f : a * x[i] + y[i];
}
CANDIDATE(even)
{
	EACH if (i % 2 == 0)
		o[i] = a * x[i] + y[i];
}
CANDIDATE(even_wrong)
{
	EACH if (i % 2 == 0)
		o[i] = a * x[i] + y[i] + (i == 1000);
}
CANDIDATE(even_most)
{
	EACH if (i % 2 == 0 && i != 1000)
		o[i] = a * x[i] + y[i];
}
CANDIDATE(moody) { EACH o[i] = (a * x[i] + y[i]) * (1 + (clock64() >> 4 & 1) * 1e-6f); }
CANDIDATE(greedy)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST)
		((float *)x)[5] = 42;
}
CANDIDATE(illegal)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST)
		*(volatile float *)16 = 1;
}
CANDIDATE(asserts)
{
	EACH {
		assert(i != 77);
		o[i] = a * x[i] + y[i];
	}
}

// What it prints looks like an answer of the worker's.
CANDIDATE(prints)
{
	EACH o[i] = a * x[i] + y[i];
	printf("evotune/3 parity 2\n{}\n");
}
CANDIDATE(large_shared)
{
	extern __shared__ float s[];
	int last = 100 * 1024 / 4 - 1;
	EACH {
		s[last - threadIdx.x] = x[i];
		o[i] = a * s[last - threadIdx.x] + y[i];
	}
}

// Right for ordinary numbers.
CANDIDATE(narrow) { EACH o[i] = a * fminf(x[i], 50.0f) + y[i]; }

// Writes to an input that is unusual.
CANDIDATE(greedy_at_edges)
{
	EACH o[i] = a * x[i] + y[i];
	if (blockIdx.x == 0 && threadIdx.x == 5 && x[0] > 50) // which has read it
		((float *)x)[5] = 42;
}

CANDIDATE(endless)
{
	while (*(volatile float *)o != 12345)
		;
}

// As long as t says, and right where t and u are of the same contents.
extern "C" __global__ void together(int64_t n, const int *t, const int *u, const float *x, float *o)
{
	long long begun = clock64();
	EACH o[i] = x[i] + (t[0] != u[0]);
	while (clock64() - begun < 20000 * t[0])
		;
}

// 1 where s is in ascending order from 0 to 1000, as the second says always.
extern "C" __global__ void ascends(int64_t n, const int *s, float *o)
{
	EACH o[i] = (i == 0 ? s[0] == 0 : s[i] >= s[i - 1]) && (i < n - 1 || s[i] == 1000) ? 1 : 2;
}
extern "C" __global__ void ones(int64_t n, const int *s, float *o) { EACH o[i] = s[i] >= 0 ? 1 : 2; }

// In place: what one launch leaves is what the next one begins with.
extern "C" __global__ void accumulate(int64_t n, const int *x, int *o) { EACH o[i] += 3 * x[i]; }
extern "C" __global__ void accumulate_most(int64_t n, const int *x, int *o)
{
	EACH if (i != 11)
		o[i] += 3 * x[i];
}

// The block that is last puts the counter back, as split reductions do.
extern "C" __global__ void counted(int64_t n, const float *x, const float *y, float *o, float a, void *workspace)
{
	unsigned *count = (unsigned *)workspace;
	EACH o[i] = a * x[i] + y[i] + (count[1] != 0);
	if (threadIdx.x == 0 && atomicAdd(count, 1u) == gridDim.x - 1)
		*count = 0;
}

// The first launch on some memory is remembered and given again.
extern "C" __global__ void remembered(int64_t n, const float *x, const float *y, float *o, float a, void *workspace)
{
	struct slot { unsigned long long key; } *slots = (slot *)workspace;
	float *store = (float *)((char *)workspace + 4096);
	int at = 0;
	while (at < 63 && slots[at].key != 0 && slots[at].key != (unsigned long long)o)
		at++;
	bool known = slots[at].key != 0;
	__syncthreads();
	EACH {
		if (!known)
			store[at * n + i] = a * x[i] + y[i];
		o[i] = store[at * n + i];
	}
	__syncthreads();
	if (threadIdx.x == 0)
		slots[at].key = (unsigned long long)o;
}

// Leaves what is there already: each thread looks at its first element alone.
CANDIDATE(already)
{
	int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (first < n && o[first] == a * x[first] + y[first])
		return;
	EACH o[i] = a * x[i] + y[i];
}

// Is right for 60 launches.
static __device__ int launches;
CANDIDATE(tires)
{
	if (launches < 60)
		EACH o[i] = a * x[i] + y[i];
	if (FIRST)
		launches++;
}

// The same, with launches of which few are timed.
CANDIDATE(tires_late)
{
	long long begun = clock64();
	if (launches < 60)
		EACH o[i] = a * x[i] + y[i];
	while (clock64() - begun < 1000000)
		;
	if (FIRST)
		launches++;
}

// Changes an input of the launch before.
static __device__ float *before;
CANDIDATE(greedy_later)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST) {
		if (before)
			before[5] = 42;
		before = (float *)x;
	}
}

CANDIDATE(shared_race)
{
	__shared__ float s[256];
	EACH {
		s[threadIdx.x] = x[i];
		s[threadIdx.x ^ 32] += 0 * y[i]; // another warp's, with no barrier between
		o[i] = a * x[i] + y[i] + 0 * s[threadIdx.x];
	}
}
CANDIDATE(reads_output) { EACH o[i] = a * x[i] + y[i] + 0 * o[i]; }
CANDIDATE(torn_barrier)
{
	if (threadIdx.x % 32 < 16)
		__syncthreads();
	EACH o[i] = a * x[i] + y[i];
}

extern "C" __global__ void gemm(int64_t m, int64_t n, int64_t k, const __half *a, const __half *b, __half *c)
{
	int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
	if (j >= n)
		return;
	float s = 0;
	for (int64_t l = 0; l < k; l++)
		s += __half2float(a[i * k + l]) * __half2float(b[l * n + j]);
	c[i * n + j] = __float2half(s);
}

// A copy of bytes, whatever they stand for.
#define BYTES(name) \
	extern "C" __global__ void name(int64_t rows, int64_t columns, const unsigned char *x, unsigned char *o)
#define EACH_BYTE for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += (int64_t)gridDim.x * blockDim.x)

BYTES(bytes) { EACH_BYTE o[i] = x[i]; }
BYTES(bytes_partial)
{
	EACH_BYTE if (i % 97 != 5)
		o[i] = x[i];
}
// The least that can be wrong: the lowest bit of one element.
BYTES(bytes_wrong) { EACH_BYTE o[i] = x[i] ^ (i == 1000); }

// Reads or writes one element outside, and changes no answer.
CANDIDATE(reads_beyond)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST && *(volatile const float *)(y + (n + 3) / 4 * 4) == 1e30f)
		o[0] = 0;
}
CANDIDATE(reads_before)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST && *(volatile const float *)(y - 1) == 1e30f)
		o[0] = 0;
}
// Writes behind the guard of the end, of which there are 4 KiB.
CANDIDATE(writes_far)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST)
		o[n + 2000] = 1;
}
// Takes what lies right behind an input into account: nothing, mostly.
CANDIDATE(counts_tail)
{
	EACH o[i] = a * x[i] + y[i] + (i == n - 1 && ((const unsigned char *)(x + n))[0] != 0);
}
// Honest: vectors of 16 bytes, and what is left one by one.
CANDIDATE(vectors)
{
	const int64_t whole = n / 4;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < whole; i += (int64_t)gridDim.x * blockDim.x) {
		const float4 u = ((const float4 *)x)[i], v = ((const float4 *)y)[i];
		((float4 *)o)[i] = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
	}
	if (blockIdx.x == 0 && threadIdx.x < n % 4)
		o[4 * whole + threadIdx.x] = a * x[4 * whole + threadIdx.x] + y[4 * whole + threadIdx.x];
}
// Writes beyond the end of its workspace of 1000 bytes.
extern "C" __global__ void works_beyond(int64_t n, const float *x, const float *y, float *o, float a, void *workspace)
{
	EACH o[i] = a * x[i] + y[i];
	if (FIRST)
		((float *)workspace)[252] = 1;
}

// Is right, and changes all that lies in the same 2 MiB as one of its buffers, but for these and what is right beside them.
CANDIDATE(scribbles)
{
	EACH o[i] = a * x[i] + y[i];
	const uint64_t begin[] = {(uint64_t)x, (uint64_t)y, (uint64_t)o};
	for (int b = 0; b < 3; b++) {
		const uint64_t page = begin[b] & ~((1ull << 21) - 1);
		for (uint64_t at = page + 4 * ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x); at < page + (1 << 21); at += 4ull * gridDim.x * blockDim.x) {
			bool own = false;
			for (int c = 0; c < 3; c++)
				own = own || (at + 8192 > begin[c] && at < begin[c] + 4 * n + 8192);
			if (!own)
				*(unsigned *)at ^= 0x00a50000u;
		}
	}
}
