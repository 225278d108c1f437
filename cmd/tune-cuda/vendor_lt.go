//go:build cuda

package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../internal/cublaslt
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LT_STATUS int
#define LT_HANDLE void *
#define LT_DESC void *
#define LT_LAYOUT void *
#define LT_PREFERENCE void *
#define LT_HEURISTIC void
#define LT_ALGORITHM void
#define LT_STREAM CUstream
#define LT_COMPUTE int
#define LT_TYPE int
#define LT_DESC_ATTRIBUTE int
#define LT_LAYOUT_ATTRIBUTE int
#define LT_PREFERENCE_ATTRIBUTE int
#define LT_CONFIG_ATTRIBUTE int
#include "lt.h"

struct lt {
	void *library, *handle;
#define FIELD(field, symbol, result, parameters) result (*field) parameters;
	LT_FUNCTIONS(FIELD)
};

static const char *lt_open(struct lt *l, const char *name)
{
	memset(l, 0, sizeof *l);
	l->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!l->library)
		return dlerror();
#define FIND(field, symbol, result, parameters) \
	if (!(*(void **)&l->field = dlsym(l->library, #symbol))) \
		return "it has no " #symbol;
	LT_FUNCTIONS(FIND)
	return NULL;
}

static int lt_create(struct lt *l) { return l->create(&l->handle); }
static size_t lt_version(struct lt *l) { return l->version(); }

// An lt_product is a product's descriptors.
struct lt_product {
	void *desc, *a, *b, *c, *preference;
	int bias;  // the attribute that points to the bias, or -1
	float one, beta;
};

static int lt_desc(struct lt *l, struct lt_product *p, int compute, int scale) { return l->desc_create(&p->desc, compute, scale); }
static int lt_desc_set(struct lt *l, struct lt_product *p, int attribute, const void *value, size_t bytes)
{
	return l->desc_set(p->desc, attribute, value, bytes);
}

static int lt_layout(struct lt *l, void **at, int type, uint64_t rows, uint64_t cols, int64_t ld) { return l->layout_create(at, type, rows, cols, ld); }
static int lt_layout_set(struct lt *l, void *layout, int attribute, const void *value, size_t bytes)
{
	return l->layout_set(layout, attribute, value, bytes);
}

static int lt_preference(struct lt *l, struct lt_product *p) { return l->preference_create(&p->preference); }
static int lt_preference_set(struct lt *l, struct lt_product *p, int attribute, const void *value, size_t bytes)
{
	return l->preference_set(p->preference, attribute, value, bytes);
}

static int lt_heuristic(struct lt *l, struct lt_product *p, int most, void *results, int *found)
{
	return l->heuristic(l->handle, p->desc, p->a, p->b, p->c, p->c, p->preference, most, results, found);
}

static int lt_config(struct lt *l, const void *algorithm, int attribute, void *value, size_t bytes)
{
	size_t written;
	return l->config(algorithm, attribute, value, bytes, &written);
}

static int lt_matmul(struct lt *l, struct lt_product *p, const void *algorithm, uint64_t a, uint64_t b, uint64_t bias, uint64_t c, uint64_t d,
                     uint64_t workspace, size_t bytes, CUstream s)
{
	if (p->bias >= 0) {
		int r = l->desc_set(p->desc, p->bias, &bias, sizeof bias);
		if (r)
			return r;
	}
	return l->matmul(l->handle, p->desc, &p->one, (void *)a, p->a, (void *)b, p->b, &p->beta, (void *)c, p->c, (void *)d, p->c,
	                 algorithm, (void *)workspace, bytes, s);
}

static void lt_close_product(struct lt *l, struct lt_product *p)
{
	if (p->desc)
		l->desc_destroy(p->desc);
	if (p->a)
		l->layout_destroy(p->a);
	if (p->b)
		l->layout_destroy(p->b);
	if (p->c)
		l->layout_destroy(p->c);
	if (p->preference)
		l->preference_destroy(p->preference);
}

static void lt_close(struct lt *l)
{
	if (l->handle)
		l->destroy(l->handle);
	// The library stays, as that of cuBLAS does.
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/internal/cublaslt"
)

// lt is a routine of cublasLt: a matmul, by the fastest of the algorithms that the library
// proposes at every shape that is timed, and by the first that can be run at others.
type lt struct {
	cublaslt.Matmul
	of        *problem
	c         *C.struct_lt
	workspace cu.DevicePtr
	products  map[[4]int64]*ltProduct // by dimensions
}

// An ltProduct is a product at one shape, ready to be run by an algorithm.
type ltProduct struct {
	c     *C.struct_lt_product
	found []cublaslt.Heuristic // what the library proposes, the one that it holds for the fastest first
	now   cublaslt.Heuristic   // that is run
	tried int                  // how many of found cannot be run, as far as that is known
	// chosen says that now was chosen: nothing else is run then.
	chosen bool
}

// loadMatmul opens cublasLt and prepares a routine of it.
func (p *problem) loadMatmul(name string) (library, string, error) {
	m, err := cublaslt.Parse(name)
	if err != nil {
		return nil, "", err
	}
	if err := m.CheckBuffers(operandsOf(p.buffers), p.scalars); err != nil {
		return nil, "", err
	}
	l := newLT(m, p)
	if err = l.open(); err != nil {
		l.free()
		return nil, "", err
	}
	if err = blasResult("cublasLtCreate", C.lt_create(l.c)); err == nil {
		l.workspace, err = alloc(cublaslt.Workspace)
	}
	if err != nil {
		l.free()
		return nil, "", fmt.Errorf("routine %s: %w", name, err)
	}
	return l, l.version(), nil
}

func newLT(m cublaslt.Matmul, p *problem) *lt {
	c := (*C.struct_lt)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_lt{}))))
	return &lt{Matmul: m, of: p, c: c, products: map[[4]int64]*ltProduct{}}
}

// open tries the library that TUNE_CUDA_CUBLASLT names, or that beside the cuBLAS that
// is named, or those of the usual names.
func (l *lt) open() error {
	names := cublaslt.Names()
	if own := os.Getenv("TUNE_CUDA_CUBLASLT"); own != "" {
		names = []string{own}
	} else if own := os.Getenv("TUNE_CUDA_CUBLAS"); own != "" {
		names = []string{besideCUBLAS(own)}
	}
	return openLibrary("cublasLt", "TUNE_CUDA_CUBLASLT", names, func(name *C.char) *C.char { return C.lt_open(l.c, name) })
}

func (l *lt) version() string { return blasVersion(int(C.lt_version(l.c))) }

func (l *lt) free() {
	for _, p := range l.products {
		l.freeProduct(p)
	}
	C.lt_close(l.c)
	C.free(unsafe.Pointer(l.c))
	release(l.workspace)
}

func (l *lt) freeProduct(p *ltProduct) {
	C.lt_close_product(l.c, p.c)
	C.free(unsafe.Pointer(p.c))
}

// at is where an operand is among the buffers, or -1.
func (l *lt) at(operand string) int { return slices.Index(l.Operands(), operand) }

func dimsKey(dims []int64) (k [4]int64) {
	copy(k[:], dims)
	return k
}

// check holds a shape against what the routine takes, and prepares its product.
func (l *lt) check(s wire.Shape) error {
	made, err := l.Product(s.Name, s.Dims, s.Elements, operandsOf(l.of.buffers))
	if err != nil {
		return err
	}
	key := dimsKey(s.Dims)
	if l.products[key] != nil {
		return nil
	}
	p, err := l.describe(made)
	if err == nil {
		err = l.ask(p)
	}
	if err != nil {
		if p != nil {
			l.freeProduct(p)
		}
		// Not a fault of a candidate's: no driver call has failed.
		return fmt.Errorf("routine %s at shape %s, dimensions %v: %s", l.Routine, s.Name, s.Dims, err.Error())
	}
	l.products[key] = p
	return nil
}

// ltSetter sets attributes until one is refused.
type ltSetter struct{ err error }

func setAttribute[T any](s *ltSetter, what string, value T, do func(unsafe.Pointer, C.size_t) C.int) {
	if s.err == nil {
		s.err = blasResult(what, do(unsafe.Pointer(&value), C.size_t(unsafe.Sizeof(value))))
	}
}

// descriptor sets an attribute of a product's description.
func (l *lt) descriptor(p *ltProduct, attribute C.int) func(unsafe.Pointer, C.size_t) C.int {
	return func(v unsafe.Pointer, n C.size_t) C.int { return C.lt_desc_set(l.c, p.c, attribute, v, n) }
}

// describe makes a product's descriptors.
func (l *lt) describe(made cublaslt.Product) (*ltProduct, error) {
	p := &ltProduct{c: (*C.struct_lt_product)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_lt_product{}))))}
	p.c.one, p.c.bias = 1, -1
	if l.Residual {
		p.c.beta = 1
	}
	s := &ltSetter{err: blasResult("cublasLtMatmulDescCreate", C.lt_desc(l.c, p.c, C.int(l.Compute()), C.int(cublaslt.Types["f32"])))}
	describe := func(what string, attribute C.int, value int32) {
		setAttribute(s, "cublasLtMatmulDescSetAttribute("+what+")", value, l.descriptor(p, attribute))
	}
	describe("transposed A", cublaslt.DescTransA, transposed(made.TransA))
	describe("transposed B", cublaslt.DescTransB, transposed(made.TransB))
	describe("epilogue", cublaslt.DescEpilogue, int32(l.Epilogue()))
	if l.Bias {
		p.c.bias = cublaslt.DescBias
		if dtype := l.of.buffers[l.at("bias")].DType; cublaslt.FP8(l.of.buffers[0].DType) { // else it is that of C
			describe("type of the bias", cublaslt.DescBiasType, int32(cublaslt.Types[dtype]))
		}
		// The heuristic wants to know how the bias is aligned: like all memory here.
		setAttribute(s, "cublasLtMatmulDescSetAttribute(bias)", uint64(l.workspace), l.descriptor(p, cublaslt.DescBias))
		if made.BiasStride > 0 {
			setAttribute(s, "cublasLtMatmulDescSetAttribute(stride of the bias)", made.BiasStride, l.descriptor(p, cublaslt.DescBiasStride))
		}
	}
	if l.Fast {
		setAttribute(s, "cublasLtMatmulDescSetAttribute(fast sums)", int8(1), l.descriptor(p, cublaslt.DescFast))
	}
	for _, x := range []struct {
		to      *unsafe.Pointer
		of      cublaslt.Layout
		operand string
	}{{&p.c.a, made.A, "B"}, {&p.c.b, made.B, "A"}, {&p.c.c, made.C, "C"}} {
		dtype := C.int(cublaslt.Types[l.of.buffers[l.at(x.operand)].DType])
		if s.err == nil {
			s.err = blasResult("cublasLtMatrixLayoutCreate", C.lt_layout(l.c, x.to, dtype, C.uint64_t(x.of.Rows), C.uint64_t(x.of.Cols), C.int64_t(x.of.LD)))
		}
		if made.Batch > 1 {
			setAttribute(s, "cublasLtMatrixLayoutSetAttribute(batch)", int32(made.Batch), func(v unsafe.Pointer, n C.size_t) C.int {
				return C.lt_layout_set(l.c, *x.to, cublaslt.LayoutBatch, v, n)
			})
			setAttribute(s, "cublasLtMatrixLayoutSetAttribute(stride)", x.of.Stride, func(v unsafe.Pointer, n C.size_t) C.int {
				return C.lt_layout_set(l.c, *x.to, cublaslt.LayoutStride, v, n)
			})
		}
	}
	if s.err == nil {
		s.err = blasResult("cublasLtMatmulPreferenceCreate", C.lt_preference(l.c, p.c))
	}
	prefer := func(attribute C.int) func(unsafe.Pointer, C.size_t) C.int {
		return func(v unsafe.Pointer, n C.size_t) C.int { return C.lt_preference_set(l.c, p.c, attribute, v, n) }
	}
	setAttribute(s, "cublasLtMatmulPreferenceSetAttribute(workspace)", uint64(cublaslt.Workspace), prefer(cublaslt.PreferWorkspace))
	setAttribute(s, "cublasLtMatmulPreferenceSetAttribute(reduction)", uint32(cublaslt.ReduceComputeType), prefer(cublaslt.PreferReduction))
	return p, s.err
}

func transposed(t bool) int32 {
	if t {
		return cublaslt.OpT
	}
	return cublaslt.OpN
}

// ask has the library propose algorithms.
func (l *lt) ask(p *ltProduct) error {
	list := make([]cublaslt.Heuristic, cublaslt.Algorithms)
	var n C.int
	err := blasResult("cublasLtMatmulAlgoGetHeuristic", C.lt_heuristic(l.c, p.c, cublaslt.Algorithms, unsafe.Pointer(&list[0]), &n))
	for _, h := range list[:n] {
		if h.State == cublaslt.Success && h.Workspace <= cublaslt.Workspace {
			p.found = append(p.found, h)
		}
	}
	if err == nil && len(p.found) == 0 {
		err = errors.New("none was proposed")
	}
	if err != nil {
		var types []string
		for _, b := range l.of.buffers {
			types = append(types, b.DType)
		}
		return fmt.Errorf("cublasLt %s has no algorithm for it with %s on this device (%w): take other types, or a baseline with a genome", l.version(), strings.Join(types, ", "), err)
	}
	p.now = p.found[0]
	return nil
}

func (l *lt) enqueue(s wire.Shape, arrays []cu.DevicePtr) error {
	p := l.products[dimsKey(s.Dims)]
	err := l.run(p, &p.now, arrays)
	for err != nil && !p.chosen && p.tried+1 < len(p.found) && !lost() {
		p.tried++
		p.now = p.found[p.tried]
		err = l.run(p, &p.now, arrays)
	}
	return err
}

// run puts a product by an algorithm into the stream.
func (l *lt) run(p *ltProduct, by *cublaslt.Heuristic, arrays []cu.DevicePtr) error {
	out := arrays[len(arrays)-1]
	bias, residual := cu.DevicePtr(0), out
	if l.Bias {
		bias = arrays[l.at("bias")]
	}
	if l.Residual {
		residual = arrays[l.at("residual")]
	}
	return blasResult("cublasLtMatmul", C.lt_matmul(l.c, p.c, unsafe.Pointer(&by.Algorithm), C.uint64_t(arrays[1]), C.uint64_t(arrays[0]), C.uint64_t(bias),
		C.uint64_t(residual), C.uint64_t(out), C.uint64_t(l.workspace), cublaslt.Workspace, streamHandle(l.of.stream)))
}

// choose finds the fastest algorithm at the shape of a race, before anybody is timed
// in it. The worker remembers what was chosen.
func (l *lt) choose(q *race) (string, error) {
	s := q.r.Shape
	if err := l.check(s); err != nil {
		return "", err
	}
	p := l.products[dimsKey(s.Dims)]
	key := fmt.Sprint(l.Routine, l.version(), l.of.buffers, s.Dims, s.Elements, q.r.Cold)
	chosen, known := l.of.chosen[key]
	if !known {
		var err error
		if chosen, err = l.search(q, p); err != nil {
			return "", err
		}
		if l.of.chosen == nil {
			l.of.chosen = map[string]choice{}
		}
		l.of.chosen[key] = chosen
	}
	p.now, p.chosen = chosen.algorithm, true
	return chosen.said, nil
}

// search finds the fastest of what the library proposes.
func (l *lt) search(q *race, p *ltProduct) (choice, error) {
	var ways []*way
	for _, h := range p.found {
		ways = append(ways, &way{launch: func(arrays []cu.DevicePtr) error { return l.run(p, &h, arrays) }})
	}
	passed, r, err := q.fastest(ways)
	if err != nil {
		return choice{}, fmt.Errorf("routine %s at shape %s: the fastest of the %d algorithms that cublasLt %s proposes was not found: %w", l.Routine, q.r.Shape.Name, len(ways), l.version(), err)
	}
	best := p.found[r.best]
	return choice{algorithm: best, said: saidOf("cublasLt "+l.version(), "algorithms", r, len(ways), passed, q.r.Cold, l.name(best))}, nil
}

// name says which algorithm it is, by the library's own numbers.
func (l *lt) name(h cublaslt.Heuristic) string {
	return cublaslt.ConfigOf(func(attribute, bytes int) (uint32, bool) {
		var v uint32 // little-endian, so that two bytes of it will do
		ok := C.lt_config(l.c, unsafe.Pointer(&h.Algorithm), C.int(attribute), unsafe.Pointer(&v), C.size_t(bytes)) == cublaslt.Success
		return v, ok
	}).String()
}

// operandsOf are buffers as a routine sees them.
func operandsOf(buffers []buffer) []cublaslt.Buffer {
	var list []cublaslt.Buffer
	for _, b := range buffers {
		list = append(list, cublaslt.Buffer{Name: b.Name, DType: b.DType, Role: b.Role})
	}
	return list
}
