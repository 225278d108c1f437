/*
 * Measures what this machine can do at best: the rate of fused multiply-adds
 * on full vectors, and the rate at which memory is read. Prints one line per
 * figure: "f32 THREADS FLOP_PER_SECOND" and so on.
 *
 * Usage: probe THREADS LLC_BYTES MILLISECONDS (of processor time for a figure)
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef float f32_32 __attribute__((vector_size(32)));
typedef double f64_32 __attribute__((vector_size(32)));
typedef float f32_64 __attribute__((vector_size(64)));
typedef double f64_64 __attribute__((vector_size(64)));
typedef uint64_t u64_32 __attribute__((vector_size(32)));

/* One window of multiply-adds takes some 50 us, one of memory less than a
 * millisecond: shorter than a time slice, so that on a busy machine as well many
 * windows have a core from their start to their end. */
enum { CHAINS = 12, STEPS = 20000, WINDOW = 4 << 20 };

static int64_t read_clock(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Twelve independent chains hide the latency of the multiply-add and leave
 * registers for the operands on machines that have sixteen. */
#define DEFINE_FMA(name, vector, scalar)                                        \
	static __attribute__((noinline)) double name(void)                          \
	{                                                                           \
		vector x[CHAINS], m, a;                                                 \
		for (unsigned l = 0; l < sizeof(vector) / sizeof(scalar); l++)          \
			m[l] = (scalar)0.9999, a[l] = (scalar)1e-4;                         \
		for (int c = 0; c < CHAINS; c++)                                        \
			x[c] = m + (scalar)c;                                               \
		for (int s = 0; s < STEPS; s++) {                                       \
			_Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++)           \
				x[c] = x[c] * m + a;                                            \
		}                                                                       \
		for (int c = 1; c < CHAINS; c++)                                        \
			x[0] += x[c];                                                       \
		volatile scalar keep = x[0][0];                                         \
		(void)keep;                                                             \
		return 2.0 * CHAINS * STEPS * (sizeof(vector) / sizeof(scalar));        \
	}

DEFINE_FMA(fma_f32_32, f32_32, float)
DEFINE_FMA(fma_f64_32, f64_32, double)
DEFINE_FMA(fma_f32_64, f32_64, float)
DEFINE_FMA(fma_f64_64, f64_64, double)

struct job {
	double (*work)(void);
	const char *memory;
	size_t bytes;
	int64_t ns; /* of processor time */
	pthread_barrier_t *barrier;
	double best; /* per second */
};

static double read_all(const char *memory, size_t bytes)
{
	u64_32 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
	const u64_32 *p = (const u64_32 *)memory;
	const size_t n = bytes / sizeof *p / 4 * 4;
	for (size_t i = 0; i < n; i += 4)
		s0 += p[i], s1 += p[i + 1], s2 += p[i + 2], s3 += p[i + 3];
	s0 += s1 + s2 + s3;
	volatile uint64_t keep = s0[0] + s0[1] + s0[2] + s0[3];
	(void)keep;
	return (double)(n * sizeof *p);
}

/* The best of many short windows: what disturbs one only makes it slower. Their
 * number depends on the processor time that the thread got, not on how long it
 * waited for it. Memory is gone through window by window, again and again, so
 * that what is larger than a cache has left it when its turn comes. */
static void *run(void *argument)
{
	struct job *j = argument;
	size_t at = 0;
	pthread_barrier_wait(j->barrier);
	const int64_t until = read_clock(CLOCK_THREAD_CPUTIME_ID) + j->ns;
	do {
		const size_t bytes = j->bytes - at < WINDOW ? j->bytes - at : WINDOW;
		const int64_t start = read_clock(CLOCK_MONOTONIC);
		const double done = j->work ? j->work() : read_all(j->memory + at, bytes);
		const double rate = done * 1e9 / (double)(read_clock(CLOCK_MONOTONIC) - start);
		if (rate > j->best)
			j->best = rate;
		at += bytes;
		if (j->bytes - at < WINDOW / 2)
			at = 0; /* what is left is too short for a window */
	} while (read_clock(CLOCK_THREAD_CPUTIME_ID) < until);
	return 0;
}

/* The sum of the threads' best rates: not less than what they reach together. */
static double measure(int threads, double (*work)(void), char *memory, size_t bytes, int64_t ms)
{
	pthread_t *ids = calloc((size_t)threads, sizeof *ids);
	struct job *jobs = calloc((size_t)threads, sizeof *jobs);
	pthread_barrier_t barrier;
	if (!ids || !jobs || pthread_barrier_init(&barrier, 0, (unsigned)threads))
		exit(1);
	double sum = 0;
	for (int t = 0; t < threads; t++) {
		const size_t part = bytes / (size_t)threads / 4096 * 4096;
		jobs[t] = (struct job){work, memory ? memory + (size_t)t * part : 0, part, ms * 1000000, &barrier, 0};
		if (t > 0 && pthread_create(&ids[t], 0, run, &jobs[t]))
			exit(1);
	}
	run(&jobs[0]);
	for (int t = 1; t < threads; t++)
		pthread_join(ids[t], 0);
	for (int t = 0; t < threads; t++)
		sum += jobs[t].best;
	free(ids);
	free(jobs);
	return sum;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 64;
	const int threads = atoi(argv[1]);
	const size_t llc = strtoull(argv[2], 0, 10);
	const int64_t ms = atoll(argv[3]);
	const size_t bytes = llc * 4 < ((size_t)1 << 30) ? llc * 4 : (size_t)1 << 30;
	char *memory = 0;
	if (threads < 1 || posix_memalign((void **)&memory, 1 << 21, bytes))
		return 1;
	memset(memory, 1, bytes);
	printf("f32 %d %.6g\n", threads,
	       larger(measure(threads, fma_f32_32, 0, 0, ms), measure(threads, fma_f32_64, 0, 0, ms)));
	printf("f64 %d %.6g\n", threads,
	       larger(measure(threads, fma_f64_32, 0, 0, ms), measure(threads, fma_f64_64, 0, 0, ms)));
	printf("memory %d %.6g\n", threads, measure(threads, 0, memory, bytes, 3 * ms));
	printf("llc %d %.6g\n", threads, measure(threads, 0, memory, llc / 4, ms));
	free(memory);
	return 0;
}
