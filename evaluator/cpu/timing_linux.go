package cpu

import (
	"bytes"
	"cmp"
	crypto "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

const (
	// rotationBudget bounds the memory of one arena.
	rotationBudget = 256 << 20
	// checkBudget bounds the elements that are compared after one batch.
	checkBudget = 1 << 20
	// seldom is how many batches there are in the mean for one that is interrupted, besides the one that
	// every measurement has at its end.
	seldom = 16
	// edgesInSearch and edgesInFinals are how many there are for one with edge-case contents. In finals
	// that makes about as many as each set of processes is to meet.
	edgesInSearch, edgesInFinals = 8, 2
	// foresight is how long the launches last of which a process learns the sets together: about as long as it takes to
	// read a turn. Whoever knows the next one's could read ahead what it needs, or compute it at once.
	foresight = 300 * time.Nanosecond
	// pythonGrace is how long functions in Python may take in any measurement.
	pythonGrace = 2 * time.Second
)

// A timingState is memory that is timed in, and the process of the baseline.
type timingState struct {
	h      *lab
	q      *problem
	shapes []*shapeData
	places map[*shapeData]*placement
	values [][]float64 // by buffer, of the last answer
	// ours is where candidates and the baseline are timed, each on sets of their own: one arena may be
	// a quarter faster than another by how its pages came to lie. In theirs the baseline computes the
	// right answers, which no candidate can read.
	ours, theirs *arena
	// timed is the baseline's process in ours, answers the one in theirs.
	timed, answers *process
	// several says that contenders take turns in ours, whose guards each finds as they should be.
	several bool
	// drawn is when the pool was drawn, and pythonTime how long functions in Python took since.
	drawn      time.Time
	pythonTime time.Duration
	// calibrated is how long a launch of timed took at a shape, at least, in nanoseconds.
	calibrated map[*shapeData]float64
	// making is how long it took to make contents, all in all.
	making time.Duration
}

// A placement is where the sets of a shape lie in an arena, and what they hold.
type placement struct {
	base    span
	sets    int
	order   []uint32      // the sets, in the order of their turns
	next    int           // where in order the next turn is
	pool    *rand.ChaCha8 // draws the seeds of contents, in the order of turns
	alike   *rand.ChaCha8 // the same, for what both sides of a pair share
	seeds   []uint64      // of each set's contents
	made    []uint64      // of what is made as a whole in it
	windows []uint32      // by set: where in what is drawn for them inputs begin
	given   [][][]byte    // by set and buffer: contents that are not drawn from the seed; nil for others
	turns   []float64     // how long the baseline took to read a turn in its last batches, in nanoseconds
}

func newPlacement(base span, sets int) *placement {
	p := &placement{base: base, sets: sets, order: make([]uint32, sets), seeds: make([]uint64, sets), windows: make([]uint32, sets), made: make([]uint64, sets), given: make([][][]byte, sets)}
	for i := range p.order {
		p.order[i] = uint32(i)
	}
	p.shuffle(sets, sets)
	return p
}

// turn gives the next n sets.
func (p *placement) turn(n int) []uint32 {
	sets := make([]uint32, n)
	for i := range sets {
		sets[i] = p.order[(p.next+i)%p.sets]
	}
	return sets
}

// turnsOf gives the turns of launches on sets, as the harness is told.
func (p *placement) turnsOf(sets []uint32) []uint32 {
	turns := make([]uint32, len(sets))
	for i, set := range sets {
		turns[i] = turnOf(set, p.windows[set])
	}
	return turns
}

// use has the sets that were used come again in an order that nobody can foresee, and none before
// about half of the others: else a launch could read ahead what the next one will need.
func (p *placement) use(n int) {
	p.next = (p.next + n) % p.sets
	half := (p.sets + 1) / 2
	p.shuffle(half, half)
	if n > half {
		p.shuffle(n, n-half)
	}
}

// shuffle draws the order of n sets anew, the first of which had its turn so many turns ago.
func (p *placement) shuffle(ago, n int) {
	at := func(i int) int { return (p.next - ago + i + p.sets) % p.sets }
	rand.Shuffle(n, func(i, j int) { p.order[at(i)], p.order[at(j)] = p.order[at(j)], p.order[at(i)] })
}

// rotation is how many sets a shape needs for its inputs to leave the last
// cache before they come round again.
func rotation(d *shapeData, shapes int) int {
	bytes := d.inBytes
	if bytes == 0 {
		bytes = d.outBytes
	}
	want := int(math.Ceil(2.5 * float64(lastLevelBytes()) / float64(bytes)))
	room := rotationBudget / shapes / (d.layout.stride[writable] + d.layout.stride[readOnly])
	return min(max(min(want, room), variants), maxLaunches)
}

// newTimingState makes memory for shapes. It has contents when they were drawn.
func newTimingState(h *lab, shapes []*shapeData) (*timingState, error) {
	n := len(h.problem.roles)
	t := &timingState{
		h: h, q: h.problem, shapes: shapes, places: map[*shapeData]*placement{}, values: make([][]float64, n),
		calibrated: map[*shapeData]float64{},
	}
	var at span
	for _, d := range shapes {
		sets := rotation(d, len(shapes))
		t.places[d] = newPlacement(at, sets)
		for z := range at {
			at[z] += roundUp(sets*d.layout.stride[z], 4096)
		}
	}
	var err error
	if t.ours, err = newArena(at); err != nil {
		return nil, err
	}
	if t.theirs, err = newArena(at); err != nil {
		t.ours.close()
		return nil, err
	}
	for _, d := range shapes {
		for s := range t.places[d].sets {
			t.ours.setGuards(&d.layout, t.places[d].base, s)
			t.theirs.setGuards(&d.layout, t.places[d].base, s)
		}
	}
	return t, nil
}

// drawnAs begins the names of pools whose contents are drawn as they are here and now. A pool of an older version, or of
// a processor that draws in another way, would have other contents here under its name.
func drawnAs() string {
	if drawsWide {
		return "5-"
	}
	return "4-"
}

// newPool draws the seed of a pool of contents, which nobody can foresee.
func newPool() string { return drawnAs() + crypto.Text() }

// draw has all contents come from a pool from now on, from its beginning. Whoever
// sees contents learns nothing of those that follow: the generator is a cryptographic
// one.
func (t *timingState) draw(pool string) {
	from := func(of string) *rand.ChaCha8 { return rand.NewChaCha8(sha256.Sum256([]byte(pool + " " + of))) }
	for _, d := range t.shapes {
		t.places[d].pool, t.places[d].alike = from("shape "+d.shape.Name), from("alike "+d.shape.Name)
	}
	t.drawn, t.pythonTime = time.Now(), 0
}

// restore makes memory what it was before a candidate had it, which may have written anywhere, to its very end.
func (t *timingState) restore() {
	clear(t.ours.mem[writable])
	for _, d := range t.shapes {
		for s := range t.places[d].sets {
			t.ours.restoreGuards(&d.layout, t.places[d].base, s)
		}
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
	for _, p := range []*process{t.timed, t.answers} {
		if p != nil {
			p.kill()
		}
	}
	t.timed, t.answers = nil, nil
	clear(t.calibrated)
}

// flush reads through the baseline's memory, so that nothing that was touched
// before is in a cache any more.
func (t *timingState) flush() {
	sum := byte(0)
	for _, mem := range t.theirs.mem {
		n := min(len(mem), int(3*lastLevelBytes()))
		for i := 0; i < n; i += 64 {
			sum += mem[i]
		}
	}
	runtime.KeepAlive(sum) // the reads must not be left out
}

// A contender is a process that is timed at one shape.
type contender struct {
	h       *lab
	t       *timingState
	p       *process
	a       *arena
	answers *contender // of the baseline: who computes the right answers
	d       *shapeData
	place   *placement
	threads int
	limit   time.Duration      // of one batch
	within  map[string]float64 // the errors up to which an output is right, see SampleRequest
	target  time.Duration      // how long a batch should last
	batch   int
	last    []uint32 // the sets of the last batch
	looked  []uint32 // those of them whose outputs were compared; the process has been stopped since
	due     []*edge  // edge cases that have to come
	edges   int      // how many batches there are for one with edge-case contents
	ran     int      // launches in batches so far
	tried   float64  // the shortest launch of the calibration, in nanoseconds
	fastest float64  // by a launch of a reading that counts, in nanoseconds
	rushed  float64  // the shortest time between two turns of an interrupted batch, in nanoseconds; 0 before the first
	rng     *rand.Rand
}

// run makes one launch on each of these sets. The process runs during the batch
// only; it is frozen before its outputs are prepared and when its answer comes.
// What the kernel accounted to it is exact while it is frozen, and nowhere else.
func (c *contender) run(sets []uint32) (evaluator.Reading, error) {
	c.t.prime(c.a, c.d, sets)
	c.last, c.looked = sets, nil
	n := len(sets)
	var none evaluator.Reading
	used, err := c.p.cpuTime()
	if err != nil {
		return none, err
	}
	waits := c.p.waits(c.threads)
	step := c.step()
	ans, err := c.p.ask(command{kind: commandRun, launches: c.place.turnsOf(sets), step: step, junk: -1}, answerDone, c.limit)
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
	c.ran += n
	reads := float64(n/step + 1) // with the one that finds the end
	if c.p == c.t.timed {
		c.place.took(float64(min(ans.Value, uint64(ans.wall))-min(uint64(ans.Elapsed), ans.Value, uint64(ans.wall))) / reads)
	}
	without := func(passed time.Duration) float64 {
		return withoutTurns(float64(passed), float64(ans.Elapsed), reads*c.place.turnCost())
	}
	return evaluator.Reading{
		NS: float64(ans.Elapsed) / float64(n), WallNS: without(ans.wall), CPUNS: without(after - used), WaitedNS: waited,
	}, nil
}

// withoutTurns is what passed less what reading turns usually takes, in nanoseconds. Where that is more than what a
// process does not claim, turns were read quicker than usual: an honest process claims no more than passed.
func withoutTurns(passed, claimed, usual float64) float64 {
	if passed > claimed {
		return max(passed-usual, claimed)
	}
	return passed - usual // it waited for a core in a launch
}

// took notes how long the baseline took to read a turn.
func (p *placement) took(ns float64) {
	const last = 9
	if p.turns = append(p.turns, ns); len(p.turns) > last {
		p.turns = p.turns[1:]
	}
}

// turnCost is how long reading a turn usually takes, in nanoseconds, which is taken off the time that passed: it is in no
// launch's time. The baseline tells, which is trusted, for both sides: by its quicker batches, since in others it waited
// for a core.
func (p *placement) turnCost() float64 {
	if len(p.turns) == 0 {
		return 0
	}
	return evaluator.Quantile(slices.Sorted(slices.Values(p.turns)), 0.25)
}

// step is how many launches the process may know of at once.
func (c *contender) step() int {
	usual := cmp.Or(c.fastest, c.tried, float64(foresight))
	return int(min(max(float64(foresight)/usual, 1), maxLaunches))
}

const otherLaunches = "the harness's answer is about other launches"

// look compares outputs of the last batch with the baseline's answers to the same
// contents: those of one launch always, others as far as there is time, all of them
// when asked. Which these are is drawn now, and the baseline is launched for them.
func (c *contender) look(base *contender, left *evaluator.Observation, all bool) error {
	if len(c.last) == 0 { // edge-case contents have gone
		if _, err := c.try(c.batch); err != nil {
			return err
		}
	}
	elements := 0
	for _, b := range c.d.layout.buffers {
		if b.role != roleIn {
			elements += b.elements
		}
	}
	var chosen []uint32
	for _, at := range c.rng.Perm(len(c.last)) {
		if !all && len(chosen) > 0 && (len(chosen)+1)*elements > checkBudget {
			break
		}
		if set := c.last[at]; !slices.Contains(c.looked, set) {
			chosen = append(chosen, set)
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	if err := base.answer(chosen); err != nil {
		return err
	}
	c.looked = append(c.looked, chosen...)
	left.AgainstBaseline = true
	wrong := func(o evaluator.Output) bool { return evaluator.WrongOutput(o, c.within[o.Name]) != "" }
	for _, set := range chosen {
		if slices.ContainsFunc(left.Outputs, wrong) {
			return nil // more of it would take the reference's time
		}
		answer, err := c.t.answer(c.d, set)
		var outputs []evaluator.Output
		if err == nil {
			outputs = c.compare(set, answer)
		}
		if err != nil || slices.ContainsFunc(outputs, wrong) {
			truth, err := c.truth(set)
			if err != nil {
				return err
			}
			outputs = c.compare(set, truth)
		}
		left.Outputs = worse(left.Outputs, outputs)
		if left.Guard == "" {
			left.Guard = c.a.checkGuards(&c.d.layout, c.place.base, int(set))
		}
	}
	return nil
}

// compare holds the outputs of a set against an answer.
func (c *contender) compare(set uint32, answer []expected) []evaluator.Output {
	for b := range answer { // of few elements, all may be small by chance
		answer[b].rms = max(answer[b].rms, c.d.usual(b))
	}
	return c.h.problem.outputs(c.d, c.a, c.place.base, int(set), answer)
}

// truth is the reference's answer for a set: where candidate and baseline differ, either may be wrong.
func (c *contender) truth(set uint32) ([]expected, error) {
	inputs := make([][]byte, len(c.d.layout.buffers))
	for b, p := range c.d.layout.buffers {
		if p.role != roleOut {
			inputs[b] = c.t.contents(make([]byte, p.bytes+p.more()), c.d, set, b)
		}
	}
	ctx, release, err := c.h.share(c.h.holding)
	if err != nil {
		return nil, err
	}
	defer release()
	return c.h.ref.outputs(ctx, c.d, inputs, -1)
}

// answer has the baseline compute the right answers for sets.
func (c *contender) answer(sets []uint32) error {
	c.t.load(c.t.theirs, c.d, sets)
	if _, err := c.answers.run(sets); err != nil {
		c.t.dropBaseline()
		return notOurs(err)
	}
	return nil
}

// interrupt stops a batch at a moment that nobody can foresee, and gives the launches that have yet to
// begin other contents: whoever has worked ahead has answers to those of before. Nothing of this is timed. It says whether
// the batch was stopped before half of its usual time: late, as on a busy machine, there is less to see.
func (c *contender) interrupt(base *contender, left *evaluator.Observation) (inTime bool, err error) {
	if c.batch < 2 {
		return true, nil
	}
	_, err = c.t.beside(c, base, func(mine []uint32) (err error) {
		inTime, err = c.stopped(base, left, mine)
		return err
	})
	return inTime, err
}

func (c *contender) stopped(base *contender, left *evaluator.Observation, sets []uint32) (inTime bool, err error) {
	n := len(sets)
	c.t.prime(c.a, c.d, sets)
	c.last, c.looked = sets, nil
	step := c.step()
	if err := c.p.send(command{kind: commandRun, launches: c.place.turnsOf(sets), step: step, junk: -1}); err != nil {
		return false, err
	}
	c.await(sets[c.rng.IntN(n-1)], time.Duration(2*float64(n)*(cmp.Or(c.fastest, c.tried)+c.place.turnCost())))
	if err := c.p.freeze(); err != nil {
		return false, err
	}
	passed := time.Since(c.p.sent)
	inTime = 2*float64(passed) < cmp.Or(c.fastest, c.tried)*float64(n)
	taken, err := c.p.taken(n)
	if err != nil {
		return false, err
	}
	if taken > step {
		c.rushed = min(cmp.Or(c.rushed, math.Inf(1)), float64(passed)/float64(taken-step))
	}
	waiting, ahead := c.t.waiting(c.a, c.d, sets, taken, step)
	if left.Guard == "" {
		left.Guard = ahead
	}
	begun := c.t.begun(c.a, c.d, sets[:len(sets)-len(waiting)])
	for _, set := range waiting {
		c.place.seeds[set], c.place.made[set] = rand.Uint64(), rand.Uint64()
	}
	defer func() { // nothing that a later look takes
		for _, set := range waiting {
			c.place.seeds[set] = 0
		}
		c.last = nil
	}()
	c.t.load(c.a, c.d, waiting)
	c.t.prime(c.a, c.d, waiting)
	if err := c.p.thaw(); err != nil {
		return false, err
	}
	ans, err := c.p.receive(answerDone, c.limit)
	if err != nil {
		return false, err
	}
	if err := c.p.freeze(); err != nil {
		return false, err
	}
	if int(ans.Launches) != len(sets) {
		return false, c.p.fail(false, otherLaunches)
	}
	if n := c.t.changed(c.a, c.d, begun); n > 1 && left.Guard == "" {
		left.Guard = fmt.Sprintf("the outputs of %d launches were written at once", n)
	}
	if len(waiting) > 0 {
		c.last = waiting
	}
	return inTime, c.look(base, left, false)
}

const turnsTaken = "the turns of launches that had not begun were taken"

// hurried says, at the end of a measurement, that a process once took turns twice as fast as it has ever been seen to
// launch: they were taken together. Where outputs do not tell what has begun, this does. At the time of an
// interruption it cannot be said: all readings before may have been slow ones.
func (c *contender) hurried() bool { return c.rushed > 0 && 2*c.rushed < c.fastest }

// await returns when a launch has written to the first output of a set, or has not for so long.
func (c *contender) await(set uint32, limit time.Duration) {
	b := slices.IndexFunc(c.d.layout.buffers, func(b placedBuffer) bool { return b.role != roleIn })
	out := c.a.buffer(&c.d.layout, c.place.base, int(set), b)
	ends := [][]byte{out[:min(8, len(out))], out[max(len(out)-8, 0):]}
	was := [][]byte{slices.Clone(ends[0]), slices.Clone(ends[1])}
	for begin := time.Now(); time.Since(begin) < limit && bytes.Equal(ends[0], was[0]) && bytes.Equal(ends[1], was[1]); {
		runtime.Gosched()
	}
}

// lookAround looks at the guards of all sets.
func (c *contender) lookAround(left *evaluator.Observation) {
	for s := range c.place.sets {
		if left.Guard == "" {
			left.Guard = c.a.checkGuards(&c.d.layout, c.place.base, s)
		}
	}
}

// recall has batches of the size that follows from an earlier calibration of the same process, if a warm-up shows that a
// launch still takes about as long.
func (c *contender) recall(tried float64) (holds bool, err error) {
	c.batch = c.want(tried)
	r, err := c.try(c.batch)
	if err != nil {
		return false, err
	}
	took := lasted(r, c.batch)
	c.tried = min(tried, took)
	return took < 2*tried && tried < 2*took, nil
}

// calibrate chooses the size of the batches. It ends with a warm-up.
func (c *contender) calibrate() error {
	c.batch = 1
	for try := range calibrations {
		r, err := c.try(c.batch)
		if err != nil {
			return err
		}
		took := lasted(r, c.batch) * float64(c.batch)
		c.tried = min(cmp.Or(c.tried, math.Inf(1)), took/float64(c.batch))
		want := c.want(c.tried)
		// The first launch is not a measure: caches, pages and clocks are cold. Nor
		// is one that waited for a core, of which a thread that has ended tells
		// nothing: the shortest of several is taken. Launches that take very long
		// are not repeated for that.
		measure := try >= 3 && r.WaitedNS < took/10 || try > 0 && took > 10*float64(c.target) || took > 100*float64(c.target)
		if measure && want <= c.batch+c.batch/4 {
			return nil
		}
		if c.batch = max(c.batch, want); measure {
			c.batch = want
		}
	}
	_, err := c.try(c.batch)
	return err
}

// try runs a batch of so many launches that does not count. A candidate gets new contents for it; the
// baseline may have any.
func (c *contender) try(launches int) (evaluator.Reading, error) {
	sets := c.place.turn(launches)
	empty := func(set uint32) bool { return c.place.seeds[set] == 0 }
	candidate := c.p != c.t.timed
	if candidate || slices.ContainsFunc(sets, empty) {
		if err := c.t.refresh(c.d, sets); err != nil {
			return evaluator.Reading{}, err
		}
	}
	r, err := c.run(sets)
	if candidate {
		c.place.use(launches)
	}
	return r, err
}

const (
	// lasting is how often a candidate has been launched at a shape when a measurement ends, if that
	// takes no longer than lastingTime by its own time: of launches that take long few are timed,
	// and a kernel that is right only in its first launches would pass.
	lasting     = 256
	lastingTime = 100 * time.Millisecond
)

// outlast launches on until there are enough launches, and looks at what the later ones left. Nothing of
// this is timed.
func (c *contender) outlast(base *contender, left *evaluator.Observation) error {
	for rest := float64(lastingTime); c.ran < lasting && rest > 0; {
		each := cmp.Or(c.fastest, c.tried)
		most := min(rest, 10*float64(c.target)) // far from the limit of a batch, on a busy machine too
		launches := max(1, min(lasting-c.ran, int(math.Ceil(most/each)), c.place.sets/2))
		r, err := c.try(launches)
		if err != nil {
			return err
		}
		rest -= max(lasted(r, launches), each) * float64(launches)
		if err := c.look(base, left, false); err != nil {
			return err
		}
	}
	return nil
}

// adjust corrects batches that have turned out far from as long as they should be.
// A contender that was slow during calibration would have batches that are too short, of
// which a larger share may go unclaimed, and a fast one long ones, which start less often
// from cold.
func (c *contender) adjust() {
	if want := c.want(c.fastest); c.fastest > 0 && (want > 2*c.batch || c.batch > 2*want) {
		c.batch = want
	}
}

// lasted is how long a launch of a reading took, in nanoseconds, by what the process claims as far as
// evotune's clock allows it: a process that claims something else would choose the size of batches.
func lasted(r evaluator.Reading, launches int) float64 {
	const unclaimed = 250e3 // by an honest process, at most
	return max(min(r.NS, r.WallNS/float64(launches)), (r.WallNS-r.WaitedNS-unclaimed)/float64(launches), 1)
}

// want is how many launches last as long as a batch should.
func (c *contender) want(ns float64) int {
	return int(min(max(math.Ceil(float64(c.target)/max(ns, 1)), 1), float64(c.place.sets/2)))
}

// calibrations is how often the size of a batch is tried at most.
const calibrations = 8

// contend prepares a process that knows the shape for being timed at it.
func (h *lab) contend(t *timingState, p *process, d *shapeData, threads int, r evaluator.SampleRequest) (*contender, error) {
	place := t.places[d]
	if p.shape != d {
		if err := p.setShape(d, place.base); err != nil {
			return nil, err
		}
	}
	if err := p.freeze(); err != nil {
		return nil, err
	}
	c := &contender{
		h: h, t: t, p: p, a: t.ours, d: d, place: place, threads: threads, limit: h.limit(r.Limit), within: r.Within, target: r.Batch,
		rng: newRand(), batch: 1,
	}
	if p == t.answers {
		c.a = t.theirs
		return c, nil
	}
	if tried := t.calibrated[d]; p == t.timed && tried > 0 {
		if holds, err := c.recall(tried); holds || err != nil {
			return c, err
		}
		c.tried = 0
	}
	err := c.calibrate()
	if p == t.timed {
		t.calibrated[d] = c.tried
	}
	return c, err
}

// contendBaseline prepares the baseline, and starts it when it does not run.
func (h *lab) contendBaseline(t *timingState, d *shapeData, r evaluator.SampleRequest) (*contender, error) {
	b, err := h.builtBaseline(h.Life)
	if err != nil {
		return nil, err
	}
	start := func(a *arena) (*process, error) {
		f := cleanFlavour()
		return h.start(h.Life, &f, b.clean.Object, a, nil, b.src.Threads)
	}
	var c, answers *contender
	err = func() (err error) {
		if t.timed.worn() || t.answers.worn() { // its end would be that of a measurement
			t.dropBaseline()
		}
		if t.answers == nil {
			if t.answers, err = start(t.theirs); err != nil {
				t.answers = nil
				return err
			}
		}
		if t.timed == nil {
			if t.timed, err = start(t.ours); err != nil {
				t.timed = nil
				return err
			}
		}
		if answers, err = h.contend(t, t.answers, d, b.src.Threads, r); err != nil {
			return err
		}
		c, err = h.contend(t, t.timed, d, b.src.Threads, r)
		return err
	}()
	if err != nil {
		t.dropBaseline()
		return nil, notOurs(err)
	}
	c.answers = answers
	return c, nil
}

// notOurs makes an error of the machine out of a fault that is the baseline's.
func notOurs(err error) error {
	var f *evaluator.Fault
	var lost *evaluator.Lost
	switch {
	case errors.As(err, &f):
		return fmt.Errorf("the baseline: %w: %s", errProcess, f.Reason)
	case errors.As(err, &lost):
		return fmt.Errorf("the baseline: %w: %s", errProcess, lost.Reason)
	}
	return fmt.Errorf("the baseline: %w", err)
}

// newRand makes a generator that nobody can foresee: neither the order of a
// measurement nor what is checked may be guessed.
func newRand() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// sides says how many launches the candidate and the baseline have in a pair: as many as each
// other where there are contents that are made as a whole, which one launch of each side shares.
func (t *timingState) sides(c, base *contender) (own, theirs int) {
	if t.q.anyMade() {
		most := min(max(c.batch, base.batch), c.place.sets/2)
		return most, most
	}
	return c.batch, base.batch
}

// pair takes one reading of both, and looks at what the candidate's launches left. Batches that are not timed
// come first as often as they happen to: whatever came last, the next one is timed with the same chance.
func (t *timingState) pair(c, base *contender, left *evaluator.Observation) (r, b evaluator.Reading, err error) {
	for next := c.draw(); next != timed && err == nil; next = c.draw() {
		if next == interrupted {
			_, err = c.interrupt(base, left)
		} else {
			err = c.onEdges(base, left, c.nextEdge())
		}
	}
	if err != nil {
		return r, b, err
	}
	var own int
	b, err = t.beside(c, base, func(mine []uint32) (err error) {
		own = len(mine)
		r, err = c.run(mine)
		return err
	})
	if err != nil {
		return r, b, err
	}
	c.fastest = min(cmp.Or(c.fastest, math.Inf(1)), lasted(r, own))
	return r, b, c.look(base, left, false)
}

// What a batch is for.
type batchKind int

const (
	timed batchKind = iota
	interrupted
	edged
)

// draw says what the next batch is for, whatever came before.
func (c *contender) draw() batchKind {
	switch {
	case c.rng.IntN(seldom) == 0:
		return interrupted
	case c.rng.IntN(c.edges) == 0:
		return edged
	}
	return timed
}

// beside gives sets for the candidate and for the baseline contents that nobody has seen, and has each
// side launched on its own in random order, the candidate by act. Whoever is second has the core that the
// first had, which the system chose: cores may differ for seconds, as where each shares a core of the host
// with another machine.
//
// Batches that are checked and not timed come in the same way. A candidate can read the inputs of all sets
// and see what the baseline has written, so it would know such a batch by fewer new contents, or by a baseline
// that has no turn.
func (t *timingState) beside(c, base *contender, act func(mine []uint32) error) (b evaluator.Reading, err error) {
	own, theirs := t.sides(c, base)
	n := own + theirs
	sets := c.place.turn(n)
	mine, others := sets[:own], sets[own:]
	if c.rng.IntN(2) == 0 {
		mine, others = sets[theirs:], sets[:theirs]
	}
	if err := t.refresh(c.d, mine, others); err != nil {
		return b, err
	}
	defer c.place.use(n)
	first := c.rng.IntN(2) == 0
	core := anyCore
	for _, baseline := range []bool{first, !first} {
		p := c.p
		if baseline {
			p = base.p
		}
		p.bind(core)
		if !baseline {
			if first && t.q.anyMade() { // what the baseline made of the same structure is in reach
				t.prime(c.a, c.d, others)
			}
			err = act(mine)
		} else if b, err = base.run(others); err != nil {
			t.dropBaseline()
			err = notOurs(err)
		}
		if err != nil {
			return b, err
		}
		if c.threads == 1 && base.threads == 1 {
			core = p.core()
		}
	}
	return b, nil
}
