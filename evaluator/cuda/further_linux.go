package cuda

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

// inputs gives a shape with edge-case inputs, or with the declared ones where the
// name is "". The contents are made when they are first asked for.
func (h *lab) inputs(ctx context.Context, d *shapeData, name string) (wire.Shape, error) {
	if name == "" {
		return d.wire, nil
	}
	h.furtherMu.Lock()
	defer h.furtherMu.Unlock()
	key := furtherKey{d, name}
	if s, ok := h.further[key]; ok {
		return s, nil
	}
	c, err := h.problem.spec.FurtherNamed(name)
	if err != nil {
		return wire.Shape{}, err
	}
	s := d.wire
	made, err := h.structured(ctx, d, 0)
	if err != nil {
		return s, err
	}
	var values [][]float64
	if s.Scalars, values, err = d.Edge(h.problem.spec, c, d.shape, h.problem.seed, made); err != nil {
		return s, err
	}
	var contents []byte
	for i, list := range values {
		contents = wire.AppendElements(contents, h.problem.open.Buffers[i].DType, list)
	}
	s.Inputs = filepath.Join(h.Scratch, fmt.Sprintf("inputs-%d", len(h.further)))
	if err := os.WriteFile(s.Inputs, contents, 0o600); err != nil {
		return s, err
	}
	h.further[key] = s
	return s, nil
}

// structured gives one of the contents of the buffers that are made as a whole, by buffer; nil for
// others.
func (h *lab) structured(ctx context.Context, d *shapeData, content int) ([][]float64, error) {
	all := make([][]float64, len(h.problem.spec.Buffers))
	for i, b := range h.problem.spec.Buffers {
		if !b.Data.Made() {
			continue
		}
		var err error
		if all[i], err = h.python.Made(ctx, h.problem.spec, d.shape, d.Size, i, h.problem.seedOf(content)); err != nil {
			err = python.Blame(err, ErrReference, "kernel "+h.problem.name+", shape "+d.shape.Name)
			return nil, labs.AtShape(err, ErrReference, h.problem.spec, d.shape.Name, d.wire.Dims)
		}
	}
	return all, nil
}

// placeMade writes the inputs of a shape that are made as a whole for workers, once, if there are any.
func (h *lab) placeMade(ctx context.Context, d *shapeData) error {
	if !slices.ContainsFunc(h.problem.spec.Buffers, func(b kernels.Buffer) bool { return b.Data.Made() }) {
		return nil
	}
	h.furtherMu.Lock()
	defer h.furtherMu.Unlock()
	if d.wire.Made != "" {
		return nil
	}
	contents := make([][]byte, wire.MadeContents)
	for k := range contents {
		all, err := h.structured(ctx, d, k)
		if err != nil {
			return err
		}
		for i, list := range all {
			at := h.problem.seedOf(k) % wire.MadeContents
			contents[at] = wire.AppendElements(contents[at], h.problem.open.Buffers[i].DType, list)
		}
	}
	d.wire.Made = filepath.Join(h.Scratch, fmt.Sprintf("made-%d", h.serial.Add(1)))
	return os.WriteFile(d.wire.Made, slices.Concat(contents...), 0o600)
}

// A furtherKey names edge-case inputs at one shape.
type furtherKey struct {
	shape *shapeData
	name  string
}
