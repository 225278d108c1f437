package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

func (a *app) verifyCommand() *cobra.Command {
	var tolerance float64
	var flavour, contents string
	cmd := &cobra.Command{
		Use:   "verify CANDIDATE",
		Short: "Judge a stored candidate again, and compare",
		Long: `Put a stored candidate through the whole ordeal again, in fresh processes, and
compare: the verdict must be the same, and the time relative to the baseline
may differ by noise or by the tolerance. The output names what has changed since
(source, binary, compiler, device).

The time is measured as in finals and compared with the candidate's finals. A
candidate that was in none has one reading of the search, which was selected from
many, and the best of many are also the luckiest. So this reading is corrected by
what such a selection is expected to gain from the noise of the stored samples, and
both are printed. A time that differs is measured once more. It is not reproduced
only if it differs twice in the same direction, on a machine without other work.

The inputs of timed launches are drawn anew, in secret. --contents stored draws those
of the stored measurement again, from the seeds that were stored with it; how many of
them are used depends on how long launches take.

--flavour debug shows why a candidate was refused: it is compiled for debugging (with
-Og, on a GPU without optimization), with asserts enabled, and put through compile,
inspect, parity and the sanitizers. Bounds and requirements on its binary
do not apply, and nothing is timed; the status is 4 when a check fails.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitFindings, exitDisturbed),
		Example: `  tune verify 1f2e3d
  tune verify 1f2e3d --contents stored
  tune verify 1f2e3d --flavour debug`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case flavour != flavourRelease && flavour != flavourDebug:
				return badInputf("unknown flavour %q: there are %s and %s", flavour, flavourRelease, flavourDebug)
			case flavour == flavourDebug && cmd.Flags().Changed("tolerance"):
				return badInputf("nothing is timed in the debug flavour: leave out --tolerance")
			case contents != contentsNew && contents != contentsStored:
				return badInputf("unknown contents %q: there are %s and %s", contents, contentsNew, contentsStored)
			case flavour == flavourDebug && contents == contentsStored:
				return badInputf("nothing is timed in the debug flavour: leave out --contents")
			}
			debug := flavour == flavourDebug
			var rec evotune.Record
			if err := a.withReader(cmd, func(r server.Reader) (err error) {
				rec, err = evotune.NewRecord(r, args[0], debug)
				return storeError(err)
			}); err != nil {
				return err
			}
			if debug {
				return a.debug(cmd.Context(), rec)
			}
			if contents == contentsStored && len(rec.Pools()) == 0 {
				return badInputf("the contents that candidate %s was timed on are not stored: leave out --contents", rec.Candidate.ID)
			}
			return a.verify(cmd.Context(), rec, evotune.VerifyOptions{Tolerance: tolerance, StoredContents: contents == contentsStored})
		},
	}
	addOptions(cmd.Flags(), backendOptions)
	cmd.Flags().StringVar(&flavour, "flavour", flavourRelease, "how it is compiled: release or debug")
	cmd.Flags().StringVar(&contents, "contents", contentsNew, "the inputs that it is timed on: new or stored")
	cmd.Flags().Float64Var(&tolerance, "tolerance", 0.05, "relative change of time that is allowed")
	return cmd
}

// The flavors that a candidate is compiled in.
const (
	flavourRelease = "release"
	flavourDebug   = "debug"
)

// What a candidate is timed on.
const (
	contentsNew    = "new"
	contentsStored = "stored"
)

func (a *app) verify(ctx context.Context, rec evotune.Record, o evotune.VerifyOptions) error {
	v, err := a.machine().Verify(ctx, rec, o)
	if err != nil {
		return err
	}
	if a.JSON {
		if err := a.printJSON(v); err != nil {
			return err
		}
	} else if err := printVerification(a.out, rec, v); err != nil {
		return err
	}
	switch {
	case v.Disturbed != "":
		return &exitError{code: exitDisturbed}
	case !v.Reproduced:
		return &exitError{code: exitFindings}
	}
	return nil
}

func printVerification(out io.Writer, rec evotune.Record, v evotune.Verification) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "candidate\t%s  %s\n", rec.Candidate.ID, rec.Candidate.Asked.Genome)
	fmt.Fprintf(w, "\tSTORED\tNOW\n")
	fmt.Fprintf(w, "verdict\t%s\t%s\n", v.Stored.Verdict, v.Again.Verdict)
	if v.Test != nil {
		timings := v.Stored.Timings
		if rec.Finals != nil {
			timings = rec.Finals.Timings
		}
		then, now := headline(timings), headline(v.Fresh.Timings)
		fmt.Fprintf(w, "time\t%s\t%s\n", nanoseconds(then.MedianNS), nanoseconds(now.MedianNS))
		fmt.Fprintf(w, "baseline\t%s\t%s\n", nanoseconds(then.BaselineNS), nanoseconds(now.BaselineNS))
		fmt.Fprintf(w, "speedup\t%.3fx\t%.3fx\n", 1/v.Reference, 1/v.Fresh.Fitness)
		fmt.Fprintf(w, "change\t%+.1f%%\t%s\n", 100*v.Change, comparison(*v.Test))
	}
	fmt.Fprintf(w, "harness\t%s\t%s\n", v.StoredHarness, v.Harness)
	fmt.Fprintf(w, "same\t%s\n", sameness(v))
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case v.Corrected > 0:
		fmt.Fprintf(out, "stored (%s, selected from %d) %.3fx, corrected %.3fx: compared with what was corrected\n", v.Measured, v.SelectedFrom, 1/v.Reference, 1/v.Corrected)
	case v.Reference > 0:
		fmt.Fprintf(out, "stored (%s) %.3fx\n", v.Measured, 1/v.Reference)
	}
	switch {
	case v.Disturbed != "":
		fmt.Fprintf(out, "not verified: the machine is busy: %s\n", words.OneLine(v.Disturbed))
	case v.Reproduced && v.Reason != "":
		fmt.Fprintf(out, "reproduced: %s\n", v.Reason)
	case v.Reproduced:
		fmt.Fprintln(out, "reproduced")
	default:
		fmt.Fprintf(out, "NOT reproduced: %s\n", v.Reason)
	}
	return nil
}

// debug judges a candidate in the debug flavor and prints the result.
func (a *app) debug(ctx context.Context, rec evotune.Record) error {
	again, err := a.machine().Debug(ctx, rec)
	if err != nil {
		return err
	}
	c, stored := rec.Candidate, rec.Result
	if a.JSON {
		if err := a.printJSON(struct {
			Candidate string           `json:"candidate"`
			Flavour   string           `json:"flavour"`
			Stored    evaluator.Result `json:"stored"`
			Again     evaluator.Result `json:"again"`
		}{c.ID, flavourDebug, stored, again}); err != nil {
			return err
		}
	} else {
		row(a.out, "candidate", "%s  %s", c.ID, c.Asked.Genome)
		row(a.out, "stored", "%s", judged(stored))
		row(a.out, "debug flavour", "%s", judged(again))
		for _, s := range again.Steps {
			row(a.out, string(s.Stage), "%s", s.Outcome)
			for _, e := range s.Evidence {
				var report string
				if e.Outcome == evaluator.Failed {
					report, e.Detail = e.Detail, ""
				}
				fmt.Fprintf(a.out, "  %-28s %s\n", e.Check, evidenceText(e))
				printReport(a.out, report, reportLines)
			}
		}
	}
	if again.Verdict != evaluator.Correct {
		return &exitError{code: exitFindings}
	}
	return nil
}

// judged is a result's verdict with its reason.
func judged(r evaluator.Result) string {
	if r.Reason == "" {
		return string(r.Verdict)
	}
	return fmt.Sprintf("%s: %s: %s", r.Verdict, r.Stage, words.OneLine(r.Reason))
}

// reportLines bounds what is printed of one report: every thread may have
// written the same line.
const reportLines = 40

// printReport prints the report of a check, which may contain a candidate's own text.
func printReport(w io.Writer, text string, most int) {
	var lines []string
	for l := range strings.Lines(text) {
		l = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, l)
		if l = strings.TrimRight(l, " "); l != "" {
			lines = append(lines, l)
		}
	}
	for _, l := range lines[:min(len(lines), most)] {
		fmt.Fprintf(w, "    %s\n", l)
	}
	if n := len(lines) - most; n > 0 {
		fmt.Fprintf(w, "    and %s more, which --json has\n", words.Plural(n, "line"))
	}
}

func sameness(v evotune.Verification) string {
	var same, changed []string
	for _, x := range []struct {
		what string
		same bool
	}{{"device", v.SameDevice}, {"definition", v.SameDefinition}, {"source", v.SameSource}, {"binary", v.SameBinary}, {"key", v.SameKey}} {
		if x.same {
			same = append(same, x.what)
		} else {
			changed = append(changed, x.what)
		}
	}
	if v.SameContents {
		same = append(same, "contents")
	}
	s := orNone(strings.Join(same, ", "))
	if len(changed) > 0 {
		s += "; CHANGED: " + strings.Join(changed, ", ")
	}
	return s
}

// showSource prints the rendered source of a candidate.
func (a *app) showSource(r server.Reader, c store.Candidate) error {
	of, err := r.Campaign(c.Campaign)
	if err != nil {
		return storeError(err)
	}
	t, err := a.machine().Recorded(of)
	if err != nil {
		return err
	}
	src, err := t.Render(c.Asked.Genome)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "// candidate: %s\n// genome: %s\n// flags: %s\n", c.ID, src.Genome, strings.Join(src.Flags, " "))
	fmt.Fprint(a.out, src.Directives(src.Entry)+src.SelfContained())
	return nil
}
