package main

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/campaign"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/build"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// sweepSettings are the settings of a run that mean something to a sweep.
var sweepSettings = []string{"backend", "seed", "workers", "shape", "implementation"}

// largestSweep is how many genomes a space may have to be measured whole.
const largestSweep = 1_000_000

// sweepKey marks the configuration of a campaign that is a sweep. Its value is
// "all" or "sample".
const sweepKey = "sweep"

// A sweep is what the command line asks for.
type sweep struct {
	sample int
	resume string
	out    string
	forms  []string
}

func (a *app) sweepCommand() *cobra.Command {
	var s sweep
	names := replay.FormNames()
	cmd := &cobra.Command{
		Use:   "sweep KERNEL",
		Short: "Measure a whole space, or a sample, and write it as tables",
		Long: `Measure a whole space, or a sample of it that is uniform and without repeats, and
write the results as tables for ` + "`tune run FILE --backend replay`" + ` and for other programs.

A sweep is a campaign: every candidate goes through the whole ordeal, nothing is
measured less for being slow, and all is kept in the store. One that was
interrupted goes on with "tune sweep --resume CAMPAIGN", which writes the tables
of a finished one, too.

With one format --out is the file; with several the names are made from it.
The formats: ` + strings.Join(names, ", ") + `. See docs/sweep.md.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate, exitInterrupted),
		Example: `  tune sweep rmsnorm --sample 100 --format t4 --format kerneltuner --out rmsnorm
  tune sweep softmax --out softmax.json
  tune sweep --resume softmax-sweep-1f2e3d4c --format t4`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (s.resume != "") {
				return badInputf("give a kernel, or --resume with the name of a sweep: see `tune sweep --help`")
			}
			if s.sample < 0 {
				return badInputf("--sample is %d, it must not be negative", s.sample)
			}
			for _, f := range s.forms {
				if !slices.Contains(names, f) {
					return badInputf("no format is called %q: there are %s", f, strings.Join(names, ", "))
				}
			}
			if s.resume != "" {
				return a.resumeSweep(cmd.Context(), s)
			}
			return a.newSweep(cmd.Context(), args[0], s)
		},
	}
	cmd.Flags().IntVar(&s.sample, "sample", 0, "measure `N` genomes, drawn uniformly (0: all of the space)")
	cmd.Flags().StringVar(&s.resume, "resume", "", "go on with the sweep that is called `CAMPAIGN`, or write its tables again")
	cmd.Flags().StringVar(&s.out, "out", "", "write to `FILE` (default: the name of the campaign)")
	cmd.Flags().StringArrayVar(&s.forms, "format", []string{"compact"}, "write in the format `NAME` (repeatable)")
	var settings []setting
	for _, r := range runSettings {
		if slices.Contains(sweepSettings, r.key) {
			settings = append(settings, r)
		}
	}
	addSettings(cmd.Flags(), settings)
	addSettings(cmd.Flags(), backendSettings)
	return cmd
}

func (a *app) newSweep(ctx context.Context, kernel string, s sweep) error {
	cfg, t, err := a.newCampaign(kernel)
	if err != nil {
		return badInput(err)
	}
	space, err := t.space()
	if err != nil {
		return badInput(err)
	}
	if s.sample == 0 && space.Size() > largestSweep {
		return badInputf("the space of %s has %.4g genomes, too many to measure all: measure some with --sample N", cfg.Kernel, space.Size())
	}
	var id [4]byte
	rand.Read(id[:]) // it never fails
	cfg.ID = cfg.Kernel + "-sweep-" + hex.EncodeToString(id[:])
	cfg.Strategy, cfg.Finalists = "random", -1
	cfg.Budget = campaign.Budget{Evaluations: s.sample}
	cfg.Extra[sweepKey] = "all"
	if s.sample > 0 {
		cfg.Extra[sweepKey] = "sample"
	}
	if err := cfg.Validate(); err != nil {
		return badInput(err)
	}
	return a.sweepAndWrite(ctx, cfg, t, "", s)
}

func (a *app) resumeSweep(ctx context.Context, s sweep) error {
	db, err := store.Open(a.v.GetString("store"), store.Options{MustExist: true})
	if err != nil {
		return storeError(err)
	}
	c, last, err := lastRun(db, s.resume)
	db.Close() //nolint:errcheck // nothing was written
	if err != nil {
		return badInput(err)
	}
	cfg, t, err := a.recordedCampaign(c)
	if err != nil {
		return badInput(err)
	}
	if last.Evaluations > 0 { // other budgets end a sweep early and leave its size alone
		cfg.Budget.Evaluations = last.Evaluations
	}
	switch whole := cfg.Extra[sweepKey] == "all"; {
	case cfg.Extra[sweepKey] == "":
		return badInputf("campaign %s is a search and no sweep: what it measured is no sample of the space", c.ID)
	case s.sample > 0 && whole:
		return badInputf("campaign %s measures the whole space: --sample cannot make that more", c.ID)
	case s.sample > 0 && s.sample < cfg.Budget.Evaluations:
		return badInputf("campaign %s measures %d genomes: --sample can only make that more", c.ID, cfg.Budget.Evaluations)
	case s.sample > 0:
		cfg.Budget.Evaluations = s.sample
	}
	if c.State == store.Finished && c.Evaluated >= cfg.Budget.Evaluations {
		return a.writeSweep(cfg, t, s)
	}
	return a.sweepAndWrite(ctx, cfg, t, c.ID, s)
}

// sweepAndWrite runs the campaign and writes the tables. They are written even
// if no candidate is valid: that is a result.
func (a *app) sweepAndWrite(ctx context.Context, cfg campaign.Config, t target, resumed string, s sweep) error {
	err := a.campaign(ctx, cfg, t, resumed)
	var exit *exitError
	if err != nil && (!errors.As(err, &exit) || exit.code != exitNoCandidate) {
		if exit != nil && exit.code == exitInterrupted && exit.err == nil && !a.v.GetBool("json") {
			fmt.Fprintf(a.out, "or, to have the tables written as well: tune sweep --resume %s\n", cfg.ID)
		}
		return err
	}
	if werr := a.writeSweep(cfg, t, s); werr != nil {
		return werr
	}
	return err
}

// thorough measures every candidate as if it could be the best: a benchmark that
// ends early since others are faster is no measurement of a space.
type thorough struct{ evaluator.Evaluator }

// Usage passes on what the evaluator tells.
func (t thorough) Usage() (evaluator.Usage, bool) { return evaluator.UsageOf(t.Evaluator) }

// Conditions passes on what the evaluator tells.
func (t thorough) Conditions(ctx context.Context) (evaluator.Conditions, bool) {
	return evaluator.ConditionsOf(ctx, t.Evaluator)
}

// Evaluate knows of no incumbent.
func (t thorough) Evaluate(ctx context.Context, g genome.Genome, _ float64) (evaluator.Result, error) {
	return t.Evaluator.Evaluate(ctx, g, 0)
}

// A writtenFile is one table that was written.
type writtenFile struct {
	Form string `json:"form"`
	Path string `json:"path"`
}

// A writtenEvent is the last line of a sweep with --json.
type writtenEvent struct {
	Event    string        `json:"event"`
	Campaign string        `json:"campaign"`
	Files    []writtenFile `json:"files"`
	// Recorded counts the configurations of the tables, Failed those of them
	// without a time, LeftOut the results for which the machine failed and not
	// the candidate.
	Recorded int `json:"recorded"`
	Failed   int `json:"failed"`
	LeftOut  int `json:"left_out"`
	// Unsaid lists constraints that the tables cannot hold.
	Unsaid []string `json:"unsaid,omitempty"`
}

// writeSweep writes what the store has of a sweep.
func (a *app) writeSweep(cfg campaign.Config, t target, s sweep) error {
	rec, unsaid, err := a.recording(cfg, t)
	if err != nil {
		return err
	}
	table, err := rec.Table()
	if err != nil {
		return err
	}
	done := writtenEvent{
		Event: "written", Campaign: cfg.ID, Unsaid: unsaid,
		Recorded: table.Len(), Failed: table.Failed(), LeftOut: len(rec.Trials) - table.Len(),
	}
	for _, f := range outputs(s, cfg.ID) {
		if err := writeWhole(f.Path, func(w io.Writer) error { return rec.Write(f.Form, w) }); err != nil {
			return err
		}
		done.Files = append(done.Files, f)
	}
	if a.v.GetBool("json") {
		line, err := json.Marshal(done)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s\n", line)
		return nil
	}
	fmt.Fprintf(a.out, "%d configurations measured, %d of them failed\n", done.Recorded, done.Failed)
	if done.LeftOut > 0 {
		fmt.Fprintf(a.out, "%d results are left out: the machine failed there, not the candidate\n", done.LeftOut)
	}
	for _, c := range unsaid {
		fmt.Fprintf(a.out, "not in the tables: %s\n", c)
	}
	for _, f := range done.Files {
		fmt.Fprintf(a.out, "wrote %s (%s)\n", f.Path, f.Form)
	}
	return nil
}

// outputs names the files. T4 tells nothing of the space, so T1 goes with it.
func outputs(s sweep, id string) []writtenFile {
	wanted := slices.Clone(s.forms)
	if slices.Contains(wanted, "t4") && !slices.Contains(wanted, "t1") {
		wanted = append(wanted, "t1")
	}
	base := s.out
	if base == "" {
		base = id
	}
	var out []writtenFile
	for _, f := range replay.Forms() {
		if !slices.Contains(wanted, f.Name) {
			continue
		}
		path := strings.TrimSuffix(base, ".json") + f.File
		if len(s.forms) == 1 && f.Name == s.forms[0] && s.out != "" {
			path = s.out
		}
		out = append(out, writtenFile{f.Name, path})
	}
	return out
}

// writeWhole writes a file beside its place first, so that what was there is
// replaced whole or not at all. A name that ends in .gz gets it gzipped.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	mode := os.FileMode(0o644)
	switch info, err := os.Stat(path); {
	case err != nil: // it is new, or cannot be written either
	case !info.Mode().IsRegular(): // such as /dev/null, which no file must take the place of
		return badInputf("%s is no regular file: name another", path)
	default:
		// A link stays a link.
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tune-*")
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		return fmt.Errorf("%s cannot be written: %w", path, pe.Err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if pe := (*os.PathError)(nil); errors.As(err, &pe) && pe.Path == tmp.Name() {
			err = fmt.Errorf("%s cannot be written: %w", path, pe.Err)
		}
		if err != nil {
			os.Remove(tmp.Name()) //nolint:errcheck // the first error is the one to tell
		}
	}()
	if strings.HasSuffix(path, ".gz") {
		z := gzip.NewWriter(tmp)
		if err = write(z); err == nil {
			err = z.Close()
		}
	} else {
		err = write(tmp)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err = os.Chmod(tmp.Name(), mode); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// recording reads a sweep back from the store.
func (a *app) recording(cfg campaign.Config, t target) (*replay.Recording, []string, error) {
	db, err := store.Open(a.v.GetString("store"), store.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, storeError(err)
	}
	defer db.Close() //nolint:errcheck // nothing is written
	space, err := t.space()
	if err != nil {
		return nil, nil, err
	}
	rec := &replay.Recording{
		Name: cfg.Kernel, Entry: cfg.Kernel, Shapes: cfg.Shapes, Version: build.This().Version, Space: space,
	}
	var unsaid []string
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
	for e, err := range db.Events(cfg.ID, 0) {
		if err != nil {
			return nil, nil, storeError(err)
		}
		switch {
		case e.Started != nil:
			rec.Device, rec.Backend, rec.Started = e.Started.Name, e.Started.Backend, e.Time
		case e.Asked != nil:
			genomes = append(genomes, e.Asked.Genome)
		case e.Result() != nil:
			t := e.Result()
			trial := replay.Trial{At: e.Time}
			if trial.Genome, err = space.Parse(genomes[t.Index]); err != nil {
				return nil, nil, fmt.Errorf("campaign %s: result %d: %w: run `tune check`", cfg.ID, t.Index, err)
			}
			if err := json.Unmarshal(t.Detail, &trial.Result); err != nil {
				return nil, nil, fmt.Errorf("campaign %s: result %d cannot be read: %w: run `tune check`", cfg.ID, t.Index, err)
			}
			if at, ok := trials[t.Index]; ok {
				rec.Trials[at] = trial // measured again
				break
			}
			trials[t.Index] = len(rec.Trials)
			rec.Trials = append(rec.Trials, trial)
		}
	}
	return rec, unsaid, nil
}

// declaration is the space as the kernel declares it.
func (t *target) declaration(space *genome.Space) (replay.Declaration, error) {
	var d replay.Declaration
	for _, im := range t.chosen {
		d.Alternatives = append(d.Alternatives, genome.Alternative{Name: im.Name, Genes: im.Parameters, Constraints: im.Constraints})
	}
	if len(t.chosen) > 1 {
		d.Choice = space.Genes()[0].Name
	}
	shapes, err := t.tuned()
	if err != nil {
		return d, err
	}
	for _, s := range shapes {
		env := map[string]any{}
		for _, l := range kernels.Limits() {
			env[l.Name] = l.Default
		}
		maps.Copy(env, t.limits)
		for name, n := range s.Dims {
			env[name] = n
		}
		d.Envs = append(d.Envs, env)
	}
	return d, nil
}

// specification describes the first implementation at the first tuned shape.
func (t *target) specification(d replay.Declaration) (*replay.Specification, []int64, error) {
	shapes, err := t.tuned()
	if err != nil {
		return nil, nil, err
	}
	shape, im, problem := shapes[0], t.chosen[0], &t.definition.Problem
	s := &replay.Specification{
		Language: "C", KernelName: im.Entry, KernelFile: im.Template,
		GlobalSize: replay.Extent{X: "1"}, LocalSize: replay.Extent{X: "1"},
	}
	for _, f := range im.Flags {
		if !strings.Contains(f, "{{") { // those that depend on the genome have no place in T1
			s.CompilerOptions = append(s.CompilerOptions, f)
		}
	}
	if im.Launch != nil {
		s.Language, s.GlobalSizeType = "CUDA", "CUDA"
		s.GlobalSize, s.LocalSize = extent(d, im.Launch.Grid), extent(d, im.Launch.Block)
	}
	var size []int64
	for _, name := range problem.Dims {
		n := float64(shape.Dims[name])
		size = append(size, shape.Dims[name])
		s.Arguments = append(s.Arguments, replay.T1Argument{Name: name, Type: "int64", MemoryType: "Scalar", FillType: "Constant", FillValue: &n})
	}
	s.ProblemSize = size
	for _, b := range problem.Buffers {
		arg := replay.T1Argument{Name: b.Name, MemoryType: "Vector", FillType: "Random"}
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
		arg := replay.T1Argument{Name: sc.Name, MemoryType: "Scalar", FillType: "Constant", FillValue: &scalars[i]}
		arg.Type, arg.TypeSize = t1Type(sc.DType)
		s.Arguments = append(s.Arguments, arg)
	}
	return s, size, nil
}

// extent writes a launch geometry in Python. What cannot be said there is left
// as kernel.toml has it.
func extent(d replay.Declaration, axes []string) replay.Extent {
	out := []string{"1", "", ""}
	for i, src := range axes {
		text, err := d.Python(src)
		if err != nil {
			text = src
		}
		out[i] = text
	}
	return replay.Extent{X: out[0], Y: out[1], Z: out[2]}
}

// t1Type names a type as T1 does, and gives the size of one that it does not
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
	case kernels.I8:
		return "int8", 0
	case kernels.U8:
		return "uint8", 0
	}
	return "custom", d.Size()
}
