package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
)

func (a *app) kernelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "List the kernels; show, make and check them",
		Long: `List the built-in kernels and those of --kernels. A kernel is a folder with a
kernel.toml and its templates; docs/kernels.md says how to write one.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.listKernels() },
	}
	cmd.AddCommand(a.kernelsShowCommand(), a.kernelsNewCommand(), a.kernelsLintCommand(), a.kernelsSignatureCommand())
	return cmd
}

func (a *app) listKernels() error {
	cat, err := kernels.Open(a.Kernels...)
	if err != nil {
		return badInput(err)
	}
	type row struct {
		Name            string   `json:"name"`
		Description     string   `json:"description"`
		Dir             string   `json:"dir"`
		Overrides       string   `json:"overrides,omitempty"`
		Implementations []string `json:"implementations"`
		Shapes          []string `json:"shapes"`
	}
	rows := []row{}
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			return badInput(err)
		}
		r := row{Name: d.Name, Description: d.Description, Dir: d.Dir, Overrides: d.Overrides}
		for _, im := range d.Implementations {
			r.Implementations = append(r.Implementations, im.Name+" ("+im.Backend+")")
		}
		for _, im := range d.Implementations {
			for _, s := range im.Problem().ShapesFor(kernels.Tune) {
				if !slices.Contains(r.Shapes, s.Name) {
					r.Shapes = append(r.Shapes, s.Name)
				}
			}
		}
		rows = append(rows, r)
	}
	if a.JSON {
		return a.printJSON(rows)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KERNEL\tIMPLEMENTATIONS\tSHAPES TUNED FOR\tDESCRIPTION")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, strings.Join(r.Implementations, ", "), strings.Join(r.Shapes, ", "), r.Description)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Overrides != "" {
			fmt.Fprintf(a.out, "%s of %s replaces the one of %s\n", r.Name, r.Dir, r.Overrides)
		}
	}
	for _, err := range cat.Errors() {
		fmt.Fprintf(a.err, "tune: %s\n", words.OneLine(err.Error()))
	}
	return nil
}

func (a *app) kernelsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show KERNEL",
		Short: "Show a kernel's problem, implementations and parameters",
		Long:  "Show a kernel's problem, implementations and parameters.\n" + exitHelp(exitOK, exitFailure, exitBadInput),
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cat, err := kernels.Open(a.Kernels...)
			if err != nil {
				return badInput(err)
			}
			d, err := cat.Get(args[0])
			if err != nil {
				return badInput(err)
			}
			return a.showKernel(d)
		},
	}
}

func (a *app) showKernel(d *kernels.Definition) error {
	if a.JSON {
		return a.printJSON(d)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "kernel\t%s (%s, %.12s)\n\t%s\n", d.Name, d.Dir, d.Hash, d.Description)
	for _, backend := range kernels.Backends() {
		if on := d.On(backend); len(on.Implementations) > 0 {
			if err := showOn(w, on, backend); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// showOn shows the part of a kernel that one backend has.
func showOn(w io.Writer, d *kernels.Definition, backend string) error {
	fmt.Fprintf(w, "on\t%s\n", backend)
	p := &d.Problem
	for _, s := range p.Shapes {
		ops, err := p.Operations(s)
		if err != nil {
			return badInput(err)
		}
		bytes, err := p.Bytes(s)
		if err != nil {
			return badInput(err)
		}
		fmt.Fprintf(w, "shape\t%s\t%s\t%s\t%.4g operations, %.4g bytes\n", s.Name, s.Use, formatDims(p.Dims, s.Dims), ops, bytes)
	}
	for _, b := range p.Buffers {
		fmt.Fprintf(w, "buffer\t%s\t%s\t%s\t%v\n", b.Name, b.Role, b.DType, b.Shape)
	}
	r := p.Reference
	if line := r.Function(r.Entry); r.Python && line > 0 {
		fmt.Fprintf(w, "reference\t%s:%d\t%s\n", r.File, line, r.Entry)
	} else {
		fmt.Fprintf(w, "reference\t%s\t%s\n", r.File, r.Entry)
	}
	fmt.Fprintf(w, "prototype\t%s\n", d.Implementations[0].Prototype())
	for _, im := range d.Implementations {
		shapes := p.ShapesFor(kernels.Tune)
		space, err := d.Space([]*kernels.Implementation{im}, shapes[:1], nil)
		if err != nil {
			return badInput(err)
		}
		about := ""
		if !space.Exact() {
			about = "about "
		}
		fmt.Fprintf(w, "implementation\t%s\t%s\t%s\t%s%s valid genomes at %s\n", im.Name, im.Backend, im.Target, about, count(space.Size()), shapes[0].Name)
		for _, g := range space.Genes() {
			vals := make([]string, len(g.Values))
			for i, v := range g.Values {
				vals[i] = v.String()
			}
			when := ""
			if g.When != "" {
				when = "when " + g.When
			}
			fmt.Fprintf(w, "  gene\t%s\t%s\t%s\n", g.Name, strings.Join(vals, " "), when)
		}
	}
	return nil
}

func (a *app) kernelsNewCommand() *cobra.Command {
	on := evotune.CPU
	var from, entry, with string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a folder with a small kernel, or with one of yours",
		Long: `Write the folder NAME (or PATH/NAME) with a small kernel that runs at once: change it
into yours step by step. It is in C, or with --cuda in CUDA. An existing folder is
left alone.

--from FILE makes the folder from a kernel that you have, in C or (FILE.cu) in CUDA.
Comments in it say what to tune:

  #define TILE 32            // tune: 16, 32, 64
  constexpr int UNROLL = 4;  // tune: 1, 2, 4
  template <int BM /* tune: 64, 128 */, int BN>   // tune: BN = 32, 64

The value in the source is the baseline; for a template parameter that is its default,
else its first value. A template parameter with one value is fixed.

Integer arguments become dimensions, const pointers inputs, other pointers outputs,
floating-point numbers scalars. The command prints what it took from the source, what
it assumed, and line by line what is left to fill in; "tune kernels lint" fails at
those lines until they are filled in. docs/kernels.md#from-a-source walks through an example.

--with JSON says what the source does not: the folder is then complete. The Python
package makes its folders this way (docs/python.md); "go doc ./internal/draft.Given" lists the keys.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: "  tune kernels new my-kernel\n  tune kernels new my-kernel --cuda\n  tune kernels new matmul --from src/matmul.cu --entry matmul_tiled",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := filepath.Clean(args[0])
			name := filepath.Base(dir)
			switch {
			case backend.Of(on).Accelerator && from != "":
				return badInputf("--%s and --from cannot be combined: the name of FILE says whether it is %s", on, backend.Of(on).Language)
			case entry != "" && from == "":
				return badInputf("--entry names a function of FILE: add --from FILE")
			case with != "" && from == "":
				return badInputf("--with says what the source of --from does not: add --from FILE")
			}
			if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
				return badInput(err)
			}
			if from != "" {
				made, err := draftFrom(dir, name, from, entry, with)
				if err != nil {
					return badInput(err)
				}
				return a.printDraft(dir, made)
			}
			if err := draft.New(dir, name, on); err != nil {
				return badInput(err)
			}
			fmt.Fprintf(a.out, "made %s: try `tune kernels lint %s`, then `tune run %s --kernels %s --time 30s`\n", dir, dir, name, dir)
			return nil
		},
	}
	for _, f := range backend.All() {
		if f.Accelerator {
			cmd.Flags().BoolFunc(f.Name, fmt.Sprintf("write a kernel in %s instead of C", f.Language), func(text string) error {
				yes, err := strconv.ParseBool(text)
				if yes {
					on = f.Name
				}
				return err
			})
		}
	}
	cmd.Flags().StringVar(&from, "from", "", "make the folder from the kernel in `FILE` (.c or .cu)")
	cmd.Flags().StringVar(&entry, "entry", "", "with --from: the `FUNCTION` to tune, where FILE has several")
	cmd.Flags().StringVar(&with, "with", "", "with --from: the file `JSON` says what the source does not")
	return cmd
}

func (a *app) kernelsSignatureCommand() *cobra.Command {
	var entry string
	cmd := &cobra.Command{
		Use:   "signature FILE",
		Short: "Show the arguments of the kernel in a C or CUDA file",
		Long:  "Show the arguments of the kernel in a file in C or (FILE.cu) in CUDA.\n" + exitHelp(exitOK, exitFailure, exitBadInput),
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := draft.ReadSignature(args[0], entry)
			if err != nil {
				return badInput(err)
			}
			if a.JSON {
				return a.printJSON(s)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "%s:%d: %s\n", args[0], s.Line, s.Entry)
			for _, arg := range s.Arguments {
				what := arg.Type
				if arg.Pointer {
					what = "pointer to " + what
				}
				fmt.Fprintf(w, "  %s\t%s\n", arg.Name, what)
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringVar(&entry, "entry", "", "the `FUNCTION`, where FILE has several")
	return cmd
}

// givenParameters are the parameters of a Given, as expressions in Python need them.
func givenParameters(given *draft.Given) ([]tables.Parameter, error) {
	params := make([]tables.Parameter, len(given.Parameters))
	for i, p := range given.Parameters {
		params[i].Name = p.Name
		for _, raw := range p.Values {
			var v genome.Value
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, fmt.Errorf("parameter %s: %w", p.Name, err)
			}
			params[i].Values = append(params[i].Values, v)
		}
	}
	return params, nil
}

// draftFrom makes a folder from a source, and from a file that says what the source does not.
func draftFrom(dir, name, from, entry, with string) (*draft.Draft, error) {
	if with == "" {
		return draft.From(dir, name, from, entry, nil)
	}
	text, err := os.ReadFile(with)
	if err != nil {
		return nil, err
	}
	given, err := draft.ParseGiven(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", with, err)
	}
	params, err := givenParameters(given)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", with, err)
	}
	if err := given.Translate(
		func(python []string) ([]string, error) { return tables.Conditions(params, python) },
		func(python string) (string, error) { return tables.Expression(params, python) },
	); err != nil {
		return nil, fmt.Errorf("%s: %w", with, err)
	}
	return draft.From(dir, name, from, entry, given)
}

// printDraft says what was made from a source, and what is left to do.
func (a *app) printDraft(dir string, d *draft.Draft) error {
	if a.JSON {
		return a.printJSON(d)
	}
	fmt.Fprintf(a.out, "made %s from %s\n\ntaken from the source, or assumed:\n", dir, d.Entry)
	for _, f := range d.Taken {
		fmt.Fprintf(a.out, "  %s\n", f)
	}
	if len(d.Missing) > 0 {
		fmt.Fprintln(a.out, "\nleft to fill in:")
	}
	for _, f := range d.Missing {
		fmt.Fprintf(a.out, "  %s\n", f)
	}
	fmt.Fprintf(a.out, "\nthen try `tune kernels lint %s`\n", dir)
	return nil
}

// lintSamples is how many random genomes a lint renders, and lintRuns how many
// of them it puts through the ordeal.
const (
	lintSamples = 200
	lintRuns    = 4
)

func (a *app) kernelsLintCommand() *cobra.Command {
	var static bool
	cmd := &cobra.Command{
		Use:   "lint DIR",
		Short: "Check a kernel folder and say what is wrong, with file and line",
		Long: `Check a kernel folder: the definition, the template over sampled genomes, and then,
with a compiler, the reference, the baseline (also on edge-case inputs), the
tolerance (its negative controls must fail, and it must not hide half of an output)
and a few random genomes through the whole ordeal.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitFindings),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.lint(cmd.Context(), args[0], static)
		},
	}
	cmd.Flags().BoolVar(&static, "static", false, "compile and run nothing")
	addOptions(cmd.Flags(), option.Named(runOptions, "strict"))
	addOptions(cmd.Flags(), backendOptions)
	return cmd
}

func (a *app) lint(ctx context.Context, dir string, static bool) error {
	all, err := kernels.LoadAll(dir)
	if fault := (*kernels.Error)(nil); errors.As(err, &fault) && len(fault.Unfilled) > 0 {
		texts := make([]string, len(fault.Unfilled))
		for i, f := range fault.Unfilled {
			texts[i] = f.String()
		}
		return a.found(dir, texts)
	}
	if err != nil {
		return badInput(err)
	}
	texts := []string{}
	for _, d := range all {
		more, err := a.lintKernel(ctx, d, dir, static)
		if err != nil {
			return err
		}
		for _, text := range more {
			if !slices.Contains(texts, text) { // of what several kernels share
				texts = append(texts, text)
			}
		}
	}
	return a.found(dir, texts)
}

// lintKernel says what is wrong with a kernel of a folder.
func (a *app) lintKernel(ctx context.Context, d *kernels.Definition, dir string, static bool) (texts []string, err error) {
	if !a.JSON {
		if err := a.printSpaces(d); err != nil {
			return nil, badInput(err)
		}
	}
	for _, f := range kernels.Lint(ctx, d, lintSamples, rand.New(rand.NewSource(1))) {
		texts = append(texts, f.String())
	}
	if !static && len(texts) == 0 {
		for _, name := range backend.Names() {
			if len(d.On(name).Implementations) == 0 {
				continue
			}
			if backend.Of(name).Accelerator {
				if why := a.machine().Available(ctx, name); why != nil {
					fmt.Fprintf(a.err, "tune: nothing was compiled or run for the %s backend: %s\n", name, words.OneLine(why.Error()))
					continue
				}
			}
			more, err := a.lintRun(ctx, d, dir, name)
			if err != nil {
				return nil, err
			}
			texts = append(texts, more...)
		}
	}
	return texts, nil
}

// found prints findings.
func (a *app) found(dir string, texts []string) error {
	if a.JSON {
		if err := a.printJSON(texts); err != nil {
			return err
		}
	} else {
		printFindings(a.out, dir, texts)
	}
	if len(texts) > 0 {
		return &exitError{code: exitFindings}
	}
	return nil
}

// printSpaces prints how many valid genomes there are, by implementation and shape.
func (a *app) printSpaces(d *kernels.Definition) error {
	for _, im := range d.Implementations {
		for _, s := range im.Problem().ShapesFor(kernels.Tune) {
			space, err := d.Space([]*kernels.Implementation{im}, []kernels.Shape{s}, nil)
			if err != nil {
				return err
			}
			about := ""
			if !space.Exact() {
				about = "about "
			}
			fmt.Fprintf(a.out, "%s at %s: %s%s valid genomes\n", im.Name, s.Name, about, count(space.Size()))
		}
	}
	return nil
}

func printFindings(w io.Writer, dir string, texts []string) {
	for _, t := range texts {
		fmt.Fprintln(w, t)
	}
	if len(texts) == 0 {
		fmt.Fprintf(w, "%s: nothing wrong found\n", dir)
	}
}

// lintRun is the half of the lint that needs a compiler. Opening the backend
// checks the reference, the baseline and the tolerance.
func (a *app) lintRun(ctx context.Context, d *kernels.Definition, dir, backend string) ([]string, error) {
	var findings []string
	where := filepath.Join(dir, "kernel.toml")
	t, err := a.machine().Target(evotune.Job{Kernel: d.Name, Definitions: []string{dir}, Backend: backend, Strict: a.Run.Strict, Limits: map[string]int64{}})
	if err != nil {
		return nil, err
	}
	p, err := t.Open(ctx)
	switch {
	case errors.Is(err, evaluator.ErrControl), errors.Is(err, evaluator.ErrBaseline), errors.Is(err, evaluator.ErrUnwritten),
		errors.Is(err, cpu.ErrReference), errors.Is(err, cuda.ErrReference):
		return []string{fmt.Sprintf("%s: %s", where, words.OneLine(err.Error()))}, nil
	case err != nil:
		return nil, err
	}
	defer p.Evaluator.Close() //nolint:errcheck // nothing is kept
	if o, ok := p.Evaluator.(*evaluator.Ordeal); ok {
		doubts, err := o.Doubts(ctx)
		if err != nil {
			return nil, err
		}
		for _, d := range doubts {
			findings = append(findings, fmt.Sprintf("%s: on %s: %s", where, backend, words.OneLine(d)))
		}
	}
	rng := rand.New(rand.NewSource(1))
	seen := map[string]bool{}
	for range lintRuns {
		g := p.Space.Random(rng)
		if seen[g.Hash()] {
			continue
		}
		seen[g.Hash()] = true
		r, err := p.Evaluator.Evaluate(ctx, g, 0)
		if err != nil {
			return nil, err
		}
		if r.Verdict != evaluator.Correct {
			findings = append(findings, fmt.Sprintf("%s: the genome %s (%s) gets the verdict %s: %s",
				where, g, campaign.CandidateID("lint", g), r.Verdict, words.OneLine(r.Reason)))
		}
	}
	return findings, nil
}
