package cpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/kernels"
)

// The machine is shared by all benches of this process: what is compiled,
// checked and sanitized holds one share of it, what is timed holds all of it.
// The semaphore serves in the order of asking, so that a timing waits for what
// is under way and nothing new overtakes it.
const wholeMachine = 1 << 30

var machine = semaphore.NewWeighted(wholeMachine)

// A bench is the CPU backend at work on one plan.
type bench struct {
	options  Options
	plan     evaluator.Plan
	log      *slog.Logger
	launcher *programs.Launcher
	cache    *cache.Cache
	tool     *toolchain
	scratch  string
	problem  *problem
	tools    []evaluator.Tool
	flavours []flavour // the sanitizers at work
	harness  map[string]string
	objdump  string
	jobs     *semaphore.Weighted
	desc     evaluator.Description
	base     string // the part of every key that is the bench's
	sandbox  bool

	baseline *candidate
	// launchTime is what one launch of the baseline took in parity, by shape.
	launchTime map[string]time.Duration

	peaksMu sync.Mutex
	peaks   map[string]float64

	timing *timingState // guarded by holding the whole machine

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	calls  sync.WaitGroup
	mu     sync.Mutex
	closed bool
}

var _ evaluator.Bench = (*bench)(nil)

// candidate is what Binary.Handle holds.
type candidate struct {
	src   kernels.Rendered
	clean compiled
	glue  string
	hash  string
}

var errClosed = evaluator.ErrBenchClosed

func (b *Backend) open(ctx context.Context, plan evaluator.Plan) (_ evaluator.Bench, err error) {
	o := b.options
	q, err := newProblem(plan)
	if err != nil {
		return nil, err
	}
	for _, im := range plan.Implementations {
		if err := supported(im); err != nil {
			return nil, err
		}
	}
	dir := o.CacheDir
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no folder for the cache: %w: set cache-dir", err)
		}
		dir = filepath.Join(user, "evotune")
	}
	c, err := cache.New(dir, o.CacheSize)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &bench{
		options: o, plan: plan, log: o.Logger, launcher: programs.NewLauncher(), cache: c, problem: q,
		harness: map[string]string{}, launchTime: map[string]time.Duration{},
		ctx: life, cancel: cancel, sandbox: !o.noSandbox,
	}
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
	if h.scratch, err = c.Scratch(); err != nil {
		return nil, err
	}
	if h.tool, err = newToolchain(ctx, o.Compiler, h.launcher, c, max(o.Timeout, time.Minute)); err != nil {
		return nil, err
	}
	clean := cleanFlavour()
	if h.harness["clean"], err = h.tool.buildHarness(ctx, &clean, h.scratch); err != nil {
		return nil, fmt.Errorf("%w: %s cannot build programs: %w: install the C library's headers (apt-get install libc6-dev)", ErrNoCompiler, h.tool.path, err)
	}
	if err := h.findTools(ctx); err != nil {
		return nil, err
	}
	h.describe()
	h.desc.Native = h.tool.native(ctx)
	if err := h.prepare(ctx); err != nil {
		return nil, err
	}
	if err := h.loadPeaks(ctx); err != nil {
		return nil, err
	}
	h.desc.Device.Peaks = maps.Clone(h.peaks)
	if err := h.proveBaseline(ctx); err != nil {
		return nil, err
	}
	return h, nil
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

// enter counts a call and ties its context to the bench's life.
func (h *bench) enter(ctx context.Context) (context.Context, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, errClosed
	}
	h.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.ctx, func() { cancel(errClosed) })
	return ctx, func() { stop(); cancel(nil); h.calls.Done() }, nil
}

// share waits for a job's slot and for the machine to be free of timings.
func (h *bench) share(ctx context.Context) (func(), error) {
	if err := h.jobs.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := machine.Acquire(ctx, 1); err != nil {
		h.jobs.Release(1)
		return nil, err
	}
	return func() { machine.Release(1); h.jobs.Release(1) }, nil
}

// Describe implements [evaluator.Bench]. The peaks are those that were known
// when the bench was opened: what is measured anew for a candidate that seems
// impossible serves to judge it, and to describe the next bench.
func (h *bench) Describe() evaluator.Description { return h.desc }

func (h *bench) describe() {
	d := evaluator.Description{
		Backend: "cpu", Device: describeDevice(), Kernel: h.plan.Definition.Name,
		Compiler: h.tool.version, Tools: h.tools, Harness: harnessVersion,
	}
	d.Device.Facts["compiler"] = h.tool.version
	for _, im := range h.plan.Implementations {
		d.Implementations = append(d.Implementations, im.Name)
	}
	for _, s := range h.plan.Tune {
		d.Shapes = append(d.Shapes, s.Name)
	}
	for _, s := range h.plan.Verify {
		d.Verified = append(d.Verified, s.Name)
	}
	h.desc = d
	parts := []string{
		harnessVersion, d.Device.Fingerprint, h.tool.identity, h.plan.Definition.Hash,
		fmt.Sprint(h.plan.Seed), fmt.Sprint(variants), cache.Key(harnessSource),
	}
	for _, s := range h.problem.shapes() {
		parts = append(parts, s.shape.Name, fmt.Sprint(s.dims))
	}
	for _, f := range h.flavours {
		parts = append(parts, f.name)
	}
	h.base = cache.Key(parts...)
}

// Close implements [evaluator.Bench].
func (h *bench) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.calls.Wait()
	h.timing.close()
	h.launcher.Close()
	if h.scratch != "" {
		return os.RemoveAll(h.scratch)
	}
	return nil
}

// Compile implements [evaluator.Bench]. The sanitizer flavours are compiled
// when their stage comes: most candidates that fail never reach it.
func (h *bench) Compile(ctx context.Context, src kernels.Rendered) (evaluator.Binary, evaluator.Outcome, error) {
	ctx, leave, err := h.enter(ctx)
	if err != nil {
		return evaluator.Binary{}, evaluator.Outcome{}, err
	}
	defer leave()
	release, err := h.share(ctx)
	if err != nil {
		return evaluator.Binary{}, evaluator.Outcome{}, err
	}
	defer release()
	parts := []string{h.base, src.Hash}
	if h.plan.Debug {
		// They come after the candidate's own flags, and before a sanitizer's.
		src.Flags = append(slices.Clone(src.Flags), "-Og", "-g", "-UNDEBUG")
		parts = append(parts, "debug")
	}
	bin, outcome, err := h.compile(ctx, src)
	if bin == nil {
		return evaluator.Binary{}, outcome, err
	}
	if h.baseline != nil {
		parts = append(parts, h.baseline.src.Hash)
	}
	return evaluator.Binary{Hash: bin.hash, Key: cache.Key(parts...), Handle: bin}, outcome, err
}

func (h *bench) compile(ctx context.Context, src kernels.Rendered) (*candidate, evaluator.Outcome, error) {
	f := cleanFlavour()
	g := glue(&h.plan.Definition.Problem, src.Entry, func(s kernels.Scalar) string { return s.DType.C() })
	out, err := h.tool.compile(ctx, f.compilation(&src, g))
	var refused *errCompile
	if errors.As(err, &refused) {
		return nil, evaluator.Outcome{
			Verdict: evaluator.Compile, Reason: refused.summary,
			Evidence: []evaluator.Evidence{{Check: "compiler", Outcome: evaluator.Failed, Detail: refused.log}},
		}, nil
	}
	if err != nil {
		return nil, evaluator.Outcome{}, err
	}
	evidence := []evaluator.Evidence{{Check: "compiler", Outcome: evaluator.Passed, Detail: out.Log}}
	for _, re := range src.Implementation.Blocking {
		for line := range strings.Lines(out.Log) {
			if re.MatchString(line) {
				reason := "a diagnostic that blocks: " + printable(line)
				return nil, evaluator.Outcome{
					Verdict: evaluator.Compile, Reason: reason,
					Evidence: append(evidence, evaluator.Evidence{Check: "blocking diagnostics", Outcome: evaluator.Failed, Detail: reason}),
				}, nil
			}
		}
	}
	if len(src.Implementation.Blocking) > 0 {
		evidence = append(evidence, evaluator.Evidence{Check: "blocking diagnostics", Outcome: evaluator.Passed})
	}
	hash, err := codeHash(out.Object, src.Threads)
	if err != nil {
		return nil, evaluator.Outcome{}, fmt.Errorf("reading the compiler's output: %w", err)
	}
	evidence = append(evidence, evaluator.Evidence{Check: "binary", Outcome: evaluator.Passed, Value: float64(len(out.Object)), Unit: "bytes", Detail: hash})
	return &candidate{src: src, clean: out, glue: g, hash: hash}, evaluator.Outcome{Evidence: evidence}, nil
}

func handle(bin evaluator.Binary) (*candidate, error) {
	b, ok := bin.Handle.(*candidate)
	if !ok {
		return nil, errors.New("the binary was not made by this bench")
	}
	return b, nil
}

// prepare makes inputs and reference outputs of every shape and proves the
// tolerance.
func (h *bench) prepare(ctx context.Context) error {
	ref, err := h.buildReference(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, d := range h.problem.shapes() {
		h.problem.makeInputs(d)
		for v := range variants {
			g.Go(func() error {
				release, err := h.share(gctx)
				if err != nil {
					return err
				}
				defer release()
				d.expected[v], err = ref.outputs(gctx, d, d.inputs[v], v)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return h.problem.checkControls(func(d *shapeData, i, j int) ([]expected, error) {
		inputs := slices.Clone(d.inputs[0])
		inputs[i], inputs[j] = inputs[j], inputs[i]
		return ref.outputs(ctx, d, inputs, -1)
	})
}

// start starts a harness of a flavour with an object and loads it.
func (h *bench) start(ctx context.Context, f *flavour, object []byte, a *arena, env []string, threads int) (*process, error) {
	file, err := objectFile(object)
	if err != nil {
		return nil, err
	}
	defer discard(file)
	memory := h.options.MemoryLimit + int64(threads)*(64<<20)
	p, err := startProcess(ctx, h.launcher, runSpec{
		harness: h.harness[f.name], wrapper: f.wrapper, object: file, arena: a,
		env: append(slices.Clone(f.env), env...), scratch: h.scratch,
		sandbox: f.sandbox && h.sandbox, limits: f.limits, heap: f.heap, fixedMaps: f.fixedMaps,
		memory: memory, deadline: max(h.options.Timeout, 20*time.Second),
		cpu: time.Duration(math.Min(float64(h.options.Timeout)*float64(max(threads, 1))*20, float64(24*time.Hour))),
	})
	if err != nil {
		return nil, err
	}
	if _, err := p.ask(command{kind: commandLoad, junk: -1}, answerLoaded, h.options.Timeout); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// setShape tells the harness about a shape.
func (p *process) setShape(d *shapeData, base int) error {
	_, err := p.ask(command{
		kind: commandShape, dims: d.dims, scalars: d.scalars,
		buffers: d.layout.regions(base), stride: uint64(d.layout.stride), junk: -1,
	}, answerShaped, 10*time.Second)
	return err
}

// deadline bounds one launch at a shape: far above what the baseline takes.
func (h *bench) deadline(d *shapeData, launches int) time.Duration {
	limit := h.options.Timeout
	if t, ok := h.launchTime[d.shape.Name]; ok {
		limit = min(limit, max(5*time.Second, time.Duration(launches)*200*t))
	}
	return limit
}

// fault turns a candidate's failure into an outcome; other errors stay.
func fault(err error, evidence []evaluator.Evidence, check string) (evaluator.Outcome, error) {
	var f *failure
	if !errors.As(err, &f) {
		return evaluator.Outcome{Evidence: evidence}, err
	}
	detail := f.reason
	if text := strings.TrimSpace(f.log); text != "" {
		detail += "\n" + text
	}
	return evaluator.Outcome{
		Verdict: f.verdict, Reason: check + ": " + f.reason,
		Evidence: append(evidence, evaluator.Evidence{Check: check, Outcome: evaluator.Failed, Detail: detail}),
	}, nil
}
