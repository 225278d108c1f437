package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/evotune/evotune/evaluator"
)

const (
	// sampleTarget is how long one sample should last at least: far above the
	// clock's resolution and the cost of waking a process.
	sampleTarget = 2 * time.Millisecond
	// rotationBudget bounds the memory of one arena.
	rotationBudget = 256 << 20
	// checkBudget bounds the elements that are compared after one batch.
	checkBudget = 1 << 20
	// clockAllowance, launchAllowance for every launch, and clockTolerance are
	// by how much the processor time of a batch may exceed the time that the
	// harness claims for it: what it does around the launches, and what the
	// kernel accounts for waking it.
	clockAllowance  = 100 * time.Microsecond
	launchAllowance = 20 * time.Nanosecond
	clockTolerance  = 0.03
	// heldOutLeast is how long a batch of the baseline must last at a held-out
	// shape to be timed in the finals: shorter ones say nothing.
	heldOutLeast = sampleTarget / 4
	// clockRetries is how often a batch may be taken again because its clock
	// disagreed.
	clockRetries = 3
)

// A timingState is memory that is timed in, and the process of the baseline.
type timingState struct {
	shapes []*shapeData
	places map[*shapeData]placement
	// ours is where candidates run, theirs where the baseline does: nothing
	// that a candidate writes can slow the baseline down.
	ours, theirs *arena
	baseline     *process
	baseShape    *shapeData
	// dirty says that a candidate may have left anything in ours.
	dirty bool
}

// A placement is where the sets of a shape lie in an arena.
type placement struct {
	base, sets int
}

// rotation is how many sets a shape needs for its inputs to leave the last
// cache before they come round again.
func rotation(d *shapeData, shapes int) int {
	bytes := d.inBytes
	if bytes == 0 {
		bytes = d.outBytes
	}
	want := int(math.Ceil(2.5 * float64(lastLevelBytes()) / float64(bytes)))
	room := rotationBudget / shapes / d.layout.stride
	return min(max(min(want, room), variants), maxLaunches)
}

func newTimingState(shapes []*shapeData) (*timingState, error) {
	t := &timingState{shapes: shapes, places: map[*shapeData]placement{}}
	at := 0
	for _, d := range shapes {
		p := placement{base: at, sets: rotation(d, len(shapes))}
		t.places[d] = p
		at += roundUp(p.sets*d.layout.stride, 4096)
	}
	var err error
	if t.ours, err = newArena(at); err != nil {
		return nil, err
	}
	if t.theirs, err = newArena(at); err != nil {
		t.ours.close()
		return nil, err
	}
	t.fill(t.ours)
	t.fill(t.theirs)
	return t, nil
}

// fill puts inputs into every set: contents by turns, red zones everywhere.
func (t *timingState) fill(a *arena) {
	for _, d := range t.shapes {
		p := t.places[d]
		for s := range p.sets {
			d.load(a, p.base, s, s%variants)
			a.fence(&d.layout, p.base, s)
		}
	}
}

// close frees everything; it may be called on nil.
func (t *timingState) close() {
	if t == nil {
		return
	}
	if t.baseline != nil {
		t.baseline.kill()
		t.baseline = nil
	}
	t.ours.close()
	t.theirs.close()
}

// flush reads through the baseline's memory, so that nothing that was touched
// before is in a cache any more.
func (t *timingState) flush() {
	sum := byte(0)
	n := min(len(t.theirs.mem), int(3*lastLevelBytes()))
	for i := 0; i < n; i += 64 {
		sum += t.theirs.mem[i]
	}
	runtime.KeepAlive(sum) // the reads must not be left out
}

// A contender is a process that is timed at one shape.
type contender struct {
	h       *bench
	p       *process
	a       *arena
	d       *shapeData
	place   placement
	threads int
	// trusted is set for the baseline, which is ours.
	trusted bool
	next    int // the set whose turn it is
	batch   int
	last    []uint32 // the sets of the last batch
	rng     *rand.Rand
	retries int
}

// errClock is a disagreement between the harness's clock and the kernel's.
type errClock struct {
	claimed, used time.Duration
	threads       int
}

func (e *errClock) Error() string {
	return fmt.Sprintf("its clock disagrees with the kernel's: %v were claimed, %v of processor time were used by %d declared threads",
		e.claimed, e.used, e.threads)
}

// run makes n launches on the next n sets and returns the time that they took.
// The process runs during the batch only; it is frozen before its outputs are
// prepared and when its answer comes.
func (c *contender) run(n int) (time.Duration, error) {
	sets := make([]uint32, n)
	for i := range sets {
		s := (c.next + i) % c.place.sets
		sets[i] = uint32(s)
		c.d.reset(c.a, c.place.base, s, s%variants)
	}
	c.last = sets
	before, err := c.p.cpuTime()
	if err != nil {
		return 0, err
	}
	if err := c.p.send(command{kind: commandRun, launches: sets, junk: -1}); err != nil {
		return 0, err
	}
	ans, err := c.p.receive(answerDone, c.h.deadline(c.d, n))
	if err != nil {
		return 0, err
	}
	if err := c.p.freeze(); err != nil {
		return 0, err
	}
	after, err := c.p.cpuTime()
	if err != nil {
		return 0, err
	}
	if int(ans.Launches) != n {
		return 0, c.p.fail(evaluator.Launch, "the harness's answer is about other launches")
	}
	used := after - before
	allowed := time.Duration(float64(ans.Elapsed)*float64(max(c.threads, 1))*(1+clockTolerance)) + clockAllowance + time.Duration(n)*launchAllowance
	if !c.trusted && used > allowed {
		return 0, &errClock{ans.Elapsed, used, max(c.threads, 1)}
	}
	return ans.Elapsed, nil
}

// steady runs a batch, and again when its clock disagreed: a busy machine may
// account what it did in between to a process that is honest, now and then.
func (c *contender) steady() (time.Duration, error) {
	for {
		elapsed, err := c.run(c.batch)
		var clock *errClock
		if !errors.As(err, &clock) || c.retries >= clockRetries {
			return elapsed, err
		}
		c.retries++
	}
}

// sample takes one sample: nanoseconds per launch, outputs checked.
func (c *contender) sample() (float64, error) {
	elapsed, err := c.steady()
	if err != nil {
		return 0, err
	}
	if err := c.check(false); err != nil {
		return 0, err
	}
	c.next = (c.next + c.batch) % c.place.sets
	return float64(elapsed.Nanoseconds()) / float64(c.batch), nil
}

// check compares outputs of the last batch with the reference: the last
// launch always, others as far as there is time, all of them when asked.
func (c *contender) check(all bool) error {
	if c.trusted {
		return nil
	}
	elements := 0
	for _, b := range c.d.layout.buffers {
		if b.role != roleIn {
			elements += b.elements
		}
	}
	order := c.rng.Perm(len(c.last) - 1)
	order = append([]int{len(c.last) - 1}, order...)
	for i, at := range order {
		if i > 0 && !all && (i+1)*elements > checkBudget {
			break
		}
		s := int(c.last[at])
		if o := c.h.problem.checkOutputs(c.d, c.a, c.place.base, s, s%variants, true); o.reason != "" {
			return c.p.fail(evaluator.Parity, "after timing: "+o.reason)
		}
		if fence := c.a.checkFence(&c.d.layout, c.place.base, s); fence != "" {
			return c.p.fail(evaluator.Parity, "after timing: "+fence)
		}
	}
	return nil
}

// checkAll looks at everything that a candidate could have changed at this
// shape.
func (c *contender) checkAll() error {
	if err := c.check(true); err != nil {
		return err
	}
	for s := range c.place.sets {
		reason := c.a.checkFence(&c.d.layout, c.place.base, s)
		if reason == "" {
			reason = c.d.inputChanged(c.a, c.place.base, s, s%variants)
		}
		if reason != "" {
			return c.p.fail(evaluator.Parity, "after timing: "+reason)
		}
	}
	return c.p.checkThreads(c.threads)
}

// calibrate chooses the size of the batches. It ends with a warm-up on the
// very sets that the first sample will see again: what a candidate remembers of
// them makes that sample faster than it can be.
func (c *contender) calibrate() error {
	c.batch = 1
	for try := range 4 {
		elapsed, err := c.steady()
		if err != nil {
			return err
		}
		per := max(float64(elapsed)/float64(c.batch), 1)
		want := int(min(max(math.Ceil(float64(sampleTarget)/per), 1), float64(c.place.sets)))
		// The first launch is no measure: caches, pages and clocks are cold, and
		// on a busy machine the process may have waited for a core. One that
		// takes very long is not repeated for that.
		if want <= c.batch+c.batch/4 && (try > 0 || elapsed > 100*sampleTarget) {
			return nil
		}
		c.batch = want
	}
	_, err := c.steady()
	return err
}

// startBaseline makes sure that the baseline's process is there and knows the
// shape.
func (h *bench) startBaseline(t *timingState, d *shapeData) error {
	if t.baseline == nil {
		f := cleanFlavour()
		p, err := h.start(h.ctx, &f, h.baseline.clean.Object, t.theirs, nil, h.baseline.src.Threads)
		if err != nil {
			return fmt.Errorf("starting the baseline: %w", notOurs(err))
		}
		t.baseline, t.baseShape = p, nil
	}
	if t.baseShape != d {
		if err := t.baseline.setShape(d, t.places[d].base); err != nil {
			return fmt.Errorf("the baseline: %w", notOurs(err))
		}
		if err := t.baseline.freeze(); err != nil {
			return fmt.Errorf("the baseline: %w", notOurs(err))
		}
		t.baseShape = d
	}
	return nil
}

// notOurs makes an error of the machine out of a failure that is not the
// candidate's.
func notOurs(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return fmt.Errorf("%w: %s", errProcess, f.reason)
	}
	return err
}

// contend prepares a process for timing at a shape.
func (h *bench) contend(t *timingState, p *process, d *shapeData, threads int) (*contender, error) {
	place := t.places[d]
	if err := p.setShape(d, place.base); err != nil {
		return nil, err
	}
	if err := p.freeze(); err != nil {
		return nil, err
	}
	c := &contender{h: h, p: p, a: t.ours, d: d, place: place, threads: threads, rng: newRand(), next: rand.IntN(place.sets)}
	return c, c.calibrate()
}

// contendBaseline prepares the baseline.
func (h *bench) contendBaseline(t *timingState, d *shapeData) (*contender, error) {
	if err := h.startBaseline(t, d); err != nil {
		return nil, err
	}
	c := &contender{
		h: h, p: t.baseline, a: t.theirs, d: d, place: t.places[d], threads: h.baseline.src.Threads,
		trusted: true, rng: newRand(), next: rand.IntN(t.places[d].sets),
	}
	if err := c.calibrate(); err != nil {
		h.dropBaseline(t)
		return nil, fmt.Errorf("the baseline: %w", notOurs(err))
	}
	return c, nil
}

func (h *bench) dropBaseline(t *timingState) {
	if t.baseline != nil {
		t.baseline.kill()
		t.baseline = nil
	}
}

// newRand makes a generator that nobody can foresee: neither the order of a
// measurement nor what is checked may be guessed.
func newRand() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// pair takes one sample of both in random order.
func (h *bench) pair(t *timingState, c, base *contender) (float64, float64, error) {
	baseline := func() (float64, error) {
		ns, err := base.sample()
		if err != nil {
			h.dropBaseline(t)
			return 0, fmt.Errorf("the baseline: %w", notOurs(err))
		}
		return ns, nil
	}
	if c.rng.IntN(2) == 0 {
		b, err := baseline()
		if err != nil {
			return 0, 0, err
		}
		s, err := c.sample()
		return s, b, err
	}
	s, err := c.sample()
	if err != nil {
		return 0, 0, err
	}
	b, err := baseline()
	return s, b, err
}

// Benchmark implements [evaluator.Bench].
func (h *bench) Benchmark(ctx context.Context, bin evaluator.Binary, incumbent float64) ([]evaluator.Timing, evaluator.Outcome, error) {
	ctx, leave, err := h.enter(ctx)
	if err != nil {
		return nil, evaluator.Outcome{}, err
	}
	defer leave()
	c, err := handle(bin)
	if err != nil {
		return nil, evaluator.Outcome{}, err
	}
	if err := machine.Acquire(ctx, wholeMachine); err != nil {
		return nil, evaluator.Outcome{}, err
	}
	defer machine.Release(wholeMachine)
	if h.timing == nil {
		if h.timing, err = newTimingState(h.problem.tune); err != nil {
			return nil, evaluator.Outcome{}, err
		}
	}
	timings, outcome, err := h.benchmark(ctx, c, incumbent)
	if err != nil || outcome.Verdict != evaluator.Implausible {
		return timings, outcome, err
	}
	// Nobody is called impossible on one measurement: the peaks may have been
	// measured while something else was running.
	h.log.Info("implausible timing, measured again", "reason", outcome.Reason)
	if err := h.measurePeaks(ctx); err != nil {
		return nil, evaluator.Outcome{}, err
	}
	again, second, err := h.benchmark(ctx, c, 0)
	if err != nil {
		return nil, evaluator.Outcome{}, err
	}
	first := evaluator.Evidence{Check: "first measurement", Outcome: evaluator.Failed, Detail: outcome.Reason}
	if second.Verdict == "" {
		first.Outcome = evaluator.Passed
		first.Detail = "implausible, and not so when measured again in a fresh process: " + outcome.Reason
	}
	second.Evidence = append([]evaluator.Evidence{first}, second.Evidence...)
	return again, second, nil
}

// benchmark times a candidate at every tuned shape in one fresh process. The
// caller holds the whole machine.
func (h *bench) benchmark(ctx context.Context, bin *candidate, incumbent float64) ([]evaluator.Timing, evaluator.Outcome, error) {
	t := h.timing
	if t.dirty {
		t.fill(t.ours)
		t.dirty = false
	}
	f := cleanFlavour()
	p, err := h.start(ctx, &f, bin.clean.Object, t.ours, nil, bin.src.Threads)
	if err != nil {
		out, err := fault(err, nil, "load")
		return nil, out, err
	}
	t.dirty = true
	defer p.kill()
	if err := p.freeze(); err != nil {
		out, err := fault(err, nil, "load")
		return nil, out, err
	}
	var timings []evaluator.Timing
	var evidence []evaluator.Evidence
	for _, d := range h.problem.tune {
		check := "benchmark " + d.shape.Name
		timing, more, err := h.timeShape(p, bin, d, incumbent)
		evidence = append(evidence, more...)
		if ctx.Err() != nil {
			return timings, evaluator.Outcome{}, ctx.Err()
		}
		var clock *errClock
		var below *errFloor
		switch {
		case errors.As(err, &clock):
			return timings, implausible(evidence, "clock "+d.shape.Name, clock.Error()), nil
		case errors.As(err, &below):
			return append(timings, timing), implausible(evidence, "floor "+d.shape.Name, below.Error()), nil
		case err != nil:
			out, err := fault(err, evidence, check)
			return timings, out, err
		}
		timings = append(timings, timing)
	}
	if _, err := p.quit(h.options.Timeout); err != nil {
		out, err := fault(err, evidence, "end of the process")
		return timings, out, err
	}
	t.dirty = false // everything was looked at
	return timings, evaluator.Outcome{Evidence: evidence}, nil
}

func implausible(evidence []evaluator.Evidence, check, reason string) evaluator.Outcome {
	return evaluator.Outcome{
		Verdict: evaluator.Implausible, Reason: check + ": " + reason,
		Evidence: append(evidence, evaluator.Evidence{Check: check, Outcome: evaluator.Failed, Detail: reason}),
	}
}

// errFloor is a time that no launch can take.
type errFloor struct{ ns, floor float64 }

func (e *errFloor) Error() string {
	return fmt.Sprintf("a launch took %.4g us, below the physical floor of %.4g us that this machine's measured peaks set", e.ns/1e3, e.floor/1e3)
}

// timeShape samples one candidate at one shape.
func (h *bench) timeShape(p *process, bin *candidate, d *shapeData, incumbent float64) (evaluator.Timing, []evaluator.Evidence, error) {
	t := h.timing
	base, err := h.contendBaseline(t, d)
	if err != nil {
		return evaluator.Timing{}, nil, err
	}
	c, err := h.contend(t, p, d, bin.src.Threads)
	if err != nil {
		return evaluator.Timing{}, nil, err
	}
	t.flush()
	var samples, baseline []float64
	stopped := ""
	floor := h.floor(d, c.place.sets, bin.src.Threads)
	least := math.Inf(1)
	for begin := time.Now(); stopped == ""; {
		s, b, err := h.pair(t, c, base)
		if err != nil {
			return evaluator.Timing{}, nil, err
		}
		samples, baseline = append(samples, s), append(baseline, b)
		stopped = h.enough(samples, baseline, time.Since(begin), incumbent)
		if least = min(least, s); least < floor && len(samples) >= 3 {
			stopped = "limit" // more samples of this would prove no more
		}
	}
	timing := evaluator.NewTiming(d.shape.Name, samples, baseline, c.batch, base.batch)
	timing.Stopped = stopped
	timing.FloorNS = floor
	if least < timing.FloorNS {
		return timing, nil, &errFloor{least, timing.FloorNS}
	}
	if err := c.checkAll(); err != nil {
		return timing, nil, err
	}
	evidence := []evaluator.Evidence{
		{Check: "floor " + d.shape.Name, Outcome: evaluator.Passed, Value: least, Limit: timing.FloorNS, AtLeast: true, Unit: "ns"},
		{Check: "outputs after timing " + d.shape.Name, Outcome: evaluator.Passed},
	}
	if c.retries > 0 {
		evidence = append(evidence, evaluator.Evidence{Check: "clock " + d.shape.Name, Outcome: evaluator.Passed, Value: float64(c.retries), Unit: "batches taken again"})
	}
	return timing, evidence, nil
}

// slowMargin is by how much a candidate must be slower than the incumbent for
// its sampling to be cut short; at one of several shapes it may make up for more.
const (
	slowMargin      = 1.1
	slowMarginShape = 1.5
	// preciseEnough is the half width of the confidence interval at which
	// sampling ends.
	preciseEnough = 0.01
)

// enough says why sampling should end; empty when it should not.
func (h *bench) enough(samples, baseline []float64, spent time.Duration, incumbent float64) string {
	n := len(samples)
	if n < 3 {
		return ""
	}
	ratios := make([]float64, n)
	least := math.Inf(1)
	for i := range ratios {
		ratios[i] = samples[i] / baseline[i]
		least = min(least, ratios[i])
	}
	centre, lo, hi := evaluator.Interval(ratios)
	margin := slowMargin
	if len(h.problem.tune) > 1 {
		margin = slowMarginShape
	}
	// With fewer than six samples there is no 95% interval; all of them on one
	// side by that much is as good.
	if incumbent > 0 && max(least, lo) > incumbent*margin {
		return "slower"
	}
	if (hi-lo)/2 <= preciseEnough*centre {
		return "precise"
	}
	enough := 5
	if spent/time.Duration(n) > 300*time.Millisecond {
		enough = 3
	}
	if n >= max(enough, h.options.Samples) || n >= enough && spent >= h.options.SampleTime {
		return "limit"
	}
	return ""
}
