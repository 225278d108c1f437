//go:build cuda

package main

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A rotation is the memory that timed launches go through: sets of buffers whose
// contents are made anew before every pass, out of pools that are made anew
// before every reading. No contents come twice, so what a candidate keeps of
// one launch is of no use in another.
type rotation struct {
	sets []*set
	// spare is where the baseline computes, after a candidate has run, what it
	// should have left in a set.
	spare  *set
	pools  []cu.DevicePtr // by buffer; 0 for those that are poisoned, and contents for those from a file
	spans  cu.DevicePtr   // a span for each buffer of all sets, then of the spare one
	list   []span         // what spans holds, if no candidate has changed it
	guards *guards        // of all of these
}

// poolBytes is the size of a pool: the harness's VECTORS of 16 bytes.
const poolBytes = 16 << 14

// contentsBytes is where one content of a buffer from a file ends in its pool, and the next
// begins: a multiple of 16, behind a rest.
func contentsBytes(bytes int64) int64 { return (bytes/16 + 1) * 16 }

// The bits of a span's kept.
const (
	spanKept = 1 << iota
	spanMade // the pool has whole contents
)

// A span is as in the harness.
type span struct {
	at      cu.DevicePtr
	bytes   int64
	pool    cu.DevicePtr
	pattern uint64
	kept    uint64
}

// rotation gives memory for so many sets, and the spare one.
func (p *problem) rotation(s wire.Shape, count int) (*rotation, error) {
	var sets []*set
	var blocks []block
	for k := range count + 1 {
		w, err := p.set(s, k)
		if err != nil {
			return nil, err
		}
		sets = append(sets, w)
		blocks = append(blocks, w.blocks...)
	}
	// The tables are full of the addresses of the sets, and so is their key.
	kept, err := keeping(p, fmt.Sprint("rotation ", blocks), int64(len(p.buffers))*poolBytes, func() (*rotation, func(), error) {
		q := &rotation{}
		return q, q.free, q.allocate(p.buffers, blocks)
	})
	if err != nil {
		return nil, err
	}
	q := *kept
	q.sets, q.spare = sets[:count], sets[count]
	return &q, nil
}

// allocate makes pools and tables.
func (q *rotation) allocate(buffers []buffer, blocks []block) (err error) {
	q.pools = make([]cu.DevicePtr, len(buffers))
	for i, b := range buffers {
		if b.input() {
			bytes := int64(poolBytes)
			if b.made() {
				bytes = wire.MadeContents * contentsBytes(blocks[i].bytes)
			}
			if q.pools[i], err = alloc(bytes); err != nil {
				return err
			}
		}
	}
	for i, m := range blocks {
		b := buffers[i%len(buffers)]
		kept := uint64(0)
		if b.Role == "in" {
			kept |= spanKept
		}
		if b.made() {
			kept |= spanMade
		}
		q.list = append(q.list, span{m.at, m.bytes, q.pools[i%len(buffers)], b.poison(), kept})
	}
	if q.spans, err = alloc(int64(len(q.list)) * int64(unsafe.Sizeof(span{}))); err != nil {
		return err
	}
	q.guards, err = newGuards(blocks)
	return err
}

// free leaves the sets, which are kept by themselves.
func (q *rotation) free() {
	releaseAll(q.pools)
	release(q.spans)
	q.guards.free()
}

// contentsOf gives what decides the contents of a contender's reading. The baseline's
// differ from those of a candidate with the same binary, which would otherwise find
// the answers in memory.
func (q *race) contentsOf(r *runner) *rand.Rand {
	if q.r.Pool == "" {
		return q.dice
	}
	text := fmt.Sprintf("%s\n%s %t %d", q.r.Pool, r.Code, r == q.runners[0], r.readings)
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(text))))
}

// turnOf draws which of the contents that are made as a whole all contenders of a round
// get: how long a launch takes may depend on them.
func (q *race) turnOf() uint64 {
	if q.r.Pool == "" {
		return q.dice.Uint64()
	}
	return rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%s\nround %d", q.r.Pool, q.round)))).Uint64()
}

// newPools makes the elements anew of which contents are made.
func (q *race) newPools(from *rand.Rand) error {
	q.poolSeed = from.Uint64()
	return q.samePools()
}

// samePools puts back what contents are made of, which a candidate may have found
// in memory and changed.
func (q *race) samePools() error {
	if err := upload(q.spans, q.list); err != nil {
		return err
	}
	for i, b := range q.buffers {
		for k := range q.made {
			if b.made() {
				at := q.pools[i] + cu.DevicePtr(int64(k)*contentsBytes(q.spare.blocks[i].bytes))
				if err := q.store(at, q.made[k][i], b); err != nil {
					return err
				}
			}
		}
		if q.pools[i] != 0 && !b.made() {
			if err := q.harness.fill(q.pools[i], poolBytes/b.size(), b, q.poolSeed, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// secrets draws two words for each pass.
func secrets(from *rand.Rand, passes int) []uint64 {
	s := make([]uint64, 2*passes)
	for i := range s {
		s[i] = from.Uint64()
	}
	return s
}

// refresher makes the contents of all sets anew before each pass, those that a
// long launch does not go through, too: so every contender finds the cache alike.
func (q *race) refresher() *refresher {
	widest := int64(0)
	for _, m := range q.spare.blocks {
		widest = max(widest, m.bytes)
	}
	f := &refresher{
		kernel: q.harness.kernels["refresh"],
		d:      [6]uint32{uint32(blocksFor(widest / 16)), uint32(len(q.sets) * len(q.buffers)), 1, threads, 1, 1},
		args:   newPack(uint64(q.spans), 0, 0, 0), word: 2,
	}
	if q.sweep != 0 {
		f.sweep = q.harness.kernels["sweep"]
		dirty := planDirty(q.bytes(q.r.Shape, buffer.output), q.bytes(q.r.Shape, every))
		f.sweepArgs = newPack(uint64(q.sweep), uint64(2*q.info.L2Bytes/16), uint64(dirty), uint64(q.harness.report))
	}
	return f
}

// renew gives the spare set, the last of the table, the contents of set k in the
// last pass.
func (q *race) renew(k int) error {
	n := len(q.buffers)
	at := q.spans + cu.DevicePtr(len(q.sets)*n*int(unsafe.Sizeof(span{})))
	args := newPack(uint64(at), uint64(k*n), q.contents[0], q.contents[1])
	defer args.free()
	d := q.fresh.d
	d[1] = uint32(n)
	if err := launchKernel(q.fresh.kernel, d, 0, q.stream, args); err != nil {
		return fmt.Errorf("harness: refresh: %w", err)
	}
	return nil
}

// passes goes through the contender's sets so often, each time with new contents,
// of which the last are still there afterwards. Those that are made as a whole are the
// round's.
func (q *race) passes(r *runner, from *rand.Rand, n int) (ran, error) {
	s := secrets(from, n)
	for i := range n {
		s[2*i+1] = q.turn
	}
	took, err := r.graph.run(q.stream, q.events, s, q.fresh)
	q.contents = [2]uint64{s[2*n-2], s[2*n-1]}
	q.spent += took.event
	r.took += took.wall - took.waited
	r.launched += n * r.used
	return took, err
}

// outlast launches a contender on, untimed, until it has been launched often enough in this race,
// and looks at what it leaves, some times on the way and at the end: of launches that take long few are
// timed, and who is right in the first ones only would not be seen. Errors of looking are not its own.
func (q *race) outlast(r *runner) error {
	if r.launched >= lasting {
		return nil
	}
	if err := q.newPools(q.dice); err != nil {
		return &ownError{err}
	}
	r.settled = 0
	for rest := float64(wire.LastingTime.Nanoseconds()); r.launched < lasting && rest > 0 && !r.wrong; {
		took, err := q.passes(r, q.dice, min(r.passes, (lasting-r.launched+r.used-1)/r.used))
		if err != nil {
			return err
		}
		rest -= took.wall
		if r.launched >= lasting || rest <= 0 || q.dice.IntN(8) == 0 {
			if err := q.look(r, false); err != nil {
				return &ownError{err}
			}
		}
	}
	if err := q.checkZones(r); err != nil {
		return &ownError{err}
	}
	return nil
}

// lasting is how often a contender has been launched in a race that ends, if that takes no longer
// than [wire.LastingTime] after what is timed.
const lasting = 256

// look compares what launches of the last pass have left in sets, drawn now, with
// what the baseline computes from the same contents elsewhere, and the inputs of
// all sets with what they were. In the last round it is all sets, and one of the
// baseline's. Errors are not the contender's.
func (q *race) look(r *runner, last bool) error {
	base := q.runners[0]
	if r == base && !last || r.wrong {
		return nil
	}
	sets := q.dice.Perm(r.used)
	switch {
	case r == base:
		sets = sets[:1]
	case !last:
		sets = sets[:planLooks(base.launch, r.launch*float64(r.used*r.passes), r.used)]
	}
	for some := range slices.Chunk(sets, max(1, comparisons/len(q.buffers))) {
		// The baseline is held against the reference itself where that was asked for.
		if err := q.compare(r, some, r.used, r == base && q.exact); err != nil || r.wrong {
			return err
		}
	}
	return nil
}

// partial makes contents anew, launches on the first sets alone, drawn how many, and
// looks at what was done to the others: one launch could do the work of the next.
// The contender cannot know that they will not come. Errors of looking are not its own.
func (q *race) partial(r *runner) error {
	begun := 1 + q.dice.IntN(r.used-1)
	g, err := q.chain(r, begun)
	defer g.free()
	if err != nil {
		return err
	}
	s := secrets(q.dice, 1)
	took, err := g.run(q.stream, q.events, s, q.fresh)
	q.contents = [2]uint64{s[0], s[1]}
	q.spent += took.event
	if err != nil {
		return err
	}
	if err := q.compare(r, []int{q.dice.IntN(begun)}, begun, false); err != nil {
		return &ownError{err}
	}
	return nil
}

// mostSettled is how many sets of a reading the reference decides about, drawn among
// those in which a contender differs from the baseline: it may take long.
const mostSettled = 4

// compare looks at what a contender left in some sets, after launches on so many of
// them. What is wrong beside the baseline's answer, and all if exact is set, the
// reference decides.
func (q *race) compare(r *runner, sets []int, begun int, exact bool) error {
	if err := q.samePools(); err != nil {
		return err
	}
	if err := q.harness.begin(); err != nil {
		return err
	}
	n := len(q.buffers)
	changed, err := find[uint64](q.harness, int64(2*n))
	if err != nil {
		return err
	}
	args := newPack(uint64(q.spans), q.contents[0], q.contents[1], uint64(n), uint64(begun), uint64(changed.at))
	defer args.free()
	if err := launchKernel(q.harness.kernels["intact"], q.fresh.d, 0, q.stream, args); err != nil {
		return fmt.Errorf("harness: intact: %w", err)
	}
	found := make([][]*finding[verdict], len(sets))
	for n, k := range sets {
		if found[n], err = q.beside(k); err != nil {
			return err
		}
	}
	if err := q.harness.fetch(); err != nil {
		return err
	}
	for i, count := range changed.read() {
		switch {
		case count == 0:
		case i < n && r.InputChanged == "":
			r.InputChanged = q.buffers[i].Name
		case i >= n && r.Early == "":
			r.Early = q.buffers[i-n].Name
		}
	}
	// All are read before the report is used again.
	all := make([][]wire.Output, len(sets))
	for n := range sets {
		all[n] = q.outputs(found[n], nil, q.r.Shape)
	}
	for n, outputs := range all {
		if exact || wrong(outputs) && q.reference != nil {
			if r.settled++; r.settled > mostSettled && !exact {
				continue
			}
			if outputs, err = q.settle(sets[n]); err != nil {
				return err
			}
		}
		if r.compared == nil {
			r.compared = outputs
		} else {
			for i := range outputs {
				r.compared[i] = worst(r.compared[i], outputs[i])
			}
		}
		if r.wrong = wrong(outputs); r.wrong {
			return nil
		}
	}
	return nil
}

// beside has the baseline compute from the contents of a set, in the spare one, and
// puts the comparison with what is in the set into the stream.
func (q *race) beside(k int) ([]*finding[verdict], error) {
	if err := q.renew(k); err != nil {
		return nil, err
	}
	if err := q.runners[0].check.enqueueWhole(q.stream); err != nil {
		return nil, err
	}
	found := make([]*finding[verdict], len(q.buffers))
	for i, b := range q.buffers {
		if b.output() {
			var err error
			// What the baseline leaves NaN is what the reference leaves: evotune holds it
			// to that before anybody is timed beside it.
			want := wanted{at: q.spare.arrays[i], dtype: b.dtype, masked: b.UnwrittenNaN, units: b.Units}
			if found[i], err = q.harness.compare(q.sets[k].arrays[i], b.dtype, want, q.r.Shape.Elements[i]); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// wrong says whether an output is outside of its tolerance.
func wrong(outputs []wire.Output) bool {
	for _, o := range outputs {
		if o.NotFinite > 0 || o.Unwritten > 0 || !(float64(o.Error) <= o.Limit) {
			return true
		}
	}
	return false
}

// settle compares a set with the reference for its contents, which is computed
// for this alone: it can take far longer than the baseline.
func (q *race) settle(k int) ([]wire.Output, error) {
	if err := q.renew(k); err != nil {
		return nil, err
	}
	want, err := q.compute(q.r.Shape, q.spare.arrays)
	if err != nil {
		return nil, err
	}
	defer releaseAll(want)
	n := &instance{want: want, rms: make([]float64, len(want)), mean: make([]float64, len(want)), slack: make([]float64, len(want))}
	if err := q.measure(n, q.r.Shape); err != nil {
		return nil, err
	}
	return q.compareSet(q.sets[k].arrays, n, q.r.Shape, stored)
}

// checkZones looks at the guards of all sets and of the contender's workspace.
// What is damaged is put right, so that nobody else is blamed for it.
func (q *race) checkZones(r *runner) error {
	var z zones
	err := q.harness.gather(func() (err error) {
		// The tables, too, are where a candidate may have found them.
		if err := q.guards.upload(); err != nil {
			return err
		}
		if r.work != nil {
			if err := r.work.guards.upload(); err != nil {
				return err
			}
		}
		z, err = q.harness.lookAtGuards(q.guards, r.work)
		return err
	})
	if err != nil {
		return err
	}
	name, offset, damaged := z.damaged(q.buffers)
	if damaged == nil {
		return nil
	}
	if r.Guard == "" {
		r.Guard, r.GuardOffset = name, offset
	}
	return q.harness.setGuards(damaged)
}

// passEvents makes the events of passes when they are first needed.
func (d *device) passEvents() error {
	for len(d.events) < 2*maxPasses+1 {
		e, err := cu.MakeEvent(cu.DefaultEvent)
		if err != nil {
			return check("cuEventCreate", err)
		}
		d.events = append(d.events, e)
	}
	return nil
}

// rms is the root mean square of what was wanted in a comparison.
func rms(parts []verdict, elements int64) float64 {
	sum := 0.0
	for _, v := range parts {
		sum += v.squares
		elements -= int64(v.skipped)
	}
	return rootMean(sum, elements)
}

// rootMean is the root of a sum of squares over so many elements; 0 without any.
func rootMean(squares float64, elements int64) float64 {
	return math.Sqrt(squares / float64(max(elements, 1)))
}
