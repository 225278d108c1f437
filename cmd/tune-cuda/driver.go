//go:build cuda

package main

/*
#cgo CFLAGS: -I/usr/local/cuda/include -D_GNU_SOURCE
#cgo LDFLAGS: -L/usr/local/cuda/lib64/stubs -L/usr/lib/x86_64-linux-gnu/stubs -lcuda -ldl
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Before Go runs at all, the protocol's descriptor is moved away from 1, so
// that nothing that a library prints can get between the answers. (The
// initialisation of gorgonia.org/cu prints on standard output.)
static int protocol = -1;
__attribute__((constructor)) static void keep_stdout(void)
{
	protocol = dup(1);
	dup2(2, 1);
	setvbuf(stdout, NULL, _IOLBF, 0); // what a kernel prints outlives the process
}
static int protocol_descriptor(void) { return protocol; }

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static CUresult launch(CUfunction f, const unsigned d[6], unsigned shared, CUstream s, void *params)
{
	return cuLaunchKernel(f, d[0], d[1], d[2], d[3], d[4], d[5], shared, s, params, NULL);
}

// What not every driver has is looked up in the library that is there, by declarations of
// our own where headers differ: newer ones give some of these names further arguments.
typedef CUresult launch_ex(const CUlaunchConfig *, CUfunction, void **, void **);
typedef CUresult capture_info(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *);
typedef CUresult capture_after(CUstream, CUgraphNode *, size_t, unsigned);
typedef CUresult encode_tiled(void *map, int type, cuuint32_t rank, void *at, const cuuint64_t *dims, const cuuint64_t *strides,
                              const cuuint32_t *box, const cuuint32_t *steps, int interleave, int swizzle, int promotion, int fill);

static int driver_has(const char *name) { return dlsym(RTLD_DEFAULT, name) != NULL; }

// A kernel of a call. Without a cluster, cooperative and dependent it is launched as on
// drivers that know nothing of these.
struct kernel {
	CUfunction f;
	unsigned d[6], shared, cluster[3];
	int cooperative, dependent;
};

static CUresult launch_kernel(const struct kernel *k, CUstream s, void **params, const char **call)
{
	*call = "cuLaunchKernel";
	if (!k->cluster[0] && !k->cooperative && !k->dependent)
		return launch(k->f, k->d, k->shared, s, params);
	CUlaunchAttribute list[3] = {0};
	CUlaunchConfig c = {
		.gridDimX = k->d[0], .gridDimY = k->d[1], .gridDimZ = k->d[2], .blockDimX = k->d[3], .blockDimY = k->d[4], .blockDimZ = k->d[5],
		.sharedMemBytes = k->shared, .hStream = s, .attrs = list,
	};
	if (k->cluster[0]) {
		CUlaunchAttribute *a = &list[c.numAttrs++];
		a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
		a->value.clusterDim.x = k->cluster[0], a->value.clusterDim.y = k->cluster[1], a->value.clusterDim.z = k->cluster[2];
	}
	if (k->cooperative) {
		CUlaunchAttribute *a = &list[c.numAttrs++];
		a->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, a->value.cooperative = 1;
	}
	if (k->dependent) {
		CUlaunchAttribute *a = &list[c.numAttrs++];
		a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, a->value.programmaticStreamSerializationAllowed = 1;
	}
	*call = "cuLaunchKernelEx";
	launch_ex *ex = (launch_ex *)dlsym(RTLD_DEFAULT, *call);
	return ex ? ex(&c, k->f, params, NULL) : CUDA_ERROR_NOT_SUPPORTED;
}

enum { MAX_KERNELS = 16, SET_DEPENDENCIES = 1 };

// launch_all puts the kernels of a call into the stream, in their order.
//
// A dependent kernel may begin, and for all that the driver's manual says also end, before
// the one before it has ended. What is launched without the attribute, as the first kernel
// of every call and all of the worker's own are, waits for what is before it in the stream.
// In a graph it waits for the node before it alone, which would be the dependent kernel: the
// captured edge between the two kernels of a pair is a programmatic one, which drivers know
// since CUDA 12.3; older ones are not asked. So a node is put behind the call that waits for
// the end of each of its kernels: by the manual an ordinary edge is "full completion of the
// upstream node, with memory visibility".
static CUresult launch_all(const struct kernel *list, int n, CUstream s, void **params, const char **call)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUgraphNode nodes[MAX_KERNELS], join;
	CUgraph graph = NULL;
	CUresult r;
	int overlap = 0;
	*call = "cuLaunchKernel";
	if (n < 1 || n > MAX_KERNELS)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < n; i++)
		overlap |= list[i].dependent;
	*call = "cuStreamIsCapturing";
	if (overlap && (r = cuStreamIsCapturing(s, &status)) != CUDA_SUCCESS)
		return r;
	for (int i = 0; i < n; i++) {
		const CUgraphNode *last;
		size_t count = 0;
		if ((r = launch_kernel(&list[i], s, params, call)) != CUDA_SUCCESS)
			return r;
		if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
			continue;
		*call = "cuStreamGetCaptureInfo_v2";
		capture_info *info = (capture_info *)dlsym(RTLD_DEFAULT, *call);
		r = info ? info(s, &status, NULL, &graph, &last, &count) : CUDA_ERROR_NOT_SUPPORTED;
		if (r == CUDA_SUCCESS && count != 1)
			r = CUDA_ERROR_ILLEGAL_STATE;
		if (r != CUDA_SUCCESS)
			return r;
		nodes[i] = last[0];
	}
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	*call = "cuGraphAddEmptyNode";
	if ((r = cuGraphAddEmptyNode(&join, graph, nodes, n)) != CUDA_SUCCESS)
		return r;
	*call = "cuStreamUpdateCaptureDependencies";
	capture_after *after = (capture_after *)dlsym(RTLD_DEFAULT, *call);
	return after ? after(s, &join, 1, SET_DEPENDENCIES) : CUDA_ERROR_NOT_SUPPORTED;
}

// A tile is a tensor map, in the codes of cuTensorMapEncodeTiled.
struct tile {
	int type, rank, swizzle, promotion, fill;
	cuuint64_t dims[5], strides[4];
	cuuint32_t box[5];
};

static CUresult encode(void *to, const struct tile *t, uint64_t at)
{
	const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
	encode_tiled *f = (encode_tiled *)dlsym(RTLD_DEFAULT, "cuTensorMapEncodeTiled");
	return f ? f(to, t->type, t->rank, (void *)at, t->dims, t->strides, t->box, steps, 0, t->swizzle, t->promotion, t->fill) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult allow_shared(CUfunction f, int bytes)
{
	return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
}

static CUresult begin_capture(CUstream s)
{
	return cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

// Lines that another kernel asked the cache to keep are given up. Devices
// without that say so.
static CUresult reset_persisting(void)
{
	CUresult r = cuCtxResetPersistingL2Cache();
	return r == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : r;
}

// waited is how long the calling thread was ready to run and had no core, in
// nanoseconds, since it began. It stays 0 where the kernel does not tell.
static uint64_t waited(void)
{
	static __thread int file = -2;
	char text[96];
	unsigned long long ran, queued;
	if (file == -2)
		file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return sscanf(text, "%llu %llu", &ran, &queued) == 2 ? queued : 0;
}

// A sample is what was seen of timed work, in nanoseconds but for ms.
struct sample {
	uint64_t wall, waited;
	float ms, least; // between the events of all passes, and of the shortest
	const char *call;
};

#define TRY(x, name) do { CUresult r_ = (x); if (r_ != CUDA_SUCCESS) { out->call = name; return r_; } } while (0)

// A maker is a node of a graph that makes contents: a launch of refresh, whose first two arguments are
// the secret of a pass and its turn. The others stay as they are in the graph that it is in, but for
// a row that it is lent.
enum { REFRESH_ROW = 2, REFRESH_SET = 3, REFRESH_PARAMS = 5 };

struct maker {
	CUgraphNode node;
	CUDA_KERNEL_NODE_PARAMS p;
	void *params[REFRESH_PARAMS];
};

struct makers {
	CUgraphExec exec;
	struct maker *list;
	int n;
};

// find_makers finds those of a graph, which has to last as long as they do.
static CUresult find_makers(CUgraph g, CUfunction refresh, struct makers *found, struct sample *out)
{
	size_t count = 0;
	TRY(cuGraphGetNodes(g, NULL, &count), "cuGraphGetNodes");
	CUgraphNode *nodes = calloc(count + 1, sizeof *nodes);
	found->list = calloc(count + 1, sizeof *found->list);
	CUresult r = cuGraphGetNodes(g, nodes, &count);
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++) {
		struct maker *m = &found->list[found->n];
		CUgraphNodeType type;
		if ((r = cuGraphNodeGetType(nodes[i], &type)) != CUDA_SUCCESS || type != CU_GRAPH_NODE_TYPE_KERNEL)
			continue;
		if ((r = cuGraphKernelNodeGetParams(nodes[i], &m->p)) != CUDA_SUCCESS || m->p.func != refresh)
			continue;
		memcpy(m->params, m->p.kernelParams, sizeof m->params);
		m->p.kernelParams = m->params;
		m->node = nodes[i];
		found->n++;
	}
	free(nodes);
	TRY(r, "cuGraphKernelNodeGetParams");
	return CUDA_SUCCESS;
}

// seal gives a graph's makers the secret of its next launch.
static CUresult seal(const struct makers *g, const uint64_t *secret, struct sample *out)
{
	for (int i = 0; i < g->n; i++) {
		struct maker *m = &g->list[i];
		m->params[0] = (void *)&secret[0];
		m->params[1] = (void *)&secret[1];
		TRY(cuGraphExecKernelNodeSetParams(g->exec, m->node, &m->p), "cuGraphExecKernelNodeSetParams");
	}
	return CUDA_SUCCESS;
}

// lend has the maker of a set make what another row says, from the next launch of the graph that seal is
// called for, and gives the row that it had; NULL where no maker is for that set.
static void *lend(const struct makers *g, uint32_t set, void *row)
{
	for (int i = 0; i < g->n; i++) {
		void **params = g->list[i].params, *had = params[REFRESH_ROW];
		if (*(const uint32_t *)params[REFRESH_SET] != set)
			continue;
		params[REFRESH_ROW] = row;
		return had;
	}
	return NULL;
}

// A refresh begins a pass and, where its graph does not make contents itself, makes those of all sets.
struct refresh {
	CUfunction begin;
	const unsigned *begin_d;
	void **begin_params;
	const struct makers *all;
};

static CUresult begin_once(const struct refresh *f, CUstream s, struct sample *out)
{
	TRY(launch(f->begin, f->begin_d, 0, s, f->begin_params), "cuLaunchKernel");
	return CUDA_SUCCESS;
}

static CUresult refresh_once(const struct refresh *f, CUstream s, struct sample *out)
{
	CUresult r = begin_once(f, s, out);
	if (r != CUDA_SUCCESS)
		return r;
	TRY(cuGraphLaunch(f->all->exec, s), "cuGraphLaunch");
	return CUDA_SUCCESS;
}

// Passes are one crossing from Go to C, each with a secret of its own, which the device gets when
// the pass before is over: nobody finds it earlier. What belongs to a pass is put into the stream at
// once, so that launches follow one another without waiting for the host. The clock on the wall runs
// until the whole device is done; what the device needed to make contents, and what the host needed
// between two passes, when nothing runs, is taken off, but of each time no more than half above the usual, so that no
// work can hide there.
//
// Without alone, contents of all sets are made before each launch of the graph. With it, the
// graph makes them itself, between its launches, and alone does the same without launches: the
// difference of the two is the time of the launches. In one of so many passes, of which first is the
// first of these, alone goes before the graph, with a secret of its own, and again gets its time.
enum { PASS_EVENTS = 4 };

struct usual {
	float alone, begin; // milliseconds: of alone or of a refresh, and of the beginning of a pass
};

// Milliseconds from the end of a pass until the device has the next, at most.
static const float turn_round = .03f;

static CUresult sample_passes(const struct makers *g, CUgraphExec alone, int first, int every, struct usual usual, CUstream s, const CUevent *events, int passes,
                              const uint64_t *secrets, const struct refresh *f, float *again, struct sample *out)
{
	double making = 0;
	float sealing[passes];
	TRY(cuCtxSynchronize(), "cuCtxSynchronize");
	out->ms = out->least = 0;
	uint64_t before = waited(), t = now();
	TRY(cuEventRecord(events[0], s), "cuEventRecord");
	for (int i = 0; i < passes; i++) {
		const CUevent *e = events + PASS_EVENTS * i;
		CUresult r;
		if (i > 0)
			TRY(cuEventSynchronize(e[0]), "cuEventSynchronize");
		if (alone && i >= first && (i - first) % every == 0) {
			if ((r = begin_once(f, s, out)) != CUDA_SUCCESS)
				return r;
			TRY(cuEventRecord(e[1], s), "cuEventRecord");
			TRY(cuGraphLaunch(alone, s), "cuGraphLaunch");
			TRY(cuEventRecord(e[2], s), "cuEventRecord");
		}
		// While alone runs, no candidate does.
		uint64_t idle = now();
		r = alone ? seal(g, secrets + 2 * i, out) : seal(f->all, secrets + 2 * i, out);
		if (r != CUDA_SUCCESS)
			return r;
		sealing[i] = (now() - idle) * 1e-6f;
		r = alone ? begin_once(f, s, out) : refresh_once(f, s, out);
		if (r != CUDA_SUCCESS)
			return r;
		TRY(cuEventRecord(e[3], s), "cuEventRecord");
		TRY(cuGraphLaunch(g->exec, s), "cuGraphLaunch");
		TRY(cuEventRecord(e[4], s), "cuEventRecord");
	}
	TRY(cuCtxSynchronize(), "cuCtxSynchronize");
	out->wall = now() - t;
	out->waited = waited() - before;
	for (int i = 0; i < passes; i++) {
		const CUevent *e = events + PASS_EVENTS * i;
		const int with = alone && i >= first && (i - first) % every == 0;
		float made, ms, most = 1.5f * ((alone ? usual.begin : usual.alone) + (with ? usual.alone + usual.begin : 0)) + turn_round + sealing[i];
		TRY(cuEventElapsedTime(&made, e[0], e[3]), "cuEventElapsedTime");
		TRY(cuEventElapsedTime(&ms, e[3], e[4]), "cuEventElapsedTime");
		if (with)
			TRY(cuEventElapsedTime(again++, e[1], e[2]), "cuEventElapsedTime");
		making += made < most ? made : most;
		out->ms += ms;
		if (i == 0 || ms < out->least)
			out->least = ms;
	}
	out->wall = making * 1e6 < out->wall ? out->wall - (uint64_t)(making * 1e6) : 0;
	return CUDA_SUCCESS;
}

// sample_alone times the beginning of a pass, and the graph that makes contents alone.
static CUresult sample_alone(CUgraphExec alone, CUstream s, const CUevent *events, const struct refresh *f, struct usual *took, struct sample *out)
{
	CUresult r;
	TRY(cuEventRecord(events[0], s), "cuEventRecord");
	if ((r = begin_once(f, s, out)) != CUDA_SUCCESS)
		return r;
	TRY(cuEventRecord(events[1], s), "cuEventRecord");
	TRY(cuGraphLaunch(alone, s), "cuGraphLaunch");
	TRY(cuEventRecord(events[2], s), "cuEventRecord");
	TRY(cuCtxSynchronize(), "cuCtxSynchronize");
	TRY(cuEventElapsedTime(&took->begin, events[0], events[1]), "cuEventElapsedTime");
	TRY(cuEventElapsedTime(&took->alone, events[1], events[2]), "cuEventElapsedTime");
	return CUDA_SUCCESS;
}

// sample_refresh times the making of contents alone.
static CUresult sample_refresh(CUstream s, const CUevent *events, const uint64_t *secret, const struct refresh *f, struct sample *out)
{
	CUresult r = seal(f->all, secret, out);
	if (r != CUDA_SUCCESS)
		return r;
	TRY(cuEventRecord(events[0], s), "cuEventRecord");
	if ((r = refresh_once(f, s, out)) != CUDA_SUCCESS)
		return r;
	TRY(cuEventRecord(events[1], s), "cuEventRecord");
	TRY(cuCtxSynchronize(), "cuCtxSynchronize");
	TRY(cuEventElapsedTime(&out->ms, events[0], events[1]), "cuEventElapsedTime");
	return CUDA_SUCCESS;
}

static CUresult sample_launch(const struct kernel *list, int n, CUstream s, void *params, struct sample *out)
{
	uint64_t t = now();
	CUresult r = launch_all(list, n, s, params, &out->call);
	if (r != CUDA_SUCCESS)
		return r;
	TRY(cuCtxSynchronize(), "cuCtxSynchronize");
	out->wall = now() - t;
	return CUDA_SUCCESS;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// protocol is where the answers go.
func protocol() *os.File { return os.NewFile(uintptr(C.protocol_descriptor()), "protocol") }

// A driverError is a call of the driver, or of a vendor's library, that failed.
type driverError struct {
	call string
	code int
	name string
	why  string // in words, where we know more than the driver says
}

func (e *driverError) Error() string {
	text := fmt.Sprintf("%s: %s (%d)", e.call, e.name, e.code)
	if e.why != "" {
		text += ": " + e.why
	}
	return text
}

// refused is a launch, or a tensor map, that is not even tried: what the driver would say
// of it, and why.
func refused(call string, why error) error { return untried(call, C.CUDA_ERROR_INVALID_VALUE, why) }

// unsupported is one for which the driver is too old. It is the candidate's fault as well:
// others may do without.
func unsupported(call string, why error) error {
	return untried(call, C.CUDA_ERROR_NOT_SUPPORTED, why)
}

func untried(call string, code int, why error) error {
	e := newDriverError(call, code)
	e.why = why.Error()
	return e
}

// result turns what the driver returned into an error.
func result(call string, r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return newDriverError(call, int(r))
}

func newDriverError(call string, code int) *driverError {
	e := &driverError{call: call, code: code, name: "an error that this driver does not name"}
	var name *C.char
	if C.cuGetErrorName(C.CUresult(code), &name) == C.CUDA_SUCCESS && name != nil {
		e.name = C.GoString(name)
	}
	return e
}

// check names the call of a gorgonia.org/cu error, which is the driver's
// number and says nothing else.
func check(call string, err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return newDriverError(call, int(v.Int()))
	}
	return fmt.Errorf("%s: %w", call, err)
}

// fault tells of an error that a candidate caused, or returns nil for one that
// the driver did not give.
func fault(err error) *wire.Fault {
	var e *driverError
	if !errors.As(err, &e) {
		return nil
	}
	return &wire.Fault{Call: e.call, Code: e.code, Name: e.name, Why: e.why, Fatal: lost()}
}

// lost says whether the context can do no more: after an error that it does
// not survive, every call gives that error again.
func lost() bool { return C.cuCtxSynchronize() != C.CUDA_SUCCESS }

// The types of gorgonia.org/cu hold the driver's handle and nothing else.

func handle(f cu.Function) C.CUfunction   { return *(*C.CUfunction)(unsafe.Pointer(&f)) }
func streamHandle(s cu.Stream) C.CUstream { return *(*C.CUstream)(unsafe.Pointer(&s)) }
func eventHandle(e cu.Event) C.CUevent    { return *(*C.CUevent)(unsafe.Pointer(&e)) }

// A pack is a kernel's arguments in memory of C: tensor maps, the other values, eight
// bytes each, and the pointers that the driver wants, in the order of the arguments.
type pack struct {
	base unsafe.Pointer // of all
	at   unsafe.Pointer // of the values
	n    int            // of the values
}

// A tensor map is as large, and aligned to half of it.
const mapBytes = 128

func newPack(values ...uint64) pack { return newPackWith(values, 0, len(values)) }

// newPackWith makes room for tensor maps between the values, behind the first so many.
func newPackWith(values []uint64, maps, behind int) pack {
	n := len(values)
	size := mapBytes*maps + 16*n + 8*maps + 16
	base := C.aligned_alloc(mapBytes/2, C.size_t((size+63)&^63))
	p := pack{base, unsafe.Add(base, mapBytes*maps), n}
	words := unsafe.Slice((*uint64)(p.at), n)
	pointers := unsafe.Slice((*uintptr)(p.params()), n+maps)
	for i, v := range values {
		words[i] = v
		k := i
		if i >= behind {
			k += maps
		}
		pointers[k] = uintptr(p.at) + uintptr(8*i)
	}
	for i := range maps {
		pointers[behind+i] = uintptr(p.tensorMap(i))
	}
	return p
}

// rowWords are the spans of a set as the harness gets them by value.
func rowWords(row []span) []uint64 {
	const words = int(unsafe.Sizeof([maxBuffers]span{})) / 8
	list := make([]span, maxBuffers)
	copy(list, row)
	return unsafe.Slice((*uint64)(unsafe.Pointer(&list[0])), words)
}

// newPackOf makes the arguments of a kernel of ours that gets a row by value between others.
func newPackOf(before []uint64, row []span, after ...uint64) pack {
	given := rowWords(row)
	words := len(given)
	p := newPack(slices.Concat(before, given, after)...)
	pointers := unsafe.Slice((*uintptr)(p.params()), p.n)
	for i := range after {
		pointers[len(before)+1+i] = pointers[len(before)+words+i]
	}
	return p
}

func (p pack) tensorMap(i int) unsafe.Pointer { return unsafe.Add(p.base, mapBytes*i) }
func (p pack) params() unsafe.Pointer         { return unsafe.Add(p.at, 8*p.n) }
func (p pack) free()                          { C.free(p.base) }

// encodeMap makes the tensor map of a buffer that begins there.
func encodeMap(to unsafe.Pointer, m wire.TensorMap, at cu.DevicePtr) error {
	t := C.struct_tile{
		_type: C.int(mapTypes[m.DType]), rank: C.int(len(m.Dims)),
		swizzle: C.int(slices.Index(mapSwizzles, m.Swizzle)), promotion: C.int(slices.Index(mapPromotions, m.Promotion)),
	}
	if m.NaN {
		t.fill = 1
	}
	for i := range m.Dims {
		t.dims[i], t.box[i] = C.cuuint64_t(m.Dims[i]), C.cuuint32_t(m.Box[i])
	}
	for i := range m.Strides {
		t.strides[i] = C.cuuint64_t(m.Strides[i])
	}
	return result("cuTensorMapEncodeTiled", C.encode(to, &t, C.uint64_t(at)))
}

// driverHas says whether the driver is new enough for a function.
func driverHas(name string) bool {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.driver_has(c) != 0
}

// A sequence is the kernels of a call in memory of C.
type sequence struct {
	list *C.struct_kernel
	n    int
}

func newSequence(list []launch, functions []cu.Function) sequence {
	s := sequence{(*C.struct_kernel)(C.calloc(C.size_t(len(list)), C.size_t(unsafe.Sizeof(C.struct_kernel{})))), len(list)}
	for i, l := range list {
		k := &unsafe.Slice(s.list, s.n)[i]
		k.f, k.shared = handle(functions[i]), C.uint(l.shared)
		for j := range l.d {
			k.d[j] = C.uint(l.d[j])
		}
		for j := range l.cluster {
			k.cluster[j] = C.uint(l.cluster[j])
		}
		k.cooperative, k.dependent = C.int(btoi(l.cooperative)), C.int(btoi(l.dependent))
	}
	return s
}

func (q sequence) free() { C.free(unsafe.Pointer(q.list)) }

// enqueue puts the kernels into the stream.
func (q sequence) enqueue(s cu.Stream, p pack) error {
	var call *C.char
	r := C.launch_all(q.list, C.int(q.n), streamHandle(s), (*unsafe.Pointer)(p.params()), &call)
	if r != C.CUDA_SUCCESS {
		return newDriverError(C.GoString(call), int(r))
	}
	return nil
}

// launchKernel puts one launch into the stream.
func launchKernel(f cu.Function, d [6]uint32, shared uint32, s cu.Stream, p pack) error {
	return result("cuLaunchKernel", C.launch(handle(f), (*C.uint)(unsafe.Pointer(&d[0])), C.uint(shared), streamHandle(s), p.params()))
}

// allowShared opts in to as much dynamic shared memory.
func allowShared(f cu.Function, bytes uint32) error {
	return result("cuFuncSetAttribute", C.allow_shared(handle(f), C.int(bytes)))
}

// A graph is a chain of launches, ready to run.
type graph struct {
	made   C.CUgraph
	makers *C.struct_makers // with what runs
	order  []int            // of the sets that it goes through, of those that make contents
}

// able says whether there is a graph.
func (g graph) able() bool { return g.makers != nil }

// capture makes a graph of what enqueue puts into the stream, in which launches of refresh make contents.
func capture(s cu.Stream, refresh cu.Function, enqueue func() error) (graph, error) {
	var g graph
	if err := result("cuStreamBeginCapture", C.begin_capture(streamHandle(s))); err != nil {
		return g, err
	}
	err := enqueue()
	if e := result("cuStreamEndCapture", C.cuStreamEndCapture(streamHandle(s), &g.made)); err == nil {
		err = e
	}
	g.makers = (*C.struct_makers)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_makers{}))))
	if err == nil {
		err = result("cuGraphInstantiateWithFlags", C.cuGraphInstantiateWithFlags(&g.makers.exec, g.made, 0))
	}
	if err == nil {
		var out C.struct_sample
		if r := C.find_makers(g.made, handle(refresh), g.makers, &out); r != C.CUDA_SUCCESS {
			err = newDriverError(C.GoString(out.call), int(r))
		}
	}
	if err != nil {
		g.free()
		return graph{}, err
	}
	return g, nil
}

func (g graph) free() {
	if g.makers != nil {
		if g.makers.exec != nil {
			C.cuGraphExecDestroy(g.makers.exec)
		}
		C.free(unsafe.Pointer(g.makers.list))
		C.free(unsafe.Pointer(g.makers))
	}
	if g.made != nil {
		C.cuGraphDestroy(g.made)
	}
}

// lent does something while a set gets the contents of another row than it has in the graph.
func (g graph) lent(set int, row []span, do func() error) error {
	p := newPack(rowWords(row)...)
	defer p.free()
	had := C.lend(g.makers, C.uint32_t(set), p.at)
	if had == nil {
		return &ownError{fmt.Errorf("no node of the graph makes contents of set %d", set)}
	}
	defer C.lend(g.makers, C.uint32_t(set), had)
	return do()
}

// A ran is what passes of a graph took, in nanoseconds: between the events, all
// of them and the shortest, by the wall clock, and for how long this thread
// meanwhile had no core.
type ran struct{ event, least, wall, waited float64 }

// A refresher begins passes, and has the graph that makes the contents of all sets.
type refresher struct {
	begin     cu.Function
	beginArgs pack
	all       graph
	usual     float64 // nanoseconds
}

// withC gives the refresher as C has it.
func (f *refresher) withC(do func(*C.struct_refresh)) {
	const size = unsafe.Sizeof(C.struct_refresh{})
	c := (*C.struct_refresh)(C.calloc(1, C.size_t(size+unsafe.Sizeof([6]uint32{}))))
	defer C.free(unsafe.Pointer(c))
	d := (*[6]uint32)(unsafe.Add(unsafe.Pointer(c), size))
	*d = [6]uint32{1, 1, 1, threads, 1, 1}
	c.begin, c.begin_d = handle(f.begin), (*C.uint)(unsafe.Pointer(d))
	c.begin_params = (*unsafe.Pointer)(f.beginArgs.params())
	c.all = f.all.makers
	do(c)
}

// sweepBlocks is the launch of a sweep.
var sweepBlocks = [6]uint32{maxBlocks, 1, 1, threads, 1, 1}

func (f *refresher) free() {
	f.beginArgs.free()
	f.all.free()
}

// A making is the graph that makes contents as a chain of launches does, without the launches.
type making struct {
	graph
	usual, begin float64   // what it takes, and what the beginning of a pass takes, in nanoseconds
	took         []float64 // the last times in a race
}

// resetPersisting releases the cache lines that kernels asked to keep.
func resetPersisting() error {
	return result("cuCtxResetPersistingL2Cache", C.reset_persisting())
}

// run makes passes, each with a secret of two words: contents anew, then the graph; or, with
// a making, the graph, which makes them itself, and the making in one of every so many passes, from a first
// on. It gives the times that the making took.
func (g graph) run(s cu.Stream, events []cu.Event, secrets []uint64, f *refresher, m *making, first, every int) (ran, []float64, error) {
	var out C.struct_sample
	var r C.CUresult
	passes := len(secrets) / 2
	again := make([]C.float, passes)
	usual := C.struct_usual{alone: C.float(f.usual / 1e6)}
	var alone C.CUgraphExec
	if m != nil {
		usual = C.struct_usual{alone: C.float(m.usual / 1e6), begin: C.float(m.begin / 1e6)}
		alone = m.makers.exec
	}
	f.withC(func(c *C.struct_refresh) {
		r = C.sample_passes(g.makers, alone, C.int(first), C.int(every), usual, streamHandle(s), (*C.CUevent)(unsafe.Pointer(&events[0])), C.int(passes),
			(*C.uint64_t)(unsafe.Pointer(&secrets[0])), c, &again[0], &out)
	})
	if r != C.CUDA_SUCCESS {
		return ran{}, nil, newDriverError(C.GoString(out.call), int(r))
	}
	var made []float64
	for i := first; m != nil && i < passes; i += every {
		made = append(made, float64(again[len(made)])*1e6)
	}
	return ran{float64(out.ms) * 1e6, float64(out.least) * 1e6, float64(out.wall), float64(out.waited)}, made, nil
}

// measure runs the making by itself.
func (m *making) measure(s cu.Stream, events []cu.Event, f *refresher) (usual, begin float64, err error) {
	var out C.struct_sample
	var took C.struct_usual
	var r C.CUresult
	f.withC(func(c *C.struct_refresh) {
		r = C.sample_alone(m.makers.exec, streamHandle(s), (*C.CUevent)(unsafe.Pointer(&events[0])), c, &took, &out)
	})
	if r != C.CUDA_SUCCESS {
		return 0, 0, newDriverError(C.GoString(out.call), int(r))
	}
	return float64(took.alone) * 1e6, float64(took.begin) * 1e6, nil
}

// alone makes contents of all sets once, waits, and gives the nanoseconds that it took.
func (f *refresher) alone(s cu.Stream, events []cu.Event, secret []uint64) (float64, error) {
	var out C.struct_sample
	var r C.CUresult
	f.withC(func(c *C.struct_refresh) {
		r = C.sample_refresh(streamHandle(s), (*C.CUevent)(unsafe.Pointer(&events[0])), (*C.uint64_t)(unsafe.Pointer(&secret[0])), c, &out)
	})
	if r != C.CUDA_SUCCESS {
		return 0, newDriverError(C.GoString(out.call), int(r))
	}
	return float64(out.ms) * 1e6, nil
}

// launchAlone launches the kernels and waits for them: nanoseconds by the wall clock.
func (q sequence) launchAlone(s cu.Stream, p pack) (float64, error) {
	var out C.struct_sample
	if r := C.sample_launch(q.list, C.int(q.n), streamHandle(s), p.params(), &out); r != C.CUDA_SUCCESS {
		return 0, newDriverError(C.GoString(out.call), int(r))
	}
	return float64(out.wall), nil
}

// allocHost takes memory of the host that the device copies to by itself.
func allocHost(bytes int) ([]byte, error) {
	var p unsafe.Pointer
	if err := result("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(bytes), 0)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

func freeHost(m []byte) {
	if m != nil {
		C.cuMemFreeHost(unsafe.Pointer(unsafe.SliceData(m)))
	}
}

// sharedOptin is the most dynamic shared memory that a block may opt in to.
func sharedOptin(d cu.Device) (int, error) {
	var v C.int
	err := result("cuDeviceGetAttribute", C.cuDeviceGetAttribute(&v, C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, C.CUdevice(d)))
	return int(v), err
}
