/* What the bench programs share: a clock, reproducible data, and statistics of
 * paired samples. */
#ifndef EVOTUNE_BENCH_H
#define EVOTUNE_BENCH_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The wall clock; on a machine with other work, the processor time of this
 * thread tells more (--clock thread). */
static clockid_t bench_clock = CLOCK_MONOTONIC;

static inline double seconds(void)
{
	struct timespec t;
	clock_gettime(bench_clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Uniform in [-1, 1), from a counter (splitmix64). */
static inline double uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

static inline void choose_clock(const char *name)
{
	if (strcmp(name, "wall") != 0 && strcmp(name, "thread") != 0) {
		fprintf(stderr, "bench: --clock is wall or thread, not %s\n", name);
		exit(2);
	}
	bench_clock = strcmp(name, "wall") == 0 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
}

static inline void *room(size_t bytes)
{
	void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	if (p == NULL) {
		fprintf(stderr, "bench: no memory for %zu bytes\n", bytes);
		exit(2);
	}
	return p;
}

/* The largest difference, relative to the root mean square of the reference.
 * NaN counts as infinite. */
static inline double error_of(const float *got, const double *want, int64_t n)
{
	double worst = 0, squares = 0;
	for (int64_t i = 0; i < n; i++) {
		const double d = fabs((double)got[i] - want[i]);
		if (!(d <= worst))
			worst = isnan(d) ? INFINITY : d;
		squares += want[i] * want[i];
	}
	return worst / sqrt(squares / (double)n);
}

static inline int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The q-quantile of n samples (sorts them). */
static inline double quantile(double *samples, int n, double q)
{
	qsort(samples, (size_t)n, sizeof *samples, ascending);
	const double at = q * (n - 1);
	const int i = (int)at;
	return i + 1 < n ? samples[i] + (at - i) * (samples[i + 1] - samples[i]) : samples[i];
}

#endif
