package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/kernels"
)

// inputs gives a shape with contents that bite, or with the declared ones where the
// name is "". The contents are made when they are first asked for.
func (h *lab) inputs(d *shapeData, name string) (wire.Shape, error) {
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
	if s.Scalars, err = c.Scalars(h.problem.spec, d.shape); err != nil {
		return s, err
	}
	h.problem.roundScalars(s.Scalars)
	var values [3][]byte // the elements, and those nearby
	put := func(k int, list []float64) {
		for _, x := range list {
			values[k] = binary.LittleEndian.AppendUint64(values[k], math.Float64bits(x))
		}
	}
	for i, b := range h.problem.spec.Buffers {
		if b.Role == kernels.Out {
			continue
		}
		axes, err := h.problem.spec.Axes(b, d.shape)
		if err != nil {
			return s, err
		}
		made := c.Make(i, d.wire.Elements[i], axes[len(axes)-1], h.problem.seed)
		put(0, made)
		put(1, b.Nearby(made, 0, h.problem.seed))
		put(2, b.Nearby(made, 1, h.problem.seed))
	}
	s.Inputs = filepath.Join(h.scratch, fmt.Sprintf("inputs-%d", len(h.further)))
	if err := os.WriteFile(s.Inputs, append(append(values[0], values[1]...), values[2]...), 0o600); err != nil {
		return s, err
	}
	h.further[key] = s
	return s, nil
}

// A furtherKey names contents that bite at one shape.
type furtherKey struct {
	shape *shapeData
	name  string
}
