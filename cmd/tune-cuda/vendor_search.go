//go:build cuda

package main

import (
	"errors"
	"time"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/internal/cublaslt"
)

// A way is one of those in which a vendor's routine can compute a shape.
type way struct {
	launch      func(arrays []cu.DevicePtr) error // into the problem's stream
	graph       graph                             // launches once on each set
	tried, able bool
}

// A choice is the way that was found to be the fastest: an algorithm of cublasLt's, or the place among those of cuDNN.
type choice struct {
	algorithm cublaslt.Heuristic
	place     int
	said      string
}

const (
	// wayBudget is how long the search for the fastest way may take at a shape, and wayBatch how
	// long a reading of it lasts at least, in nanoseconds.
	wayBudget = 2 * time.Second
	wayBatch  = 300e3
)

var errNoWay = errors.New("none can be run")

// fastest times ways as a race times contenders: by graphs of launches on sets of buffers,
// whose contents are made anew before each pass. It tells how many at the front cannot be run.
func (q *race) fastest(ways []*way) (passed int, r standing, err error) {
	begin := time.Now()
	defer func() {
		for _, w := range ways {
			w.graph.free()
		}
	}()
	launch, used := 0.0, 0
	for ; passed < len(ways); passed++ { // the others are held against it, so it must be one that can be run, in graphs too
		w := ways[passed]
		if launch, err = q.try(w); err != nil {
			return passed, r, err
		}
		used = planUsed(launch, len(q.sets))
		if err = q.capture(w, used); err != nil {
			return passed, r, err
		}
		if w.able {
			break
		}
	}
	if ways = ways[passed:]; len(ways) == 0 {
		return passed, r, errNoWay
	}
	passes := planPasses(launch*float64(used), wayBatch)
	r, err = contest{
		ways:   len(ways),
		spent:  func() time.Duration { return time.Since(begin) },
		budget: wayBudget,
		reading: func(i int) (float64, bool, error) {
			w := ways[i]
			if !w.tried {
				if _, err := q.try(w); err != nil {
					return 0, false, err
				}
			}
			if err := q.capture(w, used); err != nil || !w.able {
				return 0, false, err
			}
			took, _, err := w.graph.run(q.stream, q.events, secrets(q.dice, passes), q.fresh, nil, 0, 1)
			if err != nil {
				return 0, false, w.failed(err)
			}
			return took.event / float64(used*passes), true, nil
		},
		right: func(i int) (right, able bool, err error) {
			right, err = q.agree(ways[0], ways[i])
			return right, ways[i].able, err
		},
	}.run()
	r.best += passed
	return passed, r, err
}

// try launches in a way for the first time, outside of graphs, and gives the nanoseconds
// that a launch takes by the wall clock.
func (q *race) try(w *way) (float64, error) {
	w.tried = true
	if _, err := q.anew(); err != nil {
		return 0, err
	}
	var took float64
	for range 2 { // the first may load code
		begin := time.Now()
		err := w.launch(q.sets[0].arrays)
		if err == nil {
			err = q.sync()
		}
		if err != nil {
			return 0, w.failed(err)
		}
		if took = float64(time.Since(begin).Nanoseconds()); took > longLaunch {
			break
		}
	}
	w.able = true
	return took, nil
}

// failed drops a way for an error of its own. One that the device does not survive is
// everybody's.
func (w *way) failed(err error) error {
	if err == nil {
		return nil
	}
	w.able = false
	if lost() {
		return err
	}
	return nil
}

// capture makes the graph of a way that can be run, and takes it to the device.
func (q *race) capture(w *way, used int) (err error) {
	if !w.able || w.graph.able() {
		return nil
	}
	w.graph, err = capture(q.stream, q.harness.kernels["refresh"], func() error {
		for _, s := range q.sets[:used] {
			if err := w.launch(s.arrays); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		_, _, err = w.graph.run(q.stream, q.events, secrets(q.dice, 1), q.fresh, nil, 0, 1)
	}
	if err != nil {
		w.graph.free()
		w.graph = graph{}
	}
	return w.failed(err)
}

// agree says whether a way gives what the first gives, within the tolerance of the
// problem. One that fails at it is dropped.
func (q *race) agree(first, w *way) (bool, error) {
	if _, err := q.anew(); err != nil {
		return false, err
	}
	if err := q.harness.begin(); err != nil {
		return false, err
	}
	if err := q.renew(0); err != nil {
		return false, err
	}
	if err := w.launch(q.sets[0].arrays); err != nil {
		return false, w.failed(err)
	}
	if err := first.launch(q.spare.arrays); err != nil {
		return false, err
	}
	found := make([]*finding[verdict], len(q.buffers))
	for i, b := range q.buffers {
		if b.output() {
			var err error
			want := wanted{at: q.spare.arrays[i], dtype: b.dtype}
			if found[i], err = q.harness.compare(q.sets[0].arrays[i], b.dtype, want, q.r.Shape.Elements[i]); err != nil {
				return false, err
			}
		}
	}
	if err := q.harness.fetch(); err != nil {
		return false, w.failed(err)
	}
	return !wrong(q.outputs(found, nil, q.r.Shape)), nil
}
