package evotune

import (
	"fmt"
	"maps"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// sweepStrategy draws genomes uniformly and without repeats.
const sweepStrategy = "random"

// ContinueSweep is Continue for a sweep. A sample above zero makes it a sweep of that
// many genomes. Done says that all of them are measured, so that there is nothing to
// run.
func (m *Machine) ContinueSweep(s *store.Store, id string, sample int) (t *Target, done bool, err error) {
	c, last, err := lastRun(s, id)
	if err != nil {
		return nil, false, err
	}
	if t, err = m.Recorded(c); err != nil {
		return nil, false, err
	}
	t.resumed = true
	whole := t.Job.Budget.Evaluations == 0
	if last.Evaluations > 0 { // other budgets end a sweep early and leave its size alone
		t.Job.Budget.Evaluations = last.Evaluations
	}
	switch {
	case !t.Job.Sweep:
		return nil, false, badInput(fmt.Errorf("campaign %s is a search, not a sweep: what it measured is not a sample of the space", c.ID))
	case sample > 0 && whole:
		return nil, false, badField("sample", "%d: campaign %s measures the whole space, there is no more", sample, c.ID)
	case sample > 0 && sample < t.Job.Budget.Evaluations:
		return nil, false, badField("sample", "%d: campaign %s measures %d genomes already, give more", sample, c.ID, t.Job.Budget.Evaluations)
	case sample > 0:
		t.Job.Budget.Evaluations = sample
	}
	if done = c.State == store.Finished && c.Evaluated >= t.Job.Budget.Evaluations; !done {
		err = notArchived(s, c)
	}
	return t, done, err
}

// A Recording is a sweep's space with its measurements. Its method Write writes it in
// one of the formats of docs/tables.md.
type Recording = tables.Recording

// Recording returns what a store holds of a target's sweep, to be written as tables.
// Unsaid lists the constraints that tables cannot express. By names the writer.
func (t *Target) Recording(s *store.Store, by string) (rec *Recording, unsaid []string, err error) {
	space, err := t.space()
	if err != nil {
		return nil, nil, err
	}
	rec = &Recording{Name: t.Job.Kernel, Entry: t.Job.Kernel, Shapes: t.Job.Shapes, Version: by, Space: space}
	if t.table != nil {
		rec.Rules = t.table.Constraints()
	} else {
		d, err := t.declaration(space)
		if err != nil {
			return nil, nil, err
		}
		rec.Rules, unsaid = d.Rules(space)
		if rec.Specification, rec.Size, err = t.specification(d); err != nil {
			return nil, nil, err
		}
		rec.Entry = rec.Specification.KernelName
	}
	var genomes []string
	trials := map[int]int{} // by index of the proposal
	for e, err := range s.Events(t.Job.ID, 0) {
		if err != nil {
			return nil, nil, err
		}
		switch {
		case e.Started != nil:
			rec.Device, rec.Backend, rec.Started = e.Started.Name, e.Started.Backend, e.Time
		case e.Asked != nil:
			genomes = append(genomes, e.Asked.Genome)
		case e.Result() != nil:
			told := e.Result()
			if told.Index >= len(genomes) {
				return nil, nil, fmt.Errorf("campaign %s: event %d: result %d has no proposal of its own: run `tune check`", t.Job.ID, e.Seq, told.Index)
			}
			trial := tables.Trial{At: e.Time}
			if trial.Genome, err = space.Parse(genomes[told.Index]); err != nil {
				return nil, nil, fmt.Errorf("campaign %s: result %d: %w: run `tune check`", t.Job.ID, told.Index, err)
			}
			if trial.Result, err = record.ReadResult(told); err != nil {
				return nil, nil, err
			}
			if at, ok := trials[told.Index]; ok {
				rec.Trials[at] = trial // measured again
				break
			}
			trials[told.Index] = len(rec.Trials)
			rec.Trials = append(rec.Trials, trial)
		}
	}
	return rec, unsaid, nil
}

// declaration is the space as the kernel declares it.
func (t *Target) declaration(space *genome.Space) (tables.Declaration, error) {
	var d tables.Declaration
	for _, im := range t.chosen {
		d.Alternatives = append(d.Alternatives, genome.Alternative{Name: im.Name, Genes: im.Parameters, Constraints: im.Constraints})
	}
	if len(t.chosen) > 1 {
		d.Choice = space.Genes()[0].Name
	}
	shapes, err := t.shapes()
	if err != nil {
		return d, err
	}
	for _, s := range shapes {
		env := map[string]any{}
		for _, l := range kernels.Limits() {
			env[l.Name] = l.Default
		}
		maps.Copy(env, t.limits())
		for name, n := range s.Dims {
			env[name] = n
		}
		d.Envs = append(d.Envs, env)
	}
	return d, nil
}

// specification describes the first implementation at the first tuned shape.
func (t *Target) specification(d tables.Declaration) (*tables.Specification, []int64, error) {
	shapes, err := t.shapes()
	if err != nil {
		return nil, nil, err
	}
	shape, im, problem := shapes[0], t.chosen[0], &t.definition.Problem
	s := &tables.Specification{
		Language: backend.Of(im.Backend).Language, KernelName: im.Entry, KernelFile: im.Template,
		GlobalSize: tables.Extent{X: "1"}, LocalSize: tables.Extent{X: "1"},
	}
	for _, f := range im.Flags {
		if !strings.Contains(f, "{{") { // T1 cannot express flags that depend on the genome
			s.CompilerOptions = append(s.CompilerOptions, f)
		}
	}
	if im.Launch != nil {
		s.GlobalSizeType = s.Language
		s.GlobalSize, s.LocalSize = extent(d, im.Launch.Grid), extent(d, im.Launch.Block)
	}
	var size []int64
	for _, name := range problem.Dims {
		n := float64(shape.Dims[name])
		size = append(size, shape.Dims[name])
		s.Arguments = append(s.Arguments, tables.T1Argument{Name: name, Type: "int64", MemoryType: "Scalar", FillType: "Constant", FillValue: &n})
	}
	s.ProblemSize = size
	for _, b := range problem.Buffers {
		arg := tables.T1Argument{Name: b.Name, MemoryType: "Vector", FillType: "Random"}
		arg.Type, arg.TypeSize = t1Type(b.DType)
		if arg.Size, err = problem.Elements(b, shape); err != nil {
			return nil, nil, err
		}
		switch b.Role {
		case kernels.In:
			arg.AccessType = "ReadOnly"
		case kernels.Out:
			arg.AccessType, arg.FillType = "WriteOnly", ""
		default:
			arg.AccessType = "ReadWrite"
		}
		if b.Data.Distribution == kernels.Constant {
			arg.FillType, arg.FillValue = "Constant", &b.Data.A
		}
		s.Arguments = append(s.Arguments, arg)
	}
	scalars, err := problem.ScalarValues(shape)
	if err != nil {
		return nil, nil, err
	}
	for i, sc := range problem.Scalars {
		arg := tables.T1Argument{Name: sc.Name, MemoryType: "Scalar", FillType: "Constant", FillValue: &scalars[i]}
		arg.Type, arg.TypeSize = t1Type(sc.DType)
		s.Arguments = append(s.Arguments, arg)
	}
	return s, size, nil
}

// extent writes a launch geometry in Python. What Python cannot express stays as in
// kernel.toml.
func extent(d tables.Declaration, axes []string) tables.Extent {
	out := []string{"1", "", ""}
	for i, src := range axes {
		text, err := d.Python(src)
		if err != nil {
			text = src
		}
		out[i] = text
	}
	return tables.Extent{X: out[0], Y: out[1], Z: out[2]}
}

// t1Type returns T1's name of a type, and the size of a type that T1 does not
// have.
func t1Type(d kernels.DType) (name string, size int64) {
	switch d {
	case kernels.F64:
		return "double", 0
	case kernels.F32:
		return "float", 0
	case kernels.F16:
		return "half", 0
	case kernels.I64:
		return "int64", 0
	case kernels.I32:
		return "int32", 0
	case kernels.I16:
		return "int16", 0
	case kernels.I8:
		return "int8", 0
	case kernels.U32:
		return "uint32", 0
	case kernels.U16:
		return "uint16", 0
	case kernels.U8:
		return "uint8", 0
	}
	return "custom", d.Size()
}
