//go:build cuda

package main

/*
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// What is needed of cuBLAS, by its documented interface; the library is opened
// when it is asked for.
struct blas {
	void *library, *handle;
	int (*create)(void **);
	int (*destroy)(void *);
	int (*version)(void *, int *);
	int (*set_stream)(void *, CUstream);
	int (*set_workspace)(void *, void *, size_t);
	int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,
	            const void *, void *, int, int, int, int);
};

static const char *blas_open(struct blas *b, const char *name)
{
	memset(b, 0, sizeof *b);
	b->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!b->library)
		return dlerror();
#define FIND(f, symbol) if (!(*(void **)&b->f = dlsym(b->library, symbol))) return "it has no " symbol
	FIND(create, "cublasCreate_v2");
	FIND(destroy, "cublasDestroy_v2");
	FIND(version, "cublasGetVersion_v2");
	FIND(set_stream, "cublasSetStream_v2");
	FIND(set_workspace, "cublasSetWorkspace_v2");
	FIND(gemm, "cublasGemmEx");
	return NULL;
}

static int blas_create(struct blas *b) { return b->create(&b->handle); }
static int blas_version(struct blas *b, int *v) { return b->version(b->handle, v); }
static int blas_setup(struct blas *b, CUstream s, uint64_t workspace, size_t bytes)
{
	int r = b->set_stream(b->handle, s); // which resets the workspace, so it is first
	return r ? r : b->set_workspace(b->handle, (void *)workspace, bytes);
}

// C = A B in rows is C' = B' A' in the columns that cuBLAS thinks in: 16-bit
// data, sums in single precision.
static int blas_gemm(struct blas *b, int m, int n, int k, uint64_t a, uint64_t bb, uint64_t c)
{
	enum { OP_N = 0, R_16F = 2, COMPUTE_32F = 68, DEFAULT_TENSOR_OP = 99 };
	float one = 1, zero = 0;
	return b->gemm(b->handle, OP_N, OP_N, n, m, k, &one, (const void *)bb, R_16F, n, (const void *)a, R_16F, k,
	               &zero, (void *)c, R_16F, n, COMPUTE_32F, DEFAULT_TENSOR_OP);
}

static void blas_close(struct blas *b)
{
	if (b->handle)
		b->destroy(b->handle);
	// The library stays: it does not bear being closed and opened again.
}
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/internal/cublaslt"
)

// A routine is a vendor's.
type routine struct{ library }

// A library is an open library of a vendor's, with one of its routines.
type library interface {
	// check holds a shape against what the routine takes, before it is launched there.
	check(s wire.Shape) error
	// enqueue puts a launch at a shape that was checked into the problem's stream.
	enqueue(s wire.Shape, arrays []cu.DevicePtr) error
	// choose prepares the routine for a race, before anybody is timed in it, and says
	// what is run there.
	choose(q *race) (said string, err error)
	free()
}

// loadRoutine opens a vendor's library and prepares a routine of it.
func (p *problem) loadRoutine(r wire.LoadRequest) (*binary, error) {
	load, name := p.loadGEMM, r.Routine
	switch {
	case strings.HasPrefix(name, "cublasLt:"):
		load = p.loadMatmul
	case name == "cudnn:attention":
		load = func(name string) (library, string, error) { return p.loadAttention(name, r.Library) }
	case name != "cublas:gemm":
		return nil, fmt.Errorf("unknown routine %q, want cublas:gemm, cublasLt:matmul_nn and its like, or cudnn:attention: see docs/gpu-kernels.md#library-baselines", name)
	}
	l, version, err := load(name)
	if err != nil {
		return nil, err
	}
	b := &binary{entry: name, routine: &routine{l}, answer: wire.LoadAnswer{Version: version, Refused: map[string]string{}}}
	for _, s := range r.Shapes {
		if err := l.check(s); err != nil {
			b.answer.Refused[s.Name] = err.Error()
		}
	}
	return b, nil
}

// blas is cublas:gemm, with dims [M,N,K] and f16 buffers A[M,K], B[K,N], C[M,N] in
// rows.
type blas struct {
	c         *C.struct_blas
	version   string
	workspace cu.DevicePtr
}

// blasWorkspace is what the vendor recommends for its newest devices. A fixed
// one lets the routine run within a graph.
const blasWorkspace = 32 << 20

func (p *problem) loadGEMM(name string) (library, string, error) {
	if err := checkGEMM(p.buffers, p.scalars); err != nil {
		return nil, "", fmt.Errorf("routine %s: %w", name, err)
	}
	r := &blas{c: (*C.struct_blas)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_blas{}))))}
	if err := r.open(); err != nil {
		r.free()
		return nil, "", err
	}
	err := blasResult("cublasCreate", C.blas_create(r.c))
	if err == nil {
		r.workspace, err = alloc(blasWorkspace)
	}
	if err == nil {
		err = blasResult("cublasSetWorkspace", C.blas_setup(r.c, C.CUstream(unsafe.Pointer(streamHandle(p.stream))), C.uint64_t(r.workspace), blasWorkspace))
	}
	var v C.int
	if err == nil {
		err = blasResult("cublasGetVersion", C.blas_version(r.c, &v))
	}
	if err != nil {
		r.free()
		return nil, "", fmt.Errorf("routine %s: %w", name, err)
	}
	r.version = blasVersion(int(v))
	return r, r.version, nil
}

// open tries the library that TUNE_CUDA_CUBLAS names, or those of the usual
// names.
func (r *blas) open() error {
	names := []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}
	if own := os.Getenv("TUNE_CUDA_CUBLAS"); own != "" {
		names = []string{own}
		// A library that lies somewhere of its own finds its other half when
		// that is already open.
		c := C.CString(besideCUBLAS(own))
		C.dlopen(c, C.RTLD_NOW|C.RTLD_GLOBAL)
		C.free(unsafe.Pointer(c))
	}
	return openLibrary("cuBLAS", "TUNE_CUDA_CUBLAS", names, func(name *C.char) *C.char { return C.blas_open(r.c, name) })
}

// openLibrary tries names in turn; open gives what the problem is, or nil.
func openLibrary(library, variable string, names []string, open func(name *C.char) *C.char) error {
	var why []string
	for _, name := range names {
		c := C.CString(name)
		problem := open(c)
		C.free(unsafe.Pointer(c))
		if problem == nil {
			return nil
		}
		why = append(why, fmt.Sprintf("%s: %s", name, C.GoString(problem)))
	}
	return fmt.Errorf("%s is not there (set %s to its file): %s", library, variable, strings.Join(why, "; "))
}

func (r *blas) free() {
	C.blas_close(r.c)
	C.free(unsafe.Pointer(r.c))
	release(r.workspace)
}

// check holds a shape against what the routine takes.
func (r *blas) check(s wire.Shape) error {
	d := s.Dims
	if len(d) != 3 || slices.Min(d) < 1 || slices.Max(d) > math.MaxInt32 ||
		!slices.Equal(s.Elements, []int64{d[0] * d[2], d[2] * d[1], d[0] * d[1]}) {
		return fmt.Errorf("shape %s: cublas:gemm wants dims M, N, K and buffers A[M,K], B[K,N], C[M,N]", s.Name)
	}
	return nil
}

func (r *blas) choose(*race) (string, error) { return "cuBLAS " + r.version, nil }

func (r *blas) enqueue(s wire.Shape, arrays []cu.DevicePtr) error {
	dims := s.Dims
	return blasResult("cublasGemmEx", C.blas_gemm(r.c, C.int(dims[0]), C.int(dims[1]), C.int(dims[2]),
		C.uint64_t(arrays[0]), C.uint64_t(arrays[1]), C.uint64_t(arrays[2])))
}

// blasResult turns a status of cuBLAS into an error.
func blasResult(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	name, known := cublaslt.Status[int(status)]
	if !known {
		name = "a status that is not known"
	}
	return &driverError{call: call, code: int(status), name: name}
}
