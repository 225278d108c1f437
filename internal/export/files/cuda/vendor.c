/* The vendor's routine, where finals found no kernel of the library to be faster: a product by cublasLt. What
 * it is asked for is what campaigns measured kernels beside, the algorithm included where the library proposes
 * it. cublasLt is found when it is first wanted, and not needed: without it the library's own kernels serve. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

#define LT_STATUS int
#define LT_HANDLE void *
#define LT_DESC void *
#define LT_LAYOUT void *
#define LT_PREFERENCE void *
#define LT_HEURISTIC struct lt_result
#define LT_ALGORITHM void
#define LT_STREAM evotune_stream
#define LT_COMPUTE int
#define LT_TYPE int
#define LT_DESC_ATTRIBUTE int
#define LT_LAYOUT_ATTRIBUTE int
#define LT_PREFERENCE_ATTRIBUTE int
#define LT_CONFIG_ATTRIBUTE int
struct lt_result;
#include "lt.h"

enum { LT_NAMES = sizeof lt_names / sizeof *lt_names, LT_DIMS = 4, LT_OPERANDS = 5 };

static struct {
#define EVO_FIELD(field, symbol, result, parameters) result (*field) parameters;
	LT_FUNCTIONS(EVO_FIELD)
#undef EVO_FIELD
} lt;
static int found;
static pthread_once_t sought = PTHREAD_ONCE_INIT;

/* Said once, since calls are right without it, and slower. */
static void lacking(const char *why)
{
	static atomic_int said;
	if (!atomic_exchange(&said, 1))
		fprintf(stderr, "evotune: cublasLt cannot be called (%s): kernels of this library compute what it was faster at\n", why);
}

static const char *open_as(const char *name, int mode)
{
	void *symbol, *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | mode);
	if (!library)
		return dlerror();
#define EVO_FIND(field, name, result, parameters) \
	if (!(symbol = dlsym(library, #name))) \
		return "it has no " #name; \
	memcpy(&lt.field, &symbol, sizeof symbol);
	LT_FUNCTIONS(EVO_FIND)
#undef EVO_FIND
	found = 1;
	return NULL;
}

/* One that the program has already comes before a newer one. */
static void seek(void)
{
	const char *why = "";
	for (int i = 0; !found && i < LT_NAMES; i++)
		open_as(lt_names[i], RTLD_NOLOAD);
	for (int i = 0; !found && i < LT_NAMES; i++)
		why = open_as(lt_names[i], 0);
	if (!found)
		lacking(why);
}

/* The library's handle for the current device, made once; NULL where it makes none. */
static void *handle_of(int device)
{
	static _Atomic(void *) handles[EVO_MAX_DEVICES];
	static atomic_int refused[EVO_MAX_DEVICES];
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
	void *handle = atomic_load_explicit(&handles[device], memory_order_acquire);
	if (handle || atomic_load(&refused[device]))
		return handle;
	pthread_once(&sought, seek);
	if (!found)
		return NULL;
	pthread_mutex_lock(&making);
	handle = atomic_load_explicit(&handles[device], memory_order_acquire);
	if (!handle && lt.create(&handle)) {
		handle = NULL;
		atomic_store(&refused[device], 1);
		lacking("it refuses this device");
	}
	atomic_store_explicit(&handles[device], handle, memory_order_release);
	pthread_mutex_unlock(&making);
	return handle;
}

/* A product in the library's terms, whose matrices are in columns: C' = B' A', so that its A is our B. */
struct description {
	void *desc, *a, *b, *c, *preference;
};

static void forget(struct description *d)
{
	if (d->desc)
		lt.desc_destroy(d->desc);
	if (d->a)
		lt.layout_destroy(d->a);
	if (d->b)
		lt.layout_destroy(d->b);
	if (d->c)
		lt.layout_destroy(d->c);
	if (d->preference)
		lt.preference_destroy(d->preference);
}

/* A matrix in columns, and those of further products behind it. */
static int layout(void **at, int type, int64_t rows, int64_t cols, int64_t batch)
{
	const int32_t count = (int32_t)batch;
	const int64_t stride = rows * cols;
	return lt.layout_create(at, type, (uint64_t)rows, (uint64_t)cols, rows) ||
		(batch > 1 && (lt.layout_set(*at, LT_LAYOUT_BATCH, &count, sizeof count) || lt.layout_set(*at, LT_LAYOUT_STRIDE, &stride, sizeof stride)));
}

static int set(const struct description *d, int attribute, int32_t value) { return lt.desc_set(d->desc, attribute, &value, sizeof value); }

/* L, M, N, K; L is 1 where there is none. */
static int describe(struct description *d, const struct evo_matmul *m, const int64_t *dims, const void *bias)
{
	const int64_t batch = dims[0], rows = dims[1], cols = dims[2], k = dims[3];
	const int8_t fast = 1;
	memset(d, 0, sizeof *d);
	if (lt.desc_create(&d->desc, m->compute, LT_SCALE) || set(d, LT_DESC_TRANS_A, m->trans_b ? LT_OP_T : LT_OP_N) ||
		set(d, LT_DESC_TRANS_B, m->trans_a ? LT_OP_T : LT_OP_N) || set(d, LT_DESC_EPILOGUE, m->epilogue))
		return 1;
	if (m->bias >= 0 && ((m->type_bias >= 0 && set(d, LT_DESC_BIAS_TYPE, m->type_bias)) || lt.desc_set(d->desc, LT_DESC_BIAS, &bias, sizeof bias) ||
		(m->bias_each && batch > 1 && lt.desc_set(d->desc, LT_DESC_BIAS_STRIDE, &cols, sizeof cols))))
		return 1;
	return (m->fast && lt.desc_set(d->desc, LT_DESC_FAST, &fast, sizeof fast)) ||
		(m->trans_b ? layout(&d->a, m->type_b, k, cols, batch) : layout(&d->a, m->type_b, cols, k, batch)) ||
		(m->trans_a ? layout(&d->b, m->type_a, rows, k, batch) : layout(&d->b, m->type_a, k, rows, batch)) ||
		layout(&d->c, m->type_c, cols, rows, batch);
}

/* An algorithm for a product on a device, for arrays with so many bytes in their addresses' common multiple: of
 * its A, B, C and D, and of the bias. */
struct algorithm {
	const struct evo_matmul *of;
	int64_t dims[LT_DIMS];
	uint32_t aligned[LT_OPERANDS];
	int device, able, passed; /* those before it that cannot be run */
	uint64_t code[8], workspace;
};

/* Whether an algorithm is the one that campaigns found to be the fastest at these dimensions. */
static int fastest(const struct evo_matmul *m, const int64_t *dims, const void *code)
{
	for (int i = 0; i < m->fastest_count; i++) {
		const struct evo_fastest *f = &m->fastest[i];
		int is = !memcmp(f->dims, dims, sizeof f->dims);
		for (int j = 0; is && j < LT_CONFIGS; j++) {
			uint32_t value = 0; /* little-endian, so that two bytes of it will do */
			size_t written;
			is = f->config[j] < 0 || (!lt.config(code, lt_configs[j].attribute, &value, (size_t)lt_configs[j].bytes, &written) && value == (uint32_t)f->config[j]);
		}
		if (is)
			return 1;
	}
	return 0;
}

/* Asks the library, within a workspace: for the one that campaigns found, else for the first that can be run. */
static int ask(struct algorithm *a, void *handle, uint64_t most)
{
	struct lt_result list[LT_ALGORITHMS];
	struct description d;
	const uint32_t sums = LT_REDUCE_COMPUTE_TYPE;
	int count = 0, best = -1, passed = 0;
	/* An address that is aligned as that of the bias will be. */
	int failed = describe(&d, a->of, a->dims, (const void *)(uintptr_t)(LT_ALIGNMENT + a->aligned[LT_OPERANDS - 1])) || lt.preference_create(&d.preference) ||
		lt.preference_set(d.preference, LT_PREFER_WORKSPACE, &most, sizeof most) || lt.preference_set(d.preference, LT_PREFER_REDUCTION, &sums, sizeof sums);
	for (int i = 0; i < LT_OPERANDS - 1 && !failed; i++)
		if (a->aligned[i] < LT_ALIGNMENT)
			failed = lt.preference_set(d.preference, LT_PREFER_ALIGNMENT_A + i, &a->aligned[i], sizeof *a->aligned);
	if (!failed && !lt.heuristic(handle, d.desc, d.a, d.b, d.c, d.c, d.preference, LT_ALGORITHMS, list, &count))
		for (int i = 0; i < count; i++) {
			if (list[i].state || list[i].workspace > most)
				continue;
			if (!a->passed && fastest(a->of, a->dims, list[i].algorithm)) {
				best = i;
				break;
			}
			if (best < 0 && ++passed >= a->passed)
				best = i;
		}
	forget(&d);
	if (best < 0)
		return 0;
	memcpy(a->code, list[best].algorithm, sizeof a->code);
	a->workspace = list[best].workspace;
	return 1;
}

/* The algorithm of a key, kept by each thread: asking takes longer than a launch. NULL where there is none. */
static struct algorithm *algorithm_of(const struct algorithm *key, uint64_t most)
{
	static _Thread_local struct algorithm kept[64];
	uint64_t hash = (uintptr_t)key->of + (uint64_t)key->device;
	for (int i = 0; i < LT_DIMS; i++)
		hash = (hash ^ (uint64_t)key->dims[i]) * UINT64_C(0x9e3779b97f4a7c15);
	for (int i = 0; i < LT_OPERANDS; i++)
		hash = (hash ^ key->aligned[i]) * UINT64_C(0x9e3779b97f4a7c15);
	struct algorithm *a = &kept[hash >> 58];
	if (a->of != key->of || a->device != key->device || memcmp(a->dims, key->dims, sizeof a->dims) || memcmp(a->aligned, key->aligned, sizeof a->aligned)) {
		void *handle = handle_of(key->device);
		if (!handle)
			return NULL;
		*a = *key;
		a->able = ask(a, handle, most);
	}
	return a->able ? a : NULL;
}

/* The key of a product whose arrays are aligned as campaigns' are. Returns whether it is one that the library's
 * numbers can say. */
static int key_of(struct algorithm *key, const struct evo_launch *l, int device, const int64_t *dims)
{
	memset(key, 0, sizeof *key);
	key->of = l->matmul;
	key->device = device;
	key->dims[0] = 1;
	memcpy(key->dims + LT_DIMS - l->dims, dims, sizeof *dims * (size_t)l->dims);
	for (int i = 0; i < LT_OPERANDS; i++)
		key->aligned[i] = LT_ALIGNMENT;
	for (int i = 0; i < LT_DIMS; i++)
		if (key->dims[i] < 1 || key->dims[i] > INT32_MAX)
			return 0;
	return 1;
}

/* Without the library, or where it has no algorithm, this serves no shape. */
static int geometry(const struct evo_launch *l, const struct evo_device *d, const int64_t *dims, int64_t *out)
{
	struct algorithm key;
	const struct algorithm *a = NULL;
	int device;
	(void)d;
	memset(out, 0, EVO_GEOMETRY * sizeof *out);
	if (!evo_current(&device) && key_of(&key, l, device, dims))
		a = algorithm_of(&key, LT_WORKSPACE);
	out[EVO_WORKSPACE] = a ? (int64_t)a->workspace : 0;
	return a != NULL;
}

static uint32_t aligned(const void *address)
{
	uint32_t bytes = LT_ALIGNMENT;
	while ((uintptr_t)address % bytes)
		bytes /= 2;
	return bytes;
}

static int run(const struct evo_variant *v, int device, void **args, evotune_stream stream)
{
	const struct evo_launch *l = v->launch;
	const struct evo_matmul *m = l->matmul;
	const float one = 1, beta = m->residual >= 0;
	int64_t dims[LT_DIMS];
	for (int i = 0; i < l->dims; i++)
		dims[i] = *(const int64_t *)args[i];
#define EVO_AT(place) (*(void *const *)args[l->dims + (place)])
	void *const a = EVO_AT(0), *const b = EVO_AT(1), *const c = EVO_AT(m->out), *const workspace = *(void *const *)args[l->args - 1];
	const void *const bias = m->bias >= 0 ? EVO_AT(m->bias) : NULL, *const residual = m->residual >= 0 ? EVO_AT(m->residual) : c;
#undef EVO_AT
	struct algorithm key;
	struct algorithm *by = key_of(&key, l, device, dims) ? algorithm_of(&key, LT_WORKSPACE) : NULL;
	const uint64_t most = by ? by->workspace : 0; /* which the caller has given */
	const uint32_t really[LT_OPERANDS] = {aligned(b), aligned(a), aligned(residual), aligned(c), aligned(bias)};
	if (by && memcmp(really, key.aligned, sizeof really)) {
		memcpy(key.aligned, really, sizeof really);
		by = algorithm_of(&key, most);
	}
	if (!by)
		return EVOTUNE_UNSUPPORTED;
	void *handle = handle_of(device);
	for (;;) {
		struct description d;
		const int status = describe(&d, m, by->dims, bias) ? LT_INTERNAL_ERROR :
			lt.matmul(handle, d.desc, &one, b, d.a, a, d.b, &beta, residual, d.c, c, d.c, by->code, workspace, by->workspace, stream);
		forget(&d);
		if (status != LT_INVALID_VALUE && status != LT_ARCH_MISMATCH && status != LT_NOT_SUPPORTED)
			return status ? EVOTUNE_DEVICE : EVOTUNE_OK;
		by->passed++;
		if (!(by->able = ask(by, handle, most)))
			return EVOTUNE_UNSUPPORTED;
	}
}

static int prepare(int device)
{
	handle_of(device); /* which says what it lacks */
	return EVOTUNE_OK;
}

const struct evo_way evo_vendor = {geometry, NULL, run, prepare};
