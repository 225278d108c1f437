//go:build cuda

package main

/*
#include <cuda.h>
#include "sdpa.h"

static int dnn_create(struct dnn *d) { return d->create(&d->handle); }
static int dnn_stream(struct dnn *d, CUstream s) { return d->set_stream(d->handle, s); }
static size_t dnn_version(struct dnn *d) { return d->version(); }
static void dnn_close(struct dnn *d)
{
	if (d->handle)
		d->destroy(d->handle);
	// The library stays, as that of cuBLAS does.
}
*/
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// dnn is cudnn:attention, by the fastest of the plans that the library proposes at every shape
// that is timed, and by the first that can be made at others.
type dnn struct {
	of    *problem
	c     *C.struct_dnn
	ready map[attention]*dnnAttention
}

// A dnnAttention is an attention at one shape. now is the plan that is launched.
type dnnAttention struct {
	c     *C.struct_sdpa
	plans []dnnPlan
	now   int
	// chosen says that now was chosen: nothing else is run then.
	chosen bool
}

// A dnnPlan is a configuration. What it needs of memory is its own, since graphs name it.
type dnnPlan struct {
	tried, ok bool
	workspace cu.DevicePtr
}

// loadAttention opens the file, or else cuDNN by its name.
func (p *problem) loadAttention(name, file string) (library, string, error) {
	if err := checkAttention(p.buffers, p.scalars); err != nil {
		return nil, "", err
	}
	l := &dnn{of: p, c: (*C.struct_dnn)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_dnn{})))), ready: map[attention]*dnnAttention{}}
	names := []string{"libcudnn.so.9"}
	if file != "" {
		names = []string{file}
	}
	err := openLibrary("cuDNN", "TUNE_CUDA_CUDNN", names, func(name *C.char) *C.char { return C.dnn_open(l.c, name) })
	if err == nil {
		err = dnnResult("cudnnCreate", C.dnn_create(l.c), "")
	}
	if err == nil {
		err = dnnResult("cudnnSetStream", C.dnn_stream(l.c, C.CUstream(unsafe.Pointer(streamHandle(p.stream)))), "")
	}
	if err != nil {
		l.free()
		return nil, "", fmt.Errorf("routine %s: %w", name, err)
	}
	return l, l.version(), nil
}

// dnnResult turns a status of cuDNN into an error.
func dnnResult(call string, status C.int, why string) error {
	if status == 0 {
		return nil
	}
	return &driverError{call: call, code: int(status), name: cmp.Or(why, "a status that is not known")}
}

// version reads cuDNN's number: 91900 is 9.19.0.
func (l *dnn) version() string { return blasVersion(int(C.dnn_version(l.c))) }

func (l *dnn) free() {
	for _, a := range l.ready {
		l.freeAttention(a)
	}
	C.dnn_close(l.c)
	C.free(unsafe.Pointer(l.c))
}

func (l *dnn) freeAttention(a *dnnAttention) {
	for _, p := range a.plans {
		release(p.workspace)
	}
	C.sdpa_free(l.c, a.c)
	C.free(unsafe.Pointer(a.c))
}

// check holds a shape against what the library computes, and prepares a plan for it.
func (l *dnn) check(s wire.Shape) error {
	at, err := attentionAt(s)
	if err != nil || l.ready[at] != nil {
		return err
	}
	a, err := l.prepare(at)
	if err != nil {
		l.freeAttention(a)
		// Not a fault of a candidate's: no driver call has failed.
		return fmt.Errorf("cudnn:attention at shape %s, dimensions %v: cuDNN %s does not compute it: %s", s.Name, s.Dims, l.version(), err.Error())
	}
	l.ready[at] = a
	return nil
}

// prepare asks for plans, and makes the first that can be made.
func (l *dnn) prepare(at attention) (*dnnAttention, error) {
	a := &dnnAttention{c: (*C.struct_sdpa)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_sdpa{}))))}
	kind := C.int(C.DNN_F16)
	if l.of.buffers[0].DType == "bf16" {
		kind = C.DNN_BF16
	}
	status := C.sdpa_build(l.c, a.c, kind, C.int64_t(at.b), C.int64_t(at.hq), C.int64_t(at.hkv), C.int64_t(at.s), C.int64_t(at.d), C.bool(at.causal), C.float(at.scale))
	err := a.result(status)
	if err != nil {
		return a, err
	}
	a.plans = make([]dnnPlan, int(a.c.found))
	for ; a.now < len(a.plans); a.now++ {
		if err = l.plan(a, a.now); err == nil {
			break
		}
	}
	return a, err
}

// result is what a status says, with the library's own words.
func (a *dnnAttention) result(status C.int) error {
	return dnnResult("cuDNN", status, C.GoString(&a.c.why[0]))
}

// plan makes a plan. It may compile.
func (l *dnn) plan(a *dnnAttention, config int) error {
	p := &a.plans[config]
	if p.tried {
		return nil
	}
	p.tried = true
	if err := a.result(C.sdpa_plan(l.c, a.c, C.int(config))); err != nil {
		return err
	}
	if n := int64(a.c.workspace[config]); n > 0 {
		var err error
		if p.workspace, err = alloc(n); err != nil {
			return err
		}
	}
	p.ok = true
	return nil
}

// choose finds the fastest plan at the shape of a race, before anybody is timed in it. The
// worker remembers what was chosen.
func (l *dnn) choose(q *race) (string, error) {
	s := q.r.Shape
	at, err := attentionAt(s)
	if err == nil {
		err = l.check(s)
	}
	if err != nil {
		return "", err
	}
	a := l.ready[at]
	key := fmt.Sprint("cudnn:attention", l.version(), l.of.buffers, at, q.r.Cold)
	chosen, known := l.of.chosen[key]
	if !known {
		var ways []*way
		for i := range a.plans {
			if err := l.plan(a, i); err != nil && lost() {
				return "", err
			}
			ways = append(ways, &way{launch: func(arrays []cu.DevicePtr) error { return l.run(a, i, arrays) }})
		}
		passed, r, err := q.fastest(ways)
		if err != nil {
			return "", fmt.Errorf("cudnn:attention at shape %s: the fastest of the %d plans that cuDNN %s proposes was not found: %w", s.Name, len(ways), l.version(), err)
		}
		best := fmt.Sprintf("plan %d", r.best+1)
		chosen = choice{place: r.best, said: saidOf("cuDNN "+l.version(), "plans", r, len(ways), passed, q.r.Cold, best)}
		if l.of.chosen == nil {
			l.of.chosen = map[string]choice{}
		}
		l.of.chosen[key] = chosen
	}
	a.now, a.chosen = chosen.place, true
	return chosen.said, l.plan(a, a.now)
}

func (l *dnn) enqueue(s wire.Shape, arrays []cu.DevicePtr) error {
	at, err := attentionAt(s)
	if err != nil {
		return err
	}
	a := l.ready[at]
	err = l.run(a, a.now, arrays)
	for err != nil && !a.chosen && a.now+1 < len(a.plans) && !lost() {
		a.now++
		if err = l.plan(a, a.now); err == nil {
			err = l.run(a, a.now, arrays)
		}
	}
	return err
}

// run puts an attention by a plan into the stream.
func (l *dnn) run(a *dnnAttention, config int, arrays []cu.DevicePtr) error {
	p := a.plans[config]
	if !p.ok {
		return &driverError{call: "cudnnBackendExecute", name: "the library could not make this plan"}
	}
	return a.result(C.sdpa_run(l.c, a.c, C.int(config), C.uint64_t(arrays[0]), C.uint64_t(arrays[1]), C.uint64_t(arrays[2]), C.uint64_t(arrays[3]), C.uint64_t(p.workspace)))
}
