package cpu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// Parity has edge-case inputs at small shapes alone, and makes few launches. A candidate could tell
// its launches by either, and be wrong and fast everywhere else. So launches on edge-case inputs
// come among the timed ones, too.

const (
	// edgeBudget bounds what is kept of edge-case inputs of a shape, in bytes, and what is made
	// of them in one set of processes of the finals.
	edgeBudget = 256 << 20
	// edgeShare is the part of the edge-case inputs that one set of processes meets, one of so many:
	// each is met by two of six.
	edgeShare = 3
	// gross is by how many tolerances an output must be off to be wrong here: the rounding of an
	// honest sum grows with the shape, and what this looks for is as large as the answer.
	gross = 8
	// hidden names the edge-case inputs whose rows are declared data but for one: of all others a few
	// elements tell that they are unusual, and whoever looks at these is right then.
	hidden = "somewhere"
	// hiddenEach is how many of these there are at a shape: a row may be harmless by chance.
	hiddenEach = 3
)

// An edge is one of the edge-case inputs at a shape, drawn from a secret.
type edge struct {
	c      kernels.Further
	seed   uint64
	inputs [][]byte // by buffer; nil until they are asked for
	// truth has the reference's answer and slack. It is computed when a launch was first far from the
	// baseline's.
	truth *shapeData
	// silent says that there is no right answer to compare with.
	silent bool
}

// edgesAt lists the edge-case inputs of a shape, with the declared scalars: a candidate would know
// them by others.
func (h *lab) edgesAt(d *shapeData) []*edge {
	if list, ok := h.edges[d]; ok {
		return list
	}
	var list []*edge
	all := h.problem.spec.Further()
	for i := range all {
		times := 1
		if all[i].Name == hidden {
			times = hiddenEach
		}
		for range times {
			list = append(list, &edge{c: all[i].Declared(), seed: rand.Uint64()})
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	h.edges[d] = list
	return list
}

// anyEdge gives one of the edge-case inputs, if there are any: half of the time a hidden one.
func (c *contender) anyEdge() []*edge {
	list := c.h.edgesAt(c.d)
	if c.rng.IntN(2) == 0 {
		few := slices.DeleteFunc(slices.Clone(list), func(e *edge) bool { return e.c.Name != hidden })
		if len(few) > 0 {
			list = few
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[c.rng.IntN(len(list)):][:1]
}

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
	list := c.h.edgesAt(c.d)
	n := min((len(list)+edgeShare-1)/edgeShare, max(edgeBudget/max(c.d.inBytes+c.d.outBytes, 1), 1))
	var out []*edge
	for i := range n {
		out = append(out, list[(set*n+i)%len(list)])
	}
	return out
}

// fill makes the inputs.
func (e *edge) fill(h *lab, d *shapeData) error {
	if e.inputs != nil {
		return nil
	}
	_, values, err := d.Edge(h.problem.spec, e.c, d.shape, e.seed, h.problem.likeTimed(d, e.seed))
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
		if len(c.h.edgesAt(c.d))*(c.d.inBytes+c.d.outBytes) > edgeBudget { // made again from the seed
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
		e.silent = true // the baseline's answer is no number
		return nil
	}
	if c.far(c.h.problem.outputs(c.d, c.a, c.place.base, int(set), answer)) == "" {
		left.Edges = append(left.Edges, e.c.Name)
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
	left.Edges = append(left.Edges, e.c.Name)
	if why := c.far(c.h.problem.outputs(c.d, c.a, c.place.base, int(set), truth)); why != "" {
		left.Wrong = fmt.Sprintf("edge-case contents %q in a batch like those that are timed: %s", e.c.Name, why)
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
		switch err := h.fillFurther(h.holding, f, e.c, e.seed, h.problem.likeTimed(d, e.seed)); {
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

// far says which output is further off than gross tolerances; empty for none.
func (c *contender) far(outputs []evaluator.Output) string {
	for _, o := range outputs {
		limit, _ := c.h.problem.spec.ToleranceOf(c.h.problem.buffers[c.h.problem.index(o.Name)])
		if why := evaluator.WrongOutput(o, gross*limit); why != "" {
			return why
		}
	}
	return ""
}
