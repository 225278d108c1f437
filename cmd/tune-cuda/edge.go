//go:build cuda

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// An edge is edge-case inputs that one set gets in a pass, and the spare one behind it.
type edge struct {
	wire.Edge
	shape  wire.Shape // the race's, with these inputs
	inputs [][]byte   // by buffer, as they are stored; nil for outputs
	*edgeMemory
}

// An edgeMemory is where the contents are on the device.
type edgeMemory struct {
	at     []cu.DevicePtr // by buffer, with a rest; 0 for outputs
	stored digests
}

// restore puts the contents there, if they aren't.
func (e *edge) restore(h *harness) error {
	var all []content
	for i, at := range e.at {
		if at != 0 {
			all = append(all, content{at, int64(len(e.inputs[i])), func() error { return upload(at, e.inputs[i]) }})
		}
	}
	return h.restore(e.stored, all)
}

// onEdges has each contender but the baseline make passes like those that are timed, one for each of the
// edge-case inputs that are due, in which a launch, drawn which, has these inputs.
func (q *race) onEdges(all []wire.Edge, due []int) error {
	for _, i := range due {
		e, err := q.edgeOf(all[i])
		if err != nil {
			return err
		}
		for _, n := range q.dice.Perm(len(q.runners)) {
			if r := q.runners[n]; n > 0 && !r.wrong {
				if err := q.onEdge(r, n, e); err != nil {
					return &runError{n, err}
				}
			}
		}
	}
	return nil
}

// edgeOf gets edge-case inputs ready. They are kept by the host, and on the device.
func (q *race) edgeOf(w wire.Edge) (*edge, error) {
	if w.Content >= wire.MadeContents {
		return nil, fmt.Errorf("edge-case inputs %q: there are no contents %d", w.Name, w.Content)
	}
	e := &edge{Edge: w, shape: q.r.Shape}
	e.shape.Inputs = w.Inputs
	var err error
	if e.inputs, err = q.problem.inputs(e.shape, 0); err != nil {
		return nil, fmt.Errorf("edge-case inputs %q: %w", w.Name, err)
	}
	e.edgeMemory, err = keeping(q.problem, fmt.Sprint("edge-case inputs on the device ", shapeKey(e.shape)), q.bytes(q.r.Shape, buffer.input), func() (m *edgeMemory, free func(), err error) {
		m = &edgeMemory{at: make([]cu.DevicePtr, len(q.buffers)), stored: digests{}}
		for i, b := range q.buffers {
			if b.input() && err == nil {
				m.at[i], err = alloc(contentsBytes(q.spare.blocks[i].bytes))
			}
		}
		return m, func() { releaseAll(m.at) }, err
	})
	return e, err
}

// onEdge makes a pass with edge-case inputs in one set, and compares what the launch on it left with what the
// baseline computes from the same. Errors of all but the pass are not the contender's.
func (q *race) onEdge(r *runner, number int, e *edge) error {
	k, plain, turn := q.dice.IntN(r.used), q.list, q.turn
	defer func() { q.list, q.edge, q.turn = plain, nil, turn }()
	q.list, q.edge = slices.Clone(plain), e
	for q.turn = q.dice.Uint64(); contentOf(q.turn) != e.Content; {
		q.turn = q.dice.Uint64()
	}
	for _, row := range [][]span{q.row(k), q.row(len(q.sets))} {
		give(row, q.buffers, e.at)
	}
	if err := q.restore(); err != nil {
		return &ownError{err}
	}
	err := r.graph.lent(k, q.row(k), func() error {
		_, err := q.passes(r, q.dice, 1)
		return err
	})
	if err != nil {
		return err
	}
	seen, err := q.held(r, number, k, e)
	if err == nil {
		err = q.checkZones(r)
	}
	if err != nil {
		return &ownError{err}
	}
	r.Edges = append(r.Edges, seen)
	return nil
}

// give has the inputs of a row get the contents that are there.
func give(row []span, buffers []buffer, at []cu.DevicePtr) {
	for i, b := range buffers {
		if b.input() {
			row[i].kept, row[i].made = row[i].kept&spanKept|spanGiven, at[i]
		}
	}
}

// held compares what a contender left in the set with edge-case inputs with the baseline's answer and, where
// they are far apart, both with the reference, or writes both to a file where none is on the device.
func (q *race) held(r *runner, number, k int, e *edge) (wire.Edged, error) {
	a := wire.Edged{Inputs: e.Inputs}
	all, err := q.left(r, []int{k})
	if err != nil {
		return a, err
	}
	a.Outputs = all[0]
	switch {
	case !far(a.Outputs, e.Beyond):
		return a, nil
	case q.reference == nil:
		a.Left = fmt.Sprintf("%s-%d", e.Left, number)
		return a, q.writeOutputs(a.Left, q.sets[k], q.spare)
	}
	// The spare set has the baseline's answer: the reference gets inputs of its own.
	n, err := q.newInstance(e.shape, 0, true)
	if noMemory(err) && q.evict(math.MaxInt64/2, q.unused()) {
		n, err = q.newInstance(e.shape, 0, true)
	}
	if err != nil {
		return a, err
	}
	defer n.free()
	if a.Silent = n.silent; a.Silent != "" {
		return a, nil
	}
	if a.Baseline, err = q.compareSet(q.spare.arrays, n, q.r.Shape, stored); err != nil {
		return a, err
	}
	a.Reference, err = q.compareSet(q.sets[k].arrays, n, q.r.Shape, stored)
	return a, err
}

// writeOutputs writes the outputs in some sets to a file.
func (q *race) writeOutputs(file string, sets ...*set) error {
	if file == "" {
		return errors.New("outputs need a file to be written to")
	}
	var all []float64
	for _, w := range sets {
		for i, b := range q.buffers {
			if !b.output() {
				continue
			}
			v := make([]float64, q.r.Shape.Elements[i])
			if err := q.wide(v, w.arrays[i], b.dtype); err != nil {
				return err
			}
			all = append(all, v...)
		}
	}
	return os.WriteFile(file, wire.AppendDoubles(nil, all), 0o600)
}
