/* A program that has nothing to do with evotune but its exported library: prints the softmax
 * of a few numbers beside what it should be, and, with a candidate compiled as its campaign
 * compiled it, times both in turns in one process. Exit status: 0; 1 when an answer is wrong
 * or the library is slower by more than --within (0.05); 2 when it cannot run. */
#include "bench.h"

#include <dlfcn.h>
#include <evotune.h>

enum { PAIRS = 41, ROWS = 1024, COLS = 1024, SIZE = 512 };

static int right(void)
{
	const float x[4] = {0.5f, -1.0f, 2.0f, 0.25f};
	float y[4];
	double sum = 0;
	const int status = evotune_softmax(1, 4, x, y);
	if (status != EVOTUNE_OK) {
		fprintf(stderr, "evotune_softmax: %s\n", evotune_status_text(status));
		return 0;
	}
	for (int i = 0; i < 4; i++)
		sum += exp(x[i]);
	int ok = 1;
	for (int i = 0; i < 4; i++) {
		const double want = exp(x[i]) / sum;
		ok = ok && fabs(y[i] - want) < 1e-6;
		printf("softmax[%d] = %.7f, %.7f is right\n", i, (double)y[i], want);
	}
	return ok;
}

typedef void softmax_function(int64_t, int64_t, const float *, float *);
typedef void sgemm_function(int64_t, int64_t, int64_t, int64_t, const float *, const float *, float *);

static void *candidate(const char *path, const char *name)
{
	void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL), *f = file ? dlsym(file, name) : NULL;
	if (!f) {
		fprintf(stderr, "export-roundtrip: %s\n", dlerror());
		exit(2);
	}
	return f;
}

static float *numbers(int64_t n, uint64_t *seed)
{
	float *p = room((size_t)n * sizeof *p);
	for (int64_t i = 0; i < n; i++)
		p[i] = (float)uniform(seed);
	return p;
}

/* The median over pairs of (exported time / candidate's time). */
#define COMPARE(what, calls, exported, mine)                                                                        \
	do {                                                                                                        \
		double ratio[PAIRS], ns[PAIRS];                                                                     \
		for (int pair = -2; pair < PAIRS; pair++) {                                                         \
			double t[2];                                                                                \
			for (int turn = 0; turn < 2; turn++) {                                                      \
				const int side = (turn + pair) & 1;                                                 \
				const double start = seconds();                                                     \
				for (int i = 0; i < (calls); i++) {                                                 \
					if (side)                                                                   \
						exported;                                                           \
					else                                                                        \
						mine;                                                               \
				}                                                                                   \
				t[side] = (seconds() - start) / (calls);                                            \
			}                                                                                           \
			if (pair >= 0) {                                                                            \
				ratio[pair] = t[1] / t[0];                                                          \
				ns[pair] = 1e9 * t[1];                                                              \
			}                                                                                           \
		}                                                                                                   \
		const double r = quantile(ratio, PAIRS, 0.5);                                                       \
		printf("%s: exported / as the campaign compiled it = %.3f (quartiles %.3f to %.3f), %.0f ns now\n", \
			what, r, quantile(ratio, PAIRS, 0.25), quantile(ratio, PAIRS, 0.75), quantile(ns, PAIRS, 0.5)); \
		slow |= r > 1 + within;                                                                             \
	} while (0)

int main(int argc, char **argv)
{
	double within = 0.05;
	const char *softmax = NULL, *sgemm = NULL;
	for (int i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], "--softmax") == 0)
			softmax = argv[i + 1];
		else if (strcmp(argv[i], "--sgemm") == 0)
			sgemm = argv[i + 1];
		else if (strcmp(argv[i], "--within") == 0)
			within = atof(argv[i + 1]);
		else {
			fprintf(stderr, "export-roundtrip: unknown option %s\n", argv[i]);
			return 2;
		}
	if (!right()) {
		printf("WRONG\n");
		return 1;
	}
	int slow = 0;
	uint64_t seed = 1;
	if (softmax) {
		softmax_function *mine = (softmax_function *)candidate(softmax, "softmax");
		float *x = numbers(ROWS * COLS, &seed), *y = numbers(ROWS * COLS, &seed);
		COMPARE("softmax", 20, evotune_softmax(ROWS, COLS, x, y), mine(ROWS, COLS, x, y));
	}
	if (sgemm) {
		sgemm_function *mine = (sgemm_function *)candidate(sgemm, "sgemm");
		float *a = numbers(SIZE * SIZE, &seed), *b = numbers(SIZE * SIZE, &seed), *c = numbers(SIZE * SIZE, &seed);
		COMPARE("sgemm", 5, evotune_sgemm(SIZE, SIZE, SIZE, 1, a, b, c), mine(SIZE, SIZE, SIZE, 1, a, b, c));
	}
	if (slow)
		printf("slower by more than %.0f%%\n", 100 * within);
	return slow;
}
