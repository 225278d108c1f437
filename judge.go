package evotune

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// A judged is a file to judge.
type judged struct {
	path, against string
	im            *kernels.Implementation
}

// A Judgment is the result for one finished kernel.
type Judgment struct {
	File    string   `json:"file"`
	Kernel  string   `json:"kernel"`
	Entry   string   `json:"entry"`
	Flags   []string `json:"flags"`
	Threads int      `json:"threads"`
	Against string   `json:"against,omitempty"`
	// Verdict is that of the finals if they were reached, else the result's.
	Verdict evaluator.Verdict `json:"verdict"`
	Stage   evaluator.Stage   `json:"stage"`
	Reason  string            `json:"reason,omitempty"`
	// The figures are those of the finals: geometric means over the shapes.
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
// It uses the job's Kernel, Definitions, Shapes and Seed. An ErrInput
// says that there is nothing to judge.
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
	backend := map[string]string{".c": CPU, ".cu": CUDA}[filepath.Ext(file.Path)]
	switch {
	case job.Kernel == "":
		return nil, errors.New("the kernel whose problem the file solves is missing")
	case backend == "":
		return nil, fmt.Errorf("%s: a kernel is a .c file, for the CPU, or a .cu file, for a GPU", file.Path)
	case against != "" && filepath.Ext(against) != filepath.Ext(file.Path):
		return nil, badField("against", "%s: it must be a %s file as %s is", against, filepath.Ext(file.Path), file.Path)
	}
	t, err := m.target(Job{Kernel: job.Kernel, Definitions: job.Definitions, Shapes: job.Shapes, Seed: job.Seed, Backend: backend})
	if err != nil {
		return nil, err
	}
	var baseline *kernels.Implementation
	if against != "" {
		other := file
		other.Path, other.Default = against, true
		if baseline, err = t.definition.FromFile(backend, other, nil); err != nil {
			return nil, err
		}
	}
	im, err := t.definition.FromFile(backend, file, baseline)
	if err != nil {
		return nil, err
	}
	t.definition, t.chosen = im.Definition(), []*kernels.Implementation{im}
	t.file = &judged{file.Path, against, im}
	shapes, err := t.shapes()
	if err != nil {
		return nil, err
	}
	for _, s := range shapes {
		for _, each := range []*kernels.Implementation{im, baseline} {
			if each == nil {
				continue
			}
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
		if t.file.against != "" && errors.Is(err, evaluator.ErrBaseline) {
			err = badField("against", "%s: %w", t.file.against, err)
		}
		return Judgment{}, err
	}
	defer p.Evaluator.Close() //nolint:errcheck // nothing is kept
	im := t.file.im
	g, err := p.Space.FromMap(map[string]any{kernels.FileGene: im.Template})
	if err != nil {
		return Judgment{}, err
	}
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
	f, err := p.Evaluator.Finals(ctx, []genome.Genome{g})
	if err != nil {
		return j, err
	}
	j.Finals = &f
	e := f.Entries[0]
	j.Verdict, j.Reason = e.Verdict, e.Reason
	switch {
	case f.VsBaseline != nil:
		j.Times = evaluator.MedianTimes(e.Timings)
		j.Speedup, j.Significant = 1/e.Fitness, f.VsBaseline.Significant
	case e.Verdict == evaluator.Correct:
		return j, errors.New("the finals gave no time")
	case e.Verdict == evaluator.Infrastructure:
		j.Disturbed = e.Reason
	}
	return j, nil
}
