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
struct dim { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
static thread_local dim threadIdx;
static dim blockIdx, blockDim, gridDim;
static pthread_barrier_t barrier;
static void __syncthreads() { pthread_barrier_wait(&barrier); }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static void atomicAdd(unsigned long long *p, unsigned long long v) { __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
static void atomicMax(unsigned long long *p, unsigned long long v)
{
	for (unsigned long long old = *p; old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);)
		;
}
static double __longlong_as_double(long long v) { double d; memcpy(&d, &v, 8); return d; }
static long long __double_as_longlong(double d) { long long v; memcpy(&v, &d, 8); return v; }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
static long long __double2ll_rn(double x) { return llrint(x); }
static double cospi(double x) { return cos(x * 3.14159265358979323846); }
struct __half { float v; };
struct __nv_bfloat16 { float v; };
static __half __double2half(double x) { return {(float)x}; }
static __nv_bfloat16 __double2bfloat16(double x) { return {(float)x}; }
static float __half2float(__half x) { return x.v; }
static float __bfloat162float(__nv_bfloat16 x) { return x.v; }

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

	want[0] = INFINITY, want[2] = 3;
	square parts[BLOCKS], s = {};
	launch([&] { evotune_squares(want, N, parts); });
	for (const square &p : parts)
		s.squares += p.squares, s.sum += p.sum, s.infinite += p.infinite, s.nan += p.nan;
	printf("squares %g sum %g infinite %llu nan %llu\n", s.squares, s.sum, s.infinite, s.nan);
	return 0;
}
