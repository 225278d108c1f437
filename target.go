package evotune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// A Target is a job with its kernel loaded, for a Machine.
type Target struct {
	// Job is what a campaign records: name, backend, shapes, limits, hash and the
	// defaults of the backend are filled in.
	Job Job

	machine *Machine
	table   *tables.Table
	// definition is the kernel as the backend has it.
	definition *kernels.Definition
	chosen     []*kernels.Implementation
	left       *kernels.EmptyError // the implementations that fit left out; nil without any
	searched   *genome.Space       // of chosen, compiled once by fit; nil where that has not been or failed

	recorded string // the campaign that it was made from, or empty
	resumed  bool   // Run continues that campaign
	file     *judged

	// debug judges candidates in the debug flavor; pools are the contents to time
	// on, and empty draws new ones.
	debug bool
	pools []string
	// search says that many candidates will be evaluated.
	search bool
}

// Definition is the kernel as its backend has it; nil for a recorded table.
func (t *Target) Definition() *kernels.Definition { return t.definition }

// Target loads what a job names and fills in its defaults. The error is an
// ErrInput.
func (m *Machine) Target(job Job) (*Target, error) {
	t, err := m.target(job)
	if err != nil {
		return nil, badInput(err)
	}
	return t, nil
}

func (m *Machine) target(job Job) (*Target, error) {
	job, wrong, err := m.read(job)
	if err != nil {
		return nil, err
	}
	t := &Target{Job: job, machine: m}
	err = t.load()
	if fields := FieldErrors(err); len(wrong) > 0 && (err == nil || len(fields) > 0) {
		return nil, append(wrong, fields...).all()
	} else if len(wrong) > 0 && errors.Is(err, kernels.ErrUnknownKernel) {
		return nil, append(wrong, &FieldError{"kernel", err})
	} else if err != nil {
		return nil, err
	}
	if job.Hash != "" && job.Hash != t.Job.Hash {
		return nil, fmt.Errorf("the kernel %s is not the one that the job names (%.12s, here %.12s)", t.Job.Kernel, job.Hash, t.Job.Hash)
	}
	if t.table == nil {
		if err := t.complete(); err != nil {
			return nil, err
		}
	}
	t.fit()
	if job.Sweep {
		if err := t.sweep(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

var errChanged = errors.New("has changed")

// Recorded returns the target of a stored campaign, with the kernel as it is now. The
// error is an ErrInput. If the kernel has changed, Recorded returns the target as well,
// since it may still render what was measured. Run refuses this target:
// [Machine.Continue] returns one that continues the campaign.
func (m *Machine) Recorded(c store.Campaign) (*Target, error) {
	job, err := RecordedJob(c)
	if err != nil {
		return nil, err
	}
	t := &Target{Job: job, machine: m, recorded: c.ID}
	if len(m.Definitions) > 0 { // possibly given because these no longer exist, or are on another machine
		job.Definitions = slices.DeleteFunc(slices.Clone(job.Definitions), func(dir string) bool {
			_, err := os.Stat(dir)
			return errors.Is(err, fs.ErrNotExist)
		})
	}
	t.Job.Definitions = slices.Concat(job.Definitions, m.Definitions)
	if err := t.load(); err != nil {
		return nil, badInput(err)
	}
	t.fit()
	if job.Hash != "" && job.Hash != t.Job.Hash {
		return t, badInput(fmt.Errorf("the kernel %s %w since campaign %s was started (%.12s, now %.12s), so results before and after are not comparable: %s", job.Kernel, errChanged, c.ID, job.Hash, t.Job.Hash, anew(job)))
	}
	return t, nil
}

// anew says what to do where a campaign cannot go on since its kernel has changed.
func anew(job Job) string {
	switch {
	case job.Table != "":
		return "the table is another file now: `tune run` with it begins anew"
	case job.Sweep:
		return "`tune sweep` with the same words begins anew"
	case warmStart(Job{WarmStart: job.WarmStart, Sweep: job.Sweep, Strategy: job.Strategy, Backend: job.Backend}) < 1:
		return "`tune run` with the same words begins anew"
	}
	return "`tune run` with the same words begins anew, with its winners"
}

// load reads the kernel and determines name, hash, backend, shapes and implementations.
func (t *Target) load() error {
	switch t.Job.Backend {
	case Replay:
		table, err := tables.Load(t.Job.Table)
		if err != nil {
			return marked{err, ErrTable}
		}
		for _, n := range table.Notices() {
			slog.Warn(n, "file", t.Job.Table)
		}
		t.table = table
		t.Job.Kernel, t.Job.Hash, t.Job.Shapes = table.Name(), table.Hash(), []string{"recorded"}
		return nil
	case Auto:
	default:
		if !slices.Contains(backend.Names(), t.Job.Backend) {
			return unknownBackend(t.Job.Backend)
		}
	}
	var err error
	if t.definition, err = kernels.Find(t.Job.Kernel, t.Job.Definitions...); err != nil {
		return err
	}
	t.Job.Hash = t.definition.Hash
	var noGPU error
	if t.Job.Backend == Auto {
		// Look for a GPU only for kernels that run on one.
		for _, f := range slices.Backward(backend.All()) {
			if f.Accelerator && len(t.definition.On(f.Name).Implementations) == 0 {
				continue
			}
			t.Job.Backend = f.Name
			if !f.Accelerator {
				break
			}
			if noGPU = t.machine.Available(context.Background(), f.Name); noGPU == nil {
				break
			}
		}
	}
	t.definition = t.definition.On(t.Job.Backend)
	wrong, err := t.choose()
	if err != nil {
		if noGPU != nil && len(t.definition.Implementations) == 0 {
			return fmt.Errorf("%w, and no GPU can be used: %w", err, noGPU)
		}
		return err
	}
	if len(t.Job.Shapes) == 0 {
		t.Job.Shapes = []string{t.definition.Problem.ShapesFor(kernels.Tune)[0].Name}
	}
	t.Job.Shapes = slices.Clone(t.Job.Shapes)
	for i, n := range t.Job.Shapes {
		s, err := t.definition.Problem.Shape(n)
		if err != nil {
			wrong = append(wrong, &FieldError{"shape", fmt.Errorf("of kernel %s: %w", t.definition.Name, err)})
			continue
		}
		t.Job.Shapes[i] = s.Name // dimensions are written in one form
	}
	return wrong.all()
}

// choose determines which implementations are searched, and gives those that the job names and the
// kernel does not have.
func (t *Target) choose() (wrong wrongFields, err error) {
	var have []string
	wanted := map[string]bool{}
	for _, n := range t.Job.Implementations {
		wanted[n] = true
	}
	for _, im := range t.definition.Implementations {
		if im.Backend != t.Job.Backend {
			continue
		}
		have = append(have, im.Name)
		if len(t.Job.Implementations) == 0 || wanted[im.Name] {
			t.chosen = append(t.chosen, im)
			delete(wanted, im.Name)
		}
	}
	if len(have) == 0 {
		return nil, badField("backend", "%s: the kernel %s has no implementation for it", t.Job.Backend, t.definition.Name)
	}
	for _, n := range t.Job.Implementations {
		if wanted[n] {
			wrong = append(wrong, &FieldError{"implementation", fmt.Errorf("%q: the kernel %s has none of this name for the %s backend: it has %s", n, t.definition.Name, t.Job.Backend, strings.Join(have, ", "))})
		}
	}
	return wrong, nil
}

// complete fills in what the job leaves to the device: its limits, the window, and which
// implementations are searched: those that the device can run. If it can run none, they are
// all searched, and opening says why they cannot run.
func (t *Target) complete() (err error) {
	job := &t.Job
	if job.Limits == nil {
		if job.Limits, err = t.machine.limits(job.Backend); err != nil {
			return err
		}
	}
	if job.Window == 0 {
		job.Window = min(t.machine.count(job.Backend)*backend.Of(job.Backend).Window, MaxWindow)
	}
	device, known := job.Limits["device_capability"]
	if len(job.Implementations) > 0 || !known {
		return nil
	}
	able := slices.DeleteFunc(slices.Clone(t.chosen), func(im *kernels.Implementation) bool { return !im.RunsOn(device) })
	if len(able) == 0 || len(able) == len(t.chosen) {
		return nil
	}
	t.chosen = able
	for _, im := range able {
		job.Implementations = append(job.Implementations, im.Name)
	}
	return nil
}

// fit removes the implementations that cannot compute the tuned shapes from the search. It
// follows from what a campaign records, so that each target of its job has the same space.
// If none would remain, it keeps them all, and the error of Space names each.
func (t *Target) fit() {
	if t.searched = nil; t.table != nil {
		return // which keeps its space
	}
	space, err := t.space()
	if err == nil {
		t.searched = space
	}
	var empty *kernels.EmptyError
	if len(t.chosen) < 2 || !errors.As(err, &empty) || len(empty.Left) == len(t.chosen) {
		return
	}
	t.left = empty
	t.chosen = slices.DeleteFunc(slices.Clone(t.chosen), func(im *kernels.Implementation) bool { return slices.Contains(empty.Left, im) })
	t.searched, _ = t.space()
}

// largestSweep is how many genomes a space may have for a sweep to measure all of it.
const largestSweep = 1_000_000

// sweep refuses a space that is too large to measure all of it, and names the campaign.
func (t *Target) sweep() error {
	space, err := t.space()
	if err != nil {
		return err
	}
	if t.Job.Budget.Evaluations == 0 && space.Size() > largestSweep {
		return badField("sample", "is missing: the space of %s has %.4g genomes, too many to measure all", t.Job.Kernel, space.Size())
	}
	if t.Job.ID == "" {
		t.Job.ID = campaign.NewID(t.Job.Kernel + "-sweep")
	}
	return nil
}

// LeftOut says in one line each which implementations are not searched, since they cannot
// compute the tuned shapes, and why. A campaign warns with them.
func (t *Target) LeftOut() (lines []string) {
	if t.left == nil {
		return nil
	}
	for _, line := range t.left.Lines() {
		lines = append(lines, "an implementation is left out: "+line)
	}
	return lines
}

// On is the target on another Machine, for a job that Fix gave. A service looks at a job with one of
// its GPUs and runs it with another: the kernel is not read again.
func (t *Target) On(m *Machine, fixed Job) *Target {
	on := *t
	on.machine, on.Job = m, fixed
	return &on
}

// shapes looks the tuned shapes up.
func (t *Target) shapes() ([]kernels.Shape, error) {
	out := make([]kernels.Shape, len(t.Job.Shapes))
	for i, n := range t.Job.Shapes {
		s, err := t.definition.Problem.Shape(n)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", t.definition.Name, err)
		}
		out[i] = s
	}
	return out, nil
}

// dims gives the dimensions of a shape by its name; nil if it is not known.
func (t *Target) dims(shape string) map[string]int64 {
	if t.definition == nil {
		return nil
	}
	s, err := t.definition.Problem.Shape(shape)
	if err != nil {
		return nil
	}
	return s.Dims
}

// Space is what is searched. The error is an ErrInput.
func (t *Target) Space() (*genome.Space, error) {
	s, err := t.space()
	return s, badInput(err)
}

func (t *Target) space() (*genome.Space, error) {
	switch {
	case t.searched != nil:
		return t.searched, nil
	case t.table != nil:
		return t.table.Space()
	}
	shapes, err := t.shapes()
	if err != nil {
		return nil, err
	}
	return t.definition.Space(t.chosen, shapes, t.limits())
}

// Render fills the template of a genome, given in its canonical encoding. The error
// is an ErrInput, also for a recorded table, which has no sources.
func (t *Target) Render(encoding string) (kernels.Rendered, error) {
	r, err := t.render(encoding)
	return r, badInput(err)
}

func (t *Target) render(encoding string) (kernels.Rendered, error) {
	if t.definition == nil {
		return kernels.Rendered{}, errors.New("a recorded table has no sources")
	}
	space, err := t.space()
	if err != nil {
		return kernels.Rendered{}, fmt.Errorf("the kernel as it is now has no such space: %w", err)
	}
	g, err := space.Parse(encoding)
	if err != nil {
		return kernels.Rendered{}, fmt.Errorf("it is not a genome of the kernel as it is now: %w", err)
	}
	im := t.definition.Implementation(g, t.chosen)
	if im == nil {
		return kernels.Rendered{}, errors.New("the kernel as it is now has no implementation for it")
	}
	r, err := im.Render(g)
	if err != nil {
		return r, fmt.Errorf("the kernel as it is now does not render: %w", err)
	}
	return r, nil
}

// RenderBaseline returns the source that candidates were timed against, at the first of the
// job's shapes; was is what their campaign's description says about it. The error is an
// ErrInput: neither a recorded table nor a routine of a library has a source.
func (t *Target) RenderBaseline(was string) (kernels.Rendered, error) {
	if t.definition == nil {
		return kernels.Rendered{}, badInput(errors.New("a recorded table has no sources"))
	}
	shapes, err := t.shapes()
	if err != nil {
		return kernels.Rendered{}, badInput(err)
	}
	if b := t.chosen[0].Baseline(); b.Kind == kernels.BaselineLibrary && was != b.Instead() {
		return kernels.Rendered{}, badInput(fmt.Errorf("the baseline was %s, which has no source here", cmp.Or(was, b.String())))
	}
	r, err := t.chosen[0].RenderBaseline(shapes[0])
	return r, badInput(err)
}

// A Problem is a space, and the evaluator that judges its genomes.
type Problem = campaign.Problem

// Open builds harness and reference of the target and measures the device's peaks,
// which takes seconds: campaigns, verifications and judgments begin with it.
// The caller closes the Evaluator.
func (t *Target) Open(ctx context.Context) (Problem, error) {
	if t.table != nil {
		ev, err := replay.New(t.table, replay.Options{Latency: t.machine.ReplayLatency})
		if err != nil {
			return Problem{}, badInput(err)
		}
		return Problem{Space: ev.Space(), Evaluator: ev}, nil
	}
	space, err := t.Space()
	if err != nil {
		return Problem{}, err
	}
	backend, err := t.machine.backend(t.Job.Backend)
	if err != nil {
		return Problem{}, err
	}
	plan, err := t.plan()
	if err != nil {
		return Problem{}, err
	}
	ordeal, err := evaluator.Open(ctx, backend, plan)
	if b := t.chosen[0].Baseline(); errors.Is(err, evaluator.ErrBaseline) && b.Varies() && strings.HasPrefix(b.Library, "libcudnn") {
		err = fmt.Errorf("%w; with TUNE_CUDA_CUDNN=none the genome is the baseline", err)
	}
	if err != nil {
		return Problem{}, err
	}
	return Problem{Space: space, Evaluator: ordeal}, nil
}

// plan is what the job has judged.
func (t *Target) plan() (evaluator.Plan, error) {
	tune, err := t.shapes()
	if err != nil {
		return evaluator.Plan{}, err
	}
	plan := evaluator.Plan{
		Definition: t.definition, Implementations: t.chosen, Tune: tune, Seed: uint64(t.Job.SearchSeed()),
		Debug: t.debug, Pools: t.pools, Search: t.search, Contenders: t.Job.Sanitize == SanitizeContenders, Strict: t.Job.Strict,
	}
	plan.Sanitize, plan.SanitizeAlso = t.sanitized(tune)
	isTuned := map[string]bool{}
	for _, s := range tune {
		isTuned[s.Name] = true
	}
	for _, s := range t.definition.Problem.ShapesFor(kernels.Verify) {
		if !isTuned[s.Name] {
			plan.Verify = append(plan.Verify, s)
		}
	}
	return plan, nil
}

// sanitized returns the shapes for the sanitizers: the first that candidates for the
// tuned shapes can compute, and the others, for the finals.
func (t *Target) sanitized(tune []kernels.Shape) (s kernels.Shape, also []kernels.Shape) {
	small := t.definition.Problem.ShapesFor(kernels.Sanitize)
	first := 0
	if space, err := t.space(); err == nil && len(small) > 1 {
		first = max(0, slices.IndexFunc(small, func(s kernels.Shape) bool { return t.definition.Fits(space, t.chosen, tune, s, t.limits()) }))
	}
	return small[first], slices.Delete(slices.Clone(small), first, first+1)
}
