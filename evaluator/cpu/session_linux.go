package cpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	programs "github.com/evotune/evotune/evaluator/internal/process"
)

// A session is a set of harness processes with candidates loaded.
type session struct {
	h       *lab
	purpose evaluator.Purpose
	entries []*entry
	arena   *arena       // where parity runs
	state   *timingState // where timings run
	at      *shapeData   // what the processes know of
	base    *contender
	seen    *usage
	pool    string // of the contents that are launched on
	leaves  int    // cores for work beside timings

	ctx    context.Context // the life of the processes
	cancel context.CancelFunc
	end    []func() // gives back what the session holds, the last first
	closed bool
}

// An entry is one artifact's part in a session.
type entry struct {
	c       *candidate
	p       *process
	allowed *evaluator.Allowance
	now     *contender // at the session's shape
	fault   *evaluator.Fault
}

// Open implements [evaluator.Lab].
func (h *lab) Open(ctx context.Context, purpose evaluator.Purpose, artifacts ...evaluator.Artifact) (_ evaluator.Session, err error) {
	s := &session{h: h, purpose: purpose}
	for _, a := range artifacts {
		c, err := labs.Handle[*candidate](a)
		if err != nil {
			return nil, err
		}
		s.entries = append(s.entries, &entry{c: c, allowed: a.Allowed})
	}
	if len(s.entries) == 0 || len(s.entries) > 1 && purpose != evaluator.ForFinals {
		return nil, fmt.Errorf("a session for %d artifacts makes no sense", len(s.entries))
	}
	whole, leave, err := h.Enter(ctx)
	if err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(h.Life)
	s.end = []func(){leave, s.cancel}
	defer s.watch(whole)()
	defer func() {
		if err != nil {
			err = s.why(whole, err)
			s.giveBack()
		}
	}()
	if purpose == evaluator.ForParity {
		return s, s.openParity(whole)
	}
	return s, s.openTiming(whole)
}

func (s *session) openParity(ctx context.Context) error {
	_, release, err := s.h.sharing(ctx, s.entries[0].c.src.Threads)
	if err != nil {
		return err
	}
	s.end = append(s.end, release)
	var size span
	for _, d := range s.h.problem.shapes() {
		size = size.max(d.layout.stride)
	}
	if s.arena, err = newArena(size); err != nil {
		return err
	}
	s.end = append(s.end, s.arena.close)
	return s.start(s.entries[0], s.arena, parityEnv)
}

// openTiming takes the host, or all but the cores that timings leave to compilers and checks. While it waits for what is
// under way there, which leaves cores idle, it makes ready what is not timed: memory, and processes.
func (s *session) openTiming(ctx context.Context) (err error) {
	if _, err := s.h.builtBaseline(ctx); err != nil {
		return err
	}
	if s.purpose == evaluator.ForTiming {
		s.leaves = s.h.spare(max(s.entries[0].c.src.Threads, s.h.baselineSource.Threads))
	}
	if err := s.h.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	s.end = append(s.end, func() { s.h.turn.Release(1) })
	_, begun, err := programs.ShareHost(ctx) // another lab may be timing
	if err != nil {
		return err
	}
	var held context.Context
	release := func() {}
	s.end = append(s.end, func() { release() })
	var host errgroup.Group
	host.Go(func() error {
		over, back, err := programs.TakeCores(ctx, s.leaves)
		if err == nil {
			held, release = over, back
		}
		return err
	})
	err = s.makeReady()
	begun()
	if err := errors.Join(err, host.Wait()); err != nil {
		return err
	}
	s.h.holding = context.WithoutCancel(held)
	s.seen = s.usage()
	return nil
}

// makeReady makes memory and starts processes. Timings of single candidates share memory and the
// baseline's process; the finals have their own.
func (s *session) makeReady() (err error) {
	tune := s.h.problem.Tune
	switch {
	case s.purpose == evaluator.ForFinals:
		// The memory of the other timings makes room; it is made again on demand.
		s.h.timing.close()
		s.h.timing = nil
		if s.state, err = newTimingState(s.h, append(append([]*shapeData{}, tune...), s.h.problem.Verify...)); err != nil {
			return err
		}
		s.state.several = len(s.entries) > 1
		s.end = append(s.end, s.state.close)
	case s.h.timing == nil:
		if s.h.timing, err = newTimingState(s.h, tune); err != nil {
			return err
		}
		fallthrough
	default:
		s.state = s.h.timing
		s.state.restore()
	}
	for _, e := range s.entries {
		var own *evaluator.Fault
		switch err := s.start(e, s.state.ours, nil); {
		case errors.As(err, &own) && len(s.entries) > 1:
			s.lose(e, own)
		case err != nil:
			return err
		}
	}
	return nil
}

// start starts the process of an entry and freezes it.
func (s *session) start(e *entry, a *arena, env []string) (err error) {
	f := cleanFlavour()
	if e.p, err = s.h.start(s.ctx, &f, e.c.clean.Object, a, env, e.c.src.Threads); err != nil {
		return err
	}
	e.p.together = e.allowed
	s.end = append(s.end, e.p.kill)
	return e.p.freeze()
}

// watch ends the processes when ctx ends before the function that it returns is
// called.
func (s *session) watch(ctx context.Context) func() bool { return context.AfterFunc(ctx, s.cancel) }

// why says why a call failed: processes that were ended because a caller asked
// for it have no fault.
func (s *session) why(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case s.h.Life.Err() != nil:
		return evaluator.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// giveBack ends the session's processes and gives back what it holds.
func (s *session) giveBack() {
	s.closed = true
	for i := len(s.end) - 1; i >= 0; i-- {
		s.end[i]()
	}
}

// Close implements [evaluator.Session].
func (s *session) Close() (notes []evaluator.Evidence, err error) {
	if s.closed {
		return nil, nil
	}
	defer s.giveBack()
	if s.ctx.Err() != nil {
		return nil, nil // the call that was cancelled has said so
	}
	if p := s.entries[0].p; s.purpose == evaluator.ForParity {
		if s.h.sandbox && !p.sandboxed {
			notes = append(notes, evaluator.Evidence{Check: "sandbox", Outcome: evaluator.NotRun, Detail: "this kernel has no seccomp filters: what the candidate leaves is looked for afterwards"})
		}
		if p.noise > 0 {
			notes = append(notes, evaluator.Evidence{Check: "channel", Outcome: evaluator.Passed, Value: float64(p.noise), Detail: "packets that the candidate wrote to the harness's socket were passed over"})
		}
	}
	for _, e := range s.entries {
		if e.fault != nil || e.p.ended {
			continue
		}
		if own := e.p.quit(s.h.options.Timeout); own != nil && err == nil {
			err = own
		}
	}
	return notes, s.why(context.Background(), err)
}

// Compare implements [evaluator.Session].
func (s *session) Compare(ctx context.Context, r evaluator.CompareRequest) (evaluator.Observation, error) {
	defer s.watch(ctx)()
	o, err := s.compare(r)
	return o, s.why(ctx, err)
}

// compare launches two times on one contents: once with poisoned outputs, once
// with outputs that hold stale but ordinary numbers, each time with other junk
// on the stack. It ends early when the first launch changed what is not its own, and on
// edge-case inputs.
func (s *session) compare(r evaluator.CompareRequest) (o evaluator.Observation, err error) {
	e, q, a := s.entries[0], s.h.problem, s.arena
	if a == nil {
		return o, errors.New("this session is not for comparisons")
	}
	d, contents, err := q.contents(r)
	if err != nil {
		return o, err
	}
	if d.silent != "" {
		o.NotCompared = d.silent
		return o, nil
	}
	if s.at != d {
		s.at = nil
		if err := e.p.setShape(d, span{}); err != nil {
			return o, err
		}
		s.at = d
	}
	d.load(a, contents)
	a.setGuards(&d.layout, span{}, 0)
	if o.Elapsed, err = s.launch(&o, r, 0xff); err != nil {
		return o, err
	}
	o.Outputs = q.outputs(d, a, span{}, 0, d.expected[contents])
	if r.Further != "" || o.Guard != "" || o.Threads > max(e.c.src.Threads, 1) {
		return o, nil
	}
	first := make([][]byte, len(d.layout.buffers))
	for b := range d.layout.buffers {
		if d.layout.buffers[b].role != roleIn {
			first[b] = bytes.Clone(a.buffer(&d.layout, span{}, 0, b))
		}
	}
	d.load(a, contents)
	for b := range d.layout.buffers {
		if p := &d.layout.buffers[b]; p.role == roleOut {
			stale := staleBytes(p.dtype, p.bytes, scaleOf(d.expected[contents][b]), newStream(q.seed, contents+variants, b))
			copy(a.buffer(&d.layout, span{}, 0, b), stale)
		}
	}
	again, err := s.launch(&o, r, 0x3f)
	if err != nil {
		return o, err
	}
	o.Elapsed = min(o.Elapsed, again)
	for b := range first {
		got := a.buffer(&d.layout, span{}, 0, b)
		if first[b] == nil || bytes.Equal(first[b], got) {
			continue
		}
		i := 0
		for got[i] == first[b][i] {
			i++
		}
		l := &d.layout.buffers[b]
		i /= l.dtype.size()
		o.Different = fmt.Sprintf("output %s, element %d is %v, then %v (where the output held other numbers before)",
			l.name, i, l.dtype.get(first[b], i), l.dtype.get(got, i))
		break
	}
	return o, nil
}

// launch makes one launch on set 0, freezes the process, so that what is looked
// at is what was there when the kernel returned, and looks around.
func (s *session) launch(o *evaluator.Observation, r evaluator.CompareRequest, junk int) (time.Duration, error) {
	e, d := s.entries[0], s.at
	ans, err := e.p.ask(command{kind: commandRun, launches: []uint32{0}, junk: junk}, answerDone, s.h.limit(r.Limit))
	if err != nil {
		return 0, err
	}
	if ans.Launches != 1 {
		return 0, e.p.fail(false, otherLaunches)
	}
	if err := e.p.freeze(); err != nil {
		return 0, err
	}
	o.Guard = s.arena.checkGuards(&d.layout, span{}, 0)
	n, err := e.p.threads(e.c.src.Threads)
	o.Threads = max(o.Threads, n)
	return ans.Elapsed, err
}

// Sample implements [evaluator.Session].
func (s *session) Sample(ctx context.Context, r evaluator.SampleRequest) (evaluator.Sampled, error) {
	defer s.watch(ctx)()
	out, err := s.sample(ctx, r)
	if err != nil {
		s.at = nil // a process is gone
	}
	return out, s.why(ctx, err)
}

func (s *session) sample(ctx context.Context, r evaluator.SampleRequest) (out evaluator.Sampled, err error) {
	if err := s.prepare(r); err != nil {
		return out, err
	}
	if made := s.state.making; s.leaves > 0 {
		defer func() { out.Making = s.state.making - made }()
	}
	out.Pool = s.pool
	out.Series = make([]evaluator.Series, len(s.entries))
	several := len(s.entries) > 1
	for _, e := range s.entries {
		if e.fault == nil {
			e.now.adjust()
		}
	}
	rounds := r.Rounds
	if r.Last && rounds == 0 && several {
		rounds = 1 // each looks at its own batch before another comes
	}
	for n := range rounds {
		for _, i := range newRand().Perm(len(s.entries)) {
			e, series := s.entries[i], &out.Series[i]
			if e.fault != nil {
				continue
			}
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			reading, base, err := s.state.pair(e.now, s.base, &series.After)
			if err != nil {
				if err := s.blame(e, err); err != nil {
					return out, err
				}
				continue
			}
			if n < r.Rounds {
				series.Readings, series.Baseline = append(series.Readings, reading), append(series.Baseline, base)
			}
			// Only what it was given to work on is held against one of several: nobody may answer for
			// what another did.
			if several && r.Last && n == rounds-1 {
				if err := e.now.look(s.base, &series.After, true); err != nil {
					if err := s.blame(e, err); err != nil {
						return out, err
					}
				}
			}
		}
	}
	for i, e := range s.entries {
		series := &out.Series[i]
		if e.fault == nil && r.Last {
			if err := s.lookLast(e, &series.After); err != nil {
				return out, err
			}
		}
		if e.fault == nil {
			if series.After.Threads, err = e.p.threads(e.c.src.Threads); err != nil {
				if err := s.blame(e, err); err != nil {
					return out, err
				}
			}
		}
		if series.Fault = e.fault; e.now != nil {
			series.Batch, series.BaselineBatch = s.state.sides(e.now, s.base)
			series.Sets = e.now.place.sets
		}
	}
	out.Conditions = s.conditions(r.Last)
	return out, nil
}

// interruptions is how often a batch is interrupted at the end of a measurement, at most: until one was stopped in time.
const interruptions = 6

// lookLast ends what an entry does at a shape.
func (s *session) lookLast(e *entry, left *evaluator.Observation) error {
	several := len(s.entries) > 1
	if !several {
		if err := e.now.look(s.base, left, true); err != nil {
			return s.blame(e, err)
		}
	}
	interrupt := func() (err error) {
		for try, inTime := 0, false; try < interruptions && !inTime && err == nil; try++ {
			inTime, err = e.now.interrupt(s.base, left)
		}
		return err
	}
	edges := func() error { return e.now.onEdges(s.base, left, e.now.due) }
	checks := []func() error{interrupt, edges}
	if e.now.rng.IntN(2) == 0 {
		checks = []func() error{edges, interrupt}
	}
	for _, check := range append(checks, func() error { return e.now.outlast(s.base, left) }) {
		if err := check(); err != nil {
			return s.blame(e, err)
		}
	}
	e.now.due = nil
	if left.Guard == "" && e.now.hurried() {
		left.Guard = "turns were taken faster than it launches"
	}
	if !several {
		e.now.lookAround(left)
	}
	return nil
}

// prepare makes everybody ready for a shape, once.
func (s *session) prepare(r evaluator.SampleRequest) (err error) {
	if s.state == nil {
		return errors.New("this session is not for timing")
	}
	d := s.state.at(r.Shape)
	if d == nil {
		return fmt.Errorf("this session has no shape %q", r.Shape.Name)
	}
	if s.at == d {
		return nil
	}
	s.at = nil
	if s.pool == "" {
		if s.pool = r.Pool; !strings.HasPrefix(s.pool, drawnAs()) {
			s.pool = newPool()
		}
		s.state.draw(s.pool)
	}
	if s.base, err = s.h.contendBaseline(s.state, d, r); err != nil {
		return err
	}
	for _, e := range s.entries {
		if e.fault != nil {
			continue
		}
		if e.now, err = s.h.contend(s.state, e.p, d, e.c.src.Threads, r); err != nil {
			if err := s.blame(e, err); err != nil {
				return err
			}
			continue
		}
		if e.now.due, e.now.edges = e.now.anyEdge(), edgesInSearch; s.purpose == evaluator.ForFinals {
			e.now.due, e.now.edges = e.now.edgesOf(r.Set), edgesInFinals
		}
		for _, x := range e.now.due { // now: making them takes longer than what comes before other batches
			if err := x.fill(s.h, d); err != nil {
				return err
			}
		}
	}
	s.state.flush()
	s.at = d
	return nil
}

// blame ends the part of an entry that has a fault; other errors stay.
func (s *session) blame(e *entry, err error) error {
	var own *evaluator.Fault
	if s.ctx.Err() != nil || !errors.As(err, &own) {
		return err
	}
	s.lose(e, own)
	return nil
}

func (s *session) lose(e *entry, own *evaluator.Fault) {
	e.fault, e.now = own, nil
	if e.p != nil {
		e.p.kill()
	}
}
