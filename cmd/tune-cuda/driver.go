//go:build cuda

package main

/*
#cgo CFLAGS: -I/usr/local/cuda/include
#cgo LDFLAGS: -L/usr/local/cuda/lib64/stubs -L/usr/lib/x86_64-linux-gnu/stubs -lcuda -ldl
#include <cuda.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

struct sample {
	uint64_t wall, waited;
	float ms;
	const char *call;
};

#define TRY(x, name) do { CUresult r_ = (x); if (r_ != CUDA_SUCCESS) { out->call = name; return r_; } } while (0)

// One sample is one crossing from Go to C. The clock on the wall runs from the
// call that starts the graph until the whole device is done.
static CUresult sample_graph(CUgraphExec g, CUstream s, CUevent begin, CUevent end, struct sample *out)
{
	TRY(reset_persisting(), "cuCtxResetPersistingL2Cache");
	TRY(cuEventRecord(begin, s), "cuEventRecord");
	uint64_t before = waited(), t = now();
	TRY(cuGraphLaunch(g, s), "cuGraphLaunch");
	TRY(cuEventRecord(end, s), "cuEventRecord");
	TRY(cuCtxSynchronize(), "cuCtxSynchronize");
	out->wall = now() - t;
	out->waited = waited() - before;
	TRY(cuEventElapsedTime(&out->ms, begin, end), "cuEventElapsedTime");
	return CUDA_SUCCESS;
}

static CUresult sample_launch(CUfunction f, const unsigned d[6], unsigned shared, CUstream s, void *params,
                              struct sample *out)
{
	uint64_t t = now();
	TRY(launch(f, d, shared, s, params), "cuLaunchKernel");
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
}

func (e *driverError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.call, e.name, e.code) }

// result turns what the driver returned into an error.
func result(call string, r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return newDriverError(call, int(r))
}

func newDriverError(call string, code int) error {
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
	return &wire.Fault{Call: e.call, Code: e.code, Name: e.name, Fatal: lost()}
}

// lost says whether the context can do no more: after an error that it does
// not survive, every call gives that error again.
func lost() bool { return C.cuCtxSynchronize() != C.CUDA_SUCCESS }

// The types of gorgonia.org/cu hold the driver's handle and nothing else.

func handle(f cu.Function) C.CUfunction   { return *(*C.CUfunction)(unsafe.Pointer(&f)) }
func streamHandle(s cu.Stream) C.CUstream { return *(*C.CUstream)(unsafe.Pointer(&s)) }
func eventHandle(e cu.Event) C.CUevent    { return *(*C.CUevent)(unsafe.Pointer(&e)) }

// A pack is a kernel's arguments in memory of C: the values, eight bytes each,
// and the pointers to them that the driver wants.
type pack struct {
	at unsafe.Pointer
	n  int
}

func newPack(values ...uint64) pack {
	n := len(values)
	p := pack{C.malloc(C.size_t(16*n + 16)), n}
	words := unsafe.Slice((*uint64)(p.at), n)
	pointers := unsafe.Slice((*uintptr)(unsafe.Add(p.at, 8*n)), n)
	for i, v := range values {
		words[i] = v
		pointers[i] = uintptr(p.at) + uintptr(8*i)
	}
	return p
}

func (p pack) params() unsafe.Pointer { return unsafe.Add(p.at, 8*p.n) }
func (p pack) free()                  { C.free(p.at) }

// launchKernel puts one launch into the stream.
func launchKernel(f cu.Function, d [6]uint32, shared uint32, s cu.Stream, p pack) error {
	return result("cuLaunchKernel", C.launch(handle(f), (*C.uint)(unsafe.Pointer(&d[0])), C.uint(shared), streamHandle(s), p.params()))
}

// allowShared opts in to as much dynamic shared memory.
func allowShared(f cu.Function, bytes uint32) error {
	return result("cuFuncSetAttribute", C.allow_shared(handle(f), C.int(bytes)))
}

// A graph is a chain of launches, ready to run.
type graph struct{ exec C.CUgraphExec }

// capture makes a graph of what enqueue puts into the stream.
func capture(s cu.Stream, enqueue func() error) (graph, error) {
	var g graph
	if err := result("cuStreamBeginCapture", C.begin_capture(streamHandle(s))); err != nil {
		return g, err
	}
	err := enqueue()
	var made C.CUgraph
	if e := result("cuStreamEndCapture", C.cuStreamEndCapture(streamHandle(s), &made)); err == nil {
		err = e
	}
	if made != nil {
		defer C.cuGraphDestroy(made)
	}
	if err != nil {
		return g, err
	}
	err = result("cuGraphInstantiateWithFlags", C.cuGraphInstantiateWithFlags(&g.exec, made, 0))
	return g, err
}

func (g graph) free() {
	if g.exec != nil {
		C.cuGraphExecDestroy(g.exec)
	}
}

// A ran is one launch of a graph in nanoseconds: between the events, by the wall
// clock, and for how long this thread meanwhile had no core.
type ran struct{ event, wall, waited float64 }

// run launches the graph once.
func (g graph) run(s cu.Stream, begin, end cu.Event) (ran, error) {
	var out C.struct_sample
	if r := C.sample_graph(g.exec, streamHandle(s), eventHandle(begin), eventHandle(end), &out); r != C.CUDA_SUCCESS {
		return ran{}, newDriverError(C.GoString(out.call), int(r))
	}
	return ran{float64(out.ms) * 1e6, float64(out.wall), float64(out.waited)}, nil
}

// launchAlone launches a kernel and waits for it: nanoseconds by the wall clock.
func launchAlone(f cu.Function, d [6]uint32, shared uint32, s cu.Stream, p pack) (float64, error) {
	var out C.struct_sample
	if r := C.sample_launch(handle(f), (*C.uint)(unsafe.Pointer(&d[0])), C.uint(shared), streamHandle(s), p.params(), &out); r != C.CUDA_SUCCESS {
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
