package cpu

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
)

// An edge is one of the edge-case inputs at a shape.
type edge struct {
	labs.EdgeCase
	inputs [][]byte // by buffer; nil until they are asked for
	// truth has the reference's answer and slack. It is computed when a launch was first far from the
	// baseline's.
	truth *shapeData
	// silent says that there is no right answer to compare with.
	silent bool
}

// edgesAt lists the edge-case inputs of a shape.
func (h *lab) edgesAt(d *shapeData) []*edge {
	if list, ok := h.edges[d]; ok {
		return list
	}
	var list []*edge
	for _, e := range labs.EdgeCases(h.problem.spec) {
		list = append(list, &edge{EdgeCase: e})
	}
	h.edges[d] = list
	return list
}

// anyEdge gives one of the edge-case inputs, if there are any.
func (c *contender) anyEdge() []*edge { return labs.AnyEdge(c.h.edgesAt(c.d), c.rng) }

// nextEdge gives one that is due, or any. Whatever is due when a measurement ends comes last.
func (c *contender) nextEdge() []*edge {
	if len(c.due) == 0 || c.rng.IntN(2) == 0 {
		return c.anyEdge()
	}
	next := c.due[:1]
	c.due = c.due[1:]
	return next
}

// edgesOf gives those that a set of processes of the finals meets.
func (c *contender) edgesOf(set int) []*edge {
	return labs.EdgesOf(c.h.edgesAt(c.d), set, c.d.inBytes+c.d.outBytes)
}

// fill makes the inputs.
func (e *edge) fill(h *lab, d *shapeData) error {
	if e.inputs != nil {
		return nil
	}
	_, values, err := d.Edge(h.problem.spec, e.Further, d.shape, e.Seed, h.problem.likeTimed(d, e.Seed))
	if err != nil {
		return err
	}
	e.inputs = d.packed(values)
	return nil
}

// onEdges launches batches as they are timed, in each of which one launch, drawn which, has edge-case
// inputs. What the candidate computed of them is compared with the baseline's answer, and where the two
// are far apart with the reference's. Nothing of this is timed.
func (c *contender) onEdges(base *contender, left *evaluator.Observation, edges []*edge) error {
	for _, e := range edges {
		if e.silent || left.Wrong != "" {
			continue
		}
		if err := e.fill(c.h, c.d); err != nil {
			return err
		}
		if err := c.onEdge(base, e, left); err != nil {
			return err
		}
		if len(c.h.edgesAt(c.d))*(c.d.inBytes+c.d.outBytes) > labs.EdgeBudget { // made again from the seed
			e.inputs, e.truth = nil, nil
		}
	}
	return nil
}

func (c *contender) onEdge(base *contender, e *edge, left *evaluator.Observation) error {
	_, err := c.t.beside(c, base, func(mine []uint32) error { return c.launchEdge(base, e, left, mine) })
	return err
}

func (c *contender) launchEdge(base *contender, e *edge, left *evaluator.Observation, sets []uint32) error {
	set := sets[c.rng.IntN(len(sets))]
	own := c.place.given[set]
	c.place.seeds[set], c.place.given[set] = rand.Uint64(), e.inputs
	defer func() { // the set is nothing that a later look takes
		c.place.seeds[set], c.place.given[set], c.last = 0, own, nil
	}()
	c.t.load(c.a, c.d, []uint32{set})
	if _, err := c.run(sets); err != nil {
		return err
	}
	if left.Guard == "" {
		left.Guard = c.a.checkGuards(&c.d.layout, c.place.base, int(set))
	}
	if err := base.answer([]uint32{set}); err != nil {
		return err
	}
	answer, err := c.t.answer(c.d, set)
	if err != nil {
		e.silent = true // the baseline's answer is not a number
		return nil
	}
	if c.far(c.h.problem.outputs(c.d, c.a, c.place.base, int(set), answer)) == "" {
		left.Edges = append(left.Edges, e.Name)
		return nil
	}
	truth, err := e.answer(c.h, c.d)
	if err != nil || e.silent {
		return err
	}
	if c.far(c.h.problem.outputs(c.d, c.t.theirs, c.place.base, int(set), truth)) != "" {
		e.silent = true // the baseline is wrong there
		return nil
	}
	left.Edges = append(left.Edges, e.Name)
	if why := c.far(c.h.problem.outputs(c.d, c.a, c.place.base, int(set), truth)); why != "" {
		left.Wrong = fmt.Sprintf("edge-case contents %q in a batch like those that are timed: %s", e.Name, why)
	}
	return nil
}

// answer is the reference's, with its slack.
func (e *edge) answer(h *lab, d *shapeData) ([]expected, error) {
	if e.truth == nil {
		f, err := h.problem.place(d.shape)
		if err != nil {
			return nil, err
		}
		switch err := h.fillFurther(h.holding, f, e.Further, e.Seed, h.problem.likeTimed(d, e.Seed)); {
		case errors.Is(err, ErrReference):
			e.silent = true
		case err != nil:
			return nil, fmt.Errorf("edge-case contents at shape %s: %w", d.shape.Name, err)
		}
		f.inputs[0] = nil // they are e's
		e.truth, e.silent = f, e.silent || f.silent != ""
	}
	return e.truth.expected[0], nil
}

// far says which output is further off than some tolerances; empty for none.
func (c *contender) far(outputs []evaluator.Output) string {
	return labs.Far(outputs, func(name string) float64 {
		limit, _ := c.h.problem.spec.ToleranceOf(c.h.problem.buffers[c.h.problem.index(name)])
		return limit
	})
}
