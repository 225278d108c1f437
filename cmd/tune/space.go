package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/tables"
)

func (a *app) spaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "space",
		Short: "Inspect recorded spaces, and convert them between programs",
		Long: `Inspect recorded spaces, and convert them between evotune's own form, the T4 results
and T1 descriptions of the auto-tuning community, and cache files of Kernel Tuner.
A form is recognized by the content of the file; files that end in .gz are gzipped.
See docs/tables.md.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.spaceInfoCommand(), a.spaceImportCommand(), a.spaceExportCommand())
	return cmd
}

const describedUsage = "the T1 `FILE` that describes the parameters and constraints of results"

func (a *app) spaceInfoCommand() *cobra.Command {
	var described string
	cmd := &cobra.Command{
		Use:   "info FILE...",
		Short: "Say what recorded spaces hold: parameters, times, costs, what is missing",
		Long: `Say what recorded spaces hold: parameters and constraints, how many configurations
are valid, how they failed, the best and the median time, how many evaluations random
search needs to come near the best, what was spent by stage, and whether the
constraints and what is recorded agree.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitFindings),
		Example: `  tune space info gemm.json.gz
  tune space info results.t4.json --t1 description.t1.json --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			summaries := make([]tables.Summary, len(files))
			contradiction := false
			for i, file := range files {
				var err error
				if summaries[i], err = tables.Examine(file, described); err != nil {
					return badInput(err)
				}
				contradiction = contradiction || summaries[i].Forbidden > 0
			}
			if a.JSON {
				if err := a.printJSON(summaries); err != nil {
					return err
				}
			} else {
				for i, s := range summaries {
					if i > 0 {
						fmt.Fprintln(a.out)
					}
					a.printSummary(files[i], s)
				}
			}
			if contradiction {
				return &exitError{code: exitFindings}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&described, "t1", "", describedUsage)
	return cmd
}

// printSummary prints what a table holds, for people.
func (a *app) printSummary(file string, s tables.Summary) {
	fmt.Fprintf(a.out, "%s: %s on %s (%s)\n", file, s.Name, cmp.Or(s.Device, "a device without a name"), s.Form)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	for _, p := range s.Parameters {
		values := make([]string, len(p.Values))
		for i, v := range p.Values {
			values[i] = v.String()
		}
		kind := "categorical"
		if p.Ordinal {
			kind = "ordinal"
		}
		line("parameter", "%s (%s): %s", p.Name, kind, strings.Join(values, ", "))
	}
	for _, c := range s.Constraints {
		line("constraint", "%s", c)
	}
	line("space", "%s combinations of values, %s", howMany(s.Combinations, true), allowed(s))
	line("recorded", "%d configurations: %s", s.Recorded, outcomes(s))
	line("not recorded", "%s configurations that are allowed", howMany(s.Unrecorded, s.Exact))
	if s.Forbidden > 0 {
		line("not allowed", "%d configurations that are recorded; the first: %s", s.Forbidden, s.FirstForbidden)
	}
	if s.Valid > 0 {
		line("time", "best %.6g ms, median %.6g ms, worst %.6g ms", s.BestMS, s.MedianMS, s.WorstMS)
		line("best", "%s", s.BestConfiguration)
	}
	for _, near := range s.Within {
		line(fmt.Sprintf("within %g%%", near.Percent), "%d configurations; random search finds one in %.1f evaluations", near.Configurations, near.Evaluations)
	}
	line("cost", "%.6g s, median %.4g s", s.Cost.TotalS, s.Cost.MedianS)
	for _, stage := range s.Stages {
		line("  "+stage.Stage, "%.6g s, median %.4g s", stage.TotalS, stage.MedianS)
	}
	if s.Unsplit > 0 {
		line("  not split", "%d configurations", s.Unsplit)
	}
	if s.Samples > 0 {
		line("samples", "%d", s.Samples)
	}
	for _, n := range s.Notices {
		line("notice", "%s", n)
	}
	w.Flush()
}

// allowed tells how many combinations the constraints leave.
func allowed(s tables.Summary) string {
	if len(s.Constraints) == 0 {
		return "no constraints"
	}
	return howMany(s.Allowed, s.Exact) + " allowed"
}

// outcomes tells how many configurations are valid and how the others failed.
func outcomes(s tables.Summary) string {
	text := fmt.Sprintf("%d valid, %d failed", s.Valid, s.Recorded-s.Valid)
	var parts []string
	for _, v := range evaluator.Verdicts() {
		if n := s.Failed[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", v, n))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// howMany writes a number of configurations.
func howMany(n float64, exact bool) string {
	if !exact {
		return fmt.Sprintf("about %.3g", n)
	}
	if n < 1e15 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.4g", n)
}

// A conversion is what the command line asks for.
type conversion struct {
	from, described string
	form            string
	out             string
	force           bool
}

func (a *app) spaceImportCommand() *cobra.Command {
	c := conversion{form: tables.Forms()[0].Name}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Convert another program's recorded space into evotune's form",
		Long: `Read a recorded space in any form and write it in evotune's own, whole: samples, times
by stage, metrics, timestamps and environment are kept. The cache of an interrupted run
of Kernel Tuner is read up to its last complete configuration.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: `  tune space import cache.json --out gemm.json.gz
  tune space import results.t4.json --t1 description.t1.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c.from = args[0]
			if c.out == "" {
				c.out = stem(c.from) + ".json"
			}
			return a.convert(c)
		},
	}
	c.flags(cmd, "write to `FILE` (default: the name of the input, with .json)")
	return cmd
}

func (a *app) spaceExportCommand() *cobra.Command {
	var c conversion
	names := tables.FormNames()
	cmd := &cobra.Command{
		Use:   "export FILE --format NAME --out FILE",
		Short: "Write a recorded space in a form that other programs read",
		Long: `Read a recorded space in any form and write it in another: ` + strings.Join(names, ", ") + `.
Data that a form has no place for is kept under keys that other programs ignore, so
that nothing is lost on the way back; only T1 has no results.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: `  tune space export gemm.json.gz --format kerneltuner --out gemm.cache.json
  tune space export gemm.json.gz --format t1 --out gemm.t1.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c.from = args[0]
			if !slices.Contains(names, c.form) {
				return badInputf("no format is called %q: --format takes %s", c.form, strings.Join(names, ", "))
			}
			if c.out == "" {
				return badInputf("name the file to write with --out")
			}
			return a.convert(c)
		},
	}
	c.flags(cmd, "write to `FILE`")
	cmd.Flags().StringVar(&c.form, "format", "", "write in the format `NAME`: "+strings.Join(names, ", "))
	return cmd
}

func (c *conversion) flags(cmd *cobra.Command, out string) {
	cmd.Flags().StringVar(&c.out, "out", "", out)
	cmd.Flags().StringVar(&c.described, "t1", "", describedUsage)
	cmd.Flags().BoolVar(&c.force, "force", false, "replace the file if it exists")
}

// stem is the name of a table's file, without the folder and what forms add.
func stem(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gz")
	endings := []string{}
	for _, f := range tables.Forms() {
		endings = append(endings, f.File)
	}
	slices.SortFunc(endings, func(a, b string) int { return len(b) - len(a) }) // .json is the end of others
	for _, e := range endings {
		if rest, ok := strings.CutSuffix(name, e); ok {
			return rest
		}
	}
	return name
}

// A converted is what --json prints of a conversion.
type converted struct {
	writtenFile
	Recorded int      `json:"recorded"`
	Failed   int      `json:"failed"`
	Notices  []string `json:"notices,omitempty"`
	LeftOut  string   `json:"left_out,omitempty"`
}

func (a *app) convert(c conversion) error {
	if err := c.vacant(); err != nil {
		return err
	}
	table, err := tables.LoadDescribed(c.from, c.described)
	if err != nil {
		return badInput(err)
	}
	if err := writeWhole(c.out, func(w io.Writer) error {
		err := table.Write(c.form, w)
		if errors.Is(err, tables.ErrNoPlace) {
			err = badInput(err)
		}
		return err
	}); err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			err = badInput(err)
		}
		return err
	}
	done := converted{writtenFile{c.form, c.out}, table.Len(), table.Failed(), table.Notices(), ""}
	for _, f := range tables.Forms() {
		if f.Name == c.form {
			done.LeftOut = f.Drops
		}
	}
	for _, n := range done.Notices {
		fmt.Fprintf(a.err, "tune: %s: %s\n", c.from, n)
	}
	if done.LeftOut != "" {
		fmt.Fprintf(a.err, "tune: %s leaves out %s\n", c.out, done.LeftOut)
	}
	if a.JSON {
		return a.printJSON(done)
	}
	fmt.Fprintf(a.out, "wrote %s (%s): %d configurations, %d of them failed\n", c.out, c.form, done.Recorded, done.Failed)
	return nil
}

// vacant says whether the file may be written.
func (c conversion) vacant() error {
	if c.force {
		return nil
	}
	if _, err := os.Lstat(c.out); err == nil {
		return badInputf("%s is there already: --force replaces it, --out names another", c.out)
	}
	return nil
}
