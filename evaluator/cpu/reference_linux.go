package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

// referenceDeadline bounds one run of the reference.
const referenceDeadline = 30 * time.Minute

// A reference is that of a definition: compiled, or a program in Python.
type reference struct {
	h      *lab
	object []byte // none where it is in Python
	key    string
}

// buildReference compiles the reference: optimised, and as exact as C is, so
// without -ffast-math and without contraction of multiplications and additions.
func (h *lab) buildReference(ctx context.Context) (*reference, error) {
	p := h.problem.spec
	if h.python != nil {
		return &reference{h: h, key: cache.Key("reference 1", h.python.Key, strconv.FormatUint(h.Plan.Seed, 10))}, nil
	}
	g := glue(p, p.Reference.Entry, func(kernels.Scalar) string { return "double" })
	c := compilation{
		files: map[string]string{
			"reference.c": p.Reference.Text, "evotune_reference.h": kernels.ReferenceHeader(p), "evotune_glue.c": g,
		},
		args: append(labs.ReferenceFlags(p), "-O2", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", "-include", "evotune_reference.h",
			"reference.c", "evotune_glue.c", "-lm", "-Wl,--no-undefined", "-Wl,--build-id=none"),
	}
	ctx, done := evaluator.Preparing(ctx, "compiling the reference")
	defer done()
	out, err := h.tool.compile(ctx, c)
	if err != nil {
		var refused *labs.Refusal
		if errors.As(err, &refused) {
			return nil, fmt.Errorf("%w to compile: kernel %s: %s", ErrReference, h.Plan.Definition.Name, labs.ReferenceRefused(p, refused.Summary))
		}
		return nil, err
	}
	return &reference{h: h, object: out.Object, key: cache.Key("reference 1", h.tool.key(c), strconv.FormatUint(h.Plan.Seed, 10))}, nil
}

// Inputs of negative controls, beside the variants: two are exchanged, or elements replaced.
const (
	exchanged = variants + iota
	replaced
)

// outputs runs the reference on inputs as they are stored, in a process of its
// own, and returns the outputs by buffer. Variant is part of the cache's key.
func (r *reference) outputs(ctx context.Context, d *shapeData, inputs [][]byte, variant int) (_ []expected, err error) {
	defer func() { err = labs.AtShape(err, ErrReference, r.h.problem.spec, d.shape.Name, d.Dims) }()
	parts := []string{r.key, strconv.Itoa(variant), fmt.Sprint(d.Dims), fmt.Sprint(d.Scalars)}
	for b, in := range inputs {
		parts = append(parts, r.h.problem.dtypes[b].String(), cache.Key(string(in)))
	}
	key := cache.Key(parts...)
	if packed, ok := r.h.Cache.Get("references", key, nil); ok {
		if out, err := unpackOutputs(d, packed); err == nil {
			return out, nil
		}
	}
	from := make([][]float64, len(inputs))
	for b, in := range inputs {
		if in == nil {
			continue
		}
		p := &d.layout.buffers[b]
		from[b] = make([]float64, p.elements)
		for i := range from[b] {
			from[b][i] = p.dtype.get(in, i)
		}
	}
	values, err := r.compute(ctx, d, [][][]float64{from}, variant != replaced, variant == 0)
	if err != nil {
		return nil, err
	}
	out := make([]expected, len(d.layout.buffers))
	for b, v := range values[0] {
		if v == nil {
			continue
		}
		if out[b], err = newExpected(v); err != nil {
			return nil, fmt.Errorf("%w: kernel %s, shape %s, output %s: %w", ErrReference, r.h.Plan.Definition.Name, d.shape.Name, d.layout.buffers[b].name, err)
		}
	}
	r.h.KeepAnswer(key, packOutputs(out), nil)
	return out, nil
}

// compute runs the reference on several contents of the inputs at one shape, in one
// process, and returns the outputs by contents and buffer. Declared contents are those on
// which it has to be finite; twice proves that one in Python gives the same again.
func (r *reference) compute(ctx context.Context, d *shapeData, contents [][][]float64, declared, twice bool) ([][][]float64, error) {
	ctx, done := evaluator.Preparing(ctx, "reference at shape %s, on the CPU", d.shape.Name)
	defer done()
	if r.h.python != nil {
		return r.ask(ctx, d, contents, declared, twice)
	}
	name := r.h.Plan.Definition.Name
	wide := make([]placedBuffer, len(d.layout.buffers))
	for b, p := range d.layout.buffers {
		p.dtype, p.bytes = f64, p.elements*8
		wide[b] = p
	}
	l := newLayout(wide)
	a, err := newArena(l.stride.times(len(contents)))
	if err != nil {
		return nil, err
	}
	defer a.close()
	launches := make([]uint32, len(contents))
	for set, inputs := range contents {
		launches[set] = uint32(set)
		a.setGuards(&l, span{}, set)
		for b := range l.buffers {
			to := a.buffer(&l, span{}, set, b)
			if inputs[b] == nil {
				copy(to, poisonBytes(f64, len(to)))
				continue
			}
			for i, x := range inputs[b] {
				f64.put(to, i, x)
			}
		}
	}
	// Definitions are trusted, as a Makefile is; but a reference that crashes
	// or hangs is still contained.
	f := cleanFlavour()
	f.limits = false
	p, err := r.h.start(ctx, &f, r.object, a, nil, 1)
	if err == nil {
		defer p.kill()
		err = p.setShape(&shapeData{Size: d.Size, layout: l}, span{})
	}
	if err == nil {
		_, err = p.ask(command{kind: commandRun, launches: launches, junk: 0xff}, answerDone, referenceDeadline)
	}
	var failed *evaluator.Fault
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("%w: kernel %s, shape %s: %s", ErrReference, name, d.shape.Name, failed.Reason)
	}
	if err != nil {
		return nil, err
	}
	out := make([][][]float64, len(contents))
	for set := range contents {
		if damage := a.checkGuards(&l, span{}, set); damage != "" {
			return nil, fmt.Errorf("%w: kernel %s, shape %s: %s", ErrReference, name, d.shape.Name, damage)
		}
		out[set] = make([][]float64, len(l.buffers))
		for b := range l.buffers {
			if l.buffers[b].role == roleIn {
				continue
			}
			mem := a.buffer(&l, span{}, set, b)
			out[set][b] = make([]float64, l.buffers[b].elements)
			for i := range out[set][b] {
				out[set][b][i] = f64.get(mem, i)
			}
		}
	}
	return out, nil
}

// ask is compute for a reference in Python.
func (r *reference) ask(ctx context.Context, d *shapeData, contents [][][]float64, declared, twice bool) ([][][]float64, error) {
	sets := make([][][]byte, len(contents))
	for set, values := range contents {
		sets[set] = make([][]byte, len(values))
		for b, list := range values {
			sets[set][b] = make([]byte, 0, 8*len(list))
			for _, x := range list {
				sets[set][b] = appendFloat(sets[set][b], x)
			}
		}
	}
	answers, err := r.h.python.Outputs(ctx, d.Size, sets, declared, twice)
	if err != nil {
		return nil, python.Blame(err, ErrReference, "kernel "+r.h.problem.name+", shape "+d.shape.Name)
	}
	out := make([][][]float64, len(contents))
	for set, packed := range answers {
		out[set] = make([][]float64, len(d.layout.buffers))
		for b, p := range d.layout.buffers {
			if p.role == roleIn {
				continue
			}
			out[set][b] = make([]float64, p.elements)
			for i := range out[set][b] {
				out[set][b][i] = f64.get(packed, i)
			}
			packed = packed[8*p.elements:]
		}
	}
	return out, nil
}

func packOutputs(out []expected) []byte {
	var b []byte
	for _, e := range out {
		for _, v := range e.values {
			b = appendFloat(b, v)
		}
	}
	return b
}

func unpackOutputs(d *shapeData, packed []byte) ([]expected, error) {
	out := make([]expected, len(d.layout.buffers))
	for i, p := range d.layout.buffers {
		if p.role == roleIn {
			continue
		}
		if len(packed) < 8*p.elements {
			return nil, cache.ErrDamaged
		}
		values := make([]float64, p.elements)
		for j := range values {
			values[j] = f64.get(packed, j)
		}
		packed = packed[8*p.elements:]
		var err error
		if out[i], err = newExpected(values); err != nil {
			return nil, err
		}
	}
	if len(packed) != 0 {
		return nil, cache.ErrDamaged
	}
	return out, nil
}

// scaleOf is the size of a typical element of an output.
func scaleOf(e expected) float64 {
	if e.rms == 0 {
		return 1
	}
	return math.Min(e.rms, math.MaxFloat32/4)
}
