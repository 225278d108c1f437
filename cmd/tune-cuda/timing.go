//go:build cuda

package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A race is a time request under way.
type race struct {
	*problem
	r         wire.TimeRequest
	started   time.Time
	sets      []*set
	instances []*instance
	runners   []*runner
	// flush is memory to write to before each sample when the sets are too few
	// to drive each other out of the cache.
	flush      cu.DevicePtr
	flushBytes int64
	spent      float64 // nanoseconds of the device in timed work
}

// A runner is a contender in a race.
type runner struct {
	*wire.Timed
	*binary
	wire.Contender
	calls []*call // one for each set
	graph graph
	used  int // sets that the graph goes through
}

func (w *worker) time(r wire.TimeRequest) (wire.TimeAnswer, error) {
	p, err := w.opened()
	if err != nil {
		return wire.TimeAnswer{}, err
	}
	if len(r.Contenders) == 0 || r.MaxRounds < 1 || r.MinRounds > r.MaxRounds || r.BatchNS < 1 {
		return wire.TimeAnswer{}, errors.New("a timing needs contenders, rounds (the least no more than the most) and a batch")
	}
	q := &race{problem: p, r: r, started: time.Now()}
	a := wire.TimeAnswer{Contenders: make([]wire.Timed, len(r.Contenders)), Before: p.nvml.state()}
	defer q.free()
	a.Stopped, err = q.run(a.Contenders)
	a.GPUNS = int64(q.spent)
	a.ElapsedNS = time.Since(q.started).Nanoseconds()
	if err != nil {
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
	a.After = p.nvml.state()
	return a, nil
}

// A runError is what went wrong while a contender ran.
type runError struct {
	contender int
	error
}

func (e *runError) Unwrap() error { return e.error }

func (q *race) free() {
	for _, r := range q.runners {
		for _, c := range r.calls {
			c.free()
		}
	}
	release(q.flush)
}

func (q *race) run(answers []wire.Timed) (stopped string, err error) {
	if err := q.makeSets(); err != nil {
		return "", err
	}
	for i, c := range q.r.Contenders {
		b, err := q.candidate(c.Binary, q.r.Shape)
		if err != nil {
			return "", err
		}
		for _, o := range q.runners {
			if o.binary == b && o.Geometry.Workspace != c.Geometry.Workspace {
				return "", fmt.Errorf("binary %s runs with two sizes of workspace; load it under two names", c.Binary)
			}
		}
		q.runners = append(q.runners, &runner{Timed: &answers[i], binary: b, Contender: c})
	}
	for i, r := range q.runners {
		if err := q.ready(r); err != nil {
			return "", &runError{i, err}
		}
	}
	if stopped, err = q.rounds(); err != nil {
		return "", err
	}
	if stopped == "slower" {
		return stopped, nil // nobody will ask how soon such a one begins
	}
	return stopped, q.latencies()
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
		if k == 0 && launch > float64(q.r.BudgetNS) {
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
			ns, _, err := g.run(q.stream, q.begin, q.end)
			if err != nil {
				return err
			}
			q.spent += ns
			launch = min(launch, ns/float64(n))
		}
	}
	r.Batch = planBatch(launch, float64(q.r.BatchNS), float64(q.r.BudgetNS), sets, once)
	r.used = min(r.Batch, sets)
	r.Sets = r.used
	if r.graph, err = q.graph(r, r.Batch); err != nil || r.Batch == 1 {
		return err
	}
	// A graph's first launch takes it to the device, and clocks rise.
	ns, _, err := r.graph.run(q.stream, q.begin, q.end)
	q.spent += ns
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
	event, wall, err := r.graph.run(q.stream, q.begin, q.end)
	if err != nil {
		return err
	}
	q.spent += event
	r.SamplesNS = append(r.SamplesNS, event/float64(r.Batch))
	r.WallNS = append(r.WallNS, wall/float64(r.Batch))
	return nil
}

// rounds times all contenders in turn until enough is known. In the last round
// their answers are checked.
func (q *race) rounds() (string, error) {
	began := time.Now()
	for round := 0; ; round++ {
		stopped := ""
		if round > 0 {
			samples := make([][]float64, len(q.runners))
			for i, r := range q.runners {
				samples[i] = r.SamplesNS
			}
			stopped = stopRule(q.r, samples)
			if stopped == "" && round >= q.r.MinRounds && q.r.BudgetNS > 0 && time.Since(began).Nanoseconds() > q.r.BudgetNS {
				stopped = "limit"
			}
		}
		if round+1 >= q.r.MaxRounds && stopped == "" {
			stopped = "limit"
		}
		for _, i := range order(q.r.Seed, round, len(q.runners)) {
			r := q.runners[i]
			var err error
			if stopped != "" {
				err = q.lastSample(r)
			} else {
				err = q.sample(r)
			}
			if err != nil {
				return "", &runError{i, err}
			}
		}
		if stopped != "" {
			return stopped, nil
		}
	}
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
func (q *race) latencies() error {
	for k := range q.r.Latencies {
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
