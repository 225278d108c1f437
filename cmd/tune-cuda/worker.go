//go:build cuda

package main

import (
	"cmp"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A worker holds one device and, once it is opened, one problem.
type worker struct {
	device  *device
	problem *problem
}

// A problem is what an open request set up.
type problem struct {
	*device
	harness   *harness
	buffers   []buffer
	scalars   []string
	reference *binary // nil without one
	binaries  map[string]*binary
	race      *race // that a time request has begun, or nil

	shelf   // of instances and sets
	request uint64
	// stale says that a binary was loaded since the instances were reviewed: others may have run until then.
	stale bool
	// dice draw what no candidate may foresee: contents of the inputs, and which
	// launches are looked at. Nothing else decides about them.
	dice *rand.Rand
}

func (w *worker) open(r wire.OpenRequest) (wire.OpenAnswer, error) {
	if w.problem != nil {
		w.problem.close()
		w.problem = nil
	}
	buffers, err := checkOpen(r)
	if err != nil {
		return wire.OpenAnswer{}, err
	}
	p := &problem{
		device: w.device, buffers: buffers, scalars: r.Scalars,
		binaries: map[string]*binary{}, shelf: newShelf(), dice: newDice(),
	}
	if p.harness, err = w.device.loadHarness(r.Harness); err != nil {
		return wire.OpenAnswer{}, err
	}
	if r.Reference != "" {
		if p.reference, err = loadCubin(r.Reference, r.ReferenceEntry); err != nil {
			p.close()
			return wire.OpenAnswer{}, fmt.Errorf("reference: %w", err)
		}
	}
	free, _, err := cu.MemInfo()
	if err != nil {
		p.close()
		return wire.OpenAnswer{}, check("cuMemGetInfo", err)
	}
	p.budget = free / 2 / int64(max(w.device.share, 1))
	w.problem = p
	return wire.OpenAnswer{}, nil
}

// newDice gives a cryptographic generator with a seed of the system's.
func newDice() *rand.Rand {
	var seed [32]byte
	_, _ = crypto.Read(seed[:]) // it never fails
	return rand.New(rand.NewChaCha8(seed))
}

func (p *problem) close() {
	p.endRace()
	for _, b := range p.binaries {
		b.free()
	}
	for _, k := range p.kept {
		k.free()
	}
	p.reference.free()
	p.harness.free()
}

// opened carries out requests on the open problem.
func opened[Q, A any](w *worker, do func(*problem, Q) (A, error)) func(Q) (A, error) {
	return func(q Q) (a A, err error) {
		if w.problem == nil {
			return a, errors.New("no problem is open")
		}
		w.problem.request++
		return do(w.problem, q)
	}
}

// keeping returns what is kept under a key, or makes it. Bytes is an estimate
// made before; what was used least lately is given up for it, but nothing that
// this request has used.
func keeping[T any](p *problem, key string, bytes int64, make func() (T, func(), error)) (T, error) {
	if v := p.find(key, p.request); v != nil {
		return v.(T), nil
	}
	p.evict(bytes, p.unused())
	v, free, err := make()
	if noMemory(err) && p.evict(math.MaxInt64/2, p.unused()) {
		if free != nil {
			free()
		}
		v, free, err = make()
	}
	if err != nil {
		if free != nil {
			free()
		}
		var none T
		return none, err
	}
	p.kept[key] = &keep{value: v, bytes: bytes, used: p.request, free: free}
	p.held += bytes
	return v, nil
}

// noMemory says that an error is the driver's of memory that cannot be had.
func noMemory(err error) bool {
	var e *driverError
	return errors.As(err, &e) && e.name == "CUDA_ERROR_OUT_OF_MEMORY"
}

// unused is the number of the request since which nothing that was used may be
// given up: this one, or that with which a race began.
func (p *problem) unused() uint64 {
	if p.race != nil {
		return p.race.began
	}
	return p.request
}

// alloc takes device memory.
func alloc(bytes int64) (cu.DevicePtr, error) {
	d, err := cu.MemAlloc(max(bytes, 1))
	return d, check("cuMemAlloc", err)
}

func release(d cu.DevicePtr) {
	if d != 0 {
		_ = cu.MemFree(d)
	}
}

func releaseAll(list []cu.DevicePtr) {
	for _, d := range list {
		release(d)
	}
}

// A block is memory with guards around it.
type block struct {
	base, at      cu.DevicePtr
	bytes         int64
	before, after int64    // bytes of the guards
	mapped        *mapping // instead of base
}

// newBlock takes memory for so many bytes, at whose end, to the byte, a guard begins.
func newBlock(bytes int64) (block, error) {
	align, room := planBlock(bytes)
	base, err := alloc(room)
	return block{base: base, at: cu.DevicePtr(startIn(uint64(base), align)), bytes: bytes, before: guardBytes, after: guardBytes}, err
}

func (b block) free() {
	if b.mapped != nil {
		b.mapped.free()
		return
	}
	release(b.base)
}

// A guard is as in the harness.
type guard struct {
	at     cu.DevicePtr
	bytes  int64
	offset int64
	slot   int64
}

// guards are those of some blocks. The list is in memory of the host, from which it is copied to the table
// in device memory before each use: a candidate may have changed that.
type guards struct {
	list  []guard
	host  []byte
	table cu.DevicePtr
}

func newGuards(blocks []block) (*guards, error) {
	bytes := 2 * len(blocks) * int(unsafe.Sizeof(guard{}))
	g := &guards{}
	var err error
	if g.host, err = allocHost(bytes); err != nil {
		return nil, err
	}
	g.list = unsafe.Slice((*guard)(unsafe.Pointer(unsafe.SliceData(g.host))), 2*len(blocks))
	for i, b := range blocks {
		g.list[2*i] = guard{b.at - cu.DevicePtr(b.before), b.before, -b.before, int64(2 * i)}
		g.list[2*i+1] = guard{b.at + cu.DevicePtr(b.bytes), b.after, b.bytes, int64(2*i + 1)}
	}
	if g.table, err = alloc(int64(bytes)); err != nil {
		freeHost(g.host)
		return nil, err
	}
	return g, nil
}

func (g *guards) free() {
	if g != nil {
		release(g.table)
		freeHost(g.host)
	}
}

// found reads what a check of the guards left: the block and the offset of the
// first change.
func (g *guards) found(slots []uint64) (index int, offset int64, damaged bool) {
	for i, v := range slots[:len(g.list)] {
		if v != 0 {
			return i / 2, g.list[i].offset + (guardFar - int64(v)), true
		}
	}
	return 0, 0, false
}

// guardFar is the harness's FAR.
const guardFar = 1 << 30

// upload returns when the data are there: the driver's own copy may return
// before, and streams that do not wait for the default one would not see them.
func upload[T any](to cu.DevicePtr, from []T) error {
	n := int64(len(from)) * int64(unsafe.Sizeof(from[0]))
	if err := check("cuMemcpyHtoD", cu.MemcpyHtoD(to, unsafe.Pointer(&from[0]), n)); err != nil {
		return err
	}
	return check("cuCtxSynchronize", cu.Synchronize())
}

// send is upload in the harness's stream. What comes from memory that isn't pinned has been read when it returns.
func send[T any](h *harness, to cu.DevicePtr, from []T) error {
	return check("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(to, unsafe.Pointer(unsafe.SliceData(from)), int64(len(from))*int64(unsafe.Sizeof(from[0])), h.stream))
}

// download wants the work that makes the data to be done already.
func download[T any](to []T, from cu.DevicePtr) error {
	n := int64(len(to)) * int64(unsafe.Sizeof(to[0]))
	return check("cuMemcpyDtoH", cu.MemcpyDtoH(unsafe.Pointer(&to[0]), from, n))
}

// A binary is a loaded candidate, baseline or reference.
type binary struct {
	entry   string
	module  cu.Module
	kernels map[string]*function
	answer  wire.LoadAnswer
	routine *routine // instead of a module
	work    *workspace
	graphs  map[string]graph
	known   map[string]float64 // nanoseconds of a launch in races before, by how it was launched
}

// A function is a kernel of a binary.
type function struct {
	handle cu.Function
	shared uint32 // dynamic shared memory opted in to
}

// A workspace is a binary's scratch memory.
type workspace struct {
	block
	guards *guards
}

// address is 0 where there is no workspace.
func (w *workspace) address() cu.DevicePtr {
	if w == nil {
		return 0
	}
	return w.at
}

func (w *workspace) free() {
	w.guards.free()
	w.block.free()
}

func (b *binary) free() {
	if b == nil {
		return
	}
	b.dropGraphs()
	b.dropWorkspace()
	if b.routine != nil {
		b.routine.free()
		return
	}
	_ = b.module.Unload()
}

func (b *binary) dropGraphs() {
	for _, g := range b.graphs {
		g.free()
	}
	b.graphs = nil
}

func (b *binary) dropWorkspace() {
	if b.work != nil {
		b.work.free()
		b.work = nil
	}
}

// workspace gives the binary scratch memory of a size; zeroed is for the
// caller. A new one makes graphs void that knew the old one.
func (b *binary) workspace(bytes int64) (*workspace, error) {
	if b.work == nil && bytes == 0 || b.work != nil && b.work.bytes == bytes {
		return b.work, nil
	}
	b.dropGraphs()
	b.dropWorkspace()
	if bytes == 0 {
		return nil, nil
	}
	m, err := newBlock(bytes)
	if err != nil {
		return nil, err
	}
	g, err := newGuards([]block{m})
	if err != nil {
		m.free()
		return nil, err
	}
	b.work = &workspace{m, g}
	return b.work, nil
}

// loadCubin loads a file's kernel, and others of it that launches name.
func loadCubin(file, entry string, also ...string) (*binary, error) {
	image, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b := &binary{entry: entry, kernels: map[string]*function{}}
	if b.module, err = cu.LoadData(string(image)); err != nil {
		return nil, check("cuModuleLoadData", err)
	}
	for _, name := range append([]string{entry}, also...) {
		if err := b.find(name); err != nil {
			_ = b.module.Unload()
			return nil, err
		}
	}
	return b, nil
}

// find makes a kernel of the module ready for launches.
func (b *binary) find(name string) error {
	f, err := b.module.Function(name)
	if err != nil {
		return fmt.Errorf("entry %s: %w", name, check("cuModuleGetFunction", err))
	}
	a := &b.answer
	for _, x := range []struct {
		is cu.FunctionAttribute
		to func(int)
	}{
		{cu.NumRegs, func(v int) { a.Registers = max(a.Registers, v) }},
		{cu.LocalSizeBytes, func(v int) { a.LocalBytes = max(a.LocalBytes, int64(v)) }},
		{cu.SharedSizeBytes, func(v int) { a.SharedBytes = max(a.SharedBytes, int64(v)) }},
		{cu.ConstSizeBytes, func(v int) { a.ConstBytes = max(a.ConstBytes, int64(v)) }},
		{cu.FnMaxThreadsPerBlock, func(v int) {
			if len(b.kernels) == 0 || v < a.MaxThreads {
				a.MaxThreads = v
			}
		}},
	} {
		v, err := f.Attribute(x.is)
		if err != nil {
			return check("cuFuncGetAttribute", err)
		}
		x.to(v)
	}
	b.kernels[name] = &function{handle: f}
	return nil
}

func (p *problem) load(r wire.LoadRequest) (wire.LoadAnswer, error) {
	if r.Name == "" {
		return wire.LoadAnswer{}, errors.New("a binary needs a name")
	}
	p.drop(r.Name)
	var b *binary
	var err error
	if r.Routine != "" {
		b, err = p.loadRoutine(r)
	} else {
		b, err = loadCubin(r.Cubin, r.Entry, r.Also...)
	}
	if f := fault(err); f != nil {
		return wire.LoadAnswer{Fault: f}, ending(f)
	}
	if err != nil {
		return wire.LoadAnswer{}, err
	}
	p.binaries[r.Name] = b
	p.stale = true
	return b.answer, nil
}

func (p *problem) drop(name string) {
	if b := p.binaries[name]; b != nil && p.race.runs(b) {
		p.endRace()
	}
	p.binaries[name].free()
	delete(p.binaries, name)
}

func (p *problem) unload(r wire.UnloadRequest) (wire.UnloadAnswer, error) {
	if p.binaries[r.Name] == nil {
		return wire.UnloadAnswer{}, fmt.Errorf("no binary %q is loaded", r.Name)
	}
	p.drop(r.Name)
	return wire.UnloadAnswer{}, nil
}

// A call is a binary's launches, one in most cases, with all their arguments.
type call struct {
	*binary
	sequence sequence
	args     pack
	shape    wire.Shape
	arrays   []cu.DevicePtr
	// overlaps says that one kernel of the call may begin before another has ended.
	overlaps bool
}

// newCall prepares a launch. The error may be a candidate's fault.
func (p *problem) newCall(b *binary, g wire.Geometry, s wire.Shape, scalars []uint64, arrays []cu.DevicePtr, work cu.DevicePtr) (*call, error) {
	c := &call{binary: b, shape: s, arrays: arrays}
	if b.routine != nil {
		return c, b.routine.check(s)
	}
	list, err := launches(g)
	if err != nil {
		return nil, refused("cuLaunchKernel", err)
	}
	if err := checkMaps(g.Maps, s, p.buffers); err != nil {
		return nil, refused("cuTensorMapEncodeTiled", err)
	}
	if call, err := tooOld(list, len(g.Maps), p.info.CUDADriver, driverHas); err != nil {
		return nil, unsupported(call, err)
	}
	var functions []cu.Function
	for _, l := range list {
		f := b.kernels[cmp.Or(l.entry, b.entry)]
		if f == nil {
			return nil, fmt.Errorf("the binary was not loaded with the kernel %q, which is to be launched", l.entry)
		}
		if l.shared > f.shared {
			if err := allowShared(f.handle, l.shared); err != nil {
				return nil, err
			}
			f.shared = l.shared
		}
		functions = append(functions, f.handle)
		c.overlaps = c.overlaps || l.dependent
	}
	var values []uint64
	for _, d := range s.Dims {
		values = append(values, uint64(d))
	}
	for _, a := range arrays {
		values = append(values, uint64(a))
	}
	values = append(values, scalars...)
	// The driver takes as many as the entry has. One that has a workspace gets
	// it when it needs none of it, too.
	values = append(values, uint64(work))
	c.args = newPackWith(values, len(g.Maps), len(values)-1)
	c.sequence = newSequence(list, functions)
	for i, m := range g.Maps {
		if err := encodeMap(c.args.tensorMap(i), m, arrays[m.Buffer]); err != nil {
			c.free()
			return nil, err
		}
	}
	return c, nil
}

// enqueue puts the launch into the stream.
func (c *call) enqueue(s cu.Stream) error {
	if c.routine != nil {
		return c.routine.enqueue(c.shape, c.arrays)
	}
	return c.sequence.enqueue(s, c.args)
}

// enqueueWhole puts the launch into the stream so that what follows there finds all of it
// done. Where kernels may overlap it waits by itself rather than trust the stream: see
// launch_all.
func (c *call) enqueueWhole(s cu.Stream) error {
	err := c.enqueue(s)
	if err == nil && c.overlaps {
		err = check("cuStreamSynchronize", s.Synchronize())
	}
	return err
}

func (c *call) free() {
	if c != nil && c.args.at != nil {
		c.args.free()
		c.sequence.free()
	}
}

// scalarValues are a shape's scalars as arguments.
func (p *problem) scalarValues(s wire.Shape, double bool) []uint64 {
	out := make([]uint64, len(s.Scalars))
	for i, v := range s.Scalars {
		t := p.scalars[i]
		if double {
			t = "f64"
		}
		out[i] = scalarBits(t, v)
	}
	return out
}

// candidate finds what a request names.
func (p *problem) candidate(name string, s wire.Shape) (*binary, error) {
	b := p.binaries[name]
	if b == nil {
		return nil, fmt.Errorf("no binary %q is loaded", name)
	}
	return b, checkShape(s, p.buffers, p.scalars)
}

// worst is the output of two comparisons that is further off.
func worst(a, b wire.Output) wire.Output {
	w := a
	if cmp.Compare(float64(b.Error), float64(a.Error)) > 0 {
		w = b
	}
	w.NotFinite, w.Unwritten = max(a.NotFinite, b.NotFinite), max(a.Unwritten, b.Unwritten)
	w.Skipped, w.Surplus = max(a.Skipped, b.Skipped), max(a.Surplus, b.Surplus)
	return w
}
