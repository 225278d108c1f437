package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/campaign"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/server"
	"github.com/evotune/evotune/store"
)

func (a *app) verifyCommand() *cobra.Command {
	var tolerance float64
	var flavour string
	cmd := &cobra.Command{
		Use:   "verify CANDIDATE",
		Short: "Prove a stored candidate again and compare",
		Long: `Put a stored candidate through the whole ordeal again, in fresh processes, and
compare: the verdict must be the same, and the time relative to the baseline
may differ by noise or by the tolerance. What has changed since (source, binary,
compiler, device) is said.

--flavour debug tells why a candidate was refused: it is compiled without
optimisation, with debugging information and with its asserts alive, and put
through compile, inspect, parity and the sanitizers. Nothing is asked of its
binary, and nothing is timed; the status is 4 when a check fails.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitFindings),
		Example: `  tune verify 1f2e3d
  tune verify 1f2e3d --flavour debug`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case flavour != flavourRelease && flavour != flavourDebug:
				return badInputf("unknown flavour %q: there are %s and %s", flavour, flavourRelease, flavourDebug)
			case flavour == flavourDebug && cmd.Flags().Changed("tolerance"):
				return badInputf("nothing is timed in the debug flavour: leave out --tolerance")
			}
			var c store.Candidate
			var of store.Campaign
			if err := a.withReader(cmd, func(r server.Reader) (err error) {
				if c, err = r.Candidate(args[0]); err != nil {
					return storeError(err)
				}
				of, err = r.Campaign(c.Campaign)
				return err
			}); err != nil {
				return err
			}
			return a.verify(cmd, c, of, flavour == flavourDebug, tolerance)
		},
	}
	addSettings(cmd.Flags(), backendSettings)
	cmd.Flags().StringVar(&flavour, "flavour", flavourRelease, "how it is compiled: release or debug")
	cmd.Flags().Float64Var(&tolerance, "tolerance", 0.05, "relative change of time that is allowed")
	return cmd
}

// The flavours that a candidate is compiled in.
const (
	flavourRelease = "release"
	flavourDebug   = "debug"
)

func (a *app) verify(cmd *cobra.Command, c store.Candidate, of store.Campaign, debug bool, tolerance float64) error {
	if c.Told == nil {
		return badInputf("candidate %s has no result yet: resume campaign %s", c.ID, c.Campaign)
	}
	var stored evaluator.Result
	if err := json.Unmarshal(c.Told.Detail, &stored); err != nil {
		return fmt.Errorf("candidate %s: its evidence cannot be read: %w: run `tune check`", c.ID, err)
	}
	cfg, t, err := a.recordedCampaign(of)
	if err != nil {
		return badInput(err)
	}
	if t.debug = debug; debug && t.table != nil {
		return badInputf("candidate %s comes from a recorded table, which has no source to compile for debugging", c.ID)
	}
	p, err := a.open(cmd.Context(), t, cfg.Seed)
	if err != nil {
		return err
	}
	defer p.Evaluator.Close() //nolint:errcheck // nothing is kept
	g, err := p.Space.Parse(c.Asked.Genome)
	if err != nil {
		return badInputf("candidate %s is no genome of the kernel as it is now: %w", c.ID, err)
	}
	now := p.Evaluator.Describe().Device
	if debug {
		again, err := p.Evaluator.Evaluate(cmd.Context(), g, 0)
		if err != nil {
			return err
		}
		return a.debugged(c, stored, again)
	}
	v, err := campaign.Verify(cmd.Context(), p.Evaluator, g, stored, tolerance)
	if err != nil {
		return err
	}
	sameDevice := now.Fingerprint == of.Started.Device
	if a.v.GetBool("json") {
		if err := a.printJSON(struct {
			Candidate  string `json:"candidate"`
			SameDevice bool   `json:"same_device"`
			campaign.Verification
		}{c.ID, sameDevice, v}); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "candidate\t%s  %s\n", c.ID, c.Asked.Genome)
		fmt.Fprintf(w, "\tSTORED\tNOW\n")
		fmt.Fprintf(w, "verdict\t%s\t%s\n", stored.Verdict, v.Again.Verdict)
		if v.Test != nil {
			sc, sb := headline(stored.Timings)
			nc, nb := headline(v.Again.Timings)
			fmt.Fprintf(w, "time\t%s\t%s\n", nanoseconds(sc), nanoseconds(nc))
			fmt.Fprintf(w, "baseline\t%s\t%s\n", nanoseconds(sb), nanoseconds(nb))
			fmt.Fprintf(w, "speedup\t%.3fx\t%.3fx\n", 1/stored.Fitness, 1/v.Again.Fitness)
			fmt.Fprintf(w, "change\t%+.1f%%\t%s\n", 100*v.Change, comparison(*v.Test))
		}
		fmt.Fprintf(w, "same\t%s\n", sameness(v, sameDevice))
		if err := w.Flush(); err != nil {
			return err
		}
		if v.Reproduced {
			fmt.Fprintln(a.out, "reproduced")
		} else {
			fmt.Fprintf(a.out, "NOT reproduced: %s\n", v.Reason)
		}
	}
	if !v.Reproduced {
		return &exitError{code: exitFindings}
	}
	return nil
}

// debugged prints what became of a candidate in the debug flavour.
func (a *app) debugged(c store.Candidate, stored, again evaluator.Result) error {
	if a.v.GetBool("json") {
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
				printReport(a.out, report)
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
	return fmt.Sprintf("%s: %s: %s", r.Verdict, r.Stage, oneLine(r.Reason))
}

// reportLines bounds what is printed of one report: every thread may have
// written the same line.
const reportLines = 40

// printReport prints what a check has said, which may be a candidate's own text.
func printReport(w io.Writer, text string) {
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
	for _, l := range lines[:min(len(lines), reportLines)] {
		fmt.Fprintf(w, "    %s\n", l)
	}
	if n := len(lines) - reportLines; n > 0 {
		fmt.Fprintf(w, "    and %s more, which --json has\n", plural(n, "line"))
	}
}

func sameness(v campaign.Verification, device bool) string {
	var same, changed []string
	for _, x := range []struct {
		what string
		same bool
	}{{"device", device}, {"source", v.SameSource}, {"binary", v.SameBinary}, {"key", v.SameKey}} {
		if x.same {
			same = append(same, x.what)
		} else {
			changed = append(changed, x.what)
		}
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
		return err
	}
	_, t, err := a.recordedCampaign(of)
	if err != nil {
		return badInput(err)
	}
	if t.definition == nil {
		return badInput(errors.New("a recorded table has no sources"))
	}
	space, err := t.space()
	if err != nil {
		return badInput(err)
	}
	g, err := space.Parse(c.Asked.Genome)
	if err != nil {
		return badInput(err)
	}
	src, err := t.definition.Implementation(g, t.chosen).Render(g)
	if err != nil {
		return badInput(err)
	}
	fmt.Fprintf(a.out, "// candidate: %s\n// genome: %s\n// flags: %s\n", c.ID, g, strings.Join(src.Flags, " "))
	for _, name := range sortedKeys(src.Files) {
		fmt.Fprintf(a.out, "// includes: %s\n", name)
	}
	fmt.Fprint(a.out, src.Source)
	return nil
}
