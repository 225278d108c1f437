// The kernels that the GPU worker needs for itself: they make inputs, poison
// outputs, set and check the guards around buffers, hash, compare with the
// reference, and measure what the device can do. No candidate sees them.
//
// Everything here is deterministic: a value depends on the seed and the
// element's index alone, and sums over blocks are finished on the host in a
// fixed order. Structures and codes are those of cmd/tune-cuda.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define EXPORT extern "C" __global__ void

enum dtype { F64, F32, F16, BF16, I64, I32, I16, I8, U8, E4M3, E5M2, U32, U16 };
enum distribution { CONSTANT, UNIFORM, NORMAL, INTEGERS, PERMUTATION, ASCENDING };

enum { THREADS = 256 }; // in every block of kernels that reduce

static __device__ i64 first_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ i64 stride() { return (i64)gridDim.x * blockDim.x; }

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
static __device__ u64 mix(u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

// draw is number k of the stream: SplitMix64 with random access.
static __device__ u64 draw(u64 key, u64 k) { return mix(key + (k + 1) * 0x9e3779b97f4a7c15ull); }

// unit is in [0, 1).
static __device__ double unit(u64 bits) { return (double)(bits >> 11) * 0x1p-53; }

static __device__ double saturate(double x, double lo, double hi)
{
	return fmin(fmax(rint(x), lo), hi);
}

// What follows up to "end of fp8" is plain C: a test runs it on a CPU. Toolkits before
// 11.8 and devices before sm_89 have nothing of it.
//
// The 8-bit floating point numbers of the Open Compute Project: a sign, then an exponent
// and so many bits of the significand. E4M3 has neither infinities nor more NaNs than the
// one with all bits set; E5M2 has both, as IEEE 754 would.

// fp8_from_bits rounds a double, given by its bits, to the nearest, ties to even, and what
// is too large, infinity too, to the largest finite number, as conversions of the device do.
static __device__ u8 fp8_from_bits(u64 x, int digits, int bias, int largest)
{
	const u64 magnitude = x & 0x7fffffffffffffffull, one = 1ull << 52;
	const u8 sign = (u8)(x >> 63 << 7);
	const int lowest = 1 - bias, exponent = (int)(magnitude >> 52) - 1023;
	int drop = 52 - digits, code;
	u64 significand = (magnitude & (one - 1)) | one, kept, rest, half;
	if (magnitude > 0x7ff0000000000000ull)
		return sign | 0x7f;
	if (exponent < lowest)
		drop += lowest - exponent;
	if (drop > 53) // less than half of the smallest
		return sign;
	kept = significand >> drop;
	rest = significand & ((1ull << drop) - 1);
	half = 1ull << (drop - 1);
	kept += rest > half || (rest == half && (kept & 1));
	code = (int)kept; // which may have come to be the next power of two: it carries
	if (exponent >= lowest)
		code += (exponent - lowest) << digits;
	return sign | (u8)(code > largest ? largest : code);
}

// fp8_to_bits gives the bits of the double that has the number's value.
static __device__ u64 fp8_to_bits(u8 x, int digits, int bias, int largest)
{
	const u64 sign = (u64)(x >> 7) << 63;
	const int magnitude = x & 0x7f;
	int exponent = magnitude >> digits, significand = magnitude & ((1 << digits) - 1);
	if (magnitude > largest)
		return sign | (digits == 2 && significand == 0 ? 0x7ff0000000000000ull : 0x7ff8000000000000ull);
	if (magnitude == 0)
		return sign;
	if (exponent == 0) {
		for (exponent = 1; significand >> digits == 0; exponent--)
			significand <<= 1;
		significand &= (1 << digits) - 1;
	}
	return sign | (u64)(exponent - bias + 1023) << 52 | (u64)significand << (52 - digits);
}

static __device__ u8 e4m3_from_bits(u64 x) { return fp8_from_bits(x, 3, 7, 0x7e); }
static __device__ u8 e5m2_from_bits(u64 x) { return fp8_from_bits(x, 2, 15, 0x7b); }
static __device__ u64 e4m3_to_bits(u8 x) { return fp8_to_bits(x, 3, 7, 0x7e); }
static __device__ u64 e5m2_to_bits(u8 x) { return fp8_to_bits(x, 2, 15, 0x7b); }
// end of fp8

static __device__ void put(void *p, int t, i64 i, double x)
{
	switch (t) {
	case F64: ((double *)p)[i] = x; break;
	case F32: ((float *)p)[i] = (float)x; break;
	case F16: ((__half *)p)[i] = __double2half(x); break;
	case BF16: ((__nv_bfloat16 *)p)[i] = __double2bfloat16(x); break;
	case I64: ((i64 *)p)[i] = __double2ll_rn(x); break;
	case I32: ((int *)p)[i] = (int)saturate(x, -2147483648.0, 2147483647.0); break;
	case I16: ((short *)p)[i] = (short)saturate(x, -32768, 32767); break;
	case I8: ((signed char *)p)[i] = (signed char)saturate(x, -128, 127); break;
	case U8: ((u8 *)p)[i] = (u8)saturate(x, 0, 255); break;
	case U32: ((u32 *)p)[i] = (u32)saturate(x, 0, 4294967295.0); break;
	case U16: ((unsigned short *)p)[i] = (unsigned short)saturate(x, 0, 65535); break;
	case E4M3: ((u8 *)p)[i] = e4m3_from_bits((u64)__double_as_longlong(x)); break;
	case E5M2: ((u8 *)p)[i] = e5m2_from_bits((u64)__double_as_longlong(x)); break;
	}
}

static __device__ double get(const void *p, int t, i64 i)
{
	switch (t) {
	case F64: return ((const double *)p)[i];
	case F32: return ((const float *)p)[i];
	case F16: return __half2float(((const __half *)p)[i]);
	case BF16: return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
	case I64: return (double)((const i64 *)p)[i];
	case I32: return ((const int *)p)[i];
	case I16: return ((const short *)p)[i];
	case I8: return ((const signed char *)p)[i];
	case U32: return ((const u32 *)p)[i];
	case U16: return ((const unsigned short *)p)[i];
	case E4M3: return __longlong_as_double((i64)e4m3_to_bits(((const u8 *)p)[i]));
	case E5M2: return __longlong_as_double((i64)e5m2_to_bits(((const u8 *)p)[i]));
	default: return ((const u8 *)p)[i];
	}
}

static __device__ int size_of(int t)
{
	switch (t) {
	case F64: case I64: return 8;
	case F32: case I32: case U32: return 4;
	case F16: case BF16: case I16: case U16: return 2;
	default: return 1;
	}
}

// bits reads an element as it lies in memory.
static __device__ u64 bits(const void *p, int size, i64 i)
{
	switch (size) {
	case 8: return ((const u64 *)p)[i];
	case 4: return ((const u32 *)p)[i];
	case 2: return ((const unsigned short *)p)[i];
	default: return ((const u8 *)p)[i];
	}
}

// fill makes the contents of an input. The seed is already that of the buffer.
EXPORT evotune_fill(void *p, i64 n, int t, int distribution, double a, double b, u64 key)
{
	for (i64 i = first_index(); i < n; i += stride()) {
		double x = a;
		switch (distribution) {
		case UNIFORM:
			x = a + (b - a) * unit(draw(key, i));
			break;
		case NORMAL: { // Box and Muller, 1958; one of the pair is enough
			double r = sqrt(-2 * log(1 - unit(draw(key, 2 * i))));
			x = a + b * r * cospi(2 * unit(draw(key, 2 * i + 1)));
			break;
		}
		case INTEGERS: { // both ends included
			i64 lo = (i64)ceil(a), hi = (i64)floor(b);
			x = (double)(lo + (i64)__umul64hi(draw(key, i), (u64)(hi - lo) + 1));
			break;
		}
		}
		put(p, t, i, x);
	}
}

// widen gives the elements as they are stored, in double precision.
EXPORT evotune_widen(double *out, const void *in, i64 n, int t)
{
	for (i64 i = first_index(); i < n; i += stride())
		out[i] = get(in, t, i);
}

// narrow rounds doubles to the elements' type.
EXPORT evotune_narrow(void *out, const double *in, i64 n, int t)
{
	for (i64 i = first_index(); i < n; i += stride())
		put(out, t, i, in[i]);
}

// nearby moves doubles by a part of themselves: each up or down by chance, or where the key is 0 all up.
EXPORT evotune_nearby(double *p, i64 n, double by, u64 key)
{
	for (i64 i = first_index(); i < n; i += stride()) {
		double x = by * p[i];
		p[i] += !key ? fabs(x) : draw(key, i) & 1 ? x : -x;
	}
}

// set puts one value everywhere.
EXPORT evotune_set(void *out, i64 n, int t, double value)
{
	for (i64 i = first_index(); i < n; i += stride())
		put(out, t, i, value);
}

static __device__ u8 byte_of(u64 pattern, i64 i) { return (u8)(pattern >> (8 * (i & 7))); }

// poison repeats eight bytes over a buffer that begins at a multiple of eight.
EXPORT evotune_poison(void *p, i64 bytes, u64 pattern)
{
	i64 words = bytes / 8;
	for (i64 i = first_index(); i < words; i += stride())
		((u64 *)p)[i] = pattern;
	if (first_index() < bytes - 8 * words)
		((u8 *)p)[8 * words + first_index()] = byte_of(pattern, first_index());
}

// How launches that are timed get their inputs. A pass goes through sets of buffers, one
// for each launch. The contents of a set come from a counter-based generator under a key of
// its own, and are made right before its launch. The key follows from the secret of the pass and,
// but for the first set, a digest of all that the launch before has left in its outputs. So nobody
// knows the inputs of a launch before the launch before it has given its answer: one that leaves
// its work to the next gets other inputs there. After a pass the keys follow from what the sets hold, so
// that an answer that came late is seen: the inputs behind it are not those of its digest.
//
// What makes contents are nodes of the graph that launches, with all that they need, the secret and
// the spans too, among their arguments: a launch can neither make its inputs itself instead of reading
// them, nor change what makes those of the next, nor how long that takes.

// philox is Philox4x32 (Salmon, Moraes, Dror and Shaw, 2011): with ten rounds for keys, with the
// seven that pass all tests of randomness for elements.
template <int ROUNDS> static __device__ uint4 philox(u64 key, u32 x, u32 y, u32 z, u32 w)
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

// A span is a buffer that timed launches go through. FILLED is an input, which gets random
// elements; the others get poison. KEPT says that no launch may change it, and MADE that it
// gets one of some whole contents, each with some bytes to spare: all of one pass get the
// same, since what was made together belongs together. GIVEN says that it gets the one content
// that is there: edge-case inputs.
struct span {
	u8 *at;
	i64 bytes;
	const uint4 *made;
	u64 pattern, kept, type, distribution;
	double a, b;
};

enum { KEPT = 1, MADE = 2, FILLED = 4, GIVEN = 8, CONTENTS = 3 };
enum { SETS = 64, PARTS = 512, BUFFERS = 32 };

// A row is the spans of a set, passed by value.
struct row {
	span list[BUFFERS];
};

// A digest of 128 bits: whoever may choose low bits of outputs freely still does not meet another
// one that he has chosen before, which in 64 bits takes as many steps as 2^32 of one launch.
struct digest {
	u64 a, b;
};

static __device__ void absorb(digest &d, u64 v, u64 w)
{
	d.a = mix(d.a + v + (d.b << 1 | d.b >> 63));
	d.b = mix(d.b ^ w ^ (d.a >> 7));
}

// A chain is the digests of a pass by the set that they are for, zero for the first, and what they are
// made of. Order is that of the sets.
struct chain {
	digest of[SETS];
	u32 order[SETS];
	u32 arrived[SETS];
	digest parts[SETS][PARTS];
};

// key_of is of one way: who wants a certain key does not find the digest for it.
static __device__ u64 key_of(u64 secret, u64 set, digest d)
{
	uint4 r = philox<10>(secret ^ mix(set + 1), (u32)d.a, (u32)(d.a >> 32), (u32)d.b, (u32)(d.b >> 32));
	return ((u64)r.y << 32 | r.x) ^ d.a;
}

// begin starts a chain. It then waits for so many cycles, in which the host gets ahead: what it
// puts into the stream next should be there when it is over.
EXPORT evotune_begin(chain *c, i64 cycles)
{
	i64 start = clock64();
	if (threadIdx.x < SETS)
		c->of[threadIdx.x] = digest{0, 0}, c->arrived[threadIdx.x] = 0;
	while (clock64() - start < cycles)
		;
}

// Combines the digests of all threads of a block of THREADS, in a fixed order; the answer is
// in thread 0.
static __device__ digest combined(digest d)
{
	__shared__ digest part[THREADS];
	__syncthreads();
	part[threadIdx.x] = d;
	__syncthreads();
	for (int k = THREADS / 2; k > 0; k /= 2) {
		if (threadIdx.x < k)
			absorb(part[threadIdx.x], part[threadIdx.x + k].a, part[threadIdx.x + k].b);
		__syncthreads();
	}
	return part[0];
}

// digest_of leaves the digest of the outputs of set "from", whose spans are these, for set "to".
static __device__ void digest_of(const span *spans, u32 buffers, u32 from, u32 to, chain *c)
{
	__shared__ int last;
	digest d = {(u64)first_index() + 1, 0};
	for (u32 b = 0; b < buffers; b++) {
		const span &s = spans[b];
		if (s.kept & KEPT)
			continue;
		const uint4 *at = (const uint4 *)s.at;
		i64 vectors = s.bytes / 16, rest = s.bytes % 16;
		for (i64 i = first_index(); i < vectors; i += stride()) {
			uint4 v = at[i];
			absorb(d, (u64)v.y << 32 | v.x, (u64)v.w << 32 | v.z);
		}
		absorb(d, first_index() < rest ? s.at[16 * vectors + first_index()] : 0, b);
	}
	d = combined(d);
	if (threadIdx.x == 0) {
		c->parts[from][blockIdx.x] = d;
		__threadfence();
		last = atomicAdd(&c->arrived[from], 1u) == gridDim.x - 1;
	}
	__syncthreads();
	if (!last)
		return;
	__threadfence();
	d = digest{0, 0};
	for (u32 b = threadIdx.x; b < gridDim.x; b += THREADS) {
		volatile digest *p = &c->parts[from][b];
		absorb(d, p->a, p->b);
	}
	d = combined(d);
	if (threadIdx.x == 0)
		c->of[to] = d, c->arrived[from] = 0;
}

EXPORT evotune_digest(const __grid_constant__ row r, u32 buffers, u32 from, u32 to, chain *c)
{
	digest_of(r.list, buffers, from, to, c);
}

// digests makes those of a whole order at once, after a pass, from spans that are in memory: a row
// of blocks for each set but the last.
EXPORT evotune_digests(const span *spans, u32 buffers, chain *c)
{
	const u32 from = c->order[blockIdx.y];
	digest_of(spans + from * buffers, buffers, from, c->order[blockIdx.y + 1], c);
}

// Four numbers of a distribution, from 128 random bits.
static __device__ void four(int distribution, double a, double b, uint4 r, double x[4])
{
	const u32 w[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
	for (int k = 0; k < 4; k++)
		switch (distribution) {
		case UNIFORM:
			x[k] = (float)a + ((float)b - (float)a) * ((float)(w[k] >> 8) * 0x1p-24f);
			break;
		case NORMAL: { // Box and Muller, 1958: the first of a pair has its length, the second its angle
			const float turn = 6.2831853f;
			float length = sqrtf(-2 * __logf(((float)w[k & 2] + 0.5f) * 0x1p-32f)), angle = turn * ((float)(w[k | 1] >> 8) * 0x1p-24f);
			x[k] = (float)a + (float)b * length * (k & 1 ? __sinf(angle) : __cosf(angle));
			break;
		}
		case INTEGERS: { // both ends included
			i64 lo = (i64)ceil(a), hi = (i64)floor(b);
			x[k] = (double)(lo + (i64)__umul64hi((u64)w[k] << 32, (u64)(hi - lo) + 1));
			break;
		}
		default:
			x[k] = a;
		}
}

// Two numbers of twice the resolution.
static __device__ void two(int distribution, double a, double b, uint4 r, double x[2])
{
	const u64 w[2] = {(u64)r.y << 32 | r.x, (u64)r.w << 32 | r.z};
	for (int k = 0; k < 2; k++)
		switch (distribution) {
		case UNIFORM: x[k] = a + (b - a) * unit(w[k]); break;
		case NORMAL: {
			double length = sqrt(-2 * log(1 - unit(w[0])));
			x[k] = a + b * length * (k ? sinpi(2 * unit(w[1])) : cospi(2 * unit(w[1])));
			break;
		}
		case INTEGERS: {
			i64 lo = (i64)ceil(a), hi = (i64)floor(b);
			x[k] = (double)(lo + (i64)__umul64hi(w[k], (u64)(hi - lo) + 1));
			break;
		}
		default: x[k] = a;
		}
}

// permuted gives the place of an element in a permutation of the integers below n that a key
// decides: a Feistel network on so many bits twice, gone through until it gives one of these (Black and
// Rogaway, 2002).
static __device__ u64 permuted(u64 key, u64 n, int half, u64 x)
{
	const u64 mask = (1ull << half) - 1;
	if (x >= n)
		return 0; // behind the last element
	do {
		u64 l = x >> half, r = x & mask;
#pragma unroll 1
		for (int round = 0; round < 6; round++) {
			u64 next = l ^ (mix(key + 0x9e3779b97f4a7c15ull * (r + 1) + round) & mask);
			l = r, r = next;
		}
		x = l << half | r;
	} while (x >= n);
	return x;
}

// left_of draws how many of m random numbers are in the lower half of where they are: a binomial number
// with even chances, from as many bits or, of many numbers, about so.
static __device__ u64 left_of(u64 key, u64 m)
{
	enum { EXACT = 1024 };
	const u64 bits = m < EXACT ? m : EXACT;
	u64 count = 0;
#pragma unroll 1
	for (u64 k = 0; 64 * k < bits; k++) {
		const u64 some = bits - 64 * k;
		count += __popcll(draw(key, k) & (some < 64 ? (1ull << some) - 1 : ~0ull));
	}
	if (m <= EXACT)
		return count;
	const double off = ((double)count - EXACT / 2 + unit(draw(key, EXACT)) - .5) * sqrt((double)m / EXACT);
	return (u64)fmin(fmax(rint(.5 * (double)m + off), 0.), (double)m);
}

// ascending gives element i of n integers in ascending order, the first 0 and the last "most", between which the
// others are drawn from all that are not larger. A key decides how many of these are in the lower half of all numbers,
// of a half, and so on, until the element is alone.
static __device__ u64 ascending(u64 key, u64 most, u64 n, u64 i)
{
	enum { BITS = 62, DEEP = 50 };
	u64 m = n - 2, rank = i - 1, path = 1;
	int level = 0;
	if (i == 0)
		return 0;
	if (i >= n - 1)
		return most;
#pragma unroll 1
	for (; m > 1 && level < DEEP; level++) {
		const u64 left = left_of(mix(key ^ mix(path)), m);
		path *= 2;
		if (rank < left)
			m = left;
		else
			rank -= left, m -= left, path++;
	}
	const u64 rest = BITS - level, at = (path ^ 1ull << level) << rest | draw(key ^ mix(path), 0) >> (64 - rest);
	return __umul64hi(at << (64 - BITS), most + 1);
}

// A vector of random elements. Narrow ones are made a few at a time and pushed in from behind:
// unrolled, a compiler takes seconds for this.
template <int T, int SIZE> static __device__ uint4 random_vector(const span &s, u64 key, u32 buffer, i64 i)
{
	uint4 v = make_uint4(0, 0, 0, 0);
#pragma unroll 1
	for (int n = 0; n < (SIZE == 8 ? 2 : 16 / SIZE); n += 4) {
		double x[4];
		alignas(16) u8 out[16];
		u32 w[4];
		uint4 r = philox<7>(key, (u32)i, (u32)(i >> 32), buffer, n);
		if (s.distribution == PERMUTATION)
			for (int k = 0; k < (SIZE == 8 ? 2 : 4); k++)
				x[k] = (double)permuted(mix(key ^ (buffer + 1)), (u64)s.a, (int)s.b, (u64)(16 / SIZE) * i + n + k);
		else if (SIZE == 8)
			two((int)s.distribution, s.a, s.b, r, x);
		else
			four((int)s.distribution, s.a, s.b, r, x);
#pragma unroll
		for (int k = 0; k < (SIZE == 8 ? 2 : 4); k++)
			put(out, T, k, x[k]);
		memcpy(w, out, SIZE < 4 ? 4 * SIZE : 16);
		if (SIZE == 1)
			v = make_uint4(v.y, v.z, v.w, w[0]);
		else if (SIZE == 2)
			v = make_uint4(v.z, v.w, w[0], w[1]);
		else
			v = make_uint4(w[0], w[1], w[2], w[3]);
	}
	return v;
}

// The whole number below 2^16 in the low bits, without a conversion, of which a device does few at a time.
static __device__ float whole(u32 x) { return __fadd_rn(__uint_as_float(0x4b000000u | (x & 0xffff)), -0x1p23f); }

// What follows is compiled at two places and must be the same to the bit at both: so it says where a product
// and a sum are one operation.

// The length of a normal vector of deviation b, from a number in (0, 1]. Near 1 an approximate logarithm may
// have the wrong sign.
static __device__ float length_of(float b, float u)
{
	const float squared = fmaxf(__fmul_rn(-2, __logf(u)), 1e-20f);
	return __fmul_rn(__fmul_rn(b, squared), rsqrtf(squared));
}

// Eight numbers in 16 bits, from 16 random bits each: their steps are as fine as the type's, and what
// is made before every launch must not take long beside it.
template <int T> static __device__ uint4 random_halves(const span &s, u64 key, u32 buffer, i64 i)
{
	const uint4 r = philox<7>(key, (u32)i, (u32)(i >> 32), buffer, 16);
	const u32 w[4] = {r.x, r.y, r.z, r.w};
	const float a = (float)s.a, b = (float)s.b, range = __fadd_rn(b, -a);
	u32 out[4];
#pragma unroll
	for (int k = 0; k < 4; k++) {
		const float lo = __fmul_rn(whole(w[k]), 0x1p-16f), hi = __fmul_rn(whole(w[k] >> 16), 0x1p-16f);
		float x = __fmaf_rn(range, lo, a), y = __fmaf_rn(range, hi, a);
		if (s.distribution == NORMAL) {
			const float length = length_of(b, __fadd_rn(lo, 0x1p-17f)), angle = __fmul_rn(6.2831853f, hi);
			x = __fmaf_rn(length, __cosf(angle), a), y = __fmaf_rn(length, __sinf(angle), a);
		}
		if (T == F16)
			out[k] = (u32)__half_as_ushort(__float2half(x)) | (u32)__half_as_ushort(__float2half(y)) << 16;
		else
			out[k] = (u32)__bfloat16_as_ushort(__float2bfloat16(x)) | (u32)__bfloat16_as_ushort(__float2bfloat16(y)) << 16;
	}
	return make_uint4(out[0], out[1], out[2], out[3]);
}

// Four numbers in single precision.
static __device__ uint4 random_floats(const span &s, u64 key, u32 buffer, i64 i)
{
	const uint4 r = philox<7>(key, (u32)i, (u32)(i >> 32), buffer, 0);
	const u32 w[4] = {r.x, r.y, r.z, r.w};
	const float a = (float)s.a, b = (float)s.b, range = __fadd_rn(b, -a);
	float x[4];
#pragma unroll
	for (int k = 0; k < 4; k++)
		x[k] = __fmaf_rn(range, __fmul_rn((float)(w[k] >> 8), 0x1p-24f), a);
	if (s.distribution == NORMAL)
#pragma unroll
		for (int k = 0; k < 4; k += 2) {
			const float length = length_of(b, __fmaf_rn((float)w[k], 0x1p-32f, 0x1p-33f)), angle = __fmul_rn(6.2831853f, __fmul_rn((float)(w[k + 1] >> 8), 0x1p-24f));
			x[k] = __fmaf_rn(length, __cosf(angle), a), x[k + 1] = __fmaf_rn(length, __sinf(angle), a);
		}
	return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
}

// Vectors of the types and distributions that are rare. There is one copy of it, since compilers take
// seconds for it.
static __device__ __noinline__ uint4 rare_vector(const span &s, u64 key, u32 buffer, i64 i)
{
	switch (s.type) {
	case F64: return random_vector<F64, 8>(s, key, buffer, i);
	case F32: return random_vector<F32, 4>(s, key, buffer, i);
	case F16: return random_vector<F16, 2>(s, key, buffer, i);
	case BF16: return random_vector<BF16, 2>(s, key, buffer, i);
	case I64: return random_vector<I64, 8>(s, key, buffer, i);
	case I32: return random_vector<I32, 4>(s, key, buffer, i);
	case I16: return random_vector<I16, 2>(s, key, buffer, i);
	case U16: return random_vector<U16, 2>(s, key, buffer, i);
	case U32: return random_vector<U32, 4>(s, key, buffer, i);
	case I8: return random_vector<I8, 1>(s, key, buffer, i);
	case U8: return random_vector<U8, 1>(s, key, buffer, i);
	case E4M3: return random_vector<E4M3, 1>(s, key, buffer, i);
	default: return random_vector<E5M2, 1>(s, key, buffer, i);
	}
}

// A vector of elements in ascending order, of any type.
static __device__ __noinline__ uint4 ascending_vector(const span &s, u64 key, u32 buffer, i64 i)
{
	alignas(16) u8 out[16];
	const int type = (int)s.type, each = 16 / size_of(type);
	uint4 v;
#pragma unroll 1
	for (int k = 0; k < each; k++)
		put(out, type, k, (double)ascending(mix(key ^ (buffer + 1)), (u64)s.a, (u64)s.b, (u64)(each * i + k)));
	memcpy(&v, out, sizeof v);
	return v;
}

// What a span has in the place of vector i. It has so many whole ones, and a rest.
static __device__ uint4 vector_of(const span &s, u64 key, u64 turn, u32 buffer, i64 vectors, i64 i)
{
	if (s.kept & GIVEN)
		return s.made[i];
	if (s.kept & MADE)
		return s.made[mix(turn) % CONTENTS * (vectors + 1) + i];
	if (!(s.kept & FILLED))
		return make_uint4((u32)s.pattern, (u32)(s.pattern >> 32), (u32)s.pattern, (u32)(s.pattern >> 32));
	if (s.distribution == NORMAL || s.distribution == UNIFORM)
		switch (s.type) {
		case F16: return random_halves<F16>(s, key, buffer, i);
		case BF16: return random_halves<BF16>(s, key, buffer, i);
		case F32: return random_floats(s, key, buffer, i);
		}
	if (s.distribution == ASCENDING)
		return ascending_vector(s, key, buffer, i);
	return rare_vector(s, key, buffer, i);
}

static __device__ u8 byte_at(uint4 v, i64 i)
{
	const u32 w = i < 8 ? (i < 4 ? v.x : v.y) : (i < 12 ? v.z : v.w);
	return (u8)(w >> (8 * (i & 3)));
}

// The key of a set's contents, for all threads of a block.
static __device__ u64 block_key(u64 secret, u32 set, const chain *c)
{
	__shared__ u64 key;
	if (threadIdx.x == 0)
		key = key_of(secret, set, c->of[set]);
	__syncthreads();
	return key;
}

// refresh gives a span new contents, those of the key of a set: made again elsewhere, they are the
// same. There is a row of blocks for each buffer.
EXPORT evotune_refresh(u64 secret, u64 turn, const __grid_constant__ row r, u32 set, const chain *c)
{
	const u32 buffer = blockIdx.y;
	const span &s = r.list[buffer];
	const u64 key = block_key(secret, set, c);
	const i64 vectors = s.bytes / 16, rest = s.bytes % 16;
	uint4 *at = (uint4 *)s.at;
	for (i64 i = first_index(); i < vectors; i += stride())
		at[i] = vector_of(s, key, turn, buffer, vectors, i);
	if (first_index() < rest)
		s.at[16 * vectors + first_index()] = byte_at(vector_of(s, key, turn, buffer, vectors, vectors), first_index());
}

// intact counts, for each buffer, what is not as refresh makes it now, in those spans that are kept.
EXPORT evotune_intact(u64 secret, u64 turn, const span *spans, u32 buffers, const chain *c, u64 *changed)
{
	const span &s = spans[blockIdx.y];
	if (!(s.kept & KEPT))
		return;
	const u64 key = block_key(secret, blockIdx.y / buffers, c);
	const u32 buffer = blockIdx.y % buffers;
	u64 count = 0;
	const i64 vectors = s.bytes / 16, rest = s.bytes % 16;
	for (i64 i = first_index(); i < vectors; i += stride()) {
		uint4 a = ((const uint4 *)s.at)[i], b = vector_of(s, key, turn, buffer, vectors, i);
		count += a.x != b.x || a.y != b.y || a.z != b.z || a.w != b.w;
	}
	if (first_index() < rest)
		count += s.at[16 * vectors + first_index()] != byte_at(vector_of(s, key, turn, buffer, vectors, vectors), first_index());
	if (count > 0)
		atomicAdd(changed + buffer, count);
}

// veil hides doubles from whoever reads memory that is not his, and shows them
// again.
static __device__ u64 veil(u64 key, i64 i) { return draw(key, i); }

EXPORT evotune_veil(double *p, i64 n, u64 key)
{
	for (i64 i = first_index(); i < n; i += stride())
		((u64 *)p)[i] ^= veil(key, i);
}

// A guard is a stretch of memory around a buffer that nobody may write to;
// offset is where it begins as seen from the start of the buffer.
struct guard {
	u8 *at;
	i64 bytes, offset;
	i64 slot;
};

// Every byte of a guard depends on its place, so that no one value written
// over it leaves it as it was.
static __device__ u8 guard_byte(i64 i) { return (u8)(mix((u64)i) >> 13); }

// One block for each guard.
EXPORT evotune_guards_set(const guard *guards)
{
	guard g = guards[blockIdx.x];
	for (i64 i = threadIdx.x; i < g.bytes; i += blockDim.x)
		g.at[i] = guard_byte(g.offset + i);
}

enum { FAR = 1 << 30 };

// guards_check leaves FAR minus the lowest position in the guard that was
// changed; 0 where nothing was. The position counts from the guard's start.
EXPORT evotune_guards_check(const guard *guards, u64 *results)
{
	guard g = guards[blockIdx.x];
	for (i64 i = threadIdx.x; i < g.bytes; i += blockDim.x)
		if (g.at[i] != guard_byte(g.offset + i))
			atomicMax(results + g.slot, (u64)FAR - (u64)i);
}

// sum adds over a block of THREADS; the answer is in thread 0.
static __device__ u64 sum(u64 v)
{
	__shared__ u64 part[THREADS];
	part[threadIdx.x] = v;
	__syncthreads();
	for (int k = THREADS / 2; k > 0; k /= 2) {
		if (threadIdx.x < k)
			part[threadIdx.x] += part[threadIdx.x + k];
		__syncthreads();
	}
	return part[0];
}

// A piece is memory that begins at a multiple of eight, and where its hash belongs.
struct piece {
	const u8 *at;
	i64 bytes;
	u64 *to;
};

// hash adds a 64-bit hash of each piece to its result. Order does not matter to a sum. Without the key, nobody
// can change a piece so that its hash stays. There is a row of blocks for each piece.
EXPORT evotune_hash(const piece *list, u64 key)
{
	const piece p = list[blockIdx.y];
	u64 h = 0;
	i64 words = p.bytes / 8;
	for (i64 i = first_index(); i < words; i += stride())
		h += mix(((const u64 *)p.at)[i] + mix(key ^ (u64)i));
	for (i64 i = 8 * words + first_index(); i < p.bytes; i += stride())
		h += mix(p.at[i] + mix(key ^ ~(u64)i));
	h = sum(h);
	if (threadIdx.x == 0)
		atomicAdd(p.to, h);
}

// differ counts elements whose bits are not the same.
EXPORT evotune_differ(const void *a, const void *b, i64 n, int size, u64 *result)
{
	u64 count = 0;
	for (i64 i = first_index(); i < n; i += stride())
		count += bits(a, size, i) != bits(b, size, i);
	count = sum(count);
	if (threadIdx.x == 0 && count > 0)
		atomicAdd(result, count);
}

// What is wanted of an output: the reference, which is doubles behind a veil if there is a
// key, or another output.
static __device__ double wanted_at(const void *want, int type, u64 key, i64 i)
{
	return key ? __longlong_as_double((i64)(((const u64 *)want)[i] ^ veil(key, i))) : get(want, type, i);
}

// apart counts elements in which two launches differ by more than a limit or, with a limit
// below zero, in any bit, and leaves the bits of the largest difference, which are in the order
// of the differences. With masked set, elements of which the reference, behind its veil, is
// NaN are passed over.
EXPORT evotune_apart(const void *a, const void *b, int t, i64 n, const void *want, u64 key, int masked, double limit, u64 *count, u64 *largest)
{
	u64 more = 0, most = 0;
	const int size = size_of(t);
	for (i64 i = first_index(); i < n; i += stride()) {
		if (bits(a, size, i) == bits(b, size, i) || (masked && isnan(wanted_at(want, F64, key, i))))
			continue;
		double d = fabs(get(a, t, i) - get(b, t, i));
		if (isnan(d))
			d = __longlong_as_double(0x7ff0000000000000ll);
		more += limit < 0 || d > limit;
		most = max(most, (u64)__double_as_longlong(d));
	}
	if (most > 0)
		atomicMax(largest, most);
	more = sum(more);
	if (threadIdx.x == 0 && more > 0)
		atomicAdd(count, more);
}

// A verdict is what one block found; the host takes the worst of all.
struct verdict {
	double diff, got, want; // where the difference is largest
	double squares;         // of what is wanted, added up
	i64 worst;              // -1 for a block without elements
	u64 not_finite, unwritten, skipped;
	u64 surplus; // of the skipped, those that hold a number all the same
};

static __device__ bool worse(const verdict &a, const verdict &b)
{
	if (a.worst < 0 || b.worst < 0)
		return b.worst < 0 && a.worst >= 0;
	return a.diff > b.diff || (a.diff == b.diff && a.worst < b.worst);
}

// compare holds an output against what is wanted. An element that is not finite is
// infinitely wrong: the reference is finite everywhere, or NaN where masked is set, and
// such elements are passed over. One that is wrong and still holds the poison was not
// written. One that is off by no more than so many units, of the largest power of two that is
// not above what is wanted, is as near as its type allows, and right.
EXPORT evotune_compare(const void *got, int t, const void *want, int wanted, u64 key, int masked, double units, i64 n, u64 poison, verdict *parts)
{
	__shared__ verdict part[THREADS];
	verdict v = {0, 0, 0, 0, -1, 0, 0, 0, 0};
	int size = size_of(t);
	for (i64 i = first_index(); i < n; i += stride()) {
		verdict e = {0, get(got, t, i), wanted_at(want, wanted, key, i), 0, i, 0, 0, 0, 0};
		if (masked && isnan(e.want)) {
			v.skipped++;
			v.surplus += !isnan(e.got);
			continue;
		}
		e.diff = fabs(e.got - e.want);
		v.not_finite += !isfinite(e.got);
		v.squares += e.want * e.want;
		if (!isfinite(e.got) || !isfinite(e.want))
			e.diff = __longlong_as_double(0x7ff0000000000000ll);
		if (e.diff != 0) {
			u64 held = poison;
			if (size < 8)
				held = poison >> (8 * ((i * size) & 7)) & ((1ull << (8 * size)) - 1);
			v.unwritten += bits(got, size, i) == held;
		}
		if (isfinite(e.diff) && e.diff <= units * __longlong_as_double(__double_as_longlong(e.want) & 0x7ff0000000000000ll))
			e.diff = 0;
		if (worse(e, v))
			v.diff = e.diff, v.got = e.got, v.want = e.want, v.worst = i;
	}
	part[threadIdx.x] = v;
	__syncthreads();
	for (int k = THREADS / 2; k > 0; k /= 2) {
		if (threadIdx.x < k) {
			verdict a = part[threadIdx.x], b = part[threadIdx.x + k];
			verdict w = worse(b, a) ? b : a;
			w.squares = a.squares + b.squares;
			w.not_finite = a.not_finite + b.not_finite;
			w.unwritten = a.unwritten + b.unwritten;
			w.skipped = a.skipped + b.skipped;
			w.surplus = a.surplus + b.surplus;
			part[threadIdx.x] = w;
		}
		__syncthreads();
	}
	if (threadIdx.x == 0)
		parts[blockIdx.x] = part[0];
}

struct square {
	double squares, sum;
	u64 infinite, nan;
};

// squares adds up the reference and its squares, for its mean and its root mean
// square.
EXPORT evotune_squares(const double *v, i64 n, square *parts)
{
	__shared__ square part[THREADS];
	square s = {0, 0, 0, 0};
	for (i64 i = first_index(); i < n; i += stride()) {
		if (isfinite(v[i]))
			s.squares += v[i] * v[i], s.sum += v[i];
		else if (isnan(v[i]))
			s.nan++;
		else
			s.infinite++;
	}
	part[threadIdx.x] = s;
	__syncthreads();
	for (int k = THREADS / 2; k > 0; k /= 2) {
		if (threadIdx.x < k) {
			part[threadIdx.x].squares += part[threadIdx.x + k].squares;
			part[threadIdx.x].sum += part[threadIdx.x + k].sum;
			part[threadIdx.x].infinite += part[threadIdx.x + k].infinite;
			part[threadIdx.x].nan += part[threadIdx.x + k].nan;
		}
		__syncthreads();
	}
	if (threadIdx.x == 0)
		parts[blockIdx.x] = part[0];
}

// What follows measures the device. Each kernel keeps one pipe busy; the store
// at the end never happens, which the compiler cannot know.

enum { CHAINS = 8, UNROLL = 32 };

template <class T> static __device__ void multiply_add(T *out, int rounds, T m)
{
	T x[CHAINS];
	for (int c = 0; c < CHAINS; c++)
		x[c] = threadIdx.x + c;
	for (int r = 0; r < rounds; r++) {
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
#pragma unroll
			for (int c = 0; c < CHAINS; c++)
				x[c] = x[c] * m + m;
	}
	T s = 0;
	for (int c = 0; c < CHAINS; c++)
		s += x[c];
	if (s == (T)-1)
		*out = s;
}

// 2 * CHAINS * UNROLL operations for each thread and round.
EXPORT evotune_peak_f32(float *out, int rounds, double m) { multiply_add<float>(out, rounds, (float)m); }
EXPORT evotune_peak_f64(double *out, int rounds, double m) { multiply_add<double>(out, rounds, m); }

#define MMA(type)                                                                                 \
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                   \
	             "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                          \
	             : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3])                     \
	             : "r"(a), "r"(a), "r"(a), "r"(a), "r"(b), "r"(b))

// CHAINS * UNROLL/4 times 16*8*16*2 operations for each warp and round.
#define PEAK_MMA(name, type)                                                                      \
	EXPORT name(float *out, int rounds, u32 a, u32 b)                                             \
	{                                                                                             \
		float d[CHAINS][4] = {};                                                                  \
		for (int r = 0; r < rounds; r++) {                                                        \
			_Pragma("unroll") for (int u = 0; u < UNROLL / 4; u++)                                \
				_Pragma("unroll") for (int c = 0; c < CHAINS; c++) MMA(type);                     \
		}                                                                                         \
		float s = 0;                                                                              \
		for (int c = 0; c < CHAINS; c++)                                                          \
			s += d[c][0] + d[c][1] + d[c][2] + d[c][3];                                           \
		if (s == -1)                                                                              \
			*out = s;                                                                             \
	}

PEAK_MMA(evotune_peak_tensor_f16, "f16")
PEAK_MMA(evotune_peak_tensor_bf16, "bf16")

EXPORT evotune_peak_copy(uint4 *out, const uint4 *in, i64 n)
{
	i64 s = stride(), i = first_index();
	for (; i + 3 * s < n; i += 4 * s) {
		uint4 a = in[i], b = in[i + s], c = in[i + 2 * s], d = in[i + 3 * s];
		out[i] = a, out[i + s] = b, out[i + 2 * s] = c, out[i + 3 * s] = d;
	}
	for (; i < n; i += s)
		out[i] = in[i];
}

EXPORT evotune_peak_write(uint4 *out, i64 n, u32 v)
{
	for (i64 i = first_index(); i < n; i += stride())
		out[i] = make_uint4(v, v, v, v);
}

static __device__ uint4 load_l2(const uint4 *p)
{
	uint4 v; // past the first level, so that repeated passes read the second
	asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
	             : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
	             : "l"(p));
	return v;
}

EXPORT evotune_peak_read(const uint4 *in, i64 n, int passes, u32 *out)
{
	u32 x = 0;
	for (int pass = 0; pass < passes; pass++) {
		i64 s = stride(), i = first_index();
		for (; i + 3 * s < n; i += 4 * s) {
			uint4 a = load_l2(in + i), b = load_l2(in + i + s);
			uint4 c = load_l2(in + i + 2 * s), d = load_l2(in + i + 3 * s);
			x += a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w;
			x += c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
		}
		for (; i < n; i += s) {
			uint4 a = load_l2(in + i);
			x += a.x ^ a.y ^ a.z ^ a.w;
		}
	}
	if (x == 0x5eed1e55)
		*out = x;
}

// Goes through n vectors. Of every 64 pieces of 4 KiB it writes the first few, as
// many as dirty says, and reads the others. The cache then holds as many dirty lines
// as after a kernel that writes that share of its memory.
EXPORT evotune_sweep(uint4 *memory, i64 n, u32 dirty, u32 *out)
{
	u32 x = 0;
	for (i64 i = first_index(); i < n; i += stride()) {
		if ((i >> 8) % 64 < dirty) {
			memory[i] = make_uint4(0, 0, 0, 0);
		} else {
			uint4 a = load_l2(memory + i);
			x += a.x ^ a.y ^ a.z ^ a.w;
		}
	}
	if (x == 0x5eed1e55)
		*out = x;
}
