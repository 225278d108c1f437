/* Times a candidate of sgemm beside OpenBLAS, both on one thread, in one process:
 * samples alternate, and every call gets matrices that were not used lately. Both
 * results are checked against a double-precision product. Exit status: 0, 1 when
 * a result is wrong or the ratio is below --at-least, 2 when it cannot run.
 *
 * OpenBLAS is loaded at run time, so that only the library is needed. */
#include "bench.h"

#include <dlfcn.h>

void sgemm(int64_t M, int64_t N, int64_t K, int64_t TEAM, const float *A, const float *B, float *C);

typedef void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, MAX_SETS = 64, MAX_PAIRS = 1001 };

static void *symbol(void *library, const char *name)
{
	void *s = dlsym(library, name);
	if (s == NULL) {
		fprintf(stderr, "bench-openblas: libopenblas.so.0 has no %s\n", name);
		exit(2);
	}
	return s;
}

int main(int argc, char **argv)
{
	int n = 1024, pairs = 41;
	double at_least = 0;
	for (int i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], "--size") == 0)
			n = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--pairs") == 0)
			pairs = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--at-least") == 0)
			at_least = atof(argv[i + 1]);
		else if (strcmp(argv[i], "--clock") == 0)
			choose_clock(argv[i + 1]);
		else {
			fprintf(stderr, "bench-openblas: unknown option %s\n", argv[i]);
			return 2;
		}
	if (n < 1 || n > 8192 || pairs < 1 || pairs > MAX_PAIRS) {
		fprintf(stderr, "bench-openblas: --size is 1 to 8192, --pairs 1 to %d\n", MAX_PAIRS);
		return 2;
	}
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "bench-openblas: no libopenblas.so.0: apt-get install libopenblas0\n");
		return 2;
	}
	cblas_sgemm *const theirs = (cblas_sgemm *)symbol(library, "cblas_sgemm");
	const char *core = ((char *(*)(void))symbol(library, "openblas_get_corename"))();
	const int threads = ((int (*)(void))symbol(library, "openblas_get_num_threads"))();
	if (threads != 1) {
		fprintf(stderr, "bench-openblas: OpenBLAS runs %d threads and would not run one\n", threads);
		return 2;
	}

	/* Enough sets that one is out of the caches (64 MiB) when its turn comes. */
	const size_t bytes = (size_t)n * n * sizeof(float);
	int sets = (int)((64u << 20) / (3 * bytes)) + 1;
	sets = sets < 2 ? 2 : sets > MAX_SETS ? MAX_SETS : sets;
	float *a[MAX_SETS], *b[MAX_SETS], *c[MAX_SETS];
	uint64_t seed = 1;
	for (int s = 0; s < sets; s++) {
		a[s] = room(bytes), b[s] = room(bytes), c[s] = room(bytes);
		for (int64_t i = 0; i < (int64_t)n * n; i++) {
			a[s][i] = (float)uniform(&seed);
			b[s][i] = (float)uniform(&seed);
			c[s][i] = NAN;
		}
	}

#define OURS(s) sgemm(n, n, n, 1, a[s], b[s], c[s])
#define THEIRS(s) \
	theirs(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, 1.0f, a[s], n, b[s], n, 0.0f, c[s], n)

	double *want = room((size_t)n * n * sizeof *want);
	memset(want, 0, (size_t)n * n * sizeof *want);
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < n; k++)
			for (int64_t j = 0; j < n; j++)
				want[i * n + j] += (double)a[0][i * n + k] * b[0][k * n + j];
	const double tolerance = 4e-5; /* that of the kernel's definition */
	OURS(0);
	const double our_error = error_of(c[0], want, (int64_t)n * n);
	for (int64_t i = 0; i < (int64_t)n * n; i++)
		c[0][i] = NAN;
	THEIRS(0);
	const double their_error = error_of(c[0], want, (int64_t)n * n);
	printf("error      candidate %.2g, OpenBLAS %.2g (tolerance %.0e)\n", our_error, their_error, tolerance);
	if (!(our_error <= tolerance) || !(their_error <= tolerance)) {
		fprintf(stderr, "bench-openblas: a result is wrong\n");
		return 1;
	}

	/* A sample is a batch of at least 2 ms. */
	double t = seconds();
	OURS(1 % sets);
	t = seconds() - t;
	const int batch = t > 2e-3 ? 1 : (int)(2e-3 / t) + 1;
	static double ours_s[MAX_PAIRS], theirs_s[MAX_PAIRS], ratio[MAX_PAIRS];
	int set = 0;
	for (int p = -3; p < pairs; p++) { /* three pairs warm up */
		double took[2];
		for (int turn = 0; turn < 2; turn++) {
			const int who = (p + turn) & 1; /* each goes first every other time */
			t = seconds();
			for (int i = 0; i < batch; i++, set = (set + 1) % sets)
				if (who == 0)
					OURS(set);
				else
					THEIRS(set);
			took[who] = (seconds() - t) / batch;
		}
		if (p >= 0)
			ours_s[p] = took[0], theirs_s[p] = took[1], ratio[p] = took[1] / took[0];
	}
	const double flop = 2.0 * n * n * n, ours = quantile(ours_s, pairs, 0.5), blas = quantile(theirs_s, pairs, 0.5);
	const double middle = quantile(ratio, pairs, 0.5);
	printf("candidate  %8.3f ms  %6.1f GFLOP/s\n", ours * 1e3, flop / ours * 1e-9);
	printf("OpenBLAS   %8.3f ms  %6.1f GFLOP/s  (%s, 1 thread)\n", blas * 1e3, flop / blas * 1e-9, core);
	printf("ratio      %.3f of OpenBLAS's speed at %dx%dx%d (quartiles %.3f to %.3f, %d pairs)\n", middle, n, n, n,
	       quantile(ratio, pairs, 0.25), quantile(ratio, pairs, 0.75), pairs);
	if (middle < at_least) {
		fprintf(stderr, "bench-openblas: %.3f is below %.3f\n", middle, at_least);
		return 1;
	}
	return 0;
}
