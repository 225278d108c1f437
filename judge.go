package evotune

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/kernels"
)

// A judged is a file to judge, and the one that it is timed against, if there is one.
type judged struct {
	path, against string
	im, other     *kernels.Implementation
}

// A Judgment is the result for one finished kernel.
type Judgment struct {
	File    string   `json:"file"`
	Kernel  string   `json:"kernel"`
	Entry   string   `json:"entry"`
	Flags   []string `json:"flags"`
	Threads int      `json:"threads"`
	// Against is the file that it is timed against; empty for the kernel's baseline.
	Against string `json:"against,omitempty"`
	// Verdict is that of the finals if they were reached, else the result's.
	Verdict evaluator.Verdict `json:"verdict"`
	Stage   evaluator.Stage   `json:"stage"`
	Reason  string            `json:"reason,omitempty"`
	// The figures are those of the finals: geometric means over the shapes. BaselineNS is
	// the time of the file of Against, if there is one.
	evaluator.Times
	Speedup     float64               `json:"speedup,omitempty"`
	Significant bool                  `json:"significant"`
	Description evaluator.Description `json:"description"`
	Result      evaluator.Result      `json:"result"`
	Finals      *evaluator.Finals     `json:"finals,omitempty"`

	// Disturbed says what kept the machine from measuring; empty when nothing did.
	Disturbed string `json:"-"`
	// Implementation is the file as an implementation of the kernel, Sanitized the
	// shape that the sanitizers ran at, and SanitizedAlso the further ones in the
	// finals.
	Implementation *kernels.Implementation `json:"-"`
	Sanitized      string                  `json:"-"`
	SanitizedAlso  []string                `json:"-"`
}

// Judge judges one finished kernel, in C (.c) or CUDA (.cu), without a search and
// without a store: it compiles it, inspects it, compares it with the reference of the
// job's Kernel at its Shapes, runs the sanitizers, and times it in fresh processes
// against the kernel's baseline or, if it is not empty, against the file of that name.
// That file gives times alone: the kernel's own reference and baseline decide what is
// right, and the file has to pass every stage as well. Judge uses the job's Kernel,
// Definitions, Shapes, Seed and Strict. An ErrInput says that there is nothing to judge, or
// nothing to time it against.
func (m *Machine) Judge(ctx context.Context, job Job, file kernels.File, against string) (Judgment, error) {
	t, err := m.FileTarget(job, file, against)
	if err != nil {
		return Judgment{}, err
	}
	return t.Judge(ctx, nil)
}

// FileTarget returns the target of a finished kernel, for Judge.
func (m *Machine) FileTarget(job Job, file kernels.File, against string) (*Target, error) {
	t, err := m.fileTarget(job, file, against)
	if err != nil {
		return nil, badInput(err)
	}
	return t, nil
}

func (m *Machine) fileTarget(job Job, file kernels.File, against string) (*Target, error) {
	on := backend.OfSource(filepath.Ext(file.Path))
	switch {
	case job.Kernel == "":
		return nil, errors.New("the kernel whose problem the file solves is missing")
	case on == nil:
		var known []string
		for _, f := range backend.All() {
			known = append(known, fmt.Sprintf("a %s file, for %s", f.Source, f.Device))
		}
		return nil, fmt.Errorf("%s: a kernel is %s", file.Path, strings.Join(known, ", or "))
	case against != "" && filepath.Ext(against) != filepath.Ext(file.Path):
		return nil, badField("against", "%s: it must be a %s file as %s is", against, filepath.Ext(file.Path), file.Path)
	}
	t, err := m.target(Job{Kernel: job.Kernel, Definitions: job.Definitions, Shapes: job.Shapes, Seed: job.Seed, Strict: job.Strict, Backend: on.Name})
	if err != nil {
		return nil, err
	}
	var other *kernels.Implementation
	if against != "" {
		f := file
		f.Path, f.Default = against, true
		if other, err = t.definition.FromFile(on.Name, f, nil); err != nil {
			return nil, err
		}
	}
	im, err := t.definition.FromFile(on.Name, file, other)
	if err != nil {
		return nil, err
	}
	t.definition, t.chosen, t.searched = im.Definition(), []*kernels.Implementation{im}, nil
	if other != nil {
		other = t.definition.Implementations[1]
		t.chosen = append(t.chosen, other)
	}
	t.file = &judged{file.Path, against, im, other}
	shapes, err := t.shapes()
	if err != nil {
		return nil, err
	}
	for _, s := range shapes {
		for _, each := range t.chosen {
			if err := each.Supports(genome.Genome{}, s, t.limits()); err != nil {
				return nil, fmt.Errorf("%s: %w", each.Template, err)
			}
		}
	}
	return t, nil
}

// File is the file of a FileTarget, as an implementation of the kernel; nil for other
// targets.
func (t *Target) File() *kernels.Implementation {
	if t.file == nil {
		return nil
	}
	return t.file.im
}

// Judge judges the file of a FileTarget. It calls ready, when not nil, once reference
// and baseline are built and the judging begins.
func (t *Target) Judge(ctx context.Context, ready func()) (Judgment, error) {
	if t.file == nil {
		return Judgment{}, badInput(errors.New("the target is not that of a file"))
	}
	p, err := t.Open(ctx)
	if err != nil {
		return Judgment{}, err
	}
	defer p.Evaluator.Close() //nolint:errcheck // nothing is kept
	im := t.file.im
	finalists := make([]genome.Genome, len(t.chosen))
	for i, each := range t.chosen {
		genes := map[string]any{kernels.FileGene: each.Template}
		if len(t.chosen) > 1 {
			genes[kernels.ImplementationGene] = each.Name
		}
		if finalists[i], err = p.Space.FromMap(genes); err != nil {
			return Judgment{}, err
		}
	}
	g := finalists[0]
	src, err := im.Render(g)
	if err != nil {
		return Judgment{}, err
	}
	shapes, err := t.shapes()
	if err != nil {
		return Judgment{}, err
	}
	first, also := t.sanitized(shapes)
	j := Judgment{
		File: t.file.path, Kernel: t.definition.Name, Entry: im.Entry, Flags: append([]string{}, src.Flags...), Threads: src.Threads,
		Against: t.file.against, Description: p.Evaluator.Describe(), Implementation: im, Sanitized: first.Name,
	}
	for _, s := range also {
		if im.Supports(g, s, t.limits()) == nil {
			j.SanitizedAlso = append(j.SanitizedAlso, s.Name)
		}
	}
	unfit := func(v evaluator.Verdict, stage evaluator.Stage, reason string) error {
		return badField("against", "%s: it is not correct itself: %s at %s: %s", t.file.against, v, stage, reason)
	}
	if t.file.other != nil {
		r, err := p.Evaluator.Evaluate(ctx, finalists[1], 0)
		switch {
		case err != nil:
			return j, err
		case r.Verdict == evaluator.Infrastructure:
			return j, fmt.Errorf("%s could not be judged: %s", t.file.against, r.Reason)
		case r.Verdict != evaluator.Correct:
			return j, unfit(r.Verdict, r.Stage, r.Reason)
		}
	}
	if ready != nil {
		ready()
	}
	if j.Result, err = p.Evaluator.Evaluate(ctx, g, 0); err != nil {
		return j, err
	}
	j.Verdict, j.Stage, j.Reason, j.Disturbed = j.Result.Verdict, j.Result.Stage, j.Result.Reason, j.Result.Disturbed
	if j.Verdict != evaluator.Correct {
		return j, nil
	}
	f, err := p.Evaluator.Finals(ctx, finalists)
	if err != nil {
		return j, err
	}
	j.Finals = &f
	e := f.Entries[0]
	j.Verdict, j.Reason = e.Verdict, e.Reason
	if e.Verdict == evaluator.Infrastructure {
		j.Disturbed = e.Reason
	}
	if e.Verdict != evaluator.Correct {
		return j, nil
	}
	if t.file.other != nil {
		switch o := f.Entries[1]; o.Verdict {
		case evaluator.Correct:
		case evaluator.Infrastructure:
			j.Verdict, j.Reason = o.Verdict, t.file.against+": "+o.Reason
			j.Disturbed = j.Reason
			return j, nil
		default:
			return j, unfit(o.Verdict, evaluator.StageFinals, o.Reason)
		}
	}
	vs := j.Versus()
	if vs == nil {
		return j, errors.New("the finals gave no time")
	}
	tuned, _ := j.Timings()
	j.Times = evaluator.MedianTimes(tuned)
	j.Speedup, j.Significant = 1/vs.Ratio, vs.Significant
	return j, nil
}

// Versus tests the file's times of the finals against those of the kernel's baseline or,
// if there is one, of the file of Against, in the same rounds. It is nil when one of them
// has no time.
func (j Judgment) Versus() *evaluator.Comparison {
	f := j.Finals
	switch {
	case f == nil || f.Entries[0].Verdict != evaluator.Correct:
		return nil
	case j.Against == "":
		return f.VsBaseline
	case f.VsRunnerUp == nil:
		return nil
	}
	vs := *f.VsRunnerUp
	if f.Winner != 0 { // it is the other's test
		vs.N1, vs.N2 = vs.N2, vs.N1
	}
	vs.Ratio = f.Entries[0].Fitness / f.Entries[1].Fitness
	return &vs
}

// Timings are the file's timings of the finals, at the shapes that were asked for and at
// others. With Against, BaselineMedianNS and Ratio are relative to that file, and only
// shapes where both were timed are listed.
func (j Judgment) Timings() (tuned, heldOut []evaluator.Timing) {
	if j.Finals == nil {
		return nil, nil
	}
	e := j.Finals.Entries[0]
	if j.Against == "" {
		return e.Timings, e.HeldOut
	}
	other := j.Finals.Entries[1]
	relative := func(list, others []evaluator.Timing) (out []evaluator.Timing) {
		for _, t := range list {
			i := slices.IndexFunc(others, func(o evaluator.Timing) bool { return o.Shape == t.Shape })
			if i >= 0 {
				t.BaselineMedianNS, t.Ratio = others[i].MedianNS, t.Ratio/others[i].Ratio
				out = append(out, t)
			}
		}
		return out
	}
	return relative(e.Timings, other.Timings), relative(e.HeldOut, other.HeldOut)
}
