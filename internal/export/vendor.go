package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/cublaslt"
	"github.com/evotune/evotune/kernels"
)

// Instead says what a library calls at a tuned shape where finals found nothing faster than
// the baseline.
type instead int

// As dispatch.h has them.
const (
	theWinner instead = iota
	ownBaseline
	vendorRoutine
)

// A vendor is the routine of cublasLt that a library calls where finals found nothing faster:
// what campaigns measured candidates beside.
type vendor struct {
	cublaslt.Matmul
	Library string // "libcublasLt.so:matmul_nn"
	of      *problem
	// BiasEach says that every product has a bias of its own.
	BiasEach bool
	// Fastest are the algorithms that campaigns found at their shapes.
	Fastest []fastest
}

// A fastest is the algorithm that is the fastest at a shape.
type fastest struct {
	shape
	Config cublaslt.Config
}

// vendorOf is the problem's routine, made when it is first asked for; nil where exports call none.
func (x *export) vendorOf(p *problem, b *kernels.Baseline, s kernels.Shape) *vendor {
	routine, is := strings.CutPrefix(b.Library, "libcublasLt.so")
	if !x.CUDA() || !is || routine != "" {
		return nil
	}
	if p.Vendor != nil {
		return p.Vendor
	}
	m, err := cublaslt.Parse("cublasLt:" + b.Symbol)
	if err != nil {
		return nil
	}
	var buffers []cublaslt.Buffer
	var elements, dims []int64
	for _, of := range p.Problem.Buffers {
		n, err := p.Elements(of, s)
		if err != nil {
			return nil
		}
		buffers, elements = append(buffers, cublaslt.Buffer{Name: of.Name, DType: string(of.DType), Role: string(of.Role)}), append(elements, n)
	}
	for _, d := range p.Dims {
		dims = append(dims, s.Dims[d])
	}
	if m.CheckBuffers(buffers, nil) != nil || len(p.Scalars) > 0 {
		return nil
	}
	at, err := m.Product(s.Name, dims, elements, buffers)
	if err != nil {
		return nil
	}
	p.Vendor = &vendor{Matmul: m, Library: b.String(), of: p, BiasEach: at.BiasStride > 0}
	return p.Vendor
}

// found keeps the algorithm that a winner was measured beside at a shape.
func (v *vendor) found(w *Winner, s kernels.Shape) {
	c, ok := cublaslt.ParseConfig(w.besideRoutine(s.Name))
	is := func(f fastest) bool { return slices.Equal(f.dims, newShape(s, v.of.Dims).dims) }
	if ok && !slices.ContainsFunc(v.Fastest, is) {
		v.Fastest = append(v.Fastest, fastest{newShape(s, v.of.Dims), c})
	}
}

// Numbers are those of a Config, in C.
func (f fastest) Numbers() string {
	return commas(f.Config[:], func(n int64) string { return fmt.Sprint(n) })
}

// Place is where an operand is among the buffers, or -1.
func (v *vendor) Place(operand string) int { return slices.Index(v.Operands(), operand) }

// Type is the library's number of an operand's type.
func (v *vendor) Type(operand string) int {
	return cublaslt.Types[string(v.of.Problem.Buffers[v.Place(operand)].DType)]
}

// BiasType is the same of the bias where the library must be told: -1 where it is that of C.
func (v *vendor) BiasType() int {
	if v.Bias && cublaslt.FP8(string(v.of.Problem.Buffers[0].DType)) {
		return v.Type("bias")
	}
	return -1
}

// Vendor says that the library calls a routine of a vendor's.
func (x *export) Vendor() bool {
	return slices.ContainsFunc(x.Kernels, func(p *problem) bool { return p.Vendor != nil })
}

// besideRoutine is what the evidence says of the vendor's routine that timings at a shape were
// beside; "" where they were beside something else.
func (w *Winner) besideRoutine(shape string) string {
	told := func(list []evaluator.Evidence) string {
		i := slices.IndexFunc(list, func(e evaluator.Evidence) bool { return e.Check == "baseline "+shape })
		if i < 0 {
			return ""
		}
		return list[i].Detail
	}
	if f := w.final(); f != nil && len(f.Timings) > 0 {
		return told(f.Evidence)
	}
	for _, s := range w.Evidence.Result.Steps {
		if text := told(s.Evidence); text != "" {
			return text
		}
	}
	return ""
}
