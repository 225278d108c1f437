// Attention by cuDNN's graph API: softmax(scale Q K^T) V, causal or not, of Q and O [B,HQ,S,D] and K and V
// [B,HKV,S,D]. The library is opened at run time and its header is not needed to build: the numbers are those of
// its documented interface, which does not change within a major version.
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SDPA_FUNCTIONS(F) \
	F(version, cudnnGetVersion, size_t, (void)) \
	F(create, cudnnCreate, int, (void **)) \
	F(destroy, cudnnDestroy, int, (void *)) \
	F(set_stream, cudnnSetStream, int, (void *, void *)) \
	F(why, cudnnGetLastErrorString, void, (char *, size_t)) \
	F(make, cudnnBackendCreateDescriptor, int, (int, void **)) \
	F(drop, cudnnBackendDestroyDescriptor, int, (void *)) \
	F(finalize, cudnnBackendFinalize, int, (void *)) \
	F(set, cudnnBackendSetAttribute, int, (void *, int, int, int64_t, const void *)) \
	F(get, cudnnBackendGetAttribute, int, (void *, int, int, int64_t, int64_t *, void *)) \
	F(execute, cudnnBackendExecute, int, (void *, void *, void *))

struct dnn {
	void *library, *handle;
#define FIELD(field, symbol, result, parameters) result (*field) parameters;
	SDPA_FUNCTIONS(FIELD)
#undef FIELD
};

static const char *dnn_open(struct dnn *d, const char *name)
{
	memset(d, 0, sizeof *d);
	d->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!d->library)
		return dlerror();
#define FIND(field, symbol, result, parameters) \
	if (!(*(void **)&d->field = dlsym(d->library, #symbol))) \
		return "it has no " #symbol;
	SDPA_FUNCTIONS(FIND)
#undef FIND
	return NULL;
}

enum { // kinds of descriptors
	DNN_POINTWISE = 0, DNN_ENGINE_CONFIG = 3, DNN_HEURISTIC = 4, DNN_PLAN = 5, DNN_OP_POINTWISE = 13, DNN_GRAPH = 15, DNN_PACK = 16,
	DNN_TENSOR = 17, DNN_MATMUL = 18, DNN_OP_MATMUL = 19, DNN_REDUCTION = 21, DNN_OP_REDUCTION = 22,
};

enum { // types of attributes
	DNN_T_HANDLE = 0, DNN_T_DATA_TYPE = 1, DNN_T_BOOL = 2, DNN_T_INT64 = 3, DNN_T_POINTER = 6, DNN_T_HEURISTIC = 8, DNN_T_POINTWISE = 14,
	DNN_T_DESCRIPTOR = 15, DNN_T_REDUCTION = 18,
};

enum { DNN_F32 = 0, DNN_F16 = 2, DNN_I32 = 4, DNN_BF16 = 9, DNN_BOOL = 11 };

enum { DNN_ADD = 0, DNN_MUL = 1, DNN_DIV = 6, DNN_SUB = 9, DNN_EXP = 13, DNN_LOG = 15, DNN_GE = 303, DNN_INDEX = 501, DNN_SELECT = 601 };

enum { DNN_SUM = 0, DNN_MAX = 3 };

enum { SDPA_MOST = 96, SDPA_CONFIGS = 16 };

// An sdpa is an attention at one shape, ready to be run.
struct sdpa {
	void *made[SDPA_MOST];
	int count;
	void *configs[SDPA_CONFIGS], *plans[SDPA_CONFIGS];
	int64_t found, workspace[SDPA_CONFIGS]; // found configurations; bytes
	float scale, minus;
	bool causal;
	int status; // the first that was not 0, and what was done then
	char why[400];
};

static void sdpa_note(struct dnn *d, struct sdpa *s, int status, const char *what)
{
	char text[300] = "";
	if (!status || s->status)
		return;
	d->why(text, sizeof text - 1);
	for (char *c = text; *c; c++)
		if (*c == '\n')
			*c = ' ';
	s->status = status;
	snprintf(s->why, sizeof s->why, "%s%s%s", what, *text ? ": " : "", text);
}

static void *sdpa_make(struct dnn *d, struct sdpa *s, int kind)
{
	void *x = NULL;
	if (s->status)
		return NULL;
	if (s->count == SDPA_MOST)
		sdpa_note(d, s, -1, "too many descriptors");
	else
		sdpa_note(d, s, d->make(kind, &x), "cudnnBackendCreateDescriptor");
	if (!s->status)
		s->made[s->count++] = x;
	return s->status ? NULL : x;
}

static void sdpa_set(struct dnn *d, struct sdpa *s, void *x, int attribute, int type, int64_t n, const void *values)
{
	if (!s->status)
		sdpa_note(d, s, d->set(x, attribute, type, n, values), "cudnnBackendSetAttribute");
}

static void sdpa_int(struct dnn *d, struct sdpa *s, void *x, int attribute, int type, int value)
{
	sdpa_set(d, s, x, attribute, type, 1, &value);
}

static void sdpa_use(struct dnn *d, struct sdpa *s, void *x, int attribute, void *descriptor)
{
	if (descriptor)
		sdpa_set(d, s, x, attribute, DNN_T_DESCRIPTOR, 1, &descriptor);
}

static void *sdpa_done(struct dnn *d, struct sdpa *s, void *x, const char *what)
{
	if (!s->status)
		sdpa_note(d, s, d->finalize(x), what);
	return x;
}

enum { SDPA_REAL, SDPA_VIRTUAL, SDPA_VALUE };

// A tensor [b,h,rows,cols] in rows, or of columns where it is transposed. Its number is its place among those made.
static void *sdpa_tensor(struct dnn *d, struct sdpa *s, int64_t number, int type, int64_t b, int64_t h, int64_t rows, int64_t cols, bool transposed, int place)
{
	int64_t dims[4] = {b, h, rows, cols}, strides[4] = {h * rows * cols, rows * cols, transposed ? 1 : cols, transposed ? rows : 1}, align = 16;
	bool yes = true;
	void *t = sdpa_make(d, s, DNN_TENSOR);
	sdpa_int(d, s, t, 901, DNN_T_DATA_TYPE, type);
	sdpa_set(d, s, t, 902, DNN_T_INT64, 4, dims);
	sdpa_set(d, s, t, 903, DNN_T_INT64, 4, strides);
	sdpa_set(d, s, t, 906, DNN_T_INT64, 1, &number);
	sdpa_set(d, s, t, 900, DNN_T_INT64, 1, &align);
	if (place == SDPA_VIRTUAL)
		sdpa_set(d, s, t, 907, DNN_T_BOOL, 1, &yes);
	if (place == SDPA_VALUE)
		sdpa_set(d, s, t, 908, DNN_T_BOOL, 1, &yes);
	return sdpa_done(d, s, t, "a tensor");
}

static void *sdpa_matmul(struct dnn *d, struct sdpa *s, void *a, void *b, void *c)
{
	void *m = sdpa_make(d, s, DNN_MATMUL), *op;
	sdpa_int(d, s, m, 1500, DNN_T_DATA_TYPE, DNN_F32);
	sdpa_done(d, s, m, "a product's description");
	op = sdpa_make(d, s, DNN_OP_MATMUL);
	sdpa_use(d, s, op, 1520, a);
	sdpa_use(d, s, op, 1521, b);
	sdpa_use(d, s, op, 1522, c);
	sdpa_use(d, s, op, 1523, m);
	return sdpa_done(d, s, op, "a product");
}

// y = mode(x, b), or x where t is true and b elsewhere. Axis is of an index alone.
static void *sdpa_pointwise(struct dnn *d, struct sdpa *s, int mode, int compute, int64_t axis, void *x, void *b, void *t, void *y)
{
	void *p = sdpa_make(d, s, DNN_POINTWISE), *op;
	sdpa_int(d, s, p, 0, DNN_T_POINTWISE, mode);
	sdpa_int(d, s, p, 1, DNN_T_DATA_TYPE, compute);
	if (mode == DNN_INDEX)
		sdpa_set(d, s, p, 9, DNN_T_INT64, 1, &axis);
	sdpa_done(d, s, p, "an elementwise operation's description");
	op = sdpa_make(d, s, DNN_OP_POINTWISE);
	sdpa_use(d, s, op, 750, p);
	sdpa_use(d, s, op, 751, x);
	sdpa_use(d, s, op, 752, b);
	sdpa_use(d, s, op, 753, y);
	sdpa_use(d, s, op, 758, t);
	return sdpa_done(d, s, op, "an elementwise operation");
}

static void *sdpa_reduce(struct dnn *d, struct sdpa *s, int operator, void *x, void *y)
{
	void *r = sdpa_make(d, s, DNN_REDUCTION), *op;
	sdpa_int(d, s, r, 1600, DNN_T_REDUCTION, operator);
	sdpa_int(d, s, r, 1601, DNN_T_DATA_TYPE, DNN_F32);
	sdpa_done(d, s, r, "a reduction's description");
	op = sdpa_make(d, s, DNN_OP_REDUCTION);
	sdpa_use(d, s, op, 1610, x);
	sdpa_use(d, s, op, 1611, y);
	sdpa_use(d, s, op, 1612, r);
	return sdpa_done(d, s, op, "a reduction");
}

enum { SDPA_Q = 1, SDPA_K, SDPA_V, SDPA_O, SDPA_SCALE, SDPA_MINUS, SDPA_INNER };

// sdpa_build describes an attention by its parts, which the library recognizes, and asks for the configurations that can run it.
// The library's own operation of that name, of version 9.13, is as fast, but has no mask before 9.21.
static int sdpa_build(struct dnn *d, struct sdpa *s, int type, int64_t b, int64_t hq, int64_t hkv, int64_t rows, int64_t depth, bool causal, float scale)
{
	void *ops[14], *graph, *heuristic, *q, *k, *v, *o, *factor;
	int64_t n = 0, inner = SDPA_INNER;
	memset(s, 0, sizeof *s);
	s->scale = scale, s->minus = -INFINITY, s->causal = causal;
	q = sdpa_tensor(d, s, SDPA_Q, type, b, hq, rows, depth, false, SDPA_REAL);
	v = sdpa_tensor(d, s, SDPA_V, type, b, hkv, rows, depth, false, SDPA_REAL);
	o = sdpa_tensor(d, s, SDPA_O, type, b, hq, rows, depth, false, SDPA_REAL);
	factor = sdpa_tensor(d, s, SDPA_SCALE, DNN_F32, 1, 1, 1, 1, false, SDPA_VALUE);
#define SQUARE(t) sdpa_tensor(d, s, inner++, t, b, hq, rows, rows, false, SDPA_VIRTUAL)
#define COLUMN() sdpa_tensor(d, s, inner++, DNN_F32, b, hq, rows, 1, false, SDPA_VIRTUAL)
	void *scores, *scaled, *most, *less, *powers, *sum, *log, *weights;
	k = sdpa_tensor(d, s, SDPA_K, type, b, hkv, depth, rows, true, SDPA_REAL);
	scores = SQUARE(DNN_F32), scaled = SQUARE(DNN_F32);
	ops[n++] = sdpa_matmul(d, s, q, k, scores);
	ops[n++] = sdpa_pointwise(d, s, DNN_MUL, DNN_F32, 0, scores, factor, NULL, scaled);
	if (causal) {
		void *row = SQUARE(DNN_I32), *col = SQUARE(DNN_I32), *seen = SQUARE(DNN_BOOL), *masked = SQUARE(DNN_F32);
		void *minus = sdpa_tensor(d, s, SDPA_MINUS, DNN_F32, 1, 1, 1, 1, false, SDPA_VALUE);
		ops[n++] = sdpa_pointwise(d, s, DNN_INDEX, DNN_F32, 2, scaled, NULL, NULL, row);
		ops[n++] = sdpa_pointwise(d, s, DNN_INDEX, DNN_F32, 3, scaled, NULL, NULL, col);
		ops[n++] = sdpa_pointwise(d, s, DNN_GE, DNN_BOOL, 0, row, col, NULL, seen);
		ops[n++] = sdpa_pointwise(d, s, DNN_SELECT, DNN_F32, 0, scaled, minus, seen, masked);
		scaled = masked;
	}
	most = COLUMN(), less = SQUARE(DNN_F32), powers = SQUARE(DNN_F32), sum = COLUMN(), log = COLUMN(), weights = SQUARE(type);
	ops[n++] = sdpa_reduce(d, s, DNN_MAX, scaled, most);
	ops[n++] = sdpa_pointwise(d, s, DNN_SUB, DNN_F32, 0, scaled, most, NULL, less);
	ops[n++] = sdpa_pointwise(d, s, DNN_EXP, DNN_F32, 0, less, NULL, NULL, powers);
	ops[n++] = sdpa_reduce(d, s, DNN_SUM, powers, sum);
	// Nobody wants the logarithm of the sum, but the library recognizes no attention without it.
	ops[n++] = sdpa_pointwise(d, s, DNN_LOG, DNN_F32, 0, sum, NULL, NULL, log);
	ops[n++] = sdpa_pointwise(d, s, DNN_ADD, DNN_F32, 0, most, log, NULL, COLUMN());
	ops[n++] = sdpa_pointwise(d, s, DNN_DIV, DNN_F32, 0, powers, sum, NULL, weights);
	ops[n++] = sdpa_matmul(d, s, weights, v, o);
	graph = sdpa_make(d, s, DNN_GRAPH);
	sdpa_set(d, s, graph, 800, DNN_T_HANDLE, 1, &d->handle);
	sdpa_set(d, s, graph, 801, DNN_T_DESCRIPTOR, n, ops);
	sdpa_done(d, s, graph, "the graph");
	heuristic = sdpa_make(d, s, DNN_HEURISTIC);
	sdpa_use(d, s, heuristic, 201, graph);
	sdpa_int(d, s, heuristic, 200, DNN_T_HEURISTIC, 3);
	sdpa_done(d, s, heuristic, "the heuristic");
	for (int i = 0; i < SDPA_CONFIGS; i++)
		s->configs[i] = sdpa_make(d, s, DNN_ENGINE_CONFIG);
	if (!s->status)
		sdpa_note(d, s, d->get(heuristic, 202, DNN_T_DESCRIPTOR, SDPA_CONFIGS, &s->found, s->configs), "the configurations");
	if (s->found > SDPA_CONFIGS) // it tells of all that there are
		s->found = SDPA_CONFIGS;
	if (!s->status && s->found == 0)
		sdpa_note(d, s, 3000, "the library knows no configuration");
	return s->status;
}

// sdpa_plan makes the plan of a configuration.
static int sdpa_plan(struct dnn *d, struct sdpa *s, int config)
{
	int64_t n;
	s->status = 0;
	sdpa_note(d, s, d->make(DNN_PLAN, &s->plans[config]), "cudnnBackendCreateDescriptor");
	sdpa_set(d, s, s->plans[config], 400, DNN_T_HANDLE, 1, &d->handle);
	sdpa_use(d, s, s->plans[config], 401, s->configs[config]);
	sdpa_done(d, s, s->plans[config], "the plan");
	if (!s->status)
		sdpa_note(d, s, d->get(s->plans[config], 402, DNN_T_INT64, 1, &n, &s->workspace[config]), "the workspace");
	return s->status;
}

// sdpa_run launches the plan of a configuration.
static int sdpa_run(struct dnn *d, struct sdpa *s, int config, uint64_t q, uint64_t k, uint64_t v, uint64_t o, uint64_t workspace)
{
	int64_t numbers[6] = {SDPA_Q, SDPA_K, SDPA_V, SDPA_O, SDPA_SCALE, SDPA_MINUS}, n = s->causal ? 6 : 5;
	void *at[6] = {(void *)q, (void *)k, (void *)v, (void *)o, &s->scale, &s->minus}, *work = (void *)workspace, *pack = NULL;
	s->status = 0;
	sdpa_note(d, s, d->make(DNN_PACK, &pack), "cudnnBackendCreateDescriptor");
	sdpa_set(d, s, pack, 1000, DNN_T_INT64, n, numbers);
	sdpa_set(d, s, pack, 1001, DNN_T_POINTER, n, at);
	sdpa_set(d, s, pack, 1003, DNN_T_POINTER, 1, &work);
	sdpa_done(d, s, pack, "the arguments");
	if (!s->status)
		sdpa_note(d, s, d->execute(d->handle, s->plans[config], pack), "cudnnBackendExecute");
	if (pack)
		d->drop(pack);
	return s->status;
}

static void sdpa_free(struct dnn *d, struct sdpa *s)
{
	for (int i = 0; i < SDPA_CONFIGS; i++)
		if (s->plans[i])
			d->drop(s->plans[i]);
	for (int i = s->count; i-- > 0;)
		d->drop(s->made[i]);
}
