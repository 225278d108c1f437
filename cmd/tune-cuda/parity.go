//go:build cuda

package main

import (
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"slices"
	"time"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

func (p *problem) parity(r wire.ParityRequest) (wire.ParityAnswer, error) {
	begin := time.Now()
	a, err := p.compareLaunches(r)
	a.ElapsedNS = time.Since(begin).Nanoseconds()
	if err != nil {
		return a, err
	}
	return a, ending(a.Fault)
}

func (p *problem) compareLaunches(r wire.ParityRequest) (wire.ParityAnswer, error) {
	var a wire.ParityAnswer
	p.endRace() // whose sets and workspaces are used here
	b, err := p.candidate(r.Binary, r.Shape)
	if err != nil {
		return a, err
	}
	n, err := p.instance(r.Shape, r.Seed)
	if err != nil {
		return a, err
	}
	w, work, free, err := p.memory(b, r)
	if free != nil {
		defer free()
	}
	var none *unmappedError
	if errors.As(err, &none) {
		a.NotMapped = none.Error()
		return a, nil
	}
	var own *ownError
	if errors.As(err, &own) {
		return a, own.error
	}
	if err != nil {
		a.Fault = fault(err)
		return a, nil
	}
	repeat := max(r.Repeat, 1)
	if repeat > 1 {
		if err := p.makeFirst(w); err != nil {
			return a, err
		}
	}
	if err := p.harness.setGuards(w.guards); err != nil {
		return a, err
	}
	if err := p.loadSet(w, n, false); err != nil {
		return a, err
	}
	if err := p.harness.begin(); err != nil {
		return a, err
	}
	l := &look{instance: n}
	if l.differ, err = find[uint64](p.harness, int64(1+len(p.buffers))); err != nil {
		return a, err
	}
	// What fails from here on is the candidate's. It is one piece of work for the
	// device, which is waited for once: what the device does wrong by itself in the
	// meantime cannot be told from it.
	c, err := p.newCall(b, r.Geometry, r.Shape, p.scalarValues(r.Shape, false), w.arrays, work.address())
	if err == nil {
		defer c.free()
		err = p.launches(c, w, work, n, repeat, l.differ)
	}
	if err == nil {
		err = p.inspect(l, work, w, r.Shape)
	}
	if err == nil {
		err = p.harness.fetch()
	}
	if a.Fault = fault(err); a.Fault != nil {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	p.conclude(&a, l, r.Shape)
	return a, nil
}

// makeFirst takes memory for the outputs of a first launch. It does not keep
// those of another candidate's, which were right for these inputs.
func (p *problem) makeFirst(w *set) error {
	for i, b := range p.buffers {
		if !b.output() {
			continue
		}
		if w.first[i] == 0 {
			var err error
			if w.first[i], err = alloc(w.blocks[i].bytes); err != nil {
				return err
			}
		}
		if err := p.harness.poison(w.first[i], w.blocks[i].bytes, b.poison()); err != nil {
			return err
		}
	}
	return nil
}

// prepare gives a binary its workspace, zero and guarded; nil for none. Errors are not the binary's, but for a
// workspace that is too large.
func (p *problem) prepare(b *binary, g wire.Geometry) (*workspace, error) {
	if _, err := launches(g); err != nil && b.routine == nil {
		return nil, nil // the launch will say so
	}
	work, err := b.workspace(g.Workspace)
	if noMemory(err) && p.evict(math.MaxInt64/2, p.unused()) {
		work, err = b.workspace(g.Workspace)
	}
	if err != nil {
		return nil, p.lacking(g.Workspace, err)
	}
	if work == nil {
		return nil, nil
	}
	if err := p.clear(work); err != nil {
		return nil, &ownError{err}
	}
	return work, nil
}

// clear makes a workspace zero, and sets its guards.
func (p *problem) clear(work *workspace) error {
	if err := p.harness.zero(work.at, work.bytes); err != nil {
		return err
	}
	return p.harness.setGuards(work.guards)
}

// lacking is the error of a workspace of so many bytes: the candidate's own where there is no memory for one that is
// larger than all sets of buffers may be, and else the machine's, which others may have filled.
func (p *problem) lacking(bytes int64, err error) error {
	var e *driverError
	if !errors.As(err, &e) || !noMemory(err) {
		return &ownError{err}
	}
	free, total, _ := cu.MemInfo()
	e.why = lackingWorkspace(bytes, p.budget, free, total)
	if bytes <= p.budget {
		return &ownError{err}
	}
	return err
}

// launches runs the candidate as often as asked and counts what later launches
// gave differently from the first. Outputs are poisoned before the last launch, which is the
// one that is compared, and hold ordinary numbers before the others: a candidate
// that works only where it sees poison gives two answers. Every second launch finds the workspace zero, as the first
// does, and the others find what the launch before has left: one that reads there too early
// may find what is right for these inputs.
func (p *problem) launches(c *call, w *set, work *workspace, n *instance, repeat int, differ *finding[uint64]) error {
	for k := range repeat {
		if k > 0 {
			if err := p.loadSet(w, n, true); err != nil {
				return err
			}
		}
		if k > 0 && k%2 == 0 && work != nil {
			if err := p.harness.zero(work.at, work.bytes); err != nil {
				return err
			}
		}
		if err := p.spoilSet(w, k+1 < repeat); err != nil {
			return err
		}
		if err := c.enqueueWhole(p.stream); err != nil {
			return err
		}
		for i, b := range p.buffers {
			var err error
			switch {
			case repeat == 1 || !b.output():
			case k == 0:
				err = p.harness.copyTo(w.first[i], w.arrays[i], w.blocks[i].bytes)
			case b.Repeat > 0 || b.UnwrittenNaN:
				want := wanted{at: n.want[i], key: n.key, masked: b.UnwrittenNaN}
				err = p.harness.apart(w.first[i], w.arrays[i], b.dtype, w.blocks[i].bytes/b.size(), want, apartLimit(b, n.rms[i]), differ, 0, 1+i)
			default:
				err = p.harness.differ(w.first[i], w.arrays[i], w.blocks[i].bytes/b.size(), b.size(), differ, 0)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// A look is what the device is asked after a candidate's launches.
type look struct {
	instance *instance
	// differ counts elements that later launches gave otherwise than the first; then, for each buffer that
	// need not repeat to the bit, the bits of the largest difference.
	differ  *finding[uint64]
	changed *finding[uint64] // hashes of the inputs
	zones   zones
	again   *finding[uint64] // hashes of what is kept for the next candidate
	outputs []*finding[verdict]
}

// inspect puts into the stream a look at all that the launches may have touched.
func (p *problem) inspect(l *look, work *workspace, w *set, s wire.Shape) (err error) {
	// Findings begin at zero, whatever a candidate may have written there.
	if err := p.harness.clean(); err != nil {
		return err
	}
	if l.changed, err = find[uint64](p.harness, int64(len(p.buffers))); err != nil {
		return err
	}
	var all []piece
	if l.again, all, err = p.pieces(l.instance); err != nil {
		return err
	}
	for i, x := range p.buffers {
		if x.Role == "in" {
			all = append(all, l.changed.piece(w.arrays[i], w.blocks[i].bytes, i))
		}
	}
	if err := p.harness.hash(all); err != nil {
		return err
	}
	if l.zones, err = p.harness.lookAtGuards(w.guards, work); err != nil {
		return err
	}
	l.outputs, err = p.startCompare(w.arrays, l.instance, s, stored, true)
	return err
}

// conclude says what a look has found, once it is fetched.
func (p *problem) conclude(a *wire.ParityAnswer, l *look, s wire.Shape) {
	n := l.instance
	differ := l.differ.read()
	a.Different = int64(differ[0])
	for i, x := range p.buffers {
		if d := math.Float64frombits(differ[1+i]); x.Repeat > 0 && d > 0 {
			a.Apart = max(a.Apart, wire.Number(d/n.rms[i]))
		}
	}
	h := l.changed.read()
	for i, x := range p.buffers {
		if x.Role == "in" && h[i] != n.hashes[2*i] && a.InputChanged == "" {
			a.InputChanged = x.Name
		}
	}
	a.Guard, a.GuardOffset, _ = l.zones.damaged(p.buffers)
	if slices.Equal(l.again.read(), n.hashes) {
		a.Outputs = p.outputs(l.outputs, n, s)
		return
	}
	// It wrote far outside of its buffers. Nothing that is kept can be trusted,
	// nor can this comparison.
	log.Printf("a candidate changed the reference's memory; everything is made anew")
	for key := range p.kept {
		p.forget(key)
	}
	if a.Guard == "" {
		a.Guard, a.GuardOffset = "reference", 0
	}
}

func (p *problem) control(r wire.ControlRequest) (wire.ControlAnswer, error) {
	var a wire.ControlAnswer
	if err := checkShape(r.Shape, p.buffers, p.scalars); err != nil {
		return a, err
	}
	n, err := p.instance(r.Shape, r.Seed)
	if err != nil {
		return a, err
	}
	if a.Silent = n.silent; a.Silent != "" {
		return a, nil
	}
	wrong, err := p.wrong(r, n)
	if err != nil {
		return a, err
	}
	defer releaseAll(wrong)
	if a.Outputs, err = p.compareSet(wrong, n, r.Shape, double); err != nil || r.Kind != "left out" {
		return a, err
	}
	by, err := p.distance(wrong, n, r.Shape)
	differ := func(o wire.Output) bool {
		i := slices.IndexFunc(p.buffers, func(b buffer) bool { return b.Name == o.Name })
		return by[i] > 0 || o.NotFinite > 0
	}
	if err == nil && slices.ContainsFunc(a.Outputs, differ) {
		a.Outputs = slices.DeleteFunc(a.Outputs, func(o wire.Output) bool { return !differ(o) })
	}
	return a, err
}

// wrong makes the answer of a control, as doubles.
func (p *problem) wrong(r wire.ControlRequest, n *instance) ([]cu.DevicePtr, error) {
	if r.Answer != "" {
		given, err := readOutputs(r.Answer, r.Shape, p.buffers, 1)
		if err != nil {
			return nil, err
		}
		return p.place(r.Shape, given[0])
	}
	inputs := slices.Clone(n.inputs)
	switch r.Kind {
	case "swap":
		i, j, err := swapped(p.buffers, r.Shape, r.Buffers)
		if err != nil {
			return nil, err
		}
		inputs[i], inputs[j] = inputs[j], inputs[i]
	case "left out":
		if len(r.Last) != len(p.buffers) || len(r.Inner) != len(p.buffers) {
			return nil, fmt.Errorf("the control %q has %d and %d extents, want one for each of %d buffers", r.Kind, len(r.Last), len(r.Inner), len(p.buffers))
		}
		var own []cu.DevicePtr
		defer func() { releaseAll(own) }()
		for i, last := range r.Last {
			if last < 2 || n.inputs[i] == 0 {
				continue
			}
			inner := max(r.Inner[i], 1)
			if r.Shape.Elements[i]%last != 0 || r.Shape.Elements[i]/last%inner != 0 {
				return nil, fmt.Errorf("the control %q: %s has %d elements at shape %s, and rows of %d times %d", r.Kind, p.buffers[i].Name, r.Shape.Elements[i], r.Shape.Name, last, inner)
			}
			bytes := make([]byte, r.Shape.Elements[i]*p.buffers[i].size())
			if err := download(bytes, n.inputs[i]); err != nil {
				return nil, err
			}
			leaveOut(bytes, int(p.buffers[i].size()*inner), int(last))
			at, err := alloc(int64(len(bytes)))
			if err == nil {
				own = append(own, at)
				err = upload(at, bytes)
			}
			if err != nil {
				return nil, err
			}
			inputs[i] = at
		}
	case "input":
		i, o, err := returned(p.buffers, r.Shape, r.Buffers)
		if err != nil {
			return nil, err
		}
		out := make([]cu.DevicePtr, len(p.buffers))
		if out[o], err = alloc(8 * r.Shape.Elements[o]); err == nil {
			err = p.harness.widen(out[o], n.inputs[i], r.Shape.Elements[i], p.buffers[i].dtype)
		}
		if err != nil {
			releaseAll(out)
			return nil, err
		}
		return out, nil
	default:
		return p.constants(r, n)
	}
	return p.compute(r.Shape, inputs)
}

// constants are outputs that are zero everywhere, or the reference's mean; or the
// reference with its smaller half put to zero.
func (p *problem) constants(r wire.ControlRequest, n *instance) ([]cu.DevicePtr, error) {
	if r.Kind != "zeros" && r.Kind != "constant" && r.Kind != "half" {
		return nil, fmt.Errorf("unknown control %q, want zeros, constant, half, swap, input or left out", r.Kind)
	}
	out := make([]cu.DevicePtr, len(p.buffers))
	for i, b := range p.buffers {
		if !b.output() {
			continue
		}
		value := 0.0
		if r.Kind == "constant" {
			value = n.mean[i]
		}
		var err error
		if out[i], err = alloc(8 * r.Shape.Elements[i]); err == nil {
			err = p.harness.set(out[i], r.Shape.Elements[i], 0, value)
		}
		if err == nil && r.Kind == "half" {
			err = p.halved(out[i], n, i, r.Shape)
		}
		if err != nil {
			releaseAll(out)
			return nil, err
		}
	}
	return out, nil
}

// halved copies a right answer, the smaller half of it, by magnitude, as zero.
func (p *problem) halved(to cu.DevicePtr, n *instance, i int, s wire.Shape) error {
	v := make([]float64, s.Elements[i])
	if err := p.unveiled(n, s, func() error { return download(v, n.want[i]) }); err != nil {
		return err
	}
	halve(v)
	return upload(to, v)
}

// writeReference writes a small instance to a file, for the check against the CPU.
func (p *problem) writeReference(r wire.ReferenceRequest) (wire.ReferenceAnswer, error) {
	var a wire.ReferenceAnswer
	if err := checkShape(r.Shape, p.buffers, p.scalars); err != nil {
		return a, err
	}
	n, err := p.newInstance(r.Shape, r.Seed, !r.InputsOnly)
	if err != nil {
		return a, err
	}
	defer n.free()
	var all []float64
	for i, b := range p.buffers {
		v := make([]float64, r.Shape.Elements[i])
		if b.input() {
			if err := p.wide(v, n.inputs[i], b.dtype); err != nil {
				return a, err
			}
		}
		all = append(all, v...)
	}
	if r.File == "" || len(all) == 0 {
		return a, errors.New("a reference needs a file to be written to")
	}
	if r.InputsOnly {
		return a, os.WriteFile(r.File, wire.AppendDoubles(nil, all), 0o600)
	}
	err = p.unveiled(n, r.Shape, func() error {
		for i, b := range p.buffers {
			if b.output() {
				v := make([]float64, r.Shape.Elements[i])
				if err := download(v, n.want[i]); err != nil {
					return err
				}
				all = append(all, v...)
			}
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	return a, os.WriteFile(r.File, wire.AppendDoubles(nil, all), 0o600)
}

// wide reads stored elements as doubles.
func (p *problem) wide(to []float64, from cu.DevicePtr, dtype int) error {
	n := int64(len(to))
	d, err := alloc(8 * n)
	if err != nil {
		return err
	}
	defer release(d)
	if err := p.harness.widen(d, from, n, dtype); err != nil {
		return err
	}
	if err := p.sync(); err != nil {
		return err
	}
	return download(to, d)
}

func (p *problem) launch(r wire.LaunchRequest) (wire.LaunchAnswer, error) {
	begin := time.Now()
	var a wire.LaunchAnswer
	b, err := p.candidate(r.Binary, r.Shape)
	if err != nil {
		return a, err
	}
	inputs, err := p.inputs(r.Shape, r.Seed)
	if err != nil {
		return a, err
	}
	err = p.launchOnce(b, inputs, r)
	a.ElapsedNS = time.Since(begin).Nanoseconds()
	var own *ownError
	if errors.As(err, &own) {
		return a, own.error
	}
	if a.Fault = fault(err); a.Fault == nil && err != nil {
		return a, err
	}
	return a, ending(a.Fault)
}

// An ownError is a driver error that is not the candidate's.
type ownError struct{ error }

// launchOnce launches on memory that is exactly as large as the buffers, with
// no guards: the tool that watches sees what lies outside. Outputs are as the
// allocator gave them.
func (p *problem) launchOnce(b *binary, inputs [][]byte, r wire.LaunchRequest) error {
	arrays := make([]cu.DevicePtr, len(p.buffers)+1) // the last is the workspace
	defer releaseAll(arrays)
	for i, x := range p.buffers {
		var err error
		bytes := r.Shape.Elements[i] * x.size()
		if arrays[i], err = alloc(bytes); err == nil && x.input() {
			err = upload(arrays[i], inputs[i])
		}
		if err != nil {
			return &ownError{err}
		}
	}
	work := &arrays[len(p.buffers)]
	if g := r.Geometry.Workspace; g > 0 && g <= maxBytes {
		var err error
		if *work, err = alloc(g); err != nil {
			return p.lacking(g, err)
		}
		if err = p.harness.zero(*work, g); err != nil {
			return &ownError{err}
		}
	}
	if err := p.sync(); err != nil {
		return &ownError{err}
	}
	c, err := p.newCall(b, r.Geometry, r.Shape, p.scalarValues(r.Shape, false), arrays[:len(p.buffers)], *work)
	if err != nil {
		return err
	}
	defer c.free()
	if err := c.enqueue(p.stream); err != nil {
		return err
	}
	return p.sync()
}
