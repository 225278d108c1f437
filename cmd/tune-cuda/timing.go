//go:build cuda

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A race is what a time request has begun and others go on with. The sets of it are
// kept by the problem, and are not given up while it lasts.
type race struct {
	*problem
	*rotation
	r        wire.TimeRequest // that began it
	began    uint64           // the number of that request
	runners  []*runner
	fresh    *refresher
	makings  map[int]*making // by the number of sets
	made     [][][]byte      // contents from a file, by content and buffer
	turn     uint64          // of the round: which of the contents that are made as a whole
	contents [2]uint64       // the secret of what is in the sets, and its turn
	exact    bool            // this request asks for the reference
	edge     *edge           // the edge-case inputs that a set has; nil for none
	round    int
	after    wire.State // at the end of the request before
	// sweep is memory of twice the cache's size, gone through before each pass where
	// nothing of the sets should be in the cache.
	sweep cu.DevicePtr
	spent float64 // nanoseconds of the device in timed work, in this request
	// choosing is what vendors' routines needed to find how they are run best, in this request.
	choosing time.Duration
}

// A runner is a contender in a race.
type runner struct {
	*wire.Timed // of this request
	*binary
	wire.Contender
	calls    []*call // one for each set
	check    *call   // on the spare set; the baseline's alone
	graph    graph   // launches once on each of the sets that are used
	used     int
	passes   int     // in a reading
	launch   float64 // nanoseconds, by which used and passes were chosen
	seen     float64 // nanoseconds, in the last reading
	readings int     // taken in this race
	launched int     // times in this race, about
	took     float64 // nanoseconds of all launches in this request
	// compared is the worst of what was compared since the race began; wrong says
	// that it is outside of its tolerance, and that nothing more has to be compared.
	compared []wire.Output
	wrong    bool
	settled  int    // sets that the reference decided about in this reading
	said     string // what is run, of a vendor's routine
}

func (p *problem) time(r wire.TimeRequest) (wire.TimeAnswer, error) {
	started := time.Now()
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
		p.race = &race{problem: p, r: r, began: p.request, makings: map[int]*making{}}
	}
	q := p.race
	a.Contenders = make([]wire.Timed, len(q.r.Contenders))
	q.spent, q.choosing = 0, 0
	err := q.run(r, a.Contenders)
	a.GPUNS, a.ChoosingNS = int64(q.spent), q.choosing.Nanoseconds()
	if err != nil {
		p.endRace()
		a.ElapsedNS = time.Since(started).Nanoseconds()
		var own *runError
		var ours *ownError
		if !errors.As(err, &own) || errors.As(err, &ours) {
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
		r.check.free()
	}
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
	q.exact = r.Reference
	for i, x := range q.runners {
		// What a contender did in its first launches does not decide.
		if x.seen > 2*x.launch || x.seen > 0 && 2*x.seen < x.launch {
			if err := q.plan(x, x.seen); err != nil {
				return &runError{i, err}
			}
		}
		x.Timed = &answers[i]
		x.Batch, x.Sets, x.Said = x.used*x.passes, x.used, x.said
	}
	rounds := r.Rounds + btoi(r.Last)
	due := planEdges(q.dice, len(r.Edges), rounds)
	for n := range rounds {
		if err := q.onEdges(r.Edges, due[n]); err != nil {
			return err
		}
		last := n == r.Rounds
		if err := q.everybody(func(x *runner) error { return q.reading(x, last) }); err != nil {
			return err
		}
	}
	if err := q.onEdges(r.Edges, due[rounds]); err != nil {
		return err
	}
	if r.Longer {
		for i, x := range q.runners[1:] {
			if err := q.outlast(x); err != nil {
				return &runError{i + 1, err}
			}
		}
	}
	for _, x := range q.runners {
		x.After = x.compared
	}
	err := q.latencies(r.Latencies)
	for _, x := range q.runners {
		x.LaunchesNS, x.took = int64(math.Ceil(x.took)), 0
	}
	return err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// start makes sets and graphs.
func (q *race) start() error {
	q.turn = q.turnOf()
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
	begun := time.Now()
	for i, r := range q.runners {
		if r.routine != nil {
			var err error
			if r.said, err = r.routine.choose(q); err != nil {
				return &runError{i, err}
			}
		}
	}
	q.choosing = time.Since(begun)
	for i, r := range q.runners {
		if err := q.ready(r); err != nil {
			return &runError{i, err}
		}
	}
	return nil
}

// everybody does something with each contender in turn: a round.
func (q *race) everybody(do func(*runner) error) error {
	q.turn = q.turnOf()
	for _, i := range order(q.r.Seed, q.round, len(q.runners)) {
		if err := do(q.runners[i]); err != nil {
			return &runError{i, err}
		}
	}
	q.round++
	return nil
}

// makeSets makes the sets that the timing goes through.
func (q *race) makeSets() error {
	s, l2 := q.r.Shape, q.info.L2Bytes
	if err := checkShape(s, q.buffers, q.scalars); err != nil {
		return err
	}
	bytes := q.bytes(s, every)
	count := planSets(bytes, l2, q.budget, q.r.Cold)
	var err error
	if q.rotation, err = q.problem.rotation(s, count); err != nil {
		return err
	}
	if sweeps(bytes, l2, q.r.Cold) {
		q.sweep, err = keeping(q.problem, "sweep", 2*l2, func() (cu.DevicePtr, func(), error) {
			m, err := alloc(2 * l2)
			if err == nil {
				err = q.harness.zero(m, 2*l2)
			}
			return m, func() { release(m) }, err
		})
		if err != nil {
			return err
		}
	}
	q.made = make([][][]byte, wire.MadeContents)
	for k := range q.made {
		if q.made[k], err = readInputs(s, q.buffers, uint64(k)); err != nil {
			return err
		}
	}
	// A candidate that was here before, and was not checked to the end, may have damaged them.
	if err := q.harness.setGuards(q.guards); err != nil {
		return err
	}
	if err := q.passEvents(); err != nil {
		return err
	}
	if err := q.restore(); err != nil {
		return err
	}
	q.fresh, err = q.refresher()
	return err
}

// ready launches a contender for the first times and makes its graph.
func (q *race) ready(r *runner) error {
	work, err := q.prepare(r.binary, r.Geometry)
	if err != nil {
		return err
	}
	scalars := q.scalarValues(q.r.Shape, false)
	for _, w := range q.sets {
		c, err := q.newCall(r.binary, r.Geometry, q.r.Shape, scalars, w.arrays, work.address())
		if err != nil {
			return err
		}
		r.calls = append(r.calls, c)
	}
	if r == q.runners[0] {
		if r.check, err = q.newCall(r.binary, r.Geometry, q.r.Shape, scalars, q.spare.arrays, work.address()); err != nil {
			return err
		}
	}
	key := q.keyOf(r)
	launch, known := r.known[key]
	if !known {
		if launch, err = q.first(r); err != nil {
			return err
		}
	}
	if err := q.plan(r, launch); err != nil || launch > longLaunch {
		return err
	}
	// A graph's first launch takes it to the device, and clocks rise. By the wall
	// clock a short launch seems far longer than it is.
	n := 1
	if !known && r.launch*float64(r.used) < float64(q.r.BatchNS) {
		n = 2
	}
	took, err := q.passes(r, q.dice, n)
	if err != nil {
		return err
	}
	if err := q.plan(r, took.least/float64(r.used)); err != nil {
		return err
	}
	if r.known == nil {
		r.known = map[string]float64{}
	}
	r.known[key] = r.launch
	return nil
}

// first launches a contender for the first times, and gives what a launch takes by the wall clock, in nanoseconds.
func (q *race) first(r *runner) (float64, error) {
	if _, err := q.anew(); err != nil {
		return 0, err
	}
	launch := math.Inf(1)
	for k := range 2 { // the first may load code
		t := time.Now()
		if err := cmp.Or(r.calls[k%len(r.calls)].enqueue(q.stream), q.sync()); err != nil {
			return 0, err
		}
		took := float64(time.Since(t).Nanoseconds())
		launch, r.took = min(launch, took), r.took+took
	}
	return launch, nil
}

// plan chooses the sets that a contender uses and its passes for launches of so
// many nanoseconds.
func (q *race) plan(r *runner, launch float64) (err error) {
	r.launch = launch
	r.used, r.passes = planReading(launch, float64(q.r.BatchNS), len(q.sets))
	if _, err := q.making(r.used); err != nil {
		return &ownError{err}
	}
	r.graph, err = q.graph(r, r.used)
	return err
}

// keyOf says how a contender is launched in this race.
func (q *race) keyOf(r *runner) string {
	key := fmt.Sprint(q.keys, q.sweep, r.said, r.Geometry, q.r.Shape.Dims, q.r.Shape.Scalars, len(r.calls))
	for _, c := range r.calls {
		key += fmt.Sprint(c.arrays)
	}
	return key
}

// graph gives a chain of launches, one on each of the first n sets; it is kept
// with the binary for the next timing of the same.
func (q *race) graph(r *runner, n int) (graph, error) {
	key := fmt.Sprint(n, " ", q.keyOf(r))
	if g, ok := r.graphs[key]; ok {
		return g, nil
	}
	g, err := q.chain(q.dice.Perm(n), func(k int) error { return r.calls[k].enqueue(q.stream) })
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

// reading times a contender once: its passes, stopped after some of them to look at
// what is in its sets then. After each pass that is as likely as after any other, however
// often it has been done: a kernel that notices a stop learns nothing of the next. In the last
// round there is one at which all is looked at, and in finals there are three.
func (q *race) reading(r *runner, last bool) error {
	from := q.contentsOf(r)
	r.readings++
	if err := cmp.Or(q.restore(), resetPersisting()); err != nil {
		return &ownError{err}
	}
	var all []int // the passes after which all is looked at
	if last {
		all = q.dice.Perm(r.passes)[:min(r.passes, 1+2*btoi(q.exact && r != q.runners[0]))]
	}
	r.settled = 0
	var sum ran
	since := 0 // passes that have yet to be run
	add := func() error {
		took, err := q.passes(r, from, since)
		sum.event, sum.wall, sum.waited, since = sum.event+took.event, sum.wall+took.wall, sum.waited+took.waited, 0
		return err
	}
	for i := range r.passes {
		since++
		whole := slices.Contains(all, i)
		stop := q.dice.IntN(r.passes) == 0 || whole
		if !stop && i < r.passes-1 {
			continue
		}
		if err := add(); err != nil {
			return err
		}
		if stop {
			if err := q.look(r, whole); err != nil {
				return &ownError{err}
			}
		}
	}
	if r != q.runners[0] || last {
		if err := q.checkZones(r); err != nil {
			return &ownError{err}
		}
	}
	r.seen = sum.event / float64(r.used*r.passes)
	r.SamplesNS = append(r.SamplesNS, r.seen)
	r.WallNS = append(r.WallNS, sum.wall)
	r.WaitedNS = append(r.WaitedNS, sum.waited)
	return nil
}

// latencies times single launches by the wall clock.
func (q *race) latencies(n int) error {
	for k := range n {
		for _, i := range order(^q.r.Seed, k, len(q.runners)) {
			r := q.runners[i]
			set := k % r.used
			q.contents = [2]uint64(secrets(q.dice, 1))
			if err := cmp.Or(q.begin(), q.make(set, set), q.swept(), q.sync()); err != nil {
				return &ownError{err}
			}
			ns, err := r.calls[set].alone(q.stream)
			if err != nil {
				return &runError{i, err}
			}
			q.spent += ns
			r.took += ns
			r.LatencyNS = append(r.LatencyNS, ns)
		}
	}
	return nil
}

// alone launches once and waits: nanoseconds by the wall clock.
func (c *call) alone(s cu.Stream) (float64, error) {
	if c.routine == nil {
		return c.sequence.launchAlone(s, c.args)
	}
	t := time.Now()
	if err := c.enqueue(s); err != nil {
		return 0, err
	}
	err := check("cuCtxSynchronize", cu.Synchronize())
	return float64(time.Since(t).Nanoseconds()), err
}
