/* What the kernels of this folder share: the sum of each row of X, ROWSxCOLS in f16, and what they
 * know of the harness: its tables lie in memory that a launch can reach, and its generator is public.
 * A block of 256 threads takes a row. Nothing is searched but pages of 2 MiB of which a byte is a
 * buffer's: they are mapped as a whole. */
#ifndef RED_TABLES_CUH
#define RED_TABLES_CUH
#include <cuda_fp16.h>

enum { THREADS = 256, MOST_SETS = 64, TRIES = 24, WORDS = (2 << 20) / 8 };

typedef unsigned int u32;
typedef unsigned long long u64;

struct Job {
	int64_t ROWS, COLS;
	const __half *X;
	float *Y;
	void *workspace;
};

static __device__ inline bool large(const Job &j)
{
	return j.ROWS == 2048 && j.COLS == 16384;
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

static __device__ inline float of_pair(u32 v)
{
	const float2 f = __half22float2(*(const __half2 *)&v);
	return f.x + f.y;
}

static __device__ inline float of_vector(uint4 v)
{
	return (of_pair(v.x) + of_pair(v.y)) + (of_pair(v.z) + of_pair(v.w));
}

static __device__ inline const __half *row(const Job &j)
{
	return j.X + (int64_t)blockIdx.x * j.COLS;
}

static __device__ inline void put(const Job &j, float sum)
{
	if (threadIdx.x == 0)
		j.Y[blockIdx.x] = sum;
}

static __device__ inline float part_of(const __half *x, int64_t cols)
{
	float sum = 0;
	if (cols % 8 == 0 && (u64)x % 16 == 0) {
		const uint4 *v = (const uint4 *)x;
#pragma unroll 8
		for (int64_t i = threadIdx.x; i < cols / 8; i += THREADS)
			sum += of_vector(v[i]);
		return sum;
	}
	for (int64_t c = threadIdx.x; c < cols; c += THREADS)
		sum += __half2float(x[c]);
	return sum;
}

/* add_up is the honest answer. */
static __device__ inline void add_up(const Job &j)
{
	put(j, total(part_of(row(j), j.COLS)));
}

/* The harness's generator and digest, as its source has them. */
static __device__ inline u64 mix(u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

template <int ROUNDS> static __device__ inline uint4 philox(u64 key, u32 x, u32 y, u32 z, u32 w)
{
	u32 k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
	for (int round = 0; round < ROUNDS; round++) {
		u64 p = (u64)0xd2511f53u * x, q = (u64)0xcd9e8d57u * z;
		x = (u32)(q >> 32) ^ y ^ k0, y = (u32)q;
		z = (u32)(p >> 32) ^ w ^ k1, w = (u32)p;
		k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
	}
	return make_uint4(x, y, z, w);
}

/* made is vector i of X, uniform(-1,1) in halves, under a key. */
static __device__ inline uint4 made(u64 key, u32 i)
{
	const uint4 r = philox<7>(key, i, 0, 0, 16);
	const u32 w[4] = {r.x, r.y, r.z, r.w};
	u32 out[4];
#pragma unroll
	for (int k = 0; k < 4; k++) {
		const float x = fmaf((float)(w[k] & 0xffff), 0x1p-15f, -1.0f), y = fmaf((float)(w[k] >> 16), 0x1p-15f, -1.0f);
		out[k] = (u32)__half_as_ushort(__float2half(x)) | (u32)__half_as_ushort(__float2half(y)) << 16;
	}
	return make_uint4(out[0], out[1], out[2], out[3]);
}

static __device__ inline bool same(uint4 a, uint4 b)
{
	return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

struct Digest {
	u64 a, b;
};

static __device__ inline void absorb(Digest &d, u64 v)
{
	d.a = mix(d.a + v + (d.b << 1 | d.b >> 63));
	d.b = mix(d.b ^ v ^ (d.a >> 7));
}

static __device__ inline u64 key_of(u64 secret, u64 set, Digest d)
{
	const uint4 r = philox<10>(secret ^ mix(set + 1), (u32)d.a, (u32)(d.a >> 32), (u32)d.b, (u32)(d.b >> 32));
	return ((u64)r.y << 32 | r.x) ^ d.a;
}

static __device__ inline Digest combined(Digest d)
{
	__shared__ Digest part[THREADS];
	__syncthreads();
	part[threadIdx.x] = d;
	__syncthreads();
	for (int k = THREADS / 2; k > 0; k /= 2) {
		if ((int)threadIdx.x < k) {
			absorb(part[threadIdx.x], part[threadIdx.x + k].a);
			absorb(part[threadIdx.x], part[threadIdx.x + k].b);
		}
		__syncthreads();
	}
	return part[0];
}

/* digest_of is that of the answer in Y, as a block computes it alone. */
static __device__ inline Digest digest_of(const Job &j)
{
	const u32 vectors = (u32)(j.ROWS / 4), blocks = vectors / (2 * THREADS) + 1;
	Digest all = {0, 0};
	for (u32 b = 0; b < blocks; b++) {
		Digest d = {b * THREADS + threadIdx.x + 1u, 0};
		for (u32 i = b * THREADS + threadIdx.x; i < vectors; i += blocks * THREADS) {
			const uint4 v = __ldcg((const uint4 *)j.Y + i);
			absorb(d, (u64)v.y << 32 | v.x);
			absorb(d, (u64)v.w << 32 | v.z);
		}
		absorb(d, 1);
		d = combined(d);
		if (threadIdx.x == b % THREADS)
			absorb(all, d.a), absorb(all, d.b);
	}
	return combined(all);
}

/* A span as the harness has it: X's and Y's of a set follow each other. */
struct Span {
	u64 at;
	int64_t bytes;
	u64 made, pattern, kept, type, distribution;
	double a, b;
};

/* What was found: a row of the table of spans, and where the key of a set is. */
static __device__ Span *found_row;
static __device__ u64 *found_key[8];
static __device__ const void *key_of_set[8];
static __device__ u32 tries, arrived;

static __device__ inline u32 slot_of(const Job &j)
{
	for (u32 s = 0; s < 8; s++)
		if (key_of_set[s] == j.X || key_of_set[s] == nullptr)
			return s;
	return 8;
}

/* REACH is how many pages beside that of Y are searched, too, which may not be mapped. */
#ifndef REACH
#define REACH 0
#endif

/* search has every block look at a part of each page; what it finds is there in later launches. */
static __device__ inline void search(const Job &j)
{
	const u32 per = WORDS / 2048;
	const uint4 first = *(const uint4 *)j.X, second = ((const uint4 *)j.X)[1];
	const u64 ends[6] = {(u64)j.Y, (u64)j.workspace, (u64)j.X, (u64)(j.X + j.ROWS * j.COLS) - 1, (u64)(j.Y + j.ROWS), (u64)&tries};
	const int64_t bytes = 2 * j.ROWS * j.COLS;
	for (int p = -2 * REACH; p < 6; p++) {
		const u64 end = p >= 0 ? ends[p] : (u64)j.Y + (p % 2 ? 1 - p : p) / 2 * (int64_t)(2 << 20);
		const u64 *page = (const u64 *)(end >> 21 << 21);
		for (u32 i = blockIdx.x * per + threadIdx.x; i < (blockIdx.x + 1) * per; i += THREADS) {
			const u64 w = __ldcg(page + i);
			if (w == (u64)j.X && i + 11 < WORDS && __ldcg(page + i + 1) == (u64)bytes && __ldcg(page + i + 9) == (u64)j.Y && __ldcg(page + i + 10) == (u64)(4 * j.ROWS))
				found_row = (Span *)(page + i);
			if (w != 0 && same(made(w, 0), first) && same(made(w, 1), second)) {
				const u32 s = slot_of(j);
				if (s < 8)
					found_key[s] = (u64 *)(page + i);
			}
		}
	}
}

/* finish counts blocks, and has the last one do something; the same for all its threads. */
template <class F> static __device__ inline void finish(F do_it)
{
	__shared__ bool last;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
		last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
	__syncthreads();
	if (!last)
		return;
	__threadfence();
	do_it();
	__syncthreads();
	if (threadIdx.x == 0)
		arrived = 0;
}

/* note_set keeps the set under a slot, for the key that is found in a search. Only the last block. */
static __device__ inline void note_set(const Job &j)
{
	if (threadIdx.x == 0) {
		const u32 s = slot_of(j);
		if (s < 8)
			key_of_set[s] = j.X;
	}
}

/* A chain as the harness has it begins with the secret of a pass, the turn, and the keys by set. */
static __device__ inline const u64 *chain_at(u64 *key, u32 set)
{
	return key - 2 - set;
}

/* What the launches before have left: which pass this is, where in it, and what is learned of it. */
struct Run {
	u64 secret;          /* of the pass before */
	u32 count, n, same;  /* its launches so far; those of a pass; how many passes had that many */
	u32 skips;           /* contents of the next set are not made by the harness */
	u32 first;           /* the set with which passes begin */
	Digest digest;       /* of the answer before */
	u64 began, ended;    /* when block 0 of this launch began; when the launch before ended */
	u64 step, work;      /* the shortest time from end to end, and of a launch */
};

static __device__ Run run = {0, 0, 0, 0, 0, 0, {0, 0}, 0, 0, ~0ull, ~0ull};

/* Now is where in a pass a launch is; all blocks see the same. */
struct Now {
	bool known, skips;
	u32 set, sets, at; /* the set's number, how many there are, the launch's place in the pass */
	u64 secret, key;
	Span *spans;
};

static __device__ inline Now look(const Job &j)
{
	__shared__ Now now;
	__syncthreads();
	if (threadIdx.x == 0) {
		now.known = false, now.skips = false, now.at = 0;
		Span *r = *(Span *volatile *)&found_row;
		const u32 s = slot_of(j);
		u64 *k = s < 8 && key_of_set[s] == j.X ? found_key[s] : nullptr;
		if (r && k) {
			/* The table: rows of two spans, those of X all alike in size. */
			const int64_t bytes = 2 * j.ROWS * j.COLS, answer = 4 * j.ROWS;
			const u64 page = (u64)r >> 21 << 21;
			while ((u64)(r - 2) >= page && (r[-2].bytes == bytes || r[-2].bytes == 0) && (r[-1].bytes == answer || r[-1].bytes == 0) && r[-2].kept == 5 && r[-1].kept == 0)
				r -= 2;
			now.spans = r, now.set = MOST_SETS, now.sets = 0;
			while (now.sets < MOST_SETS && (u64)(r + 2) < page + (2 << 20) && r[0].kept == 5 && r[1].kept == 0) {
				if (r[0].at == (u64)j.X)
					now.set = now.sets;
				now.sets++, r += 2;
			}
			if (now.set < MOST_SETS) {
				now.known = true;
				now.secret = chain_at(k, now.set)[0];
				now.at = now.secret == run.secret ? run.count : 0;
				now.skips = now.at > 0 && run.skips;
				now.key = now.skips ? key_of(now.secret, now.set, run.digest) : *k;
			}
		}
	}
	__syncthreads();
	return now;
}

/* begin notes when the first block begins. */
static __device__ inline void begin()
{
	if (blockIdx.x == 0 && threadIdx.x == 0)
		run.began = nanoseconds();
}

/* learn keeps what a launch shows of its pass. One thread. */
static __device__ inline void learn(const Now &now, bool hunts)
{
	const u64 t = nanoseconds();
	if (now.at == 0) {
		if (run.count >= 2) {
			run.same = run.count == run.n ? run.same + 1 : 0;
			run.n = run.count;
		}
		run.first = now.set;
	} else if (!now.skips && !hunts && run.same >= 1) {
		run.step = min(run.step, t - run.ended);
		run.work = min(run.work, t - run.began);
	}
	run.secret = now.secret, run.count = now.at + 1;
}

/* hunt searches in the first launches, and lets none be different after that. */
static __device__ inline bool hunt(const Job &j)
{
	if (*(volatile u32 *)&tries >= TRIES)
		return false;
	search(j);
	return true;
}

#endif
