package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/importance"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

func (a *app) importanceCommand() *cobra.Command {
	var format string
	var pairs int
	var o importance.Options
	cmd := &cobra.Command{
		Use:   "importance CAMPAIGN|FILE",
		Short: "Show which genes matter, and how",
		Long: `Say which genes mattered to the time of a kernel, and how: for each gene its share
of the variance of the (logarithm of the) time over the space, its best and its
worst value and what they do to the time; pairs of genes that matter beyond what
each does alone; and the values with which candidates fail more often than they
do anyway. Every figure has its standard error, and "~" marks a share that cannot
be told from zero.

The evaluations are those of a campaign, or those of a FILE: a recorded table, as
"tune sweep" writes it. A forest of regression trees is fitted to them and taken
apart; out-of-bag R² says how well it fits, and where it fits badly the figures
mean little. A campaign's search does not sample evenly: docs/importance.md says
what that does to the figures.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: "  tune importance sgemm-44d7aa49\n  tune importance sgemm-44d7aa49 --best 0.25 --pairs 10\n  tune importance softmax.t4.json --format markdown",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case format != "table" && format != "markdown":
				return badInputf("unknown format %q: there are table and markdown, and --json", format)
			case pairs < 0:
				return badInputf("--pairs is %d, it must not be negative", pairs)
			case !(o.Best > 0 && o.Best <= 1):
				return badInputf("--best is %g, it must be above 0 and at most 1", o.Best)
			}
			v, err := a.importanceOf(cmd, args[0], o)
			if err != nil {
				return err
			}
			v.Pairs = v.Pairs[:min(pairs, len(v.Pairs))]
			if a.v.GetBool("json") {
				return a.printJSON(v)
			}
			return a.printImportance(v, format == "markdown")
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table or markdown")
	cmd.Flags().IntVar(&pairs, "pairs", 5, "show the `N` pairs with the largest shares")
	cmd.Flags().Float64Var(&o.Best, "best", 1, "ask what matters among the best `SHARE` of the candidates: slower ones count as the slowest of these")
	addSettings(cmd.Flags(), remoteSettings)
	return cmd
}

// An importanceView is what the command prints.
type importanceView struct {
	// Campaign or Table says what was looked at.
	Campaign string   `json:"campaign,omitempty"`
	Table    string   `json:"table,omitempty"`
	Kernel   string   `json:"kernel"`
	Shapes   []string `json:"shapes,omitempty"`
	Device   string   `json:"device,omitempty"`
	// Sampled counts the evaluations of genomes that were spread over the space,
	// and not bred from others.
	Sampled int     `json:"sampled"`
	Best    float64 `json:"best"`
	// Reliable says whether the fit is good enough for the shares to mean
	// something.
	Reliable bool `json:"reliable"`
	*importance.Analysis
	// Failures are the values that fail more often than all evaluations together,
	// by more than chance.
	Failures []failingValue `json:"failures"`
}

// A failingValue is a value of a gene with which candidates fail.
type failingValue struct {
	Gene    string  `json:"gene"`
	Value   string  `json:"value"`
	Failed  int     `json:"failed"`
	Of      int     `json:"of"`
	Share   float64 `json:"share"`
	AtLeast float64 `json:"at_least"` // with a probability of 97.5%
}

// importanceOf analyses a recorded table, if there is such a file, or a campaign.
func (a *app) importanceOf(cmd *cobra.Command, name string, o importance.Options) (importanceView, error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return tableImportance(name, o)
	}
	var v importanceView
	err := a.withReader(cmd, func(r server.Reader) (err error) {
		v, err = a.campaignImportance(r, name, o)
		return err
	})
	return v, err
}

func tableImportance(file string, o importance.Options) (importanceView, error) {
	t, err := tables.Load(file)
	if err != nil {
		return importanceView{}, badInput(err)
	}
	space, err := t.Space()
	if err != nil {
		return importanceView{}, badInput(err)
	}
	var es []importance.Evaluation
	for g, ms := range t.All() {
		es = append(es, importance.Evaluation{Genome: g, Time: ms})
	}
	v := importanceView{Table: file, Kernel: t.Name(), Device: t.Device(), Sampled: len(es)}
	v.Analysis, err = importance.Analyse(space, es, o)
	return v.finish(o), named(file, err)
}

func (a *app) campaignImportance(r server.Reader, id string, o importance.Options) (importanceView, error) {
	c, err := r.Campaign(id)
	if err != nil {
		return importanceView{}, storeError(err)
	}
	s, ok := r.(*store.Store)
	if !ok {
		return importanceView{}, badInputf("another process holds %s: ask when it has ended (Ctrl-C there, `tune resume` goes on)", a.v.GetString("store"))
	}
	t, err := a.machine().Recorded(c)
	if err != nil {
		return importanceView{}, err
	}
	space, err := t.Space()
	if err != nil {
		return importanceView{}, err
	}
	v := importanceView{Campaign: c.ID, Kernel: c.Started.Kernel, Shapes: c.Started.Shapes, Device: c.Started.Name}
	var h record.History
	for e, err := range s.Events(c.ID, 0, store.WithoutDetail()) {
		if err != nil {
			return v, storeError(err)
		}
		if err := h.Add(e); err != nil {
			return v, err
		}
	}
	var es []importance.Evaluation
	for _, t := range h.Results {
		if t.Verdict == string(evaluator.Infrastructure) {
			continue
		}
		p := h.Proposals[t.Index]
		g, err := space.Parse(p.Genome)
		if err != nil {
			return v, badInputf("campaign %s: candidate %s is not a genome of the kernel as it is now: %w", c.ID, p.Candidate, err)
		}
		es = append(es, importance.Evaluation{Genome: g, Time: t.Fitness})
		if p.Operator == "seed" || p.Operator == "random" {
			v.Sampled++
		}
	}
	v.Analysis, err = importance.Analyse(space, es, o)
	return v.finish(o), named("campaign "+c.ID, err)
}

// named says whose evaluations are too few.
func named(what string, err error) error {
	if errors.Is(err, importance.ErrTooFew) {
		return badInputf("%s: %w", what, err)
	}
	return err
}

// finish fills in what follows from the analysis.
func (v importanceView) finish(o importance.Options) importanceView {
	if v.Analysis == nil {
		return v
	}
	v.Best, v.Reliable, v.Failures = o.Best, v.R2 >= importance.GoodFit, []failingValue{}
	all := float64(v.Evaluations-v.Correct) / float64(v.Evaluations)
	for _, g := range v.Genes {
		for _, e := range g.Values {
			if share, least := e.Failing(); least > all {
				v.Failures = append(v.Failures, failingValue{g.Name, e.Value, e.Failed, e.Failed + e.Correct, share, least})
			}
		}
	}
	slices.SortStableFunc(v.Failures, func(a, b failingValue) int { return cmp.Compare(b.AtLeast, a.AtLeast) })
	return v
}

func (a *app) printImportance(v importanceView, markdown bool) error {
	if v.Campaign != "" {
		fmt.Fprintf(a.out, "campaign %s: %s at %s on %s\n", v.Campaign, v.Kernel, strings.Join(v.Shapes, ", "), v.Device)
	} else {
		fmt.Fprintf(a.out, "%s: %s on %s\n", v.Table, v.Kernel, orNone(v.Device))
	}
	a.paragraph(markdown, "%s, %d correct", words.Plural(v.Evaluations, "evaluation"), v.Correct)
	if bred := v.Evaluations - v.Sampled; bred > 0 {
		fmt.Fprintf(a.out, "%d of them are spread over the space, %d are where the search went\n", v.Sampled, bred)
	}
	if v.Best < 1 {
		fmt.Fprintf(a.out, "among the best %g%%: slower candidates count as the slowest of these\n", 100*v.Best)
	}
	fmt.Fprintf(a.out, "fit: R² %.2f out of bag; over the space the time varies by a factor of %.2f (one standard deviation)\n", v.R2, math.Exp(v.Spread))
	if !v.Reliable {
		fmt.Fprintln(a.out, "the fit explains less than half of what makes the times differ: the shares below mean little")
	}
	a.paragraph(markdown, "")
	rows := make([][]string, len(v.Genes))
	for i, g := range v.Genes {
		rows[i] = []string{g.Name, shareText(g.Share, g.Clear), "", "", "", ""}
		if g.Clear {
			best, worst := g.Values[g.Best], g.Values[g.Worst]
			rows[i] = []string{g.Name, shareText(g.Share, g.Clear), best.Value, ratioText(best.Ratio), worst.Value, ratioText(worst.Ratio)}
		}
	}
	if err := a.printRows(markdown, []string{"GENE", "SHARE", "BEST", "TIME", "WORST", "TIME"}, rows); err != nil {
		return err
	}
	if len(v.Pairs) > 0 {
		a.paragraph(markdown, "\nPairs, beyond what each gene does alone:")
		rows = nil
		for _, p := range v.Pairs {
			rows = append(rows, []string{p.Genes[0] + " with " + p.Genes[1], shareText(p.Share, p.Clear)})
		}
		if err := a.printRows(markdown, []string{"PAIR", "SHARE"}, rows); err != nil {
			return err
		}
	}
	a.paragraph(markdown, "\nThree genes and more together, and noise of the fit: %.1f%%", 100*max(0, v.Rest))
	fmt.Fprintln(a.out, "TIME is the mean with that value over the mean of the space; ~ marks what cannot be told from zero")
	if failed := v.Evaluations - v.Correct; failed > 0 {
		a.paragraph(markdown, "\nFailed: %d of %s (%.0f%%)", failed, words.Plural(v.Evaluations, "evaluation"), 100*float64(failed)/float64(v.Evaluations))
		if len(v.Failures) == 0 {
			fmt.Fprintln(a.out, "no value of a gene fails clearly more often than that")
			return nil
		}
		rows = nil
		for _, f := range v.Failures {
			rows = append(rows, []string{f.Gene, f.Value, fmt.Sprintf("%d of %d", f.Failed, f.Of), fmt.Sprintf("%.0f%%", 100*f.Share), fmt.Sprintf("%.0f%%", 100*f.AtLeast)})
		}
		return a.printRows(markdown, []string{"GENE", "VALUE", "FAILED", "SHARE", "AT LEAST"}, rows)
	}
	return nil
}

func shareText(e importance.Estimate, clearly bool) string {
	mark := ""
	if !clearly {
		mark = "~ "
	}
	percent := math.Round(1000*e.Value)/10 + 0 // not minus zero
	return fmt.Sprintf("%s%.1f%% ± %.1f%%", mark, percent, 100*e.Error)
}

func ratioText(e importance.Estimate) string { return fmt.Sprintf("%.3f ± %.3f", e.Value, e.Error) }

// paragraph prints a line; in Markdown an empty one comes after it, so that a
// table can follow.
func (a *app) paragraph(markdown bool, format string, args ...any) {
	fmt.Fprintf(a.out, format+"\n", args...)
	if markdown && format != "" {
		fmt.Fprintln(a.out)
	}
}

// printRows prints a table, in columns or in Markdown.
func (a *app) printRows(markdown bool, head []string, rows [][]string) error {
	if markdown {
		rule := make([]string, len(head))
		for i := range rule {
			rule[i] = "---"
		}
		for _, row := range append([][]string{head, rule}, rows...) {
			for i := range row {
				row[i] = strings.ReplaceAll(row[i], "|", `\|`)
			}
			fmt.Fprintf(a.out, "| %s |\n", strings.Join(row, " | "))
		}
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
}
