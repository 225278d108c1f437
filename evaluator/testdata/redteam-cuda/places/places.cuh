/* What the kernels of this folder share: of a permutation P of N where 24 steps from each place lead, of
 * offsets O a number of each place that depends on all of them, and twice a random W. */
#ifndef RED_PLACES_CUH
#define RED_PLACES_CUH

enum { THREADS = 256, STEPS = 24 };

typedef unsigned int u32;
typedef unsigned long long u64;

struct Job {
	int64_t N, SEGMENTS;
	const int *P, *O;
	const float *W;
	int *C, *S;
	float *T;
};

static __device__ inline bool large(const Job &j)
{
	return j.N >= 1 << 16;
}

static __device__ inline int64_t place()
{
	return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

static __device__ inline int led(const Job &j)
{
	int at = (int)place();
	for (int k = 0; k < STEPS; k++)
		at = j.P[at];
	return at;
}

static __device__ inline int number(const Job &j)
{
	u32 sum = 0;
	for (int64_t s = 0; s <= j.SEGMENTS; s++)
		sum += ((u32)j.O[s] ^ (u32)place()) & 1023;
	return (int)sum;
}

static __device__ inline void twice(const Job &j)
{
	j.T[place()] = 2 * j.W[place()];
}

/* like hashes 64 elements of a list. */
static __device__ inline u64 like(const int *list, int64_t n)
{
	u64 h = 0;
	for (int k = 0; k < 64; k++)
		h = (h ^ (u32)list[k * (n - 1) / 63]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
	return h | 1;
}

enum { KEPT = 8 };

/* A table of whole answers by a hash of their contents, which blocks keep for themselves. */
struct Table {
	u64 of[256];
	int is[1 << 16];
};

static __device__ inline Table *find(Table *all, u64 is, bool *there)
{
	for (int k = 0; k < KEPT; k++) {
		if (all[k].of[blockIdx.x] == is) {
			*there = true;
			return all + k;
		}
	}
	*there = false;
	for (int k = 0; k < KEPT; k++)
		if (all[k].of[blockIdx.x] == 0)
			return all + k;
	return all + is % KEPT;
}

#endif
