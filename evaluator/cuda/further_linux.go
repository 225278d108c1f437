package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// inputs gives a shape with edge-case inputs, or with the declared ones where the
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
	var values [3][][]float64 // the elements, and those nearby
	if s.Scalars, values, err = d.Further(h.problem.spec, c, d.shape, h.problem.seed, nil); err != nil {
		return s, err
	}
	var contents []byte
	for _, list := range slices.Concat(values[:]...) {
		contents = wire.AppendDoubles(contents, list)
	}
	s.Inputs = filepath.Join(h.Scratch, fmt.Sprintf("inputs-%d", len(h.further)))
	if err := os.WriteFile(s.Inputs, contents, 0o600); err != nil {
		return s, err
	}
	h.further[key] = s
	return s, nil
}

// A furtherKey names edge-case inputs at one shape.
type furtherKey struct {
	shape *shapeData
	name  string
}
