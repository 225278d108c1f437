package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// A lab is the CUDA backend at work on one plan: it builds, runs and measures
// what it is given, and reports.
type lab struct {
	*labs.Base
	options    Options
	problem    *problem
	toolkit    *toolkit
	compiler   compiler
	sharing    func() *labs.Sharing
	triton     *triton // nil where no implementation is in Triton
	disasm     *disassembler
	sanitizers []*sanitizer
	delayer    assembler     // of candidates with delays; nil when they do not work
	guarded    bool          // buffers can be placed between pages that are not mapped
	jail       *process.Jail // of workers; nil locks them into nothing
	profiler   profiler
	gpus       []*gpu
	workerPath string
	limits     map[string]any
	serial     atomic.Int64
	compiling  queue
	learning   queue // requests that learn instructions' names from the disassembler
	rehearsed  sync.Once

	baseMu    sync.Mutex
	baselines map[*shapeData]*candidate
	made      map[string]*candidate // baselines, by what they were made from
	// routine is the baseline where a genome may stand in for a library: that is the baseline
	// of the shapes that routine does not compute. cudnn lists the library's files where a routine of it is the baseline.
	// baselineText says what the baselines are where the definition alone does not.
	routine      *candidate
	cudnn        []string
	baselineText string

	furtherMu sync.Mutex
	further   map[furtherKey]wire.Shape
	edges     map[*shapeData][]*edge // that come among timed launches
	contents  sync.Map               // that workers have prepared, by what once calls them

	// hostKey identifies what computes on the CPU what is expected, "" where a reference
	// in CUDA does: a program in Python, or hostReference, which is compiled. Expected are
	// the files with what it gave.
	hostKey, hostReference string
	python                 *python.Program     // nil where the reference is in C
	expecting              *semaphore.Weighted // whoever waits stops with its context
	expected               map[string]string

	stages       stageCounts
	compileQueue atomic.Int64
	opened       time.Time
}

var (
	_ evaluator.Lab      = (*lab)(nil)
	_ evaluator.Profiler = (*lab)(nil)
)

// A candidate is what Artifact.Handle holds.
type candidate struct {
	name    string // in the worker
	src     kernels.Rendered
	out     compiled
	path    string // of the cubin, or of a routine's library, "" for that of the usual names
	arch    string
	rank    int64  // by which it waits: the number of its proposal, or of what came to the lab before it
	routine string // of a vendor's library, instead of a cubin
	hash    string
	// geometry, by shape; shapes that it cannot compute are in unsupported.
	geometry    map[*shapeData]wire.Geometry
	unsupported map[*shapeData]string
	// baseline: candidates are compared with it.
	baseline bool
	// own is the shape at which the search launches it under tools, where that is not
	// the problem's; else nil.
	own *shapeData
	// blocks is how many blocks of each axis of the grid it launches there; 0 is all.
	blocks int64
	// heap says that it may leave memory in the context: its workers end with it.
	heap bool
	// lost says that a worker died with it without a word. Its next one is fresh:
	// whoever killed that one may have killed others that nobody has missed yet.
	lost atomic.Bool

	traps        atomic.Bool // it has an instruction that stops its context, as inspection has found
	unfollowedMu sync.Mutex
	unfollowed   *unfollowed // nil until it is known
}

func (c *candidate) load() wire.LoadRequest {
	if c.routine != "" {
		return wire.LoadRequest{Name: c.name, Routine: c.routine, Library: c.path}
	}
	list := c.kernels()
	return wire.LoadRequest{Name: c.name, Cubin: c.path, Entry: list[0], Also: list[1:]}
}

// kernels lists what launches call in the binary, the entry first if it is among them.
func (c *candidate) kernels() []string {
	called := map[string]bool{}
	for _, g := range c.geometry {
		for _, k := range g.Kernels() {
			called[cmp.Or(k.Entry, c.src.Entry)] = true
		}
	}
	if called[c.src.Entry] || len(called) == 0 {
		delete(called, c.src.Entry)
		return append([]string{c.src.Entry}, slices.Sorted(maps.Keys(called))...)
	}
	return slices.Sorted(maps.Keys(called))
}

func (b *Backend) open(ctx context.Context, plan evaluator.Plan) (_ *lab, err error) {
	o := b.options
	q, err := newProblem(plan)
	if err != nil {
		return nil, err
	}
	for _, im := range plan.Implementations {
		if im.Backend != "cuda" {
			return nil, fmt.Errorf("implementation %s is for the backend %q, not for \"cuda\"", im.Name, im.Backend)
		}
	}
	if len(plan.Implementations) == 0 {
		return nil, fmt.Errorf("kernel %s: no implementation for CUDA was chosen", plan.Definition.Name)
	}
	base, err := labs.New(ctx, plan, o.Logger, o.CacheDir, o.CacheSize)
	if err != nil {
		return nil, err
	}
	h := newLab(base, o)
	h.problem = q
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if h.workerPath, err = findWorker(o.Worker); err != nil {
		return nil, err
	}
	h.toolkit = findToolkit(ctx, o, h.Launcher, h.Paths()...)
	devices, err := h.findDevices(ctx)
	if err != nil {
		return nil, err
	}
	b.remember(devices)
	h.limits = limitsOf(devices[0])
	for _, im := range plan.Implementations {
		if _, err := architecture(im.Target, devices[0].Capability, nil); err != nil {
			return nil, fmt.Errorf("implementation %s: %w", im.Name, err)
		}
	}
	if err := checkDriver(plan.Implementations, devices[0].CUDADriver); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", plan.Definition.Name, err)
	}
	py := python.Options{Interpreter: o.Python, Timeout: python.Patience * o.Timeout}
	if h.python, err = python.New(ctx, base, q.spec, py); err != nil {
		return nil, python.Blame(err, ErrReference, "kernel "+q.name)
	}
	if err := h.tryReference(ctx); err != nil {
		return nil, err
	}
	if err := h.findCompiler(ctx); err != nil {
		return nil, err
	}
	if err := h.findTriton(ctx, plan.Implementations); err != nil {
		return nil, err
	}
	if err := h.compilesFor(ctx, plan.Implementations); err != nil {
		return nil, err
	}
	if _, faster := h.compiler.(*nvrtc); faster && o.Compiler == compilerAuto {
		other := func() (compiler, error) {
			return newNVCC(ctx, h.toolkit, h.Launcher, h.Cache, max(o.Timeout, time.Minute))
		}
		if err := h.fitCompiler(ctx, devices[0], other); err != nil {
			return nil, err
		}
	}
	if err := h.buildHarness(ctx, devices[0]); err != nil {
		return nil, err
	}
	for _, d := range devices {
		h.gpus = append(h.gpus, h.newGPU(d))
	}
	h.findTools(ctx)
	if b := plan.Implementations[0].Baseline(); b.Library != "" && strings.HasPrefix(routineName(b), "cudnn:") {
		h.cudnn = h.findCUDNN(ctx)
	}
	h.lockIn(ctx)
	if err := h.chooseBaseline(ctx); err != nil {
		return nil, err
	}
	tools, done := evaluator.Preparing(ctx, "trying the sanitizers")
	h.proveSanitizers(tools)
	done()
	h.sharing().Look(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.describe()
	h.warm(plan.Search)
	if err := h.prepare(ctx); err != nil {
		return nil, err
	}
	h.opened = time.Now()
	for _, g := range h.gpus {
		g.before = g.gate.Usage().Held
		g.measured.Store(0)
	}
	return h, nil
}

func newLab(base *labs.Base, o Options) *lab {
	h := &lab{
		Base: base, options: o, problem: &problem{},
		compiling: newQueue(o.CompileWorkers), learning: newQueue(max(o.CompileWorkers/4, 1)), expecting: semaphore.NewWeighted(1),
		baselines: map[*shapeData]*candidate{}, made: map[string]*candidate{},
		further: map[furtherKey]wire.Shape{}, edges: map[*shapeData][]*edge{}, expected: map[string]string{},
	}
	h.sharing = sync.OnceValue(func() *labs.Sharing {
		return &labs.Sharing{Launcher: h.Launcher, Cache: h.Cache, Find: h.installation}
	})
	return h
}

// An installed is a compiler or an assembler that says what its code depends on besides its identity
// and the unit.
type installed interface {
	installation(ctx context.Context) (labs.Installation, error)
}

// installation is that of the compiler, and of what assembles candidates with delays.
func (h *lab) installation(ctx context.Context) (all labs.Installation, err error) {
	for _, t := range []any{h.compiler, h.delayer} {
		if t == nil {
			continue
		}
		tool, ok := t.(installed)
		if !ok {
			return all, fmt.Errorf("the files of %T are not known", t)
		}
		i, err := tool.installation(ctx)
		if err != nil {
			return all, err
		}
		all = all.With(i)
	}
	all.Facts = append(all.Facts, "cuda 1")
	return all, nil
}

// local says whether a unit is compiled for this machine alone. Of Triton's files there is no list.
func (u unit) local() bool {
	return !u.candidate || u.triton != nil || labs.Own(u.all(), rtcFlags(u.own()))
}

func (h *lab) newGPU(d wire.Device) *gpu {
	shared := joinGPU(d.UUID)
	g := &gpu{device: d, gate: shared.gate, startup: shared.startup, tools: map[string]*pool{}}
	g.parity = h.newPool(g, "parity", h.options.ParityWorkers)
	// The gate lets in one at a time; all others wait there, where they are seen.
	g.timing = h.newPool(g, "timing", 1<<20)
	g.timing.alone = true
	return g
}

// findCompiler chooses the compiler.
func (h *lab) findCompiler(ctx context.Context) error {
	o := h.options
	timeout := max(o.Timeout, time.Minute)
	if o.compiler != nil {
		h.compiler = o.compiler
		return nil
	}
	var failed error
	if o.Compiler != compilerNVCC {
		rtc, err := newNVRTC(ctx, h.toolkit, h.Launcher, timeout)
		if err == nil {
			h.compiler = rtc
			return nil
		}
		if o.Compiler == compilerNVRTC {
			return err
		}
		failed = err
	}
	n, err := newNVCC(ctx, h.toolkit, h.Launcher, h.Cache, timeout)
	if err != nil {
		return errors.Join(failed, err)
	}
	if failed != nil {
		h.Log.Warn("NVRTC does not work here, and nvcc compiles instead, which takes about twice as long", "reason", failed)
		h.Found(evaluator.Tool{Name: "nvrtc", Missing: "it does not work here (" + plain.Line(failed.Error()) + "): nvcc compiles instead, which takes about twice as long"})
	}
	h.compiler = n
	return nil
}

// fitCompiler takes another compiler if the chosen one refuses the baseline or the reference in CUDA, and the
// other accepts both: NVRTC lacks the headers of the host, and their macros. All candidates are compiled
// by one.
func (h *lab) fitCompiler(ctx context.Context, d wire.Device, other func() (compiler, error)) error {
	refused, err := h.refuses(ctx, d)
	if refused == nil || err != nil {
		return err
	}
	chosen, what := h.compiler, plain.Line(refused.Summary)
	n, missing := other()
	if missing != nil {
		h.Found(evaluator.Tool{Name: "nvcc", Missing: fmt.Sprintf("%s does not compile the kernel (%s), and nvcc cannot be tried: %s", chosen.version(), what, plain.Line(missing.Error()))})
		return ctx.Err()
	}
	h.compiler = n
	again, err := h.refuses(ctx, d)
	if err != nil {
		chosen.close()
		return err
	}
	if again != nil { // the first one's diagnostics are as good
		h.compiler = chosen
		n.close()
		return nil //nolint:nilerr // the errors of asking are nil here: it is both compilers that refuse
	}
	chosen.close()
	h.Log.Warn("nvcc compiles this kernel, which takes about twice as long: NVRTC does not", "reason", what)
	h.Found(evaluator.Tool{Name: "nvrtc", Missing: "it does not compile this kernel (" + what + "): nvcc compiles instead, which takes about twice as long"})
	return nil
}

// refuses gives why the compiler refuses the baseline, a file that is judged or the reference in CUDA; nil
// if it refuses none.
func (h *lab) refuses(ctx context.Context, d wire.Device) (*labs.Refusal, error) {
	var sources []kernels.Rendered
	if src, err := h.Plan.Implementations[0].RenderBaseline(h.Plan.Tune[0]); err == nil {
		sources = append(sources, src)
	}
	for _, im := range h.Plan.Implementations {
		if !slices.ContainsFunc(im.Parameters, func(g genome.Gene) bool { return g.Name == kernels.FileGene }) {
			continue
		}
		space, err := h.Plan.Definition.Space([]*kernels.Implementation{im}, h.Plan.Tune, h.limits)
		if err != nil {
			continue // no genome of it is compiled
		}
		if g, ok := space.At(0); ok {
			if src, err := im.Render(g); err == nil {
				sources = append(sources, src)
			}
		}
	}
	var units []unit
	for _, src := range sources {
		u := h.unit(src, false)
		if u.triton != nil {
			continue
		}
		var err error
		if u.arch, err = architecture(src.Implementation.Target, d.Capability, h.compiler.architectures()); err != nil {
			return nil, fmt.Errorf("implementation %s: %w", src.Implementation.Name, err)
		}
		units = append(units, u)
	}
	spec := h.problem.spec
	if spec != nil && spec.DeviceReference != nil && spec.Oracle != kernels.OwnBaseline {
		u := referenceUnit(spec)
		var err error
		if u.arch, err = architecture("sm_80", d.Capability, h.compiler.architectures()); err != nil {
			return nil, err
		}
		units = append(units, u)
	}
	for _, u := range units {
		_, err := h.build(ctx, u)
		var no *labs.Refusal
		if errors.As(err, &no) {
			return no, nil
		} else if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// compilers names what compiles.
func (h *lab) compilers() string {
	if h.triton == nil {
		return h.compiler.version()
	}
	return h.compiler.version() + ", " + h.triton.version()
}

// describe says what results depend on, and makes the lab's part of every key of it.
func (h *lab) describe() {
	h.SetDescription(evaluator.Description{Backend: "cuda", Device: describeDevice(h.devices()), Compiler: h.compilers(), Harness: harnessVersion})
	if h.baselineText != "" {
		h.Desc.Baseline = h.baselineText
	}
	d := h.Desc
	parts := []string{
		harnessVersion, cache.Key(HarnessSource), d.Device.Fingerprint, h.compiler.identity(), h.Plan.Definition.Hash,
		fmt.Sprint(h.Plan.Seed), fmt.Sprint(variants),
	}
	for _, s := range h.problem.shapes() {
		parts = append(parts, s.shape.Name, fmt.Sprint(s.wire.Dims))
	}
	for _, s := range h.sanitizers {
		parts = append(parts, s.name, s.version)
	}
	if h.routine != nil {
		parts = append(parts, "baseline", d.Baseline)
	}
	if h.delayer != nil {
		parts = append(parts, schedules+" 3", h.delayer.identity())
	}
	if h.guarded {
		parts = append(parts, guards)
	}
	if h.python != nil {
		parts = append(parts, h.python.Key)
	}
	if h.triton != nil {
		parts = append(parts, h.triton.identity())
	}
	h.Key = cache.Key(parts...)
}

func (h *lab) devices() []wire.Device {
	var list []wire.Device
	for _, g := range h.gpus {
		list = append(list, g.device)
	}
	return list
}

// Close implements [evaluator.Lab].
func (h *lab) Close() error {
	return h.End(h.closePools, func() {
		for _, g := range h.gpus {
			leaveGPU(g.device.UUID)
		}
		h.closePools() // what was started meanwhile
		h.python.Close()
		if h.compiler != nil {
			h.compiler.close()
		}
		if h.triton != nil {
			h.triton.close()
		}
	})
}

// closePools ends all workers.
func (h *lab) closePools() {
	var done sync.WaitGroup
	for _, g := range h.gpus {
		for _, p := range g.pools() {
			done.Go(p.close)
		}
	}
	done.Wait()
}

func (g *gpu) pools() []*pool {
	list := []*pool{g.parity, g.timing}
	for _, p := range g.tools {
		list = append(list, p)
	}
	return list
}

// Build implements [evaluator.Lab].
func (h *lab) Build(ctx context.Context, src kernels.Rendered) (evaluator.Artifact, evaluator.BuildReport, error) {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return evaluator.Artifact{}, evaluator.BuildReport{}, err
	}
	defer leave()
	defer h.stages.enter(evaluator.StageCompile, new(candidate))()
	if h.Plan.Search {
		h.rehearsed.Do(h.rehearse)
	}
	c, report, err := h.compile(ctx, src, h.Plan.Debug, false)
	if c == nil {
		return evaluator.Artifact{}, report, err
	}
	parts := []string{h.Key, src.Hash, c.hash}
	h.baseMu.Lock()
	for _, d := range h.problem.Tune {
		if b := h.baselines[d]; b != nil {
			parts = append(parts, b.hash)
		}
	}
	h.baseMu.Unlock()
	if c.own != nil {
		parts = append(parts, "under tools", fmt.Sprint(c.own.Dims))
	}
	if c.blocks > 0 {
		parts = append(parts, "of the grid under tools", fmt.Sprint(c.blocks))
	}
	if h.Plan.Debug {
		parts = append(parts, "debug")
	}
	return h.artifact(c, cache.Key(parts...)), report, nil
}

func (h *lab) artifact(c *candidate, key string) evaluator.Artifact {
	a := evaluator.Artifact{Hash: c.hash, Key: key, Source: c.src, Unsupported: map[string]string{}, Handle: c}
	if c.own != nil || c.blocks > 0 {
		a.Sanitize = h.searched(c).shape
		a.Sanitize.Blocks = c.blocks
	}
	for d, why := range c.unsupported {
		a.Unsupported[d.shape.Name] = why
	}
	return a
}

// compile makes a candidate; it is nil where the report says why there is none.
func (h *lab) compile(ctx context.Context, src kernels.Rendered, debug, baseline bool) (*candidate, evaluator.BuildReport, error) {
	var report evaluator.BuildReport
	serial := h.serial.Add(1)
	rank := serial
	if who, ok := evaluator.CandidateOf(ctx); ok {
		rank = int64(who.Index) + 1 // 0 is what is done for none
	}
	ctx = ranked(ctx, rank)
	c := &candidate{
		name: fmt.Sprintf("candidate-%d", serial), rank: rank, src: src, baseline: baseline,
		geometry: map[*shapeData]wire.Geometry{}, unsupported: map[*shapeData]string{},
	}
	if report.Geometry = h.geometries(c, baseline); report.Geometry != "" {
		return nil, report, nil
	}
	im := src.Implementation
	u := h.unit(src, debug)
	arch, err := architecture(im.Target, h.gpus[0].device.Capability, h.compilerOf(u).architectures())
	if err != nil {
		return nil, report, fmt.Errorf("implementation %s: %w", im.Name, err)
	}
	c.arch, u.arch, u.candidate = arch, arch, !baseline
	out, err := h.build(ctx, u)
	var no *labs.Refusal
	if errors.As(err, &no) && no.Crash {
		u.plain = true
		out, err = h.build(ctx, u)
	}
	if errors.As(err, &no) {
		report.Refused, report.Log = no.Summary, no.Log
		return nil, report, nil
	}
	if err != nil {
		return nil, report, err
	}
	c.out = out
	if l, most := out.Launched, h.gpus[0].device.SharedOptin; l != nil && l.Shared > most {
		report.Refused, report.Log = fmt.Sprintf("it needs %d bytes of shared memory, and a block has at most %d", l.Shared, most), out.Log
		return nil, report, nil
	}
	c.keepTo(out.Launched)
	report.Log, report.Bytes = out.Log, len(out.Cubin)
	if c.hash, err = codeHash(out.Cubin, h.launchText(c)); err != nil {
		return nil, report, fmt.Errorf("reading the compiler's output: %w", err)
	}
	if c.heap, err = usesHeap(out.Cubin); err != nil {
		return nil, report, fmt.Errorf("reading the compiler's output: %w", err)
	}
	c.path = filepath.Join(h.Scratch, c.name+".cubin")
	if err := os.WriteFile(c.path, out.Cubin, 0o600); err != nil {
		return nil, report, err
	}
	// Workers read the file for as long as a caller holds the candidate.
	runtime.AddCleanup(c, remove, c.path)
	return c, report, nil
}

// keepTo puts into every launch what the compiler says of it.
func (c *candidate) keepTo(l *fixedLaunch) {
	if l == nil {
		return
	}
	for d, g := range c.geometry {
		g.Block, g.Shared = [3]int64{l.Threads, 1, 1}, l.Shared
		c.geometry[d] = g
	}
}

// unit is what a compiler gets of a source, but for the architecture.
func (h *lab) unit(src kernels.Rendered, debug bool) unit {
	if src.Triton != nil {
		return unit{source: src.Source, triton: src.Triton, debug: debug}
	}
	files := maps.Clone(src.Files)
	if files == nil {
		files = map[string]string{}
	}
	files[kernels.HeaderFile] = src.Header
	return unit{source: candidateSource(src), files: files, flags: src.Flags, debug: debug}
}

// candidateSource is what is compiled: the declaration first, so that a wrong
// signature does not compile, then the template's text with its own lines.
func candidateSource(src kernels.Rendered) string {
	return "#include \"" + kernels.HeaderFile + "\"\n#line 1 \"" + sourceFile + "\"\n" + src.Source
}

// compilesFor tries the compiler on targets of exactly one architecture: it does not tell
// whether it knows their instructions.
func (h *lab) compilesFor(ctx context.Context, list []*kernels.Implementation) error {
	tried := map[string]bool{}
	for _, im := range list {
		if strings.TrimRight(im.Target, "af") == im.Target || tried[im.Target] || im.Language == kernels.Triton {
			continue
		}
		tried[im.Target] = true
		_, err := h.build(ctx, unit{source: "extern \"C\" __global__ void trial() {}\n", arch: im.Target})
		var no *labs.Refusal
		if errors.As(err, &no) {
			return fmt.Errorf("implementation %s: %s does not compile for %s: use a newer CUDA toolkit, or choose others by --implementation: %s",
				im.Name, h.compiler.version(), im.Target, plain.Line(no.Summary))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// geometries computes the launch at every shape that the candidate can compute,
// and says why there is none at one that it must: a tuned one, if it is no
// baseline, and its own for tools. A baseline has none of its own: it stands for
// every genome.
func (h *lab) geometries(c *candidate, baseline bool) string {
	im := c.src.Implementation
	for _, d := range h.problem.placed {
		if err := im.Supports(c.src.Genome, d.shape, h.limits); err != nil && (baseline || !d.tuned) {
			c.unsupported[d] = err.Error()
			continue
		}
		geo, err := im.Geometry(c.src.Genome, d.shape, h.limits)
		if err != nil {
			return err.Error()
		}
		if most := h.gpus[0].device.MemoryBytes; most > 0 && geo.WorkspaceBytes > most {
			return fmt.Sprintf("shape %s: a workspace of %d bytes, and the GPU has %d bytes of memory: use a smaller one", d.shape.Name, geo.WorkspaceBytes, most)
		}
		c.geometry[d] = geometry(geo, c.src.Entry)
	}
	if !baseline {
		if err := h.ownShape(c); err != nil {
			return err.Error()
		}
	}
	return ""
}

// ownShape computes the shape at which the search launches a candidate under tools, the
// launch there, and how much of it.
func (h *lab) ownShape(c *candidate) error {
	usual := h.problem.Sanitize.shape
	s, err := c.src.Implementation.SanitizeShape(c.src.Genome, usual, h.limits)
	if err != nil {
		return err
	}
	if !maps.Equal(s.Dims, usual.Dims) {
		if c.own, err = h.problem.sized(s); err != nil {
			return err
		}
		geo, err := c.src.Implementation.Geometry(c.src.Genome, s, h.limits)
		if err != nil {
			return err
		}
		c.geometry[c.own] = geometry(geo, c.src.Entry)
	}
	if whole := c.geometry[h.searched(c)].Grid; firstBlocks(whole, s.Blocks) != whole {
		c.blocks = s.Blocks
	}
	return nil
}

// searched is the shape at which the search launches a candidate under tools.
func (h *lab) searched(c *candidate) *shapeData {
	return cmp.Or(c.own, h.problem.Sanitize)
}

// launchText names the launch at every shape.
func (h *lab) launchText(c *candidate) string {
	var s strings.Builder
	for _, d := range h.problem.shapes() {
		if why := c.unsupported[d]; why != "" {
			fmt.Fprintf(&s, "%s: none\n", d.shape.Name)
			continue
		}
		fmt.Fprintf(&s, "%s: %v\n", d.shape.Name, c.geometry[d])
	}
	return s.String()
}

// build compiles, or takes the result from the cache.
func (h *lab) build(ctx context.Context, u unit) (compiled, error) {
	by := h.compilerOf(u)
	key := u.key(by.identity())
	var out compiled
	if cubin, ok := h.sharing().Get(ctx, "cubins", key, u.local(), &out); ok {
		out.Cubin = cubin
		return out, nil
	}
	release, err := h.acquireCore(ctx)
	if err != nil {
		return out, err
	}
	defer release()
	out, err = by.compile(ctx, u)
	if err != nil {
		return out, err
	}
	h.sharing().Put(ctx, "cubins", key, u.local(), out.Cubin, out)
	return out, nil
}

// acquireCore waits for a core to compile or disassemble on.
func (h *lab) acquireCore(ctx context.Context) (release func(), err error) {
	h.compileQueue.Add(1)
	defer h.compileQueue.Add(-1)
	return h.compiling.enter(ctx)
}

// blame says who is to blame for how a worker ended with a candidate in it: the
// candidate when it did not answer in time, and nobody knows when the worker
// died without a word. Errors of the machine stay as they are.
func blame(err error, in ...*candidate) error {
	var late *timeoutError
	var died *workerError
	switch {
	case errors.As(err, &late):
		return &evaluator.Fault{Hang: true, Reason: late.Error()}
	case errors.As(err, &died):
		for _, c := range in {
			c.lost.Store(true)
		}
		return &evaluator.Lost{Reason: died.reason, Log: died.stderr}
	}
	return err
}
