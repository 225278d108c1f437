//go:build cuda

package main

import (
	"cmp"
	"errors"
	"fmt"
	"log"
	"math"
	"slices"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// An instance is one shape and seed of the problem: what goes in and what must
// come out. Nothing of ours writes to it once it is made, and review sees what candidates wrote.
type instance struct {
	shape  wire.Shape
	inputs []cu.DevicePtr // pristine, of the buffers that are filled; 0 for others
	want   []cu.DevicePtr // double, of the buffers that are compared; 0 for others
	key    uint64         // of the veil over want; 0 without one
	rms    []float64
	mean   []float64
	slack  []float64 // see wire.Output
	silent string    // see wire.ControlAnswer
	hashes []uint64  // of inputs and want, in that order, for each buffer
}

func (n *instance) free() {
	releaseAll(n.inputs)
	releaseAll(n.want)
}

// shapeKey names a shape by all that its data depend on.
func shapeKey(s wire.Shape) string {
	return fmt.Sprint(s.Dims, s.Elements, s.Scalars, s.Reference, s.Inputs, s.Outputs, s.Made)
}

// bytes is the memory that the buffers of a shape take, one set of them.
func (p *problem) bytes(s wire.Shape, which func(buffer) bool) int64 {
	sum := int64(0)
	for i, b := range p.buffers {
		if which(b) {
			sum += s.Elements[i] * b.size()
		}
	}
	return sum
}

func every(buffer) bool { return true }

// instanceBytes is what an instance takes in the end.
func (p *problem) instanceBytes(s wire.Shape) int64 {
	sum := p.bytes(s, buffer.input)
	for i, b := range p.buffers {
		if b.output() {
			sum += 8 * s.Elements[i]
		}
	}
	return sum
}

// instance gives the inputs of a shape and seed, and the reference's outputs. It is kept.
func (p *problem) instance(s wire.Shape, seed uint64) (*instance, error) {
	if err := p.review(); err != nil {
		return nil, err
	}
	key := fmt.Sprintf("instance %s %d", shapeKey(s), seed)
	return keeping(p, key, p.instanceBytes(s), func() (*instance, func(), error) {
		n, err := p.newInstance(s, seed, true)
		if err != nil {
			return nil, nil, err
		}
		return n, n.free, nil
	})
}

// inputs gives the inputs of a shape and seed by buffer, nil for buffers that are not filled. They are kept
// by the host, where no candidate finds them.
func (p *problem) inputs(s wire.Shape, seed uint64) ([][]byte, error) {
	key := fmt.Sprintf("inputs %s %d", shapeKey(s), seed)
	return keeping(p, key, p.bytes(s, buffer.input), func() ([][]byte, func(), error) {
		n, err := p.newInstance(s, seed, false)
		if err != nil {
			return nil, nil, err
		}
		defer n.free()
		data := make([][]byte, len(p.buffers))
		for i, b := range p.buffers {
			if b.input() {
				data[i] = make([]byte, s.Elements[i]*b.size())
				if err := download(data[i], n.inputs[i]); err != nil {
					return nil, nil, err
				}
			}
		}
		return data, func() {}, nil
	})
}

// newInstance makes an instance, without what must come out if there is to be no reference.
func (p *problem) newInstance(s wire.Shape, seed uint64, reference bool) (*instance, error) {
	n := &instance{
		shape: s, inputs: make([]cu.DevicePtr, len(p.buffers)), want: make([]cu.DevicePtr, len(p.buffers)),
		rms: make([]float64, len(p.buffers)), mean: make([]float64, len(p.buffers)), slack: make([]float64, len(p.buffers)),
	}
	if err := p.fillInstance(n, s, seed, reference); err != nil {
		n.free()
		return nil, err
	}
	return n, nil
}

// review compares what is kept of instances with digests that the host holds, once after a binary was
// loaded: one that ran before may have written to it, and whoever comes next must not be blamed for that. What
// was changed is given up, so that it is made anew. All of it is one piece of work for the device.
func (p *problem) review() error {
	if !p.stale {
		return nil
	}
	kept := map[string]*finding[uint64]{}
	err := p.harness.gather(func() (err error) {
		var all, some []piece
		for key, k := range p.kept {
			if n, ok := k.value.(*instance); ok && err == nil {
				kept[key], some, err = p.pieces(n)
				all = append(all, some...)
			}
		}
		return cmp.Or(err, p.harness.hash(all))
	})
	if err != nil {
		return err
	}
	for key, f := range kept {
		if n := p.kept[key].value.(*instance); !slices.Equal(f.read(), n.hashes) {
			log.Printf("an earlier candidate changed what is kept of shape %s; it is made anew", n.shape.Name)
			p.forget(key)
		}
	}
	p.stale = false
	return nil
}

func (p *problem) fillInstance(n *instance, s wire.Shape, seed uint64, reference bool) error {
	data, err := readInputs(s, p.buffers, seed)
	if err != nil {
		return err
	}
	for i, b := range p.buffers {
		if !b.input() {
			continue
		}
		if n.inputs[i], err = alloc(s.Elements[i] * b.size()); err != nil {
			return err
		}
		switch {
		case data[i] != nil:
			err = p.store(n.inputs[i], data[i], b)
		default:
			err = p.harness.fill(n.inputs[i], s.Elements[i], b, seed, i)
		}
		if err != nil {
			return err
		}
	}
	if reference {
		var given [][][]float64 // what the reference on the CPU made of data
		if s.Outputs != "" {
			count := 1
			if s.Inputs != "" {
				count += nearbyWays
			}
			if given, err = readOutputs(s.Outputs, s, p.buffers, count); err != nil {
				return err
			}
			n.want, err = p.place(s, given[0])
		} else {
			n.want, err = p.compute(s, n.inputs)
		}
		if err != nil {
			return err
		}
		if err := p.measure(n, s); err != nil {
			return err
		}
		for way := 0; way < nearbyWays && s.Inputs != "" && n.silent == ""; way++ {
			var moved []cu.DevicePtr
			if given != nil {
				moved, err = p.place(s, given[1+way])
			} else {
				moved, err = p.reckon(s, func(i int, to cu.DevicePtr) error {
					err := p.harness.widen(to, n.inputs[i], s.Elements[i], p.buffers[i].dtype)
					if err == nil {
						err = p.harness.nearby(to, s.Elements[i], nearbyBy(p.buffers[i]), []uint64{bufferKey(seed, i) | 1, 0}[way])
					}
					return err
				})
			}
			if err == nil {
				err = p.slacken(n, s, moved)
			}
			if err != nil {
				return err
			}
		}
		// What is right lies in memory that a candidate may find: it must not be of
		// use there.
		if err := p.veil(n, s, p.dice.Uint64()|1); err != nil {
			return err
		}
	}
	if !reference { // without one nothing is ever compared, and kernels cost under a sanitizer
		return p.sync()
	}
	var f *finding[uint64]
	err = p.harness.gather(func() (err error) {
		var all []piece
		f, all, err = p.pieces(n)
		return cmp.Or(err, p.harness.hash(all))
	})
	if err == nil {
		n.hashes = f.read()
	}
	return err
}

// store puts elements, as [wire.AppendElements] writes them, into a buffer as its type has them.
func (p *problem) store(to cu.DevicePtr, elements []byte, b buffer) error {
	from := slices.Index(dtypes, "f64")
	if wire.ElementBytes(b.DType) == 4 {
		from = slices.Index(dtypes, "f32")
	}
	if b.dtype == from {
		return upload(to, elements)
	}
	n := int64(len(elements)) / wire.ElementBytes(b.DType)
	given, err := alloc(int64(len(elements)))
	if err != nil {
		return err
	}
	defer release(given)
	wide, err := alloc(8 * n)
	if err != nil {
		return err
	}
	defer release(wide)
	if err = upload(given, elements); err == nil {
		err = p.harness.widen(wide, given, n, from)
	}
	if err == nil {
		err = p.harness.narrow(to, wide, n, b.dtype)
	}
	if err == nil {
		err = p.sync()
	}
	return err
}

// nearbyWays is in how many ways inputs are elsewhere by some roundings: each element up or down by chance, and all up.
const nearbyWays = 2

// nearbyBy is by which part of themselves the elements of a buffer move to be elsewhere by some thirty
// roundings of single precision, or of double where that is its type.
func nearbyBy(b buffer) float64 {
	switch {
	case dtypeSteps[b.dtype] == 0: // integers
		return 0
	case b.DType == "f64":
		return 0x1p-48
	}
	return 0x1p-19
}

// place puts what a reference gave elsewhere into memory.
func (p *problem) place(s wire.Shape, given [][]float64) ([]cu.DevicePtr, error) {
	out := make([]cu.DevicePtr, len(p.buffers))
	for i, b := range p.buffers {
		if !b.output() {
			continue
		}
		var err error
		if out[i], err = alloc(8 * s.Elements[i]); err == nil {
			err = upload(out[i], given[i])
		}
		if err != nil {
			releaseAll(out)
			return nil, err
		}
	}
	return out, nil
}

// slacken takes into account what the reference makes of inputs nearby, and frees
// that.
func (p *problem) slacken(n *instance, s wire.Shape, moved []cu.DevicePtr) error {
	defer releaseAll(moved)
	by, err := p.distance(moved, n, s)
	if err != nil {
		return err
	}
	for i, b := range p.buffers {
		if b.output() && b.UnwrittenNaN && math.IsInf(by[i], 1) {
			// Honest answers are then anything there, and slack without end.
			n.silent = fmt.Sprintf("the reference at shape %s leaves other elements of %s unwritten where the inputs move by some roundings", s.Name, b.Name)
			return nil
		}
	}
	for i, b := range p.buffers {
		if b.output() {
			if err := p.harness.set(moved[i], s.Elements[i], 0, 0); err != nil {
				return err
			}
		}
	}
	largest, err := p.distance(moved, n, s) // from zero
	for i, b := range p.buffers {
		if err == nil && b.output() && b.Tolerance > 0 {
			n.slack[i] = max(n.slack[i], by[i]+dtypeSteps[b.dtype]*largest[i])
		}
	}
	return err
}

// distance gives the largest difference to the instance's outputs, by buffer.
func (p *problem) distance(doubles []cu.DevicePtr, n *instance, s wire.Shape) ([]float64, error) {
	var found []*finding[verdict]
	err := p.harness.gather(func() (err error) {
		found, err = p.startCompare(doubles, n, s, double, false)
		return err
	})
	if err != nil {
		return nil, err
	}
	most := make([]float64, len(p.buffers))
	for i := range p.buffers {
		if found[i] != nil {
			for _, v := range found[i].read() {
				most[i] = max(most[i], v.diff)
			}
		}
	}
	return most, nil
}

// compute runs the reference on stored inputs and gives its outputs.
func (p *problem) compute(s wire.Shape, inputs []cu.DevicePtr) ([]cu.DevicePtr, error) {
	return p.reckon(s, func(i int, to cu.DevicePtr) error {
		return p.harness.widen(to, inputs[i], s.Elements[i], p.buffers[i].dtype)
	})
}

// reckon runs the reference on inputs that input puts into place, as doubles, and
// gives its outputs.
func (p *problem) reckon(s wire.Shape, input func(i int, to cu.DevicePtr) error) (want []cu.DevicePtr, err error) {
	if p.reference == nil {
		return nil, errors.New("the problem was opened without a reference")
	}
	if g := s.Reference; g.Workspace != 0 || len(g.Maps)+len(g.Then) > 0 {
		return nil, errors.New("a reference is one kernel, without a workspace and tensor maps")
	}
	wide := make([]cu.DevicePtr, len(p.buffers))
	defer func() {
		for i, b := range p.buffers {
			if err != nil || !b.output() {
				release(wide[i])
				wide[i] = 0
			}
		}
	}()
	for i, b := range p.buffers {
		if wide[i], err = alloc(8 * s.Elements[i]); err != nil {
			return nil, err
		}
		if b.input() {
			err = input(i, wide[i])
		} else {
			err = p.harness.poison(wide[i], 8*s.Elements[i], poisons[0])
		}
		if err != nil {
			return nil, err
		}
	}
	c, err := p.newCall(p.reference, s.Reference, s, p.scalarValues(s, true), wide, 0)
	if err != nil {
		return nil, fmt.Errorf("the reference at shape %s: %w", s.Name, err)
	}
	defer c.free()
	if err = c.enqueue(p.stream); err == nil {
		err = p.sync()
	}
	if err != nil {
		return nil, fmt.Errorf("the reference at shape %s: %w", s.Name, err)
	}
	return wide, nil
}

// measure finds the root mean square and the mean of what the reference gave,
// and refuses what is not finite: a reference must answer everywhere.
func (p *problem) measure(n *instance, s wire.Shape) error {
	found := make([]*finding[square], len(p.buffers))
	err := p.harness.gather(func() (err error) {
		for i, b := range p.buffers {
			if b.output() && err == nil {
				found[i], err = p.harness.squares(n.want[i], s.Elements[i])
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, b := range p.buffers {
		if !b.output() {
			continue
		}
		var all square
		for _, q := range found[i].read() {
			all.squares += q.squares
			all.sum += q.sum
			all.infinite, all.nan = all.infinite+q.infinite, all.nan+q.nan
		}
		compared := s.Elements[i]
		if b.UnwrittenNaN {
			compared, all.nan = compared-int64(all.nan), 0
		}
		if bad := all.infinite + all.nan; bad > 0 {
			err := fmt.Errorf("the reference at shape %s: %d of %d elements of %s are not finite or were not written",
				s.Name, bad, s.Elements[i], b.Name)
			if s.Inputs == "" {
				return err
			}
			n.silent = err.Error()
		}
		n.rms[i] = rootMean(all.squares, compared)
		n.mean[i] = all.sum / float64(max(compared, 1))
	}
	return nil
}

// veil hides what must come out behind a key, or shows it with the key that hid it.
func (p *problem) veil(n *instance, s wire.Shape, key uint64) error {
	for i := range n.want {
		if n.want[i] != 0 {
			if err := p.harness.veil(n.want[i], s.Elements[i], key); err != nil {
				return err
			}
		}
	}
	n.key ^= key
	return nil
}

// unveiled does something while what must come out can be read.
func (p *problem) unveiled(n *instance, s wire.Shape, do func() error) error {
	key := n.key
	if err := p.veil(n, s, key); err != nil {
		return err
	}
	err := p.sync()
	if err == nil {
		err = do()
	}
	return errors.Join(err, p.veil(n, s, key))
}

// pieces are those of an instance, and where their hashes will be.
func (p *problem) pieces(n *instance) (f *finding[uint64], all []piece, err error) {
	if f, err = find[uint64](p.harness, int64(2*len(p.buffers))); err != nil {
		return nil, nil, err
	}
	for i, b := range p.buffers {
		if n.inputs[i] != 0 {
			all = append(all, f.piece(n.inputs[i], n.shape.Elements[i]*b.size(), 2*i))
		}
		if n.want[i] != 0 {
			all = append(all, f.piece(n.want[i], 8*n.shape.Elements[i], 2*i+1))
		}
	}
	return f, all, nil
}

// A set is working memory for one shape.
type set struct {
	blocks []block
	arrays []cu.DevicePtr // where the blocks' buffers are
	first  []cu.DevicePtr // for what the first launch gave; outputs only
	guards *guards
}

func (w *set) free() {
	for i := range w.blocks {
		w.blocks[i].free()
		release(w.first[i])
	}
	w.guards.free()
}

// set gives working memory number k for a shape.
func (p *problem) set(s wire.Shape, k int) (*set, error) {
	key := fmt.Sprintf("set %v %d", s.Elements, k)
	return keeping(p, key, p.bytes(s, every), func() (*set, func(), error) {
		w, err := p.newSet(s, newBlock)
		if err != nil {
			return nil, nil, err
		}
		return w, w.free, p.harness.setGuards(w.guards)
	})
}

// newSet takes working memory, each buffer in a block that place gives.
func (p *problem) newSet(s wire.Shape, place func(bytes int64) (block, error)) (*set, error) {
	n := len(p.buffers)
	w := &set{blocks: make([]block, n), arrays: make([]cu.DevicePtr, n), first: make([]cu.DevicePtr, n)}
	for i, b := range p.buffers {
		var err error
		if w.blocks[i], err = place(s.Elements[i] * b.size()); err != nil {
			w.free()
			return nil, err
		}
		w.arrays[i] = w.blocks[i].at
	}
	var err error
	if w.guards, err = newGuards(w.blocks); err != nil {
		w.free()
		return nil, err
	}
	return w, nil
}

// load puts an instance's inputs into a set: all of them, or only those that a
// launch changes.
func (p *problem) loadSet(w *set, n *instance, changed bool) error {
	for i, b := range p.buffers {
		if b.input() && (!changed || b.output()) {
			if err := p.harness.copyTo(w.arrays[i], n.inputs[i], w.blocks[i].bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// spoilSet makes the outputs of a set what no answer is or, if plain is set, ordinary
// numbers.
func (p *problem) spoilSet(w *set, plain bool) (err error) {
	for i, b := range p.buffers {
		switch {
		case b.Role != "out" || err != nil:
		case plain:
			err = p.harness.set(w.arrays[i], w.blocks[i].bytes/b.size(), b.dtype, 1)
		default:
			err = p.harness.poison(w.arrays[i], w.blocks[i].bytes, b.poison())
		}
	}
	return err
}

// compareSet holds the outputs in a set against an instance.
func (p *problem) compareSet(arrays []cu.DevicePtr, n *instance, s wire.Shape, dtype func(buffer) int) ([]wire.Output, error) {
	var found []*finding[verdict]
	err := p.harness.gather(func() (err error) {
		found, err = p.startCompare(arrays, n, s, dtype, true)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.outputs(found, n, s), nil
}

// startCompare puts the comparison of the outputs into the stream. With near set, elements
// that are as near as their type allows are right.
func (p *problem) startCompare(arrays []cu.DevicePtr, n *instance, s wire.Shape, dtype func(buffer) int, near bool) ([]*finding[verdict], error) {
	found := make([]*finding[verdict], len(p.buffers))
	for i, b := range p.buffers {
		if !b.output() || arrays[i] == 0 { // a control answers some outputs only
			continue
		}
		t := dtype(b)
		want := wanted{at: n.want[i], key: n.key, masked: b.UnwrittenNaN}
		if near {
			want.units = b.Units
		}
		var err error
		if found[i], err = p.harness.compare(arrays[i], t, want, s.Elements[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// outputs are what a comparison found, once it is fetched: with an instance, or
// without one with other outputs.
func (p *problem) outputs(found []*finding[verdict], n *instance, s wire.Shape) []wire.Output {
	var out []wire.Output
	for i, b := range p.buffers {
		if found[i] == nil {
			continue
		}
		parts := found[i].read()
		scale, slack := rms(parts, s.Elements[i]), 0.0
		if n != nil {
			scale, slack = n.rms[i], n.slack[i]
		}
		out = append(out, judge(b, s.Elements[i], scale, slack, parts))
	}
	return out
}

func stored(b buffer) int { return b.dtype }
func double(buffer) int   { return 0 }

// judge puts together what the blocks of a comparison found.
func judge(b buffer, elements int64, rms, slack float64, parts []verdict) wire.Output {
	o := wire.Output{Name: b.Name, Limit: b.Tolerance, RMS: wire.Number(rms), Elements: elements}
	top := verdict{worst: -1}
	for _, v := range parts {
		o.NotFinite += int64(v.notFinite)
		o.Unwritten += int64(v.unwritten)
		o.Skipped += int64(v.skipped)
		o.Surplus += int64(v.surplus)
		if v.worst >= 0 && (top.worst < 0 || v.diff > top.diff || v.diff == top.diff && v.worst < top.worst) {
			top = v
		}
	}
	o.Worst, o.Got, o.Want = top.worst, wire.Number(top.got), wire.Number(top.want)
	switch {
	case o.NotFinite > 0:
		o.Error = wire.Number(math.Inf(1))
	case top.diff <= slack:
	case rms == 0:
		o.Error = wire.Number(math.Inf(1))
	default:
		o.Error = wire.Number((top.diff - slack) / rms)
	}
	if float64(o.Error) <= o.Limit {
		o.Unwritten = 0 // a right answer may look like the poison
	}
	return o
}

func (b buffer) poison() uint64 { return poisons[b.dtype] }
