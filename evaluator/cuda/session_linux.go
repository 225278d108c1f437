package cuda

import (
	"cmp"
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/kernels"
)

const (
	// repeats is how often a candidate is launched on the same inputs: the
	// answers must be the same bits.
	repeats = 2
	// settled is how many comparisons with the reference a reading may need, which
	// are not the candidate's time.
	settled = 4
	// prepareTimeout is how long a worker may take to make the inputs and the
	// reference of a shape for the first time.
	prepareTimeout = 5 * time.Minute
	// batchTime is how long a reading lasts that was asked for without a length.
	batchTime = 500 * time.Microsecond
	// latencies is how many single launches a timing session times by the wall
	// clock.
	latencies = 16
	// patience is how many times as long as the baseline's a batch of a candidate
	// may take, over a whole request, before the candidate hangs.
	patience = 10
)

// A session is a worker with candidates in it.
type session struct {
	h       *lab
	purpose evaluator.Purpose
	gpu     *gpu
	pool    *pool
	w       *worker // nil when it was given back and no other came
	all     []*candidate
	allowed []*evaluator.Allowance // by candidate
	faults  []*evaluator.Fault     // by candidate; nil for those that take part
	loaded  []bool                 // by candidate
	seed    uint64                 // of the order in which contenders are timed
	// What the worker's race is, so that a request can go on with it.
	shape *shapeData
	batch time.Duration
	// contents is the seed of all that is timed on, races counts the worker's races at
	// a shape: no contents come twice in a session.
	contents string
	races    map[*shapeData]int
	// due are the edge-case inputs that have to come among timed launches, by shape, and asked those of the last
	// request. Made has the file of contents that are made as a whole.
	due   map[*shapeData][]*edge
	asked []*edge
	made  map[*shapeData]string
	// said is what a vendor's routine that is the baseline runs, and why there are no edge cases, by shape.
	said []evaluator.Evidence
	// releases give back what was taken, the last first.
	releases []func()
}

var _ evaluator.Session = (*session)(nil)

// stageOf is the stage that a session serves, for those who want to know what
// goes on.
func stageOf(p evaluator.Purpose) evaluator.Stage {
	if p == evaluator.ForParity {
		return evaluator.StageParity
	}
	return evaluator.StageBenchmark
}

// Open implements [evaluator.Lab].
func (h *lab) Open(ctx context.Context, p evaluator.Purpose, artifacts ...evaluator.Artifact) (_ evaluator.Session, err error) {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if len(artifacts) == 0 || len(artifacts) > 1 && p != evaluator.ForFinals {
		return nil, fmt.Errorf("a session for %d artifacts", len(artifacts))
	}
	s := &session{h: h, purpose: p, seed: h.problem.seedOf(variants), races: map[*shapeData]int{}, due: map[*shapeData][]*edge{}, made: map[*shapeData]string{}}
	for _, a := range artifacts {
		c, err := labs.Handle[*candidate](a)
		if err != nil {
			return nil, err
		}
		s.all, s.allowed = append(s.all, c), append(s.allowed, a.Allowed)
	}
	ctx = ranked(ctx, s.all[0].rank)
	s.faults, s.loaded = make([]*evaluator.Fault, len(s.all)), make([]bool, len(s.all))
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	for _, c := range s.all {
		s.releases = append(s.releases, h.stages.enter(stageOf(p), c))
	}
	if p == evaluator.ForTiming { // before it has the GPU: making them takes long
		for _, d := range h.problem.Tune {
			if s.due[d], err = h.anyEdge(d); err != nil {
				return nil, err
			}
		}
	}
	g, free := h.place()
	s.gpu = g
	s.releases = append(s.releases, free)
	switch p {
	case evaluator.ForParity:
		err = s.open(ctx, g.parity, s.lost)
	case evaluator.ForTiming:
		err = s.open(ctx, g.timing, s.lost)
	case evaluator.ForFinals:
		// Another order in every session.
		s.seed = h.problem.seedOf(variants + int(h.serial.Add(1)))
		err = s.open(ctx, g.timing, func() bool { return true })
	default:
		err = fmt.Errorf("a session for the unknown purpose %d", p)
	}
	if err == nil {
		err = s.loadAll(ctx)
	}
	if err == nil && len(s.all) == 1 && s.faults[0] != nil {
		err = s.faults[0]
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// lost says whether a worker was lost with the artifact, and forgets it.
func (s *session) lost() bool { return s.all[0].lost.Swap(false) }

// open takes a worker and the GPU, or a share of it. A fresh worker has seen nothing
// else; whether it must be one is asked when there is a place for it.
func (s *session) open(ctx context.Context, p *pool, fresh func() bool) error {
	s.pool = p
	how := s.gpu.gate.Share
	if s.all[0].traps.Load() {
		// On an H200 the driver tells of a trap after half a second, and after two beside other candidates:
		// those that wait for the device would wait for that.
		how = s.gpu.gate.Alone
	}
	w, leave, err := p.enter(ctx, how, fresh, s.giveBack)
	if err == nil {
		s.w, s.releases = w, append(s.releases, leave)
	}
	return err
}

// giveBack gives the worker back. One that has served finals ends.
func (s *session) giveBack() {
	if s.w == nil {
		return
	}
	if s.purpose == evaluator.ForFinals {
		s.w.loaded = recycleAfter
	} else {
		for i, c := range s.all {
			if s.loaded[i] {
				s.h.unload(s.w, c)
			}
		}
	}
	s.pool.put(s.w)
	s.w, s.shape = nil, nil
	clear(s.loaded)
}

func (s *session) release() {
	for _, r := range slices.Backward(s.releases) {
		r()
	}
	s.releases = nil
}

// Close implements [evaluator.Session].
func (s *session) Close() ([]evaluator.Evidence, error) {
	s.release()
	return s.said, nil
}

// loadAll brings the candidates that take part to the worker. One that cannot be
// loaded takes no further part; where it has cost the worker, the others go to a
// fresh one.
func (s *session) loadAll(ctx context.Context) error {
	for i, c := range s.all {
		if s.faults[i] != nil || s.loaded[i] {
			continue
		}
		a, err := s.h.load(ctx, s.w, c)
		if err != nil {
			return blame(err, s.all...)
		}
		if a.Fault == nil {
			s.loaded[i] = true
			s.w.had(c)
			continue
		}
		s.faults[i] = s.w.faulted(a.Fault)
		if s.w.dead && len(s.all) > 1 {
			if err := s.another(ctx); err != nil {
				return err
			}
			return s.loadAll(ctx)
		}
	}
	return nil
}

// another replaces the worker of the finals after a candidate has cost it.
func (s *session) another(ctx context.Context) error {
	s.giveBack()
	var err error
	s.w, err = s.pool.take(ctx, true)
	return err
}

// Compare implements [evaluator.Session].
func (s *session) Compare(ctx context.Context, r evaluator.CompareRequest) (evaluator.Observation, error) {
	ctx, leave, err := s.h.Enter(ctx)
	if err != nil {
		return evaluator.Observation{}, err
	}
	defer leave()
	d, err := s.h.problem.find(r.Shape)
	if err != nil {
		return evaluator.Observation{}, err
	}
	c := s.all[0]
	if why := c.unsupported[d]; why != "" {
		return evaluator.Observation{}, fmt.Errorf("shape %s: %s", d.shape.Name, why)
	}
	shape, err := s.h.inputs(ctx, d, r.Further)
	if err != nil {
		return evaluator.Observation{}, err
	}
	seed := s.h.problem.seedOf(r.Contents)
	if shape.Outputs, err = s.h.expect(ctx, s.w, shape, seed, nil); err != nil {
		return evaluator.Observation{}, err
	}
	if silent, err := s.h.prepareShape(ctx, s.w, shape, seed); err != nil || silent != "" {
		return evaluator.Observation{NotCompared: silent}, err
	}
	limit, launches := s.h.limit(r.Limit), repeats
	if r.Further != "" {
		launches = 1
	}
	request := wire.ParityRequest{
		Binary: c.name, Geometry: c.geometry[d], Shape: shape, Seed: seed, Repeat: launches, TimeoutNS: limit.Nanoseconds(),
	}
	s.shape = nil // a comparison ends the worker's race
	var a wire.ParityAnswer
	begun := time.Now()
	if err := s.w.call(ctx, limit, wire.Parity, request, &a); err != nil {
		return evaluator.Observation{}, blame(err, c)
	}
	s.h.Log.Debug("a comparison", "shape", d.shape.Name, "inputs", r.Further, "device", time.Duration(a.ElapsedNS), "all", time.Since(begun))
	if a.Fault != nil {
		s.w.dead = s.w.dead || a.Fault.Fatal
		return evaluator.Observation{}, s.w.faulted(a.Fault)
	}
	if err := s.allowed[0].Spend(time.Duration(a.ElapsedNS)); err != nil {
		return evaluator.Observation{}, err
	}
	if launches > 1 {
		return s.h.observedTwice(a), nil
	}
	return observation(a), nil
}

// observedTwice is what a comparison of several launches saw.
func (h *lab) observedTwice(a wire.ParityAnswer) evaluator.Observation {
	o := observation(a)
	if slices.ContainsFunc(h.problem.open.Buffers, func(b wire.Buffer) bool { return b.Repeat > 0 }) {
		o.Repeats = fmt.Sprintf("reproducible to %.2g of the RMS from the first launch, as declared", float64(a.Apart))
	}
	return o
}

// observation is what a comparison saw.
func observation(a wire.ParityAnswer) evaluator.Observation {
	o := seen(a.Outputs, a.Guard, a.GuardOffset, a.InputChanged)
	// The device does both launches and the comparison in one go; the time is that
	// of all.
	o.Elapsed = time.Duration(a.ElapsedNS)
	if a.Different > 0 {
		o.Different = fmt.Sprintf("%d elements differ between launches on the same inputs", a.Different)
		if a.Apart > 0 {
			o.Different += fmt.Sprintf("; where they need not be the same they are up to %.2g of the RMS from the first", float64(a.Apart))
		}
	}
	return o
}

// seen is what launches left.
func seen(left []wire.Output, guard string, offset int64, input string) evaluator.Observation {
	o := evaluator.Observation{Outputs: outputs(left)}
	if guard != "" {
		o.Guard = fmt.Sprintf("memory outside of buffer %s was changed, at byte %d from its start", guard, offset)
	}
	if input != "" {
		o.InputChanged = fmt.Sprintf("input %s was changed", input)
	}
	return o
}

func outputs(list []wire.Output) []evaluator.Output {
	var all []evaluator.Output
	for _, o := range list {
		all = append(all, evaluator.Output{
			Name: o.Name, Error: float64(o.Error), Worst: o.Worst, Got: float64(o.Got), Want: float64(o.Want),
			NotFinite: o.NotFinite, Unwritten: o.Unwritten, Elements: o.Elements, Skipped: o.Skipped, Surplus: o.Surplus,
		})
	}
	return all
}

// limit is how long a candidate may take where the judge has a bound of its own,
// or zero.
func (h *lab) limit(bound time.Duration) time.Duration {
	if bound > 0 {
		return min(bound, h.options.Timeout)
	}
	return h.options.Timeout
}

// prepareShape has a worker make the inputs and the reference of a shape, which may
// take long, before there is a candidate whose time is limited: a worker that
// does so for the first time must not give one that hangs minutes of the GPU.
// Contents on which the reference is not finite are silent.
func (h *lab) prepareShape(ctx context.Context, w *worker, s wire.Shape, seed uint64) (silent string, err error) {
	what := fmt.Sprint(s.Name, " ", seed, " ", s.Inputs)
	err = h.once(w, what, func() error {
		var a wire.ControlAnswer
		r := wire.ControlRequest{Kind: string(kernels.Zeros), Shape: s, Seed: seed}
		if err := w.call(ctx, prepareTimeout, wire.Control, r, &a); err != nil {
			return err
		}
		h.contents.Store(what, contents{s, seed, a.Silent})
		return nil
	})
	if c, ok := h.contents.Load(what); ok {
		silent = c.(contents).silent
	}
	return silent, err
}

// contents are inputs of a shape, by the seed that they come from, and why they are silent.
type contents struct {
	shape  wire.Shape
	seed   uint64
	silent string
}

// prepareContents has a worker make all that others have made for comparisons.
func (h *lab) prepareContents(ctx context.Context, w *worker) (err error) {
	h.contents.Range(func(_, v any) bool {
		c := v.(contents)
		_, err = h.prepareShape(ctx, w, c.shape, c.seed)
		return err == nil
	})
	return err
}

// once prepares a worker for something that it has not done before.
func (h *lab) once(w *worker, what string, do func() error) error {
	if w.prepared[what] {
		return nil
	}
	if err := do(); err != nil {
		return fmt.Errorf("preparing %s: %w", what, notOurs(err))
	}
	w.prepared[what] = true
	return nil
}

// notOurs makes an error of the machine out of the death of a worker that had
// no candidate to run.
func notOurs(err error) error {
	var died *workerError
	var late *timeoutError
	if errors.As(err, &died) || errors.As(err, &late) {
		return errors.New(err.Error())
	}
	return err
}

// Sample implements [evaluator.Session]. A contender that faults takes no further
// part, and the rounds are taken again without it: in a fresh worker, where it
// has cost one.
func (s *session) Sample(ctx context.Context, r evaluator.SampleRequest) (evaluator.Sampled, error) {
	ctx, leave, err := s.h.Enter(ctx)
	if err != nil {
		return evaluator.Sampled{}, err
	}
	defer leave()
	d, err := s.h.problem.find(r.Shape)
	if err != nil {
		return evaluator.Sampled{}, err
	}
	if r.Batch <= 0 {
		r.Batch = batchTime
	}
	for {
		here := s.here(d)
		if len(here) == 0 {
			return s.sampled(wire.TimeAnswer{}, nil), nil
		}
		if s.w == nil || s.w.dead {
			if len(s.all) == 1 {
				return evaluator.Sampled{}, errors.New("the session's process has ended")
			}
			if err := s.another(ctx); err != nil {
				return evaluator.Sampled{}, err
			}
		}
		if err := s.loadAll(ctx); err != nil {
			return evaluator.Sampled{}, err
		}
		if here = s.here(d); len(here) == 0 {
			continue
		}
		a, again, err := s.ask(ctx, d, here, r)
		if err != nil {
			return evaluator.Sampled{}, err
		}
		if !again {
			out := s.sampled(a, here)
			return out, s.addEdges(ctx, d, a, here, &out)
		}
	}
}

// here lists the candidates that take part at a shape, by their index.
func (s *session) here(d *shapeData) []int {
	var list []int
	for i, c := range s.all {
		if s.faults[i] == nil && c.unsupported[d] == "" {
			list = append(list, i)
		}
	}
	return list
}

// ask takes the rounds of one request. Again says that one of the candidates
// that are here has faulted, and that the others have yet to be timed.
func (s *session) ask(ctx context.Context, d *shapeData, here []int, r evaluator.SampleRequest) (a wire.TimeAnswer, again bool, err error) {
	h := s.h
	if s.shape != d || s.batch != r.Batch {
		s.shape = nil
		if err := h.prepareTiming(ctx, s.w, d, s.seed, r.Batch); err != nil {
			return a, false, err
		}
	}
	// A candidate may have changed what the baseline keeps in the worker, and both
	// may be wrong alike by the end of the finals.
	q := wire.TimeRequest{Continue: s.shape != nil, Rounds: r.Rounds, Last: r.Last, Longer: r.Longer, Reference: r.Last && s.purpose == evaluator.ForFinals && h.hostKey == ""}
	if r.Latency {
		q.Latencies = latencies
	}
	if !q.Continue {
		contenders := []*candidate{h.baselineOf(d)}
		for _, i := range here {
			contenders = append(contenders, s.all[i])
		}
		h.race(&q, d, s.seed, r.Batch, contenders)
		s.contents = cmp.Or(s.contents, r.Pool, crypto.Text())
		if s.purpose == evaluator.ForFinals {
			if q.Shape.Made, err = h.finalMade(ctx, d, s.contents); err != nil {
				return a, false, err
			}
		}
		q.Pool = fmt.Sprintf("%s %s %d", s.contents, d.shape.Name, s.races[d])
		s.races[d]++
		s.made[d] = q.Shape.Made
	}
	if err := s.askEdges(&q, d, r); err != nil {
		return a, false, err
	}
	s.shape, s.batch = nil, r.Batch
	rounds, begun := time.Duration(r.Rounds+1), time.Now()
	limit := h.limit(r.Limit) + patience*rounds*time.Duration(len(here)+1)*max(r.Batch, s.w.batches[d]) + settled*rounds*time.Duration(len(here)+1)*s.w.settles[d]
	limit += time.Duration(len(q.Edges)) * (time.Second + edgeUpload*time.Duration(h.problem.inputBytes(d)))
	limit += time.Duration(len(q.Edges)*len(here)) * (patience*max(r.Batch, s.w.batches[d]) + edgeSettled*s.w.settles[d])
	if r.Longer {
		limit += time.Duration(len(here)) * (patience*wire.LastingTime + settled*s.w.settles[d])
	}
	err = s.w.call(ctx, limit, wire.Time, q, &a)
	var late *timeoutError
	switch {
	case errors.As(err, &late) && len(here) == 1:
		s.faults[here[0]] = &evaluator.Fault{Hang: true, Reason: late.Error()}
		return a, true, nil
	case errors.As(err, &late):
		// One of several hangs.
		return a, false, &evaluator.Lost{Reason: late.Error()}
	case err != nil:
		return a, false, blame(err, s.all...)
	}
	s.gpu.measured.Add(a.GPUNS)
	h.Log.Debug("a request for times", "shape", d.shape.Name, "contenders", len(a.Contenders), "begins", !q.Continue, "rounds", q.Rounds, "last", q.Last,
		"device", time.Duration(a.GPUNS), "worker", time.Duration(a.ElapsedNS), "all", time.Since(begun))
	if len(a.Contenders) != len(here)+1 {
		return a, false, fmt.Errorf("the worker answered for %d of %d contenders", len(a.Contenders), len(here)+1)
	}
	for n, t := range a.Contenders {
		if t.Fault == nil {
			continue
		}
		s.w.dead = s.w.dead || t.Fault.Fatal
		if n == 0 {
			return a, false, fmt.Errorf("the baseline: %s", faultText(t.Fault))
		}
		s.faults[here[n-1]] = s.w.faulted(t.Fault)
		again = true
	}
	for n, i := range here {
		var own *evaluator.Fault
		if errors.As(s.allowed[i].Spend(time.Duration(a.Contenders[n+1].LaunchesNS)), &own) && s.faults[i] == nil {
			s.faults[i], again = own, true
		}
	}
	if again {
		return a, true, nil
	}
	if why := spoiled(a.Contenders[0]); r.Last && why != "" {
		s.w.dead = true
		return a, false, fmt.Errorf("the baseline at shape %s, after timing: %s", d.shape.Name, why)
	}
	if base := a.Contenders[0]; base.Said != "" && !q.Continue {
		s.note(evaluator.Evidence{Check: "baseline " + d.shape.Name, Outcome: evaluator.Passed, Detail: base.Said})
	}
	s.shape = d
	return a, false, nil
}

// note keeps what is said of a shape: once, as it was when a race was begun last.
func (s *session) note(e evaluator.Evidence) {
	if i := slices.IndexFunc(s.said, func(x evaluator.Evidence) bool { return x.Check == e.Check }); i >= 0 {
		s.said[i] = e
		return
	}
	s.said = append(s.said, e)
}

// spoiled says what is wrong with the baseline's own outputs: it was proven, so
// that either the machine or something else in the process is not to be trusted.
func spoiled(t wire.Timed) string {
	for _, o := range t.After {
		if o.NotFinite > 0 || o.Unwritten > 0 || !(float64(o.Error) <= o.Limit) {
			return fmt.Sprintf("output %s is wrong: error %.3g, allowed is %.3g", o.Name, float64(o.Error), o.Limit)
		}
	}
	if why := evaluator.Surplus(outputs(t.After)); why != "" {
		return why
	}
	switch {
	case t.InputChanged+t.Guard != "":
		return "it wrote where it must not, to " + t.InputChanged + t.Guard
	case len(t.After) == 0:
		return "no output was compared"
	}
	return ""
}

// race is the request that begins one, the baseline first.
func (h *lab) race(q *wire.TimeRequest, d *shapeData, seed uint64, batch time.Duration, contenders []*candidate) {
	q.Shape, q.Seed, q.Cold, q.BatchNS = d.wire, seed, h.problem.spec.Cache == kernels.Cold, batch.Nanoseconds()
	for _, c := range contenders {
		q.Contenders = append(q.Contenders, wire.Contender{Binary: c.name, Code: c.hash, Geometry: c.geometry[d]})
	}
}

// prepareTiming brings the baseline of a shape to a worker, once, and holds what it
// computes there from fresh contents against the reference, where that is on the
// device: candidates are compared with it. The reference on the CPU is too slow for
// contents that come once; by it the baseline is proven in parity alone. It also learns how long a batch of the baseline takes.
func (h *lab) prepareTiming(ctx context.Context, w *worker, d *shapeData, seed uint64, batch time.Duration) error {
	b := h.baselineOf(d)
	if b == nil {
		return fmt.Errorf("there is no baseline for shape %s", d.shape.Name)
	}
	err := h.once(w, "the baseline "+b.name, func() error {
		a, err := h.load(ctx, w, b)
		w.loaded-- // it is not a candidate
		if err == nil && a.Fault != nil {
			err = errors.New(faultText(a.Fault))
		}
		return err
	})
	if err != nil {
		return err
	}
	return h.once(w, "timing at "+d.shape.Name, func() error {
		alone := wire.TimeRequest{Rounds: 1, Last: true, Reference: h.hostKey == ""}
		h.race(&alone, d, seed, batch, []*candidate{b})
		var a wire.TimeAnswer
		begin := time.Now()
		if err := w.call(ctx, prepareTimeout, wire.Time, alone, &a); err != nil {
			return err
		}
		w.settles[d] = time.Since(begin) - time.Duration(a.ChoosingNS)
		if len(a.Contenders) != 1 {
			return fmt.Errorf("the worker answered for %d contenders", len(a.Contenders))
		}
		t := a.Contenders[0]
		if t.Fault != nil {
			w.dead = w.dead || t.Fault.Fatal
			return errors.New(faultText(t.Fault))
		}
		if why := spoiled(t); why != "" {
			w.dead = true
			return fmt.Errorf("the baseline at shape %s: %s", d.shape.Name, why)
		}
		if t.Said != "" {
			h.Log.Info("the baseline's routine is ready", "shape", d.shape.Name, "runs", t.Said, "took", time.Duration(a.ChoosingNS))
		}
		for _, ns := range t.WallNS {
			w.batches[d] = max(w.batches[d], time.Duration(ns))
		}
		return nil
	})
}

// sampled tells of an answer about the candidates that are here, and of those
// that have faulted.
func (s *session) sampled(a wire.TimeAnswer, here []int) evaluator.Sampled {
	out := evaluator.Sampled{Series: make([]evaluator.Series, len(s.all)), Conditions: conditions(a.Before, a.After), Pool: s.contents}
	for i, f := range s.faults {
		out.Series[i].Fault = f
	}
	for n, i := range here {
		base, t := a.Contenders[0], a.Contenders[n+1]
		after := seen(t.After, t.Guard, t.GuardOffset, t.InputChanged)
		if names := s.h.problem.stored(); names != "" {
			after.Contents = fmt.Sprintf("%d contents of %s", wire.MadeContents, names)
		}
		out.Series[i] = evaluator.Series{
			Readings: readings(t), Baseline: readings(base), Batch: t.Batch, BaselineBatch: base.Batch, Sets: t.Sets,
			After: after, LatencyNS: t.LatencyNS,
		}
	}
	return out
}

func readings(t wire.Timed) []evaluator.Reading {
	var list []evaluator.Reading
	for i := range min(len(t.SamplesNS), len(t.WallNS)) {
		r := evaluator.Reading{NS: t.SamplesNS[i], WallNS: t.WallNS[i]}
		if i < len(t.WaitedNS) {
			r.WaitedNS = t.WaitedNS[i]
		}
		list = append(list, r)
	}
	return list
}
