package cuda

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	made, err := h.structured(ctx, d, h.problem.seedOf(0))
	if err != nil {
		return s, err
	}
	if s.Scalars, s.Inputs, err = h.writeInputs(d, c, h.problem.seed, made); err != nil {
		return s, err
	}
	h.further[key] = s
	return s, nil
}

// writeInputs writes edge-case inputs of a shape to a file of their own, and gives the scalars with it.
func (h *lab) writeInputs(d *shapeData, c kernels.Further, seed uint64, made [][]float64) (scalars []float64, file string, err error) {
	scalars, values, err := d.Edge(h.problem.spec, c, d.shape, seed, made)
	if err != nil {
		return nil, "", err
	}
	var contents []byte
	for i, list := range values {
		contents = wire.AppendElements(contents, h.problem.open.Buffers[i].DType, list)
	}
	file = filepath.Join(h.Scratch, fmt.Sprintf("inputs-%d", h.serial.Add(1)))
	return scalars, file, os.WriteFile(file, contents, 0o600)
}

// structured gives the contents of the buffers that are made as a whole for a seed, by buffer; nil for
// others.
func (h *lab) structured(ctx context.Context, d *shapeData, seed uint64) ([][]float64, error) {
	all := make([][]float64, len(h.problem.spec.Buffers))
	for i, b := range h.problem.spec.Buffers {
		if !b.Data.Made() {
			continue
		}
		var err error
		if all[i], err = h.python.Made(ctx, h.problem.spec, d.shape, d.Size, i, seed); err != nil {
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
	var seeds [wire.MadeContents]uint64
	for k := range seeds {
		seeds[h.problem.seedOf(k)%wire.MadeContents] = h.problem.seedOf(k)
	}
	var err error
	d.wire.Made, err = h.writeMade(ctx, d, seeds)
	return err
}

// writeMade writes such contents, one for each seed, and gives the file.
func (h *lab) writeMade(ctx context.Context, d *shapeData, seeds [wire.MadeContents]uint64) (string, error) {
	var contents []byte
	for _, seed := range seeds {
		all, err := h.structured(ctx, d, seed)
		if err != nil {
			return "", err
		}
		for i, list := range all {
			contents = wire.AppendElements(contents, h.problem.open.Buffers[i].DType, list)
		}
	}
	file := filepath.Join(h.Scratch, fmt.Sprintf("made-%d", h.serial.Add(1)))
	return file, os.WriteFile(file, contents, 0o600)
}

// readMade reads one of the contents that writeMade wrote, by buffer; nil for others.
func (q *problem) readMade(d *shapeData, file string, content int) ([][]float64, error) {
	all := make([][]float64, len(q.spec.Buffers))
	if file == "" {
		return all, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	raw = raw[content*len(raw)/wire.MadeContents:]
	for i, b := range q.open.Buffers {
		if q.spec.Buffers[i].Data.Made() {
			n := wire.ElementBytes(b.DType) * d.wire.Elements[i]
			all[i], raw = wire.Elements(raw[:n], b.DType), raw[n:]
		}
	}
	return all, nil
}

// finalMade gives contents that no candidate has seen, which follow from a secret, for the finals at a
// shape where some contents are made as a whole outside of the device; else the file that there is.
func (h *lab) finalMade(ctx context.Context, d *shapeData, secret string) (string, error) {
	if h.problem.stored() == "" {
		return d.wire.Made, nil
	}
	var seeds [wire.MadeContents]uint64
	for k := range seeds {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", secret, d.shape.Name, k))
		seeds[k] = binary.LittleEndian.Uint64(sum[:]) >> 1
	}
	return h.writeMade(ctx, d, seeds)
}

// A furtherKey names edge-case inputs at one shape.
type furtherKey struct {
	shape *shapeData
	name  string
}
