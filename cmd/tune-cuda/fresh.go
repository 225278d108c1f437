//go:build cuda

package main

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A rotation is the memory that timed launches go through: sets of buffers whose
// contents are made anew right before each launch, under a key that nobody can know
// before the launch before has given its answer (harness.cu says how). No contents come
// twice, so what a candidate keeps of one launch is of no use in another.
type rotation struct {
	sets []*set
	// spare is where the baseline computes, after a candidate has run, what it
	// should have left in a set.
	spare  *set
	pools  []cu.DevicePtr // by buffer: contents of those from a file; 0 for others
	stored digests        // of what is in the pools
	list   []span         // for each buffer of all sets, then of the spare one
	spans  cu.DevicePtr   // the list on the device, where it is written when it is used
	keys   cu.DevicePtr   // the harness's chain
	key    string         // under which it is kept
	guards *guards        // of all of these
}

// The harness's chain: its size, where the order of the sets is in it, and how many blocks may
// make a digest.
const (
	chainOrder  = 16 * maxSets
	chainBytes  = chainOrder + 2*4*maxSets + 16*maxSets*digestParts
	digestParts = 512
)

// contentsBytes is where one content of a buffer from a file ends in its pool, and the next
// begins: a multiple of 16, behind a rest.
func contentsBytes(bytes int64) int64 { return (bytes/16 + 1) * 16 }

// The bits of a span's kept.
const (
	spanKept   = 1 << iota
	spanMade   // it gets one of some whole contents
	spanFilled // it gets random elements
	spanGiven  // it gets the one content that is there
)

// permutation and ascending are the harness's codes of distributions, behind those of the list: no single element has them.
var (
	permutation = len(distributions)
	ascending   = permutation + 1
)

// A span is as in the harness.
type span struct {
	at                  cu.DevicePtr
	bytes               int64
	made                cu.DevicePtr
	pattern             uint64
	kept                uint64
	dtype, distribution uint64
	a, b                float64
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
	key := fmt.Sprint("rotation ", blocks, s.Keyed, s.Made)
	kept, err := keeping(p, key, chainBytes, func() (*rotation, func(), error) {
		q := &rotation{key: key, stored: digests{}}
		return q, q.free, q.allocate(p.buffers, s, blocks)
	})
	if err != nil {
		return nil, err
	}
	q := *kept
	q.sets, q.spare = sets[:count], sets[count]
	return &q, nil
}

// allocate makes pools and tables.
func (q *rotation) allocate(buffers []buffer, shape wire.Shape, blocks []block) (err error) {
	q.pools = make([]cu.DevicePtr, len(buffers))
	for i, b := range buffers {
		if _, keyed := keyedAt(shape, i); b.made() && !keyed {
			if q.pools[i], err = alloc(wire.MadeContents * contentsBytes(blocks[i].bytes)); err != nil {
				return err
			}
		}
	}
	for i, m := range blocks {
		b := buffers[i%len(buffers)]
		s := span{at: m.at, bytes: m.bytes, made: q.pools[i%len(buffers)], pattern: b.poison(), dtype: uint64(b.dtype), distribution: uint64(b.distribution), a: b.A, b: b.B}
		if b.Role == "in" {
			s.kept |= spanKept
		}
		k, keyed := keyedAt(shape, i%len(buffers))
		switch {
		case keyed:
			s.kept |= spanFilled
			switch k.Distribution {
			case "permutation":
				s.distribution, s.a, s.b = uint64(permutation), float64(k.B), float64(max(bits.Len64(uint64(k.B-1))+1, 2)/2)
			case "offsets":
				s.distribution, s.a, s.b = uint64(ascending), float64(k.B), float64(shape.Elements[i%len(buffers)])
			default:
				s.distribution, s.a, s.b = uint64(slices.Index(distributions, "integers")), float64(k.A), float64(k.B)
			}
		case b.made():
			s.kept |= spanMade
		case b.input():
			s.kept |= spanFilled
		}
		q.list = append(q.list, s)
	}
	if q.keys, err = alloc(chainBytes); err != nil {
		return err
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
	release(q.keys)
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

// contentOf says which of the contents that are made as a whole a pass with a turn gets, as in the harness.
func contentOf(turn uint64) uint64 { return mix(turn) % wire.MadeContents }

// restore puts the contents from files where they are not yet, and puts back what a candidate has found in memory
// and changed.
func (q *race) restore() error {
	var pools []content
	for i, b := range q.buffers {
		for k := range q.made {
			if q.pools[i] != 0 {
				bytes := q.spare.blocks[i].bytes
				at := q.pools[i] + cu.DevicePtr(int64(k)*contentsBytes(bytes))
				pools = append(pools, content{at, bytes, func() error { return q.store(at, q.made[k][i], b) }})
			}
		}
	}
	if err := q.harness.restore(q.stored, pools); err != nil || q.edge == nil {
		return err
	}
	return q.edge.restore(q.harness)
}

// A content is what the host has put into memory of the device for many launches, and how it is put there.
type content struct {
	at    cu.DevicePtr
	bytes int64
	put   func() error
}

// Digests are those of contents on the device as they were when they were put there, by address.
type digests map[cu.DevicePtr]uint64

// restore puts contents where they are not as their digests say.
func (h *harness) restore(had digests, all []content) error {
	if len(all) == 0 {
		return nil
	}
	now, err := h.digest(all)
	if err != nil {
		return err
	}
	var lost []content
	for i, c := range all {
		if d, put := had[c.at]; put && d == now[i] {
			continue
		}
		if err := c.put(); err != nil {
			return err
		}
		lost = append(lost, c)
	}
	if len(lost) == 0 {
		return nil
	}
	if now, err = h.digest(lost); err != nil {
		return err
	}
	for i, c := range lost {
		had[c.at] = now[i]
	}
	return nil
}

// digest gives the digests of contents as they are.
func (h *harness) digest(all []content) ([]uint64, error) {
	var f *finding[uint64]
	err := h.gather(func() (err error) {
		if f, err = find[uint64](h, int64(len(all))); err != nil {
			return err
		}
		var list []piece
		for i, c := range all {
			list = append(list, f.piece(c.at, c.bytes, i))
		}
		return h.hash(list)
	})
	if err != nil {
		return nil, err
	}
	return f.read(), nil
}

// secrets draws two words for each pass.
func secrets(from *rand.Rand, passes int) []uint64 {
	s := make([]uint64, 2*passes)
	for i := range s {
		s[i] = from.Uint64()
	}
	return s
}

// ahead is for how many cycles begin waits, while the host puts the next graph into the stream:
// some 5 us.
const ahead = 10_000

// refresher makes the contents of all sets anew before each pass, those that a
// long launch does not go through, too: so every contender finds the cache alike. It is kept for later races.
func (q *race) refresher() (*refresher, error) {
	return keeping(q.problem, fmt.Sprint("refresher ", q.sweep, q.keys, q.rotation.key), 0, func() (*refresher, func(), error) {
		all, err := capture(q.stream, q.harness.kernels["refresh"], func() error {
			for k := range q.sets {
				if err := q.make(k, k); err != nil {
					return err
				}
			}
			return q.swept()
		})
		f := &refresher{begin: q.harness.kernels["begin"], beginArgs: newPack(uint64(q.keys), ahead), all: all, usual: math.Inf(1)}
		for range 2 {
			if err == nil {
				var took float64
				took, err = f.alone(q.stream, q.events, secrets(q.dice, 1))
				f.usual = min(f.usual, took)
			}
		}
		return f, f.free, err
	})
}

// anew gives all sets contents, and the nanoseconds that it took.
func (q *race) anew() (float64, error) {
	s := secrets(q.dice, 1)
	q.contents = [2]uint64(s)
	return q.fresh.alone(q.stream, q.events, s)
}

// swept goes through other memory, where the cache is to hold nothing of the sets.
func (q *race) swept() error {
	if q.sweep == 0 {
		return nil
	}
	return q.harness.enqueue("sweep", sweepBlocks, q.sweepValues()...)
}

// sweepValues are the arguments of a sweep.
func (q *race) sweepValues() []uint64 {
	dirty := planDirty(q.bytes(q.r.Shape, buffer.output), q.bytes(q.r.Shape, every))
	return []uint64{uint64(q.sweep), uint64(2 * q.info.L2Bytes / 16), uint64(dirty), uint64(q.harness.report)}
}

// rows is the launch of a harness's kernel that goes through so many buffers, with a row of
// blocks for each.
func (q *race) rows(n int) [6]uint32 {
	widest := int64(0)
	for _, m := range q.spare.blocks {
		widest = max(widest, m.bytes)
	}
	return [6]uint32{uint32(min(widest/16/threads+1, planRow(n, q.info.SMs))), uint32(n), 1, threads, 1, 1}
}

// enqueue puts a kernel of the harness into the stream.
func (h *harness) enqueue(name string, d [6]uint32, values ...uint64) error {
	return h.launch(name, d, newPack(values...))
}

func (h *harness) launch(name string, d [6]uint32, args pack) error {
	defer args.free()
	if err := launchKernel(h.kernels[name], d, 0, h.stream, args); err != nil {
		return fmt.Errorf("harness: %s: %w", name, err)
	}
	return nil
}

// begin starts a chain: contents follow from the secret alone.
func (q *race) begin() error {
	return q.harness.enqueue("begin", [6]uint32{1, 1, 1, threads, 1, 1}, uint64(q.keys), 0)
}

// row is the spans of a set, or of the spare one behind the last.
func (q *race) row(k int) []span {
	n := len(q.buffers)
	return q.list[k*n : (k+1)*n]
}

// digests is the launch that makes digests of so many sets.
func (q *race) digests(sets int) [6]uint32 {
	most := int64(0)
	for i, b := range q.buffers {
		if b.output() {
			most = max(most, q.spare.blocks[i].bytes)
		}
	}
	return [6]uint32{uint32(min(most/16/(2*threads)+1, digestParts)), uint32(sets), 1, threads, 1, 1}
}

// digest has the contents of a set follow from what is in the outputs of another.
func (q *race) digest(from, to int) error {
	args := newPackOf(nil, q.row(from), uint64(len(q.buffers)), uint64(from), uint64(to), uint64(q.keys))
	return q.harness.launch("digest", q.digests(1), args)
}

// make gives a set, or the spare one, those contents that set k has in a pass with the secret.
func (q *race) make(to, k int) error {
	args := newPackOf(q.contents[:], q.row(to), uint64(k), uint64(q.keys))
	return q.harness.launch("refresh", q.rows(len(q.buffers)), args)
}

// renew gives the spare set the contents of set k.
func (q *race) renew(k int) error { return q.make(len(q.sets), k) }

// chain makes a graph that goes through sets in an order: it makes contents, and launches.
// Where the cache is swept, it is so before contents are made, too: whatever the launch has
// left there, the digest finds its outputs in memory, as without launches.
func (q *race) chain(order []int, launch func(k int) error) (graph, error) {
	g, err := capture(q.stream, q.harness.kernels["refresh"], func() error {
		for i, k := range order {
			if i > 0 {
				if err := q.swept(); err != nil {
					return err
				}
				if err := q.digest(order[i-1], k); err != nil {
					return err
				}
			}
			if err := q.make(k, k); err != nil {
				return err
			}
			if err := q.swept(); err != nil {
				return err
			}
			if err := launch(k); err != nil {
				return err
			}
		}
		return nil
	})
	g.order = order
	return g, err
}

// making gives the graph of a chain of so many sets without launches. It is kept for later races.
func (q *race) making(n int) (*making, error) {
	if m := q.makings[n]; m != nil {
		return m, nil
	}
	kept, err := keeping(q.problem, fmt.Sprint("making ", n, q.sweep, q.keys, q.rotation.key), 0, func() (*making, func(), error) {
		g, err := q.chain(q.dice.Perm(n), func(int) error { return nil })
		m := &making{graph: g, usual: math.Inf(1)}
		m.begin = m.usual
		for range 3 { // the first takes the graph to the device
			if err == nil {
				var usual, begin float64
				usual, begin, err = m.measure(q.stream, q.events, q.fresh)
				m.usual, m.begin = min(m.usual, usual), min(m.begin, begin)
			}
		}
		return m, g.free, err
	})
	if err != nil {
		return nil, err
	}
	m := *kept
	q.makings[n] = &m
	return &m, nil
}

// aloneLast is how many of the last times decide what making contents takes.
const aloneLast = 9

// passes goes through the contender's sets so often, each time with new contents,
// of which the last are still there afterwards. Those that are made as a whole are the
// round's. What making contents takes is taken off: where it is long beside the launches, that of
// the same passes, else the median of the last times in this race, whoever ran between.
func (q *race) passes(r *runner, from *rand.Rand, n int) (ran, error) {
	s := secrets(from, n)
	for i := range n {
		s[2*i+1] = q.turn
	}
	m := q.makings[r.used]
	every := planAlone(m.usual, r.launch*float64(r.used))
	first := 0 // of the passes in which contents are made alone
	if len(m.took) >= 3 {
		first = q.dice.IntN(every)
	}
	took, made, err := r.graph.run(q.stream, q.events, s, q.fresh, m, first, every)
	q.contents = [2]uint64{s[2*n-2], s[2*n-1]}
	m.took = append(m.took, made...)
	m.took = m.took[max(0, len(m.took)-aloneLast):]
	if err == nil {
		each := median(m.took)
		if every == 1 {
			each = mean(made)
		}
		took.event, took.least, took.wall = took.event-float64(n)*each, took.least-each, max(0, took.wall-float64(n)*each)
	}
	q.spent += took.event
	r.took += took.wall - took.waited
	r.launched += n * r.used
	return took, err
}

// outlast launches a contender on, untimed, until it has been launched often enough in this race,
// and looks at what it leaves, some times on the way and at the end: of launches that take long few are
// timed, and a kernel that is right only in its first launches would pass. Errors of looking are not its own.
func (q *race) outlast(r *runner) error {
	if r.launched >= lasting {
		return nil
	}
	if err := q.restore(); err != nil {
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
		if err := q.compare(r, some, r == base && q.exact); err != nil || r.wrong {
			return err
		}
	}
	return nil
}

// mostSettled is how many sets of a reading the reference decides about, drawn among
// those in which a contender differs from the baseline: it may take long.
const mostSettled = 4

// compare looks at what a contender left in some sets, and whether the inputs of all are
// those that follow from what is in the outputs now: no launch has changed them, nor the
// answer of another. What is wrong beside the baseline's answer, and all if exact is set, the
// reference decides.
func (q *race) compare(r *runner, sets []int, exact bool) error {
	all, err := q.left(r, sets)
	if err != nil {
		return err
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

// left compares what a contender left in some sets with the baseline's answers, and notes whether the inputs
// of all are unchanged.
func (q *race) left(r *runner, sets []int) ([][]wire.Output, error) {
	if err := q.restore(); err != nil {
		return nil, err
	}
	if err := send(q.harness, q.spans, q.list); err != nil {
		return nil, err
	}
	if err := q.harness.begin(); err != nil {
		return nil, err
	}
	if err := q.begin(); err != nil {
		return nil, err
	}
	if n := len(r.graph.order); n > 1 {
		order := make([]uint32, n)
		for i, k := range r.graph.order {
			order[i] = uint32(k)
		}
		if err := send(q.harness, q.keys+chainOrder, order); err != nil {
			return nil, err
		}
		if err := q.harness.enqueue("digests", q.digests(n-1), uint64(q.spans), uint64(len(q.buffers)), uint64(q.keys)); err != nil {
			return nil, err
		}
	}
	changed, err := find[uint64](q.harness, int64(len(q.buffers)))
	if err != nil {
		return nil, err
	}
	if err := q.harness.enqueue("intact", q.rows(r.used*len(q.buffers)), q.contents[0], q.contents[1], uint64(q.spans), uint64(len(q.buffers)), uint64(q.keys), uint64(changed.at)); err != nil {
		return nil, err
	}
	found := make([][]*finding[verdict], len(sets))
	for n, k := range sets {
		if found[n], err = q.beside(k); err != nil {
			return nil, err
		}
	}
	if err := q.harness.fetch(); err != nil {
		return nil, err
	}
	for i, count := range changed.read() {
		if count > 0 && r.InputChanged == "" {
			r.InputChanged = q.buffers[i].Name
		}
	}
	// All are read before the report is used again.
	all := make([][]wire.Output, len(sets))
	for n := range sets {
		all[n] = q.outputs(found[n], nil, q.r.Shape)
	}
	return all, nil
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
func wrong(outputs []wire.Output) bool { return far(outputs, 1) }

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
	for len(d.events) < 4*maxPasses+1 {
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

// mean is NaN of nothing.
func mean(list []float64) (m float64) {
	for _, x := range list {
		m += x / float64(len(list))
	}
	return m
}
