//go:build cuda

package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A race is what a time request has begun and others go on with. The instances
// and sets of it are kept by the problem, and are not given up while it lasts.
type race struct {
	*problem
	r         wire.TimeRequest // that began it
	began     uint64           // the number of that request
	sets      []*set
	instances []*instance
	runners   []*runner
	round     int
	after     wire.State // at the end of the request before
	// flush is memory to write to before each sample when the sets are too few
	// to drive each other out of the cache.
	flush      cu.DevicePtr
	flushBytes int64
	spent      float64 // nanoseconds of the device in timed work, in this request
}

// A runner is a contender in a race.
type runner struct {
	*wire.Timed // of this request
	*binary
	wire.Contender
	calls []*call // one for each set
	graph graph
	batch int // launches in the graph
	used  int // sets that the graph goes through
}

func (w *worker) time(r wire.TimeRequest) (wire.TimeAnswer, error) {
	started := time.Now()
	p, err := w.opened()
	if err != nil {
		return wire.TimeAnswer{}, err
	}
	switch {
	case r.Rounds < 0 || r.Latencies < 0 || r.Rounds == 0 && !r.Last:
		return wire.TimeAnswer{}, errors.New("a timing needs rounds")
	case r.Continue && p.race == nil:
		return wire.TimeAnswer{}, errors.New("no race is under way that could go on")
	case !r.Continue && (len(r.Contenders) == 0 || r.BatchNS < 1):
		return wire.TimeAnswer{}, errors.New("a race needs contenders and a batch")
	}
	a := wire.TimeAnswer{}
	if r.Continue {
		a.Before = p.race.after
	} else {
		p.endRace()
		a.Before = p.nvml.state(true)
		p.race = &race{problem: p, r: r, began: p.request}
	}
	q := p.race
	a.Contenders = make([]wire.Timed, len(q.r.Contenders))
	q.spent = 0
	err = q.run(r, a.Contenders)
	a.GPUNS = int64(q.spent)
	if err != nil {
		p.endRace()
		a.ElapsedNS = time.Since(started).Nanoseconds()
		var own *runError
		if !errors.As(err, &own) {
			return a, err
		}
		f := fault(own.error)
		if f == nil {
			return a, own.error
		}
		a.Contenders[own.contender].Fault = f
		return a, ending(f)
	}
	a.After = p.nvml.state(true)
	q.after = a.After
	a.ElapsedNS = time.Since(started).Nanoseconds()
	return a, nil
}

// A runError is what went wrong while a contender ran.
type runError struct {
	contender int
	error
}

func (e *runError) Unwrap() error { return e.error }

// endRace ends the race that is under way, if there is one.
func (p *problem) endRace() {
	if p.race == nil {
		return
	}
	for _, r := range p.race.runners {
		for _, c := range r.calls {
			c.free()
		}
	}
	release(p.race.flush)
	p.race = nil
}

// runs says whether a binary is in the race.
func (q *race) runs(b *binary) bool {
	return q != nil && slices.ContainsFunc(q.runners, func(r *runner) bool { return r.binary == b })
}

// run takes the rounds of one request.
func (q *race) run(r wire.TimeRequest, answers []wire.Timed) error {
	if !r.Continue {
		if err := q.start(); err != nil {
			return err
		}
	}
	for i, x := range q.runners {
		x.Timed = &answers[i]
		x.Batch, x.Sets = x.batch, x.used
	}
	for range r.Rounds {
		if err := q.everybody(q.sample); err != nil {
			return err
		}
	}
	if r.Last {
		if err := q.everybody(q.lastSample); err != nil {
			return err
		}
	}
	return q.latencies(r.Latencies)
}

// start makes sets and graphs.
func (q *race) start() error {
	if err := q.makeSets(); err != nil {
		return err
	}
	for _, c := range q.r.Contenders {
		b, err := q.candidate(c.Binary, q.r.Shape)
		if err != nil {
			return err
		}
		for _, o := range q.runners {
			if o.binary == b && o.Geometry.Workspace != c.Geometry.Workspace {
				return fmt.Errorf("binary %s runs with two sizes of workspace; load it under two names", c.Binary)
			}
		}
		q.runners = append(q.runners, &runner{binary: b, Contender: c})
	}
	for i, r := range q.runners {
		if err := q.ready(r); err != nil {
			return &runError{i, err}
		}
	}
	return nil
}

// everybody does something with each contender in turn: a round.
func (q *race) everybody(do func(*runner) error) error {
	for _, i := range order(q.r.Seed, q.round, len(q.runners)) {
		if err := do(q.runners[i]); err != nil {
			return &runError{i, err}
		}
	}
	q.round++
	return nil
}

// makeSets makes the sets that the timing rotates through, each with data of
// its own.
func (q *race) makeSets() error {
	s, l2 := q.r.Shape, q.info.L2Bytes
	if err := checkShape(s, q.buffers, q.scalars); err != nil {
		return err
	}
	bytes := q.bytes(s, every)
	count := planSets(bytes, bytes+q.instanceBytes(s, true), l2, q.budget, q.r.Cold)
	for k := range count {
		n, err := q.instance(s, setSeed(q.r.Seed, k), true)
		if err != nil {
			return err
		}
		w, err := q.set(s, k)
		if err != nil {
			return err
		}
		if err := q.loadSet(w, n, false); err != nil {
			return err
		}
		q.instances, q.sets = append(q.instances, n), append(q.sets, w)
	}
	if q.r.Cold && !evicts(count, bytes, l2) {
		q.flushBytes = 2 * l2
		var err error
		if q.flush, err = alloc(q.flushBytes); err != nil {
			return err
		}
	}
	return q.sync()
}

// inPlace says whether a launch changes what the next one on the same set would
// read. Then a graph launches once on each set, and sets are loaded again
// before every sample.
func (q *race) inPlace() bool {
	for _, b := range q.buffers {
		if b.Role == "inout" {
			return true
		}
	}
	return false
}

// ready launches a contender for the first times and makes its graph.
func (q *race) ready(r *runner) error {
	work, err := q.prepare(r.binary, r.Geometry)
	if err != nil {
		return err
	}
	scalars := q.scalarValues(q.r.Shape, false)
	for _, w := range q.sets {
		c, err := newCall(r.binary, r.Geometry, q.r.Shape, scalars, w.arrays, work)
		if err != nil {
			return err
		}
		r.calls = append(r.calls, c)
	}
	if err := q.sync(); err != nil {
		return err
	}
	launch := math.Inf(1)
	for k, c := range r.calls {
		t := time.Now()
		if err := c.enqueue(q.stream); err != nil {
			return err
		}
		if err := q.sync(); err != nil {
			return err
		}
		launch = min(launch, float64(time.Since(t).Nanoseconds()))
		if k == 0 && launch > longLaunch {
			break
		}
	}
	// Cold launches that the rotation does not make cold are no more than one
	// to a set after each flush.
	once := q.inPlace() || q.flush != 0
	sets := len(q.sets)
	if launch < float64(q.r.BatchNS)/4 && !once {
		// By the wall clock a short launch seems far longer than it is: time a
		// small graph.
		n := planBatch(1, 16, math.Inf(1), sets, false)
		g, err := q.graph(r, n)
		if err != nil {
			return err
		}
		for range 3 {
			took, err := g.run(q.stream, q.begin, q.end)
			if err != nil {
				return err
			}
			q.spent += took.event
			launch = min(launch, took.event/float64(n))
		}
	}
	r.batch = planBatch(launch, float64(q.r.BatchNS), longLaunch, sets, once)
	r.used = min(r.batch, sets)
	if r.graph, err = q.graph(r, r.batch); err != nil || r.batch == 1 {
		return err
	}
	// A graph's first launch takes it to the device, and clocks rise.
	took, err := r.graph.run(q.stream, q.begin, q.end)
	q.spent += took.event
	return err
}

// graph gives a chain of n launches that rotates through the sets; it is kept
// with the binary for the next timing of the same.
func (q *race) graph(r *runner, n int) (graph, error) {
	key := fmt.Sprint(n, r.Geometry, q.r.Shape.Dims, q.r.Shape.Scalars, r.calls[0].arrays, len(r.calls))
	for _, c := range r.calls {
		key += fmt.Sprint(c.arrays)
	}
	if g, ok := r.graphs[key]; ok {
		return g, nil
	}
	g, err := capture(q.stream, func() error {
		for k := range n {
			if err := r.calls[k%len(r.calls)].enqueue(q.stream); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		g.free()
		return graph{}, err
	}
	if len(r.graphs) >= maxGraphs {
		r.dropGraphs()
	}
	if r.graphs == nil {
		r.graphs = map[string]graph{}
	}
	r.graphs[key] = g
	return g, nil
}

// longLaunch is the time, in nanoseconds, from which a launch is timed alone, on
// one set: a graph that goes through all sets would last too long.
const longLaunch = 50e6

// maxGraphs is how many graphs a binary keeps.
const maxGraphs = 16

// sample times one graph of a contender.
func (q *race) sample(r *runner) error {
	if q.inPlace() {
		for k := range r.used {
			if err := q.loadSet(q.sets[k], q.instances[k], true); err != nil {
				return err
			}
		}
	}
	if q.flush != 0 {
		if err := q.harness.zero(q.flush, q.flushBytes); err != nil {
			return err
		}
	}
	took, err := r.graph.run(q.stream, q.begin, q.end)
	if err != nil {
		return err
	}
	q.spent += took.event
	r.SamplesNS = append(r.SamplesNS, took.event/float64(r.batch))
	r.WallNS = append(r.WallNS, took.wall)
	r.WaitedNS = append(r.WaitedNS, took.waited)
	return nil
}

// lastSample times a contender once more on other inputs in the same memory,
// with poisoned outputs, and compares what it leaves: an answer remembered from
// earlier launches is wrong now.
func (q *race) lastSample(r *runner) error {
	for k := range r.used {
		if err := q.loadSet(q.sets[k], q.other(k), false); err != nil {
			return err
		}
		if err := q.poisonSet(q.sets[k]); err != nil {
			return err
		}
	}
	if err := q.sync(); err != nil {
		return err
	}
	// Sets that are changed in place must stay on the other inputs.
	own := q.instances
	q.instances = make([]*instance, len(own))
	for k := range own {
		q.instances[k] = own[(k+1)%len(own)]
	}
	err := q.sample(r)
	q.instances = own
	if err != nil {
		return err
	}
	for k := range r.used {
		outputs, err := q.compareSet(q.sets[k].arrays, q.other(k), q.r.Shape, stored)
		if err != nil {
			return err
		}
		if r.After == nil {
			r.After = outputs
			continue
		}
		for i := range outputs {
			r.After[i] = worst(r.After[i], outputs[i])
		}
	}
	for k := range r.used {
		if err := q.loadSet(q.sets[k], q.instances[k], false); err != nil {
			return err
		}
	}
	return q.sync()
}

// other is the instance that a set holds in the last round.
func (q *race) other(k int) *instance { return q.instances[(k+1)%len(q.instances)] }

// latencies times single launches by the wall clock.
func (q *race) latencies(n int) error {
	for k := range n {
		for _, i := range order(^q.r.Seed, k, len(q.runners)) {
			r := q.runners[i]
			c := r.calls[k%r.used]
			if q.inPlace() {
				if err := q.loadSet(q.sets[k%r.used], q.instances[k%r.used], true); err != nil {
					return err
				}
				if err := q.sync(); err != nil {
					return err
				}
			}
			ns, err := c.alone(q.stream)
			if err != nil {
				return &runError{i, err}
			}
			q.spent += ns
			r.LatencyNS = append(r.LatencyNS, ns)
		}
	}
	return nil
}

// alone launches once and waits: nanoseconds by the wall clock.
func (c *call) alone(s cu.Stream) (float64, error) {
	if c.routine == nil {
		return launchAlone(c.kernel, c.d, c.bytes, s, c.args)
	}
	t := time.Now()
	if err := c.enqueue(s); err != nil {
		return 0, err
	}
	err := check("cuCtxSynchronize", cu.Synchronize())
	return float64(time.Since(t).Nanoseconds()), err
}
