package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/kernels"
)

// makeFurther makes the edge-case inputs of one shape, and what the reference says of
// them: as the data of shapes of their own, since scalars may differ, too.
func (h *lab) makeFurther(ctx context.Context, d *shapeData) error {
	d.further = map[string]*shapeData{}
	made := h.problem.allMade(d)
	for _, c := range h.problem.spec.Further() {
		f, err := h.problem.place(d.shape)
		if err != nil {
			return err
		}
		if err := h.fillFurther(ctx, f, c, h.problem.seed, made); err != nil {
			return err
		}
		d.further[c.Name] = f
	}
	return nil
}

// fillFurther fills in edge-case inputs, in place of the first of the declared ones, of
// which it gets those that are made as a whole. How far
// honest answers may lie from the reference's follows from what it makes of inputs
// that differ by some roundings, and from the rounding of the outputs themselves.
func (h *lab) fillFurther(ctx context.Context, d *shapeData, c kernels.Further, seed uint64, made [][]float64) error {
	q := h.problem
	scalars, values, err := d.Further(q.spec, c, d.shape, seed, made)
	if err != nil {
		return err
	}
	d.Scalars, d.inputs[0] = scalars, d.packed(values[0])
	parts := []string{"further 1", h.ref.key, fmt.Sprint(d.Dims), fmt.Sprint(d.Scalars)}
	for b, in := range d.inputs[0] {
		parts = append(parts, q.dtypes[b].String(), cache.Key(string(in)))
	}
	exact := func(b int) bool { limit, _ := q.spec.ToleranceOf(q.buffers[b]); return limit == 0 }
	for b := range q.buffers {
		if q.roles[b] != roleIn && exact(b) {
			parts = append(parts, fmt.Sprintf("buffer %d exactly", b)) // it has no slack
		}
	}
	key := cache.Key(parts...)
	var slack []float64
	if packed, ok := h.Cache.Get("references", key, &slack); ok && len(slack) == len(q.buffers) {
		if out, err := unpackOutputs(d, packed); err == nil {
			d.expected[0] = withSlack(out, slack)
			return nil
		}
	}
	ctx, release, err := h.share(ctx)
	if err != nil {
		return err
	}
	defer release()
	answers, err := h.ref.compute(ctx, d, values[:], false, false)
	if errors.Is(err, ErrReference) { // which says where it was
		return err
	} else if err != nil {
		return fmt.Errorf("contents %q: %w", c.Name, err)
	}
	out, slack := make([]expected, len(q.buffers)), make([]float64, len(q.buffers))
	for b, v := range answers[0] {
		if v == nil {
			continue
		}
		if out[b], err = newExpected(v); err != nil {
			d.silent = fmt.Sprintf("the reference gives no finite answer: %v", err)
			return nil
		}
		if exact(b) {
			continue // exact answers are asked for
		}
		for i, x := range v {
			slack[b] = math.Max(slack[b], math.Max(math.Abs(answers[1][b][i]-x), math.Abs(answers[2][b][i]-x)))
		}
		slack[b] += q.buffers[b].DType.Step() * out[b].largest
	}
	if seed == q.seed { // others do not come again
		h.KeepAnswer(key, packOutputs(out), slack)
	}
	d.expected[0] = withSlack(out, slack)
	return nil
}

// packed gives the elements of inputs, by buffer, in their types; nil for outputs.
func (d *shapeData) packed(values [][]float64) [][]byte {
	all := make([][]byte, len(values))
	for b, list := range values {
		p := &d.layout.buffers[b]
		if p.role == roleOut {
			continue
		}
		all[b] = make([]byte, p.bytes)
		p.dtype.putAll(all[b], list)
	}
	return all
}

func withSlack(out []expected, slack []float64) []expected {
	for b := range out {
		out[b].slack = slack[b]
	}
	return out
}

// contents finds what a comparison asks for: the data, and which of its contents.
func (q *problem) contents(r evaluator.CompareRequest) (*shapeData, int, error) {
	d, err := q.at(r.Shape)
	if err != nil {
		return nil, 0, err
	}
	if r.Further != "" {
		if d = d.further[r.Further]; d == nil {
			return nil, 0, fmt.Errorf("shape %s has no contents called %q", r.Shape.Name, r.Further)
		}
		return d, 0, nil
	}
	if r.Contents < 0 || r.Contents >= variants {
		return nil, 0, fmt.Errorf("there are no contents %d to compare", r.Contents)
	}
	return d, r.Contents, nil
}
