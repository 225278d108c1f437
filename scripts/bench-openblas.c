/* Times a candidate of sgemm beside OpenBLAS, both on one thread, in one process.
 *
 * OpenBLAS has a different sgemm for each core type, and the one that it chooses
 * on its own is not always the fastest: a version older than the CPU takes a core
 * type that it knows. So every core type whose instructions this CPU has is timed,
 * each in its own copy of the library, and the candidate is compared with the
 * fastest. Samples are interleaved in an order that changes with every round, and
 * every call gets matrices that were not used lately. All results are checked
 * against a double-precision product.
 *
 * Exit status: 0; 1 when a result is wrong or the ratio is below --at-least; 2 when
 * it cannot run. OpenBLAS is loaded at run time, so that only the library is needed. */
#define _GNU_SOURCE
#include "bench.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

void sgemm(int64_t M, int64_t N, int64_t K, int64_t TEAM, const float *A, const float *B, float *C);

typedef void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, MAX_SETS = 64, MAX_ROUNDS = 1001, MAX_RIVALS = 32, WARM_UP = 3 };

/* The core types that OPENBLAS_CORETYPE can name, and the flags in /proc/cpuinfo
 * without which their code would be an illegal instruction: those of the -march or
 * -m options that OpenBLAS compiles them with (Makefile.x86_64, Makefile.arm64). */
static const struct {
	const char *name, *needs;
} core_types[] = {
#if defined(__x86_64__)
#define AVX2 "avx avx2 fma "
#define SKYLAKEX AVX2 "bmi1 bmi2 abm movbe avx512f avx512cd avx512bw avx512dq avx512vl "
#define COOPERLAKE SKYLAKEX "avx512_vnni avx512_bf16 "
	{"Nehalem", "ssse3 sse4_1 sse4_2"},
	{"Sandybridge", "avx"},
	{"Bulldozer", "avx fma4"},
	{"Piledriver", "avx fma4 fma"},
	{"Steamroller", "avx fma4 fma"},
	{"Excavator", "avx fma4 fma avx2"},
	{"Haswell", AVX2},
	{"Zen", AVX2},
	{"SkylakeX", SKYLAKEX},
	{"Cooperlake", COOPERLAKE},
	{"SapphireRapids", COOPERLAKE "avx_vnni avx512ifma avx512vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq avx512_fp16 "
	                              "gfni vaes vpclmulqdq amx_tile amx_int8 amx_bf16"},
#elif defined(__aarch64__)
#define ARMV8_2 "asimd crc32 atomics asimdrdm "
	{"armv8", "asimd"},
	{"cortexa53", "asimd"},
	{"cortexa57", "asimd"},
	{"cortexa72", "asimd"},
	{"cortexa73", "asimd"},
	{"cortexa55", ARMV8_2},
	{"falkor", "asimd"},
	{"emag8180", "asimd"},
	{"thunderx", "asimd"},
	{"thunderx2t99", "asimd crc32 atomics asimdrdm"},
	{"thunderx3t110", ARMV8_2 "fcma jscvt lrcpc"},
	{"tsv110", ARMV8_2},
	{"neoversen1", ARMV8_2 "fphp asimdhp asimddp lrcpc"},
	{"neoversev1", ARMV8_2 "fcma jscvt lrcpc asimddp fphp asimdhp sve"},
	{"neoversen2", ARMV8_2 "fcma jscvt lrcpc asimddp fphp asimdhp sve sve2 bf16 i8mm"},
	{"armv8sve", "asimd sve"},
	{"a64fx", ARMV8_2 "fphp asimdhp sve"},
#endif
	{NULL, NULL},
};

/* The candidate is the first of those that are timed; the others are OpenBLAS. */
static struct rival {
	const char *name;
	cblas_sgemm *call;
	double error, middle, seconds[MAX_ROUNDS];
} rivals[MAX_RIVALS] = {{.name = "candidate"}};
static int count = 1;

__attribute__((format(printf, 2, 3), noreturn)) static void fail(int status, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	fflush(stdout);
	fputs("bench-openblas: ", stderr);
	vfprintf(stderr, format, values);
	fputc('\n', stderr);
	exit(status);
}

/* What /proc/cpuinfo says after the colon of the first line with this name. */
static const char *cpuinfo(const char *name)
{
	static char line[1 << 14];
	FILE *f = fopen("/proc/cpuinfo", "r");
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		char *colon = strchr(line, ':');
		if (colon == NULL || strncmp(line, name, strlen(name)) != 0 || strchr("\t :", line[strlen(name)]) == NULL)
			continue;
		fclose(f);
		line[strcspn(line, "\n")] = 0;
		return colon + 1 + strspn(colon + 1, " ");
	}
	if (f != NULL)
		fclose(f);
	return "";
}

static int has_word(const char *words, const char *word, size_t length)
{
	for (const char *w = words; (w = strstr(w, word)) != NULL; w++)
		if ((w == words || w[-1] == ' ') && (w[length] == ' ' || w[length] == 0))
			return 1;
	return 0;
}

/* The first flag of needs that this CPU lacks, or NULL. */
static const char *lacks(const char *flags, const char *needs)
{
	static char word[32];
	for (size_t n; *(needs += strspn(needs, " ")) != 0; needs += n) {
		n = strcspn(needs, " ");
		snprintf(word, sizeof word, "%.*s", (int)n, needs);
		if (!has_word(flags, word, n))
			return word;
	}
	return NULL;
}

static void *symbol(void *library, const char *name)
{
	void *s = dlsym(library, name);
	if (s == NULL)
		fail(2, "libopenblas.so.0 has no %s", name);
	return s;
}

/* Loads another copy of the library at path: the linker would return the copy that
 * it has for the same file, and the core type is chosen once, on loading. */
static void *load_copy(const char *path)
{
	const int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("openblas", MFD_CLOEXEC);
	struct stat s;
	if (from < 0 || to < 0 || fstat(from, &s) != 0)
		fail(2, "%s cannot be copied", path);
	for (off_t left = s.st_size; left > 0;) {
		const ssize_t n = sendfile(to, from, NULL, (size_t)left);
		if (n <= 0)
			fail(2, "no memory for another copy of %s", path);
		left -= n;
	}
	close(from);
	char name[64]; /* to stays open: its number is the copy's name */
	snprintf(name, sizeof name, "/proc/self/fd/%d", to);
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		fail(2, "another copy of %s does not load: %s", path, dlerror());
	return library;
}

/* Adds a loaded OpenBLAS if its core type is the wanted one (NULL: any); returns its
 * core type. One that was built without the wanted type falls back to another. */
static const char *add(void *library, const char *wanted)
{
	const char *core = ((char *(*)(void))symbol(library, "openblas_get_corename"))();
	if (((int (*)(void))symbol(library, "openblas_get_num_threads"))() != 1)
		fail(2, "OpenBLAS does not run on one thread");
	if (wanted == NULL || strcasecmp(core, wanted) == 0)
		rivals[count++] = (struct rival){.name = core, .call = (cblas_sgemm *)symbol(library, "cblas_sgemm")};
	return core;
}

/* Loads OpenBLAS once for each core type that it has and that this CPU can run. */
static const char *load_all(void)
{
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	unsetenv("OPENBLAS_CORETYPE");
	void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		fail(2, "no libopenblas.so.0: apt-get install libopenblas-dev");
	struct link_map *map;
	if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
		fail(2, "libopenblas.so.0: %s", dlerror());
	const char *own = add(library, NULL);

	static char flags[1 << 14];
	snprintf(flags, sizeof flags, "%s", cpuinfo("flags")[0] != 0 ? cpuinfo("flags") : cpuinfo("Features"));
	char skipped[1024] = "";
	size_t used = 0;
	for (int i = 0; core_types[i].name != NULL; i++) {
		const char *name = core_types[i].name, *flag = lacks(flags, core_types[i].needs), *got = own;
		if (strcasecmp(name, own) == 0)
			continue;
		if (flag == NULL) {
			setenv("OPENBLAS_CORETYPE", name, 1);
			got = add(load_copy(map->l_name), name);
			if (strcasecmp(got, name) == 0)
				continue;
		}
		if (used < sizeof skipped)
			used += (size_t)snprintf(skipped + used, sizeof skipped - used,
			                         flag != NULL ? "%s%s (CPU lacks %s)" : "%s%s (OpenBLAS uses %s instead)",
			                         used > 0 ? ", " : "", name, flag != NULL ? flag : got);
	}
	unsetenv("OPENBLAS_CORETYPE");
	printf("CPU        %s\n", cpuinfo("model name")[0] != 0 ? cpuinfo("model name") : "unknown");
	if (used > 0)
		printf("not timed  %s\n", skipped);
	return own;
}

static void run(const struct rival *r, int n, const float *a, const float *b, float *c)
{
	if (r->call == NULL)
		sgemm(n, n, n, 1, a, b, c);
	else
		r->call(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
}

static int whole(const char *option, const char *text, int most)
{
	char *end;
	const long v = strtol(text, &end, 10);
	if (end == text || *end != 0 || v < 1 || v > most)
		fail(2, "%s is a whole number from 1 to %d, not %s", option, most, text);
	return (int)v;
}

int main(int argc, char **argv)
{
	int n = 1024, rounds = 41;
	double at_least = 0;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			fail(2, "%s needs a value", argv[i]);
		if (strcmp(argv[i], "--size") == 0)
			n = whole("--size", argv[i + 1], 8192);
		else if (strcmp(argv[i], "--rounds") == 0)
			rounds = whole("--rounds", argv[i + 1], MAX_ROUNDS);
		else if (strcmp(argv[i], "--at-least") == 0) {
			char *end;
			at_least = strtod(argv[i + 1], &end);
			if (end == argv[i + 1] || *end != 0 || !(at_least >= 0))
				fail(2, "--at-least is a ratio, such as 0.95, not %s", argv[i + 1]);
		} else if (strcmp(argv[i], "--clock") == 0)
			choose_clock(argv[i + 1]);
		else
			fail(2, "unknown option %s", argv[i]);
	}
	const char *own = load_all();

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

	double *want = room((size_t)n * n * sizeof *want);
	memset(want, 0, (size_t)n * n * sizeof *want);
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < n; k++)
			for (int64_t j = 0; j < n; j++)
				want[i * n + j] += (double)a[0][i * n + k] * b[0][k * n + j];
	const double tolerance = 4e-5; /* that of the kernel's definition */
	for (int r = 0; r < count; r++) {
		for (int64_t i = 0; i < (int64_t)n * n; i++)
			c[0][i] = NAN;
		run(&rivals[r], n, a[0], b[0], c[0]);
		rivals[r].error = error_of(c[0], want, (int64_t)n * n);
		if (!(rivals[r].error <= tolerance))
			fail(1, "the result of %s%s is wrong: error %.2g, tolerance %.0e", r > 0 ? "OpenBLAS for " : "the ", rivals[r].name,
			     rivals[r].error, tolerance);
	}

	/* A sample is a batch of at least 2 ms. */
	double t = seconds();
	run(&rivals[0], n, a[1 % sets], b[1 % sets], c[1 % sets]);
	t = seconds() - t;
	const int batch = t > 2e-3 ? 1 : (int)(2e-3 / t) + 1;
	int set = 0, order[MAX_RIVALS];
	for (int i = 0; i < count; i++)
		order[i] = i;
	for (int p = -WARM_UP; p < rounds; p++) {
		for (int i = count - 1; i > 0; i--) { /* whom a sample follows must not be fixed */
			const int j = (int)((uniform(&seed) + 1) / 2 * (i + 1)), swapped = order[i];
			order[i] = order[j], order[j] = swapped;
		}
		for (int turn = 0; turn < count; turn++) {
			struct rival *r = &rivals[order[turn]];
			t = seconds();
			for (int i = 0; i < batch; i++, set = (set + 1) % sets)
				run(r, n, a[set], b[set], c[set]);
			if (p >= 0)
				r->seconds[p] = (seconds() - t) / batch;
		}
	}

	/* Quantiles sort, so that the ratios within rounds come first. */
	static double ratio[MAX_RIVALS][MAX_ROUNDS];
	for (int r = 0; r < count; r++)
		for (int p = 0; p < rounds; p++)
			ratio[r][p] = rivals[r].seconds[p] / rivals[0].seconds[p];
	int fastest = 1;
	for (int r = 0; r < count; r++) {
		rivals[r].middle = quantile(rivals[r].seconds, rounds, 0.5);
		if (r > 0 && rivals[r].middle < rivals[fastest].middle)
			fastest = r;
	}
	const double flop = 2.0 * n * n * n, middle = quantile(ratio[fastest], rounds, 0.5);
	printf("\n%-24s %12s %9s %9s %9s\n", "1 thread", "median", "GFLOP/s", "error", "ratio");
	for (int r = 0; r < count; r++) {
		char label[64];
		snprintf(label, sizeof label, "%s%s", r > 0 ? "OpenBLAS " : "", rivals[r].name);
		printf("%-24s %9.3f ms %9.1f %9.1e ", label, rivals[r].middle * 1e3, flop / rivals[r].middle * 1e-9, rivals[r].error);
		if (r > 0)
			printf("%9.3f", quantile(ratio[r], rounds, 0.5));
		printf("%s%s\n", r == fastest ? "  fastest" : "", r > 0 && strcmp(rivals[r].name, own) == 0 ? "  OpenBLAS's own choice" : "");
	}
	printf("\nratio      %.3f of the speed of OpenBLAS %s at %dx%dx%d (quartiles %.3f to %.3f, %d rounds)\n", middle,
	       rivals[fastest].name, n, n, n, quantile(ratio[fastest], rounds, 0.25), quantile(ratio[fastest], rounds, 0.75), rounds);
	if (middle < at_least)
		fail(1, "%.3f is below %.3f", middle, at_least);
	return 0;
}
