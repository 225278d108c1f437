package cpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/panics"
	"github.com/evotune/evotune/kernels"
)

// A lab is the CPU backend at work on one plan.
type lab struct {
	*labs.Base
	options  Options
	tool     *toolchain
	problem  *problem
	ref      *reference
	python   *python.Program // nil where the reference is in C
	ahead    sync.Map        // answers of controls, by shape and control, until they are asked for
	flavours []flavour       // the sanitizers at work
	harness  map[string]string
	// reachless says why Profile does not work here.
	reachless error
	objdump   string
	jobs      *semaphore.Weighted
	sandbox   bool
	limits    map[string]any
	// apart says that other cores work beside timings, see spare.
	apart bool

	// baselineSource is what candidates are compared with, at every shape;
	// baseline is what the compiler made of it.
	baselineSource kernels.Rendered
	baselineMu     sync.Mutex
	baseline       *candidate

	// What follows is of whoever has the turn to time. What is timed needs the host as well: holding is the context of who
	// holds it.
	turn    *semaphore.Weighted
	timing  *timingState
	edges   map[*shapeData][]*edge
	holding context.Context
}

var _ evaluator.Lab = (*lab)(nil)

// A candidate is what Artifact.Handle holds.
type candidate struct {
	src   kernels.Rendered
	clean compiled
	glue  string
}

func (b *Backend) open(ctx context.Context, plan evaluator.Plan) (_ evaluator.Lab, err error) {
	o := b.options
	q, err := newProblem(plan)
	if err != nil {
		return nil, err
	}
	name := plan.Definition.Name
	if len(plan.Implementations) == 0 {
		return nil, fmt.Errorf("kernel %s: no implementation for the CPU was chosen", name)
	}
	for _, im := range plan.Implementations {
		if err := supported(im); err != nil {
			return nil, err
		}
	}
	baseline, err := renderBaseline(plan.Implementations[0], plan.Tune)
	if err != nil {
		return nil, fmt.Errorf("%w: kernel %s: %w", evaluator.ErrBaseline, name, err)
	}
	base, err := labs.New(ctx, plan, o.Logger, o.CacheDir, o.CacheSize)
	if err != nil {
		return nil, err
	}
	h := newLab(base, o)
	h.problem, h.baselineSource, h.limits = q, baseline, b.Limits()
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	n := o.Jobs
	if n == 0 {
		n = cores()
	}
	h.jobs = semaphore.NewWeighted(int64(n))
	if h.tool, err = newToolchain(ctx, o.Compiler, h.Launcher, h.Cache, max(o.Timeout, time.Minute)); err != nil {
		return nil, err
	}
	h.tool.lockIn(ctx, h.Paths())
	h.tool.sharing.Look(ctx)
	tools, done := evaluator.Preparing(ctx, "harness")
	defer done()
	clean := cleanFlavour()
	if h.harness["clean"], err = h.tool.buildHarness(tools, &clean, h.Scratch); err != nil {
		return nil, fmt.Errorf("%w: %s cannot build programs: %w: install the C library's headers (apt-get install libc6-dev)", ErrNoCompiler, h.tool.path, err)
	}
	sandboxed, err := h.findTools(tools)
	if err != nil {
		return nil, err
	}
	done()
	py := python.Options{Interpreter: o.Python, Timeout: python.Patience * o.Timeout}
	if h.python, err = python.New(ctx, base, q.spec, py); err != nil {
		return nil, python.Blame(err, ErrReference, "kernel "+name)
	}
	if err := h.tryReference(ctx); err != nil {
		return nil, err
	}
	tools, done = evaluator.Preparing(ctx, "harnesses of the sanitizers")
	if err := h.findSanitizers(tools, sandboxed); err != nil {
		done()
		return nil, err
	}
	done()
	h.describe()
	h.Desc.Native = h.tool.native(ctx)
	if err := h.prepare(ctx); err != nil {
		return nil, err
	}
	return h, h.loadPeaks(ctx)
}

func newLab(base *labs.Base, o Options) *lab {
	return &lab{Base: base, options: o, harness: map[string]string{}, sandbox: !o.noSandbox, turn: semaphore.NewWeighted(1), edges: map[*shapeData][]*edge{}}
}

// supported refuses definitions that ask for what this backend cannot check.
func supported(im *kernels.Implementation) error {
	switch {
	case im.Backend != "cpu":
		return fmt.Errorf("implementation %s is for the backend %q, not for \"cpu\"", im.Name, im.Backend)
	case im.Target != "native":
		return fmt.Errorf("implementation %s is for the target %q: the CPU backend runs on this machine alone, target \"native\"", im.Name, im.Target)
	case im.Binary.MaxRegisters != nil || im.Binary.MaxSpill != nil:
		return fmt.Errorf("implementation %s bounds registers or spills, which the CPU backend cannot check", im.Name)
	}
	return nil
}

// work begins a call that works on so many cores, beside a timing if it leaves them. Done ends it.
func (h *lab) work(ctx context.Context, threads int) (_ context.Context, done func(), err error) {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, release, err := h.sharing(ctx, threads)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return ctx, func() { release(); leave() }, nil
}

// share waits for a job's slot and for the host to be free of timings.
func (h *lab) share(ctx context.Context) (context.Context, func(), error) {
	return h.slot(ctx, programs.ShareHost)
}

// sharing waits for a job's slot and for as many cores as the work has threads: those that a timing
// leaves will do.
func (h *lab) sharing(ctx context.Context, threads int) (context.Context, func(), error) {
	return h.slot(ctx, func(ctx context.Context) (context.Context, func(), error) {
		return programs.ShareCores(ctx, threads)
	})
}

func (h *lab) slot(ctx context.Context, enter func(context.Context) (context.Context, func(), error)) (context.Context, func(), error) {
	if programs.HoldsHost(ctx) { // what waits for it may have all the jobs
		return ctx, func() {}, nil
	}
	if err := h.jobs.Acquire(ctx, 1); err != nil {
		return nil, nil, err
	}
	ctx, release, err := enter(ctx)
	if err != nil {
		h.jobs.Release(1)
		return nil, nil, err
	}
	return ctx, func() { release(); h.jobs.Release(1) }, nil
}

// describe says what results depend on, and makes the lab's part of every key of it.
func (h *lab) describe() {
	d := evaluator.Description{Backend: "cpu", Device: describeDevice(), Compiler: h.tool.version, Harness: harnessVersion}
	d.Device.Facts["compiler"] = h.tool.version
	h.SetDescription(d)
	parts := []string{
		harnessVersion, d.Device.Fingerprint, h.tool.identity, h.Plan.Definition.Hash,
		fmt.Sprint(h.Plan.Seed), fmt.Sprint(variants), cache.Key(harnessSource, jailSource, openMPSource),
	}
	for _, s := range h.problem.shapes() {
		parts = append(parts, s.shape.Name, fmt.Sprint(s.Dims))
	}
	for _, f := range h.flavours {
		parts = append(parts, f.name)
	}
	if _, ok := h.Plan.Definition.Variants["cpu"]; ok {
		parts = append(parts, "variant") // results of before it was looked at have other keys
	}
	if h.python != nil {
		parts = append(parts, h.python.Key)
	}
	h.Key = cache.Key(parts...)
}

// Close implements [evaluator.Lab].
func (h *lab) Close() error {
	return h.End(nil, func() {
		h.timing.close()
		h.python.Close()
	})
}

// Build implements [evaluator.Lab]. The sanitizer flavours are compiled by
// Launch: most candidates that fail never reach it.
func (h *lab) Build(ctx context.Context, src kernels.Rendered) (evaluator.Artifact, evaluator.BuildReport, error) {
	parts := []string{h.Key, src.Hash}
	built := src
	if h.Plan.Debug {
		// They come after the candidate's own flags, and before a sanitizer's.
		built.Flags = append(slices.Clone(src.Flags), "-Og", "-g", "-UNDEBUG")
		parts = append(parts, "debug")
	}
	a, report, err := h.build(ctx, built, cache.Key(append(parts, h.baselineSource.Hash)...))
	a.Source = src
	for _, d := range h.problem.SanitizeAlso {
		if err := src.Implementation.Supports(src.Genome, d.shape, h.limits); err != nil {
			a.Unsupported[d.shape.Name] = err.Error()
		}
	}
	return a, report, err
}

func (h *lab) build(ctx context.Context, src kernels.Rendered, key string) (a evaluator.Artifact, report evaluator.BuildReport, err error) {
	a.Unsupported = map[string]string{}
	for _, d := range h.problem.shapes() { // where nothing was prepared
		if !kernels.Computable(h.Plan.Implementations, d.shape) {
			a.Unsupported[d.shape.Name] = h.Plan.Implementations[0].Supports(genome.Genome{}, d.shape, nil).Error()
		}
	}
	parts := 1
	if slices.ContainsFunc(src.Flags, func(f string) bool { return strings.HasPrefix(f, "-flto") }) {
		parts = cores() // the linker starts as many compilers
	}
	ctx, done, err := h.work(ctx, parts)
	if err != nil {
		return a, report, err
	}
	defer done()
	f := cleanFlavour()
	g := glue(h.problem.spec, src.Entry, func(s kernels.Scalar) string { return s.DType.C() })
	unit := f.compilation(&src, g)
	unit.candidate = h.isCandidate(&src)
	out, err := h.tool.compile(ctx, unit)
	var refused *labs.Refusal
	if errors.As(err, &refused) {
		return a, evaluator.BuildReport{Refused: refused.Summary, Log: refused.Log}, nil
	}
	if err != nil {
		return a, report, err
	}
	if executableStack(out.Object) {
		return a, evaluator.BuildReport{Refused: needsExecutableStack, Log: out.Log}, nil
	}
	hash, err := codeHash(out.Object, src.Threads)
	if err != nil {
		return a, report, fmt.Errorf("reading the compiler's output: %w", err)
	}
	a = evaluator.Artifact{
		Hash: hash, Key: key, Source: src, Threads: src.Threads, Unsupported: a.Unsupported,
		Handle: &candidate{src: src, clean: out, glue: g},
	}
	return a, evaluator.BuildReport{Log: out.Log, Bytes: len(out.Object)}, nil
}

// isCandidate says that a source is not what candidates are compared with, which every machine
// compiles for itself.
func (h *lab) isCandidate(src *kernels.Rendered) bool { return src.Hash != h.baselineSource.Hash }

// tryReference compiles the reference and runs it at the shape for the sanitizers, which is the smallest and
// often made up: a reference that fails there does so before anything else is compiled or prepared.
func (h *lab) tryReference(ctx context.Context) (err error) {
	if h.ref, err = h.buildReference(ctx); err != nil {
		return err
	}
	d := h.problem.Sanitize
	if !kernels.Computable(h.Plan.Implementations, d.shape) {
		return nil
	}
	ctx, release, err := h.share(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := h.makeInputs(ctx, d); err != nil {
		return err
	}
	d.expected[0], err = h.ref.outputs(ctx, d, d.inputs[0], 0)
	return err
}

// prepare makes inputs and reference outputs of every shape, as far as tryReference has not.
func (h *lab) prepare(ctx context.Context) (err error) {
	g, gctx := errgroup.WithContext(ctx)
	for _, d := range slices.Concat(h.problem.shapes(), h.problem.SanitizeAlso) {
		if !kernels.Computable(h.Plan.Implementations, d.shape) {
			continue
		}
		shared, release, err := h.share(ctx)
		if err == nil {
			err = h.makeInputs(shared, d)
			release()
		}
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		for v := range variants {
			if d.expected[v] != nil {
				continue
			}
			g.Go(func() (err error) {
				defer panics.Catch(&err)
				ctx, release, err := h.share(gctx)
				if err != nil {
					return err
				}
				defer release()
				d.expected[v], err = h.ref.outputs(ctx, d, d.inputs[v], v)
				return err
			})
		}
		if slices.Contains(h.problem.Tune, d) { // what the judge asks for, while cores are free
			undeclared, err := h.problem.spec.Undeclared(d.shape)
			if err != nil {
				return err
			}
			for _, c := range slices.Concat(h.problem.spec.Controls, undeclared) {
				if c.Kind == kernels.Swapped || c.Kind == kernels.LeftOut {
					g.Go(func() (err error) {
						defer panics.Catch(&err)
						ctx, done := evaluator.Preparing(gctx, "control %q at shape %s", c, d.shape.Name)
						defer done()
						answers, err := h.wrong(ctx, c, d)
						h.ahead.Store(d.shape.Name+" "+c.String(), answers)
						return err
					})
				}
			}
		}
		if !slices.Contains(h.problem.Tune, d) && !slices.Contains(h.problem.SanitizeAlso, d) {
			g.Go(func() (err error) {
				defer panics.Catch(&err)
				return h.makeFurther(gctx, d)
			})
		}
	}
	return g.Wait()
}

// Control implements [evaluator.Lab].
func (h *lab) Control(ctx context.Context, c kernels.Control, s kernels.Shape) ([]evaluator.Output, error) {
	ctx, leave, err := h.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, err := h.problem.at(s)
	if err != nil {
		return nil, err
	}
	var answers [][]float64
	if made, ok := h.ahead.LoadAndDelete(s.Name + " " + c.String()); ok {
		answers = made.([][]float64) //nolint:forcetypeassert // nothing else is stored
	} else if answers, err = h.wrong(ctx, c, d); err != nil {
		return nil, err
	}
	right := func(b int) bool { return slices.Equal(answers[b], d.expected[0][b].values) }
	every := make([]int, 0, len(answers)) // that is answered
	for b, values := range answers {
		if values != nil {
			every = append(every, b)
		}
	}
	others := every
	if c.Kind == kernels.LeftOut {
		if others = slices.DeleteFunc(slices.Clone(every), right); len(others) == 0 {
			others = every
		}
	}
	var outputs []evaluator.Output
	for _, b := range others {
		o := d.expected[0][b].compare(bytesOf(answers[b]), f64, h.problem.spec.UnitsOf(h.problem.buffers[b]), nil)
		o.Name = d.layout.buffers[b].name
		outputs = append(outputs, o)
	}
	return outputs, nil
}

// wrong makes the answers of a control, by buffer; nil for outputs that it does not answer, and
// none where it cannot be made.
func (h *lab) wrong(ctx context.Context, c kernels.Control, d *shapeData) ([][]float64, error) {
	answers := make([][]float64, len(d.layout.buffers))
	switch c.Kind {
	case kernels.Zeros, kernels.Mean, kernels.Halved:
		for b, e := range d.expected[0] {
			if d.layout.buffers[b].role == roleIn {
				continue
			}
			answers[b] = make([]float64, len(e.values))
			switch c.Kind {
			case kernels.Mean:
				mean := e.mean()
				for i := range answers[b] {
					answers[b][i] = mean
				}
			case kernels.Halved:
				for i, v := range e.values {
					answers[b][i] = math.Abs(v)
				}
				smaller := evaluator.Median(answers[b]) // what is below it is left out
				for i, v := range e.values {
					if answers[b][i] = 0; math.Abs(v) > smaller {
						answers[b][i] = v
					}
				}
			}
		}
		return answers, nil
	case kernels.Returned:
		in, out := h.problem.index(c.Buffers[0]), h.problem.index(c.Buffers[1])
		p := d.layout.buffers[in]
		answers[out] = make([]float64, p.elements)
		for i := range answers[out] {
			answers[out][i] = p.dtype.get(d.inputs[0][in], i)
		}
		return answers, nil
	}
	inputs := slices.Clone(d.inputs[0])
	variant := exchanged
	switch c.Kind {
	case kernels.Swapped:
		i, j := h.problem.index(c.Buffers[0]), h.problem.index(c.Buffers[1])
		if i < 0 || j < 0 || d.layout.buffers[i].elements != d.layout.buffers[j].elements {
			return nil, nil
		}
		inputs[i], inputs[j] = inputs[j], inputs[i]
	case kernels.LeftOut:
		variant = replaced
		thinned, err := h.problem.spec.Thinned(c, d.shape)
		if err != nil {
			return nil, err
		}
		changed := false
		for b, t := range thinned {
			if t.Steps > 0 {
				inputs[b] = slices.Clone(inputs[b])
				labs.LeaveOut(inputs[b], d.layout.buffers[b].dtype.size()*int(t.Inner), int(t.Steps))
				changed = true
			}
		}
		if !changed {
			return nil, nil
		}
	default:
		return nil, fmt.Errorf("the CPU backend has no negative control %q", c.Kind)
	}
	shared, release, err := h.share(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	made, err := h.ref.outputs(shared, d, inputs, variant)
	var infinite *notFinite
	if c.Kind == kernels.LeftOut && errors.As(err, &infinite) {
		return nil, nil // such inputs need not have an answer
	}
	for b, e := range made {
		answers[b] = e.values
	}
	return answers, err
}

// start starts a harness of a flavour with an object and loads it.
func (h *lab) start(ctx context.Context, f *flavour, object []byte, a *arena, env []string, threads int) (*process, error) {
	file, err := objectFile(object)
	if err != nil {
		return nil, err
	}
	defer discard(file)
	memory := h.options.MemoryLimit + int64(threads)*(64<<20)
	// Nobody's files but those that a tool makes while it starts.
	temporary := filepath.Join(h.Scratch, "tmp")
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return nil, fmt.Errorf("a folder for temporary files: %w", err)
	}
	var jail *programs.Jail
	wrapper := f.wrapper
	if h.sandbox && h.tool.jail != nil {
		jail = h.tool.jail.With([]string{h.harness[f.name]}, nil)
		if wrapper != nil {
			outer := jail.With([]string{filepath.Dir(wrapper[0])}, []string{temporary}).Without(f.unread...)
			wrapper = slices.Concat([]string{h.harness["clean"], "exec", outer.List()}, wrapper)
			jail = nil
		}
	}
	p, err := startProcess(ctx, h.Launcher, runSpec{
		harness: h.harness[f.name], wrapper: wrapper, object: file, arena: a, jail: jail,
		env: append(slices.Clone(f.env), env...), scratch: temporary,
		sandbox: f.sandbox && h.sandbox, limits: f.limits, heap: f.heap, guards: f.guards, fixedMaps: f.fixedMaps,
		memory: memory, deadline: max(h.options.Timeout, 20*time.Second),
		cpu: time.Duration(math.Min(float64(h.options.Timeout)*float64(max(threads, 1))*20, float64(24*time.Hour))),
	})
	if err != nil {
		return nil, err
	}
	p.declared = threads
	if _, err := p.ask(command{kind: commandLoad, junk: -1}, answerLoaded, h.options.Timeout); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// setShape tells the harness about a shape.
func (p *process) setShape(d *shapeData, base span) error {
	p.shape, p.base = d, base
	_, err := p.ask(command{
		kind: commandShape, dims: d.Dims, scalars: d.Scalars,
		buffers: d.layout.regions(base), junk: -1,
	}, answerShaped, 10*time.Second)
	return err
}

// limit bounds one launch or batch.
func (h *lab) limit(asked time.Duration) time.Duration {
	if asked > 0 {
		return min(asked, h.options.Timeout)
	}
	return h.options.Timeout
}
