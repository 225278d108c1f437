package cpu

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

const (
	// rotationBudget bounds the memory of one arena.
	rotationBudget = 256 << 20
	// checkBudget bounds the elements that are compared after one batch.
	checkBudget = 1 << 20
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

// fill puts inputs into every set: contents by turns, guards everywhere.
func (t *timingState) fill(a *arena) {
	for _, d := range t.shapes {
		t.fillShape(a, d)
	}
}

func (t *timingState) fillShape(a *arena, d *shapeData) {
	p := t.places[d]
	for s := range p.sets {
		d.load(a, p.base, s, s%variants)
		a.fence(&d.layout, p.base, s)
	}
}

// at finds a shape that has a place.
func (t *timingState) at(s kernels.Shape) *shapeData {
	for _, d := range t.shapes {
		if d.shape.Name == s.Name {
			return d
		}
	}
	return nil
}

// close frees everything; it may be called on nil.
func (t *timingState) close() {
	if t == nil {
		return
	}
	t.dropBaseline()
	t.ours.close()
	t.theirs.close()
}

func (t *timingState) dropBaseline() {
	if t.baseline != nil {
		t.baseline.kill()
		t.baseline = nil
	}
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
	q       *problem
	p       *process
	a       *arena
	d       *shapeData
	place   placement
	threads int
	limit   time.Duration // of one batch
	next    int           // the set whose turn it is
	batch   int
	most    int      // the largest batch of the calibration
	last    []uint32 // the sets of the last batch
	rng     *rand.Rand
}

// run makes n launches on the next n sets. The process runs during the batch
// only; it is frozen before its outputs are prepared and when its answer comes.
// What the kernel accounted to it is exact while it is frozen, and nowhere else.
func (c *contender) run(n int) (evaluator.Reading, error) {
	sets := make([]uint32, n)
	for i := range sets {
		s := (c.next + i) % c.place.sets
		sets[i] = uint32(s)
		c.d.reset(c.a, c.place.base, s, s%variants)
	}
	c.last = sets
	var none evaluator.Reading
	used, err := c.p.cpuTime()
	if err != nil {
		return none, err
	}
	waits := c.p.waits(c.threads)
	ans, err := c.p.ask(command{kind: commandRun, launches: sets, junk: -1}, answerDone, c.limit)
	if err != nil {
		return none, err
	}
	// Before it is frozen, for which it needs a core once more.
	waited := waitedSince(waits, c.p.waits(c.threads))
	if err := c.p.freeze(); err != nil {
		return none, err
	}
	after, err := c.p.cpuTime()
	if err != nil {
		return none, err
	}
	if int(ans.Launches) != n {
		return none, c.p.fail(false, otherLaunches)
	}
	return evaluator.Reading{
		NS: float64(ans.Elapsed) / float64(n), WallNS: float64(ans.wall), CPUNS: float64(after - used), WaitedNS: waited,
	}, nil
}

const otherLaunches = "the harness's answer is about other launches"

// sample takes one reading and looks at what the launches left.
func (c *contender) sample(left *evaluator.Observation) (evaluator.Reading, error) {
	r, err := c.run(c.batch)
	if err != nil {
		return r, err
	}
	if left != nil {
		c.look(left, false)
	}
	c.next = (c.next + c.batch) % c.place.sets
	return r, nil
}

// look compares outputs of the last batch with the reference: those of the last
// launch always, others as far as there is time, all of them when asked.
func (c *contender) look(left *evaluator.Observation, all bool) {
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
		left.Outputs = worse(left.Outputs, c.q.outputs(c.d, c.a, c.place.base, s, s%variants))
		if left.Guard == "" {
			left.Guard = c.a.checkFence(&c.d.layout, c.place.base, s)
		}
	}
}

// lookAtInputs says whether inputs of these sets still hold what they were given.
func (c *contender) lookAtInputs(left *evaluator.Observation, sets []uint32) {
	for _, s := range sets {
		if left.InputChanged == "" {
			left.InputChanged = c.d.inputChanged(c.a, c.place.base, int(s), int(s)%variants)
		}
	}
}

// lookAtAll looks at everything that the candidate could have changed at this
// shape.
func (c *contender) lookAtAll(left *evaluator.Observation) {
	c.look(left, true)
	sets := make([]uint32, c.place.sets)
	for s := range sets {
		sets[s] = uint32(s)
		if left.Guard == "" {
			left.Guard = c.a.checkFence(&c.d.layout, c.place.base, s)
		}
	}
	c.lookAtInputs(left, sets)
}

// calibrate chooses the size of the batches. It ends with a warm-up on the
// very sets that the first sample will see again: what a candidate remembers of
// them makes that sample faster than it can be.
func (c *contender) calibrate(target time.Duration) error {
	c.batch = 1
	best := math.Inf(1)
	for try := range calibrations {
		c.most = max(c.most, c.batch)
		r, err := c.run(c.batch)
		if err != nil {
			return err
		}
		took := r.NS * float64(c.batch)
		best = min(best, max(r.NS, 1))
		want := int(min(max(math.Ceil(float64(target)/best), 1), float64(c.place.sets)))
		// The first launch is no measure: caches, pages and clocks are cold. Nor
		// is one that waited for a core, of which a thread that has ended tells
		// nothing: the shortest of several is taken. Launches that take very long
		// are not repeated for that.
		measure := try >= 3 && r.WaitedNS < took/10 || try > 0 && took > 10*float64(target) || took > 100*float64(target)
		if measure && want <= c.batch+c.batch/4 {
			return nil
		}
		if c.batch = max(c.batch, want); measure {
			c.batch = want
		}
	}
	c.most = max(c.most, c.batch)
	_, err := c.run(c.batch)
	return err
}

// spoilt says whether the calibration has changed what is not its own.
func (c *contender) spoilt() bool {
	var left evaluator.Observation
	sets := make([]uint32, c.most)
	for i := range sets {
		s := (c.next + i) % c.place.sets
		sets[i] = uint32(s)
		if left.Guard == "" {
			left.Guard = c.a.checkFence(&c.d.layout, c.place.base, s)
		}
	}
	c.lookAtInputs(&left, sets)
	return left.Guard != "" || left.InputChanged != ""
}

// calibrations is how often the size of a batch is tried at most.
const calibrations = 8

// contend prepares a process that knows the shape for being timed at it.
func (h *lab) contend(t *timingState, p *process, d *shapeData, threads int, r evaluator.SampleRequest) (*contender, error) {
	place := t.places[d]
	if p != t.baseline || t.baseShape != d {
		if err := p.setShape(d, place.base); err != nil {
			return nil, err
		}
	}
	if err := p.freeze(); err != nil {
		return nil, err
	}
	c := &contender{
		q: h.problem, p: p, a: t.ours, d: d, place: place, threads: threads, limit: h.limit(r.Limit),
		rng: newRand(), next: rand.IntN(place.sets),
	}
	if p == t.baseline {
		c.a, t.baseShape = t.theirs, d
	}
	return c, c.calibrate(r.Batch)
}

// contendBaseline prepares the baseline, and starts it when it does not run.
func (h *lab) contendBaseline(t *timingState, d *shapeData, r evaluator.SampleRequest) (*contender, error) {
	b, err := h.builtBaseline(h.ctx)
	if err != nil {
		return nil, err
	}
	if t.baseline == nil {
		f := cleanFlavour()
		if t.baseline, err = h.start(h.ctx, &f, b.clean.Object, t.theirs, nil, b.src.Threads); err != nil {
			t.baseline = nil
			return nil, notOurs(err)
		}
		t.baseShape = nil
	}
	c, err := h.contend(t, t.baseline, d, b.src.Threads, r)
	if err != nil {
		t.dropBaseline()
		return nil, notOurs(err)
	}
	return c, nil
}

// notOurs makes an error of the machine out of a fault that is the baseline's.
func notOurs(err error) error {
	var f *evaluator.Fault
	if errors.As(err, &f) {
		return fmt.Errorf("the baseline: %w: %s", errProcess, f.Reason)
	}
	return fmt.Errorf("the baseline: %w", err)
}

// newRand makes a generator that nobody can foresee: neither the order of a
// measurement nor what is checked may be guessed.
func newRand() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// pair takes one reading of both in random order.
func (t *timingState) pair(c, base *contender, left *evaluator.Observation) (r, b evaluator.Reading, err error) {
	baseline := func() (err error) {
		if b, err = base.sample(nil); err != nil {
			t.dropBaseline()
			return notOurs(err)
		}
		return nil
	}
	first := c.rng.IntN(2) == 0
	if first {
		if err = baseline(); err != nil {
			return r, b, err
		}
	}
	if r, err = c.sample(left); err != nil || first {
		return r, b, err
	}
	return r, b, baseline()
}
