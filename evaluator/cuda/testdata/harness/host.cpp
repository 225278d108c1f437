// A device of threads of the CPU, one block after the other, on which the test puts the
// harness's comparisons, and what these are to find.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <thread>
#include <vector>

using namespace std;

#define __device__
#define __global__
#define __shared__ static
#define __noinline__
#define __grid_constant__
struct dim { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
static thread_local dim threadIdx;
static dim blockIdx, blockDim, gridDim;
static pthread_barrier_t barrier;
static void __syncthreads() { pthread_barrier_wait(&barrier); }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static unsigned atomicAdd(unsigned *p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
static unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
static void atomicMax(unsigned long long *p, unsigned long long v)
{
	for (unsigned long long old = *p; old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);)
		;
}
static double __longlong_as_double(long long v) { double d; memcpy(&d, &v, 8); return d; }
static long long __double_as_longlong(double d) { long long v; memcpy(&v, &d, 8); return v; }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
static long long __double2ll_rn(double x) { return llrint(x); }
static int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static long long clock64() { return 0; }
static void __threadfence() {}
#define __cosf cosf
#define __sinf sinf
#define __logf logf
static double sinpi(double x) { return sin(x * 3.14159265358979323846); }
static double cospi(double x) { return cos(x * 3.14159265358979323846); }
static float rsqrtf(float x) { return 1 / sqrtf(x); }
static float __fadd_rn(float a, float b) { return a + b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }
static unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
// Numbers of 16 bits, rounded to the nearest; no others than normal ones and zero come here.
struct __half { unsigned short bits; };
struct __nv_bfloat16 { unsigned short bits; };
static unsigned bits_of(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
static float of_bits(unsigned u) { float x; memcpy(&x, &u, 4); return x; }
static __half __float2half(float x)
{
	const unsigned u = bits_of(x), rest = u & 0x1fff, up = rest > 0x1000 || (rest == 0x1000 && (u & 0x2000));
	const unsigned magnitude = ((u & 0x7fffffff) >> 13) + up;
	return {(unsigned short)(u >> 16 & 0x8000 | (magnitude > 112u << 10 ? magnitude - (112u << 10) : 0))};
}
static __nv_bfloat16 __float2bfloat16(float x)
{
	const unsigned u = bits_of(x);
	return {(unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
static __half __double2half(double x) { return __float2half((float)x); }
static __nv_bfloat16 __double2bfloat16(double x) { return __float2bfloat16((float)x); }
static unsigned short __half_as_ushort(__half x) { return x.bits; }
static unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static float __half2float(__half x) { return of_bits((x.bits & 0x8000u) << 16 | (x.bits & 0x7fff ? ((x.bits & 0x7fffu) + (112u << 10)) << 13 : 0)); }
static float __bfloat162float(__nv_bfloat16 x) { return of_bits((unsigned)x.bits << 16); }

HARNESS

enum { BLOCKS = 3, N = 1001 };

template <class F> static void launch(F f)
{
	blockDim = {THREADS, 1}, gridDim = {BLOCKS, 1};
	for (blockIdx = {0, 0}; blockIdx.x < BLOCKS; blockIdx.x++) {
		vector<thread> all;
		pthread_barrier_init(&barrier, nullptr, THREADS);
		for (unsigned t = 0; t < THREADS; t++)
			all.emplace_back([=] { threadIdx = {t, 0}; f(); });
		for (thread &t : all)
			t.join();
		pthread_barrier_destroy(&barrier);
	}
}

static const u64 KEY = 0x1234567;

static void compare(const char *name, const void *got, int type, const void *want, int wanted, u64 key, int masked, u64 poison, double units = 0)
{
	verdict parts[BLOCKS], v = {};
	launch([&] { evotune_compare(got, type, want, wanted, key, masked, units, N, poison, parts); });
	v.worst = -1;
	for (const verdict &p : parts) {
		if (worse(p, v))
			v.diff = p.diff, v.got = p.got, v.want = p.want, v.worst = p.worst;
		v.squares += p.squares, v.not_finite += p.not_finite, v.unwritten += p.unwritten, v.skipped += p.skipped, v.surplus += p.surplus;
	}
	printf("%s: diff %g at %lld (%g, %g) squares %g not finite %llu unwritten %llu skipped %llu surplus %llu\n", name, v.diff, v.worst, fabs(v.got), v.want, v.squares,
	       v.not_finite, v.unwritten, v.skipped, v.surplus);
}

static void differences(const char *name, const float *a, const float *b, const double *want, int masked, double limit)
{
	u64 count = 0, largest = 0;
	launch([&] { evotune_apart(a, b, F32, N, want, KEY, masked, limit, &count, &largest); });
	printf("%s: %llu by up to %g\n", name, count, __longlong_as_double((i64)largest));
}

// Two sets of an input of so many elements and an output of halves: contents are made twice, from
// the same keys and from others, and what follows is told.
static void contents(const char *name, int type, int size, int distribution, double a, double b)
{
	enum { ELEMENTS = 1001, ROOM = 8 * ELEMENTS + 16 };
	static u8 memory[3][2][ROOM];
	static chain c;
	span spans[6];
	for (int k = 0; k < 6; k++) {
		const bool input = k % 2 == 0;
		spans[k] = {memory[k / 2][k % 2], (input ? size : 2) * ELEMENTS, nullptr, 0x7ead7ead7ead7ead, input ? KEPT | FILLED : 0u, (u64)(input ? type : F16), (u64)distribution, a, b};
		memset(spans[k].at, 0xee, ROOM);
	}
	const auto begin = [&] { launch([&] { if (blockIdx.x == 0) evotune_begin(&c, 0); }); };
	const auto set = [&](int row_of) {
		row r;
		memcpy(r.list, spans + 2 * row_of, 2 * sizeof(span));
		return r;
	};
	const auto make = [&](int row_of, int key, u64 secret) {
		const row r = set(row_of);
		for (unsigned y = 0; y < 2; y++)
			launch([&] { blockIdx.y = y; evotune_refresh(secret, 0, r, key, &c); });
	};
	const auto changed = [&](u64 secret) {
		u64 count[2] = {};
		for (unsigned y = 0; y < 4; y++)
			launch([&] { blockIdx.y = y; evotune_intact(secret, 0, spans, 2, &c, count); });
		return count[0] + count[1];
	};
	const auto same = [](digest a, digest b) { return a.a == b.a && a.b == b.b; };
	const auto digests = [&] { begin(), c.order[0] = 0, c.order[1] = 1, launch([&] { blockIdx.y = 0; evotune_digests(spans, 2, &c); }); };
	begin();
	make(0, 0, 7);
	memory[0][1][5] = 42; // the answer of the launch on the first set
	{
		const row r = set(0);
		launch([&] { evotune_digest(r, 2, 0, 1, &c); });
	}
	const digest of = c.of[1];
	make(1, 1, 7);
	printf("%s: behind it %d, poison %d;", name, memory[1][0][size * ELEMENTS] == 0xee, memory[1][1][0] == 0xad && memory[1][1][2 * ELEMENTS - 1] == 0x7e);
	make(2, 1, 7);
	printf(" again %d,", memcmp(memory[1][0], memory[2][0], size * ELEMENTS) == 0);
	digests();
	printf(" intact %d,", same(c.of[1], of) && changed(7) == 0);
	memory[1][0][3] ^= 1;
	printf(" an input changed %d,", (int)changed(7));
	memory[1][0][3] ^= 1, memory[0][1][2 * ELEMENTS - 1] ^= 1;
	digests();
	printf(" a late answer %d,", !same(c.of[1], of) && changed(7) > 60);
	memory[0][1][2 * ELEMENTS - 1] ^= 1;
	digests();
	printf(" another secret %d\n", same(c.of[1], of) && changed(8) > 60);
}

// What elements of a distribution are like, in a type.
static void elements(const char *name, int type, int size, int distribution, double a, double b)
{
	enum { VECTORS = 500 };
	span s = {nullptr, 16 * VECTORS, nullptr, 0, FILLED, (u64)type, (u64)distribution, a, b};
	double sum = 0, squares = 0, lo = INFINITY, hi = -INFINITY, n = 0;
	for (i64 v = 0; v < VECTORS; v++) {
		uint4 x = vector_of(s, 7, 0, 0, VECTORS, v);
		for (int i = 0; i < 16 / size; i++) {
			double e = get(&x, type, i);
			sum += e, squares += e * e, lo = fmin(lo, e), hi = fmax(hi, e), n++;
		}
	}
	printf("%s: mean %.2f rms %.2f from %.1f to %.1f\n", name, sum / n, sqrt(squares / n), lo, hi);
}

// Elements of a permutation of the integers below n: how many of the first are there once, and how
// many are elsewhere with another key.
static void permutation(u64 n, int half, i64 count)
{
	span s = {nullptr, 4 * count, nullptr, 0, FILLED, (u64)I32, (u64)PERMUTATION, (double)n, (double)half};
	vector<int> met(n), other;
	int once = 0, moved = 0, inside = 1;
	for (int key = 1; key < 3; key++)
		for (i64 i = 0; i < count; i++) {
			uint4 v = vector_of(s, key, 0, 0, (count + 3) / 4, i / 4);
			const unsigned x = (&v.x)[i % 4];
			inside = inside && x < n;
			if (key == 1)
				once += met[x]++ == 0, other.push_back(x);
			else
				moved += other[i] != (int)x;
		}
	printf("permutation of %llu: %d of %lld once, inside %d, moved %d\n", n, once, count, inside, moved > count / 2);
}

// The elements of a vector, with the random bits that they are made of.
static void drawn(const char *name, int type, int distribution, double a, double b)
{
	span s = {nullptr, 16, nullptr, 0, FILLED, (u64)type, (u64)distribution, a, b};
	for (int key = 1; key <= 3; key++) {
		const uint4 r = philox<7>(key, 5, 0, 2, type == F32 ? 0 : 16), v = vector_of(s, key, 0, 2, 9, 5);
		printf("drawn %s: %u %u %u %u:", name, r.x, r.y, r.z, r.w);
		for (int i = 0; i < 16 / size_of(type); i++)
			printf(" %.17g", get(&v, type, i));
		printf("\n");
	}
}

// Elements in ascending order between 0 and "most": whether they are, whether another key gives others, and what the middle
// of the first half and the squares of the steps are on average, where 1 and 2 are those of numbers that know nothing of each
// other.
static void offsets(i64 n, u64 most, int keys)
{
	span s = {nullptr, 4 * n, nullptr, 0, FILLED, (u64)I32, (u64)ASCENDING, (double)most, (double)n};
	vector<i64> first, list(n);
	int ascending = 1, ends = 1, moved = 0;
	double quarter = 0, squares = 0;
	for (int key = 1; key <= keys; key++) {
		for (i64 i = 0; i < n; i++) {
			uint4 v = vector_of(s, mix(key), 0, 0, (n + 3) / 4, i / 4);
			list[i] = (&v.x)[i % 4];
			if (i > 0) {
				const double step = (double)(list[i] - list[i - 1]) / most * (n - 1);
				ascending = ascending && step >= 0, squares += step * step / (n - 1) / keys;
			}
		}
		ends = ends && list[0] == 0 && list[n - 1] == (i64)most;
		quarter += 4. * list[(n - 1) / 4] / most * (n - 1) / ((n - 1) / 4 * 4) / keys;
		if (key == 1)
			first = list;
		moved = moved || first != list;
	}
	printf("%lld offsets to %llu: ascending %d, ends %d, moved %d, a quarter %.1f, squares %.1f\n", n, most, ascending, ends, moved, quarter, squares);
}

// A set of an input that gets the one content that is there, and an output: what a launch wrote to the input is seen.
static void given()
{
	enum { ELEMENTS = 21 };
	static u8 input[4 * ELEMENTS], output[16];
	static uint4 content[4 * ELEMENTS / 16 + 1];
	static chain c;
	for (int i = 0; i < 4 * ELEMENTS; i++)
		((u8 *)content)[i] = (u8)(i + 1);
	span spans[2] = {{input, 4 * ELEMENTS, content, 0, KEPT | GIVEN, F32, NORMAL, 0, 1}, {output, 16, nullptr, 0x7fc0dead7fc0dead, 0, F32, 0, 0, 0}};
	row r;
	memcpy(r.list, spans, sizeof spans);
	u64 before = 0, after = 0, count[2] = {};
	for (unsigned y = 0; y < 2; y++)
		launch([&] { blockIdx.y = y; evotune_refresh(7, 5, r, 0, &c); });
	const int same = memcmp(input, content, 4 * ELEMENTS) == 0;
	for (u64 *seen : {&before, &after}) {
		count[0] = 0;
		launch([&] { blockIdx.y = 0; evotune_intact(9, 3, spans, 2, &c, count); });
		*seen = count[0];
		input[4 * ELEMENTS - 1] ^= 1;
	}
	printf("given: the same %d, poison %d, changed %d, then %d\n", same, output[15] == 0x7f, (int)before, (int)after);
}

int main()
{
	const double nan = __longlong_as_double(0x7ff8dead5eed0badll);
	static double want[N], hidden[N];
	static float got[N], other[N];
	static u8 eights[N];
	for (int i = 0; i < N; i++) {
		want[i] = i % 2 ? nan : 2;
		got[i] = i % 2 ? 7 : 2;
		other[i] = got[i];
		put(eights, E4M3, i, i % 2 ? 7 : 2);
	}
	for (int t : {U32, U16, I16}) {
		u64 at = 0;
		put(&at, t, 0, 1e12);
		put(&at, t, 1, -7);
		printf("%d bytes: %.0f %.0f\n", size_of(t), get(&at, t, 0), get(&at, t, 1));
	}
	auto hide = [&] {
		memcpy(hidden, want, sizeof want);
		launch([&] { evotune_veil(hidden, N, KEY); });
	};
	const u64 f32 = 0x7fc0dead7fc0deadull;
	const unsigned unwritten = 0x7fc0dead;
	hide();
	compare("masked", got, F32, hidden, F64, KEY, 1, f32);
	compare("not masked", got, F32, hidden, F64, KEY, 0, f32);
	got[10] = 3.5f;
	compare("wrong", got, F32, hidden, F64, KEY, 1, f32);
	got[10] = 2 + 0x1p-22f;
	compare("one unit", got, F32, hidden, F64, KEY, 1, f32, 1.5 * 0x1p-23);
	got[10] = 2 + 0x1p-21f;
	compare("two units", got, F32, hidden, F64, KEY, 1, f32, 1.5 * 0x1p-23);
	got[10] = 3.5f;
	memcpy(&got[20], &unwritten, 4);
	memcpy(&got[21], &unwritten, 4);
	compare("unwritten", got, F32, hidden, F64, KEY, 1, f32);
	for (int i = 1; i < N; i += 2)
		memcpy(&other[i], &unwritten, 4);
	compare("as the reference leaves it", other, F32, hidden, F64, KEY, 1, f32);
	got[20] = 2, got[10] = 2;
	compare("another output", got, F32, other, F32, 0, 1, f32);
	compare("another output, not masked", got, F32, other, F32, 0, 0, f32);
	compare("e4m3", eights, E4M3, hidden, F64, KEY, 1, 0x7f7f7f7f7f7f7f7full);
	eights[30] = 0x7f, eights[31] = 0x7f;
	compare("e4m3 unwritten", eights, E4M3, hidden, F64, KEY, 1, 0x7f7f7f7f7f7f7f7full);

	memcpy(other, got, sizeof got);
	differences("the same", got, other, hidden, 0, -1);
	other[0] = 0.f, got[0] = -0.f;
	differences("signs of zero, bits", got, other, hidden, 1, -1);
	differences("signs of zero", got, other, hidden, 1, 0);
	other[0] = 1e-30f;
	differences("beside zero", got, other, hidden, 1, 0);
	got[0] = 2, other[0] = 2;
	other[4] += 0.25f, other[6] += 1e-6f, other[5] += 3;
	differences("bits", got, other, hidden, 0, -1);
	differences("bits, masked", got, other, hidden, 1, -1);
	differences("near", got, other, hidden, 1, 0.25);
	differences("not near", got, other, hidden, 1, 0.2);
	differences("near, not masked", got, other, hidden, 0, 0.25);
	other[8] = (float)NAN;
	differences("not a number", got, other, hidden, 1, 0.25);

	uint4 r = philox<10>(0, 0, 0, 0, 0), q = philox<10>(~0ull, ~0u, ~0u, ~0u, ~0u), p = philox<10>(0x299f31d0a4093822ull, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344);
	for (uint4 v : {r, q, p})
		printf("philox %08x %08x %08x %08x\n", v.x, v.y, v.z, v.w);
	contents("f32 normal", F32, 4, NORMAL, 1, 2);
	elements("f32 normal", F32, 4, NORMAL, 1, 2);
	elements("f64 normal", F64, 8, NORMAL, 1, 2);
	elements("f16 normal", F16, 2, NORMAL, 1, 2);
	elements("bf16 normal", BF16, 2, NORMAL, 0, 1);
	elements("f16 uniform", F16, 2, UNIFORM, -1, 1);
	elements("bf16 integers", BF16, 2, INTEGERS, -3, 3);
	elements("e5m2 normal", E5M2, 1, NORMAL, 0, 1);
	elements("f64 uniform", F64, 8, UNIFORM, -1, 1);
	elements("f32 uniform", F32, 4, UNIFORM, -1, 1);
	elements("i32 integers", I32, 4, INTEGERS, -2, 2);
	elements("i16 integers", I16, 2, INTEGERS, 3, 5);
	elements("i64 integers", I64, 8, INTEGERS, -2, 2);
	elements("u8 constant", U8, 1, CONSTANT, 9, 0);
	permutation(1000, 5, 999);
	permutation(17, 3, 5);
	permutation(1 << 16, 8, 1 << 16);
	for (int normal : {0, 1}) {
		drawn(normal ? "f16 normal" : "f16 uniform", F16, normal ? NORMAL : UNIFORM, -1, 3);
		drawn(normal ? "bf16 normal" : "bf16 uniform", BF16, normal ? NORMAL : UNIFORM, -1, 3);
		drawn(normal ? "f32 normal" : "f32 uniform", F32, normal ? NORMAL : UNIFORM, -1, 3);
	}
	offsets(2, 1000, 2);
	offsets(9, 100000, 1000);
	offsets(100, 8, 20);
	offsets(4001, 1 << 24, 4);
	given();

	want[0] = INFINITY, want[2] = 3;
	square parts[BLOCKS], s = {};
	launch([&] { evotune_squares(want, N, parts); });
	for (const square &p : parts)
		s.squares += p.squares, s.sum += p.sum, s.infinite += p.infinite, s.nan += p.nan;
	printf("squares %g sum %g infinite %llu nan %llu\n", s.squares, s.sum, s.infinite, s.nan);
	return 0;
}
