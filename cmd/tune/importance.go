package main

import (
	"fmt"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/importance"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/store"
)

func (a *app) importanceCommand() *cobra.Command {
	var format string
	var pairs int
	var o evotune.ImportanceOptions
	cmd := &cobra.Command{
		Use:   "importance CAMPAIGN|FILE",
		Short: "Show which genes matter, and how",
		Long: `Show which genes affect the time of a kernel, and how: for each gene its share of
the variance of the (logarithm of the) time over the space, and its best and worst
value with their effect on the time; pairs of genes that matter beyond what each
does alone; and values with which candidates fail more often than overall. Every
figure has its standard error, and "~" marks a share that cannot be told from zero.

The evaluations are those of a campaign, or those of a FILE: a recorded table, as
"tune sweep" writes it. A forest of regression trees is fitted to them, and its
variance is split by gene. Out-of-bag R² says how well it fits; if it fits badly,
the figures mean little. A campaign's search does not sample evenly:
docs/importance.md says how that affects the figures.
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
			if a.JSON {
				return a.printJSON(v)
			}
			return a.printImportance(v, format == "markdown")
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table or markdown")
	cmd.Flags().IntVar(&pairs, "pairs", 5, "show the `N` pairs with the largest shares")
	cmd.Flags().Float64Var(&o.Best, "best", 1, "ask what matters among the best `SHARE` of the candidates: slower ones count as the slowest of these")
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

// importanceOf analyses a recorded table, if there is such a file, or a campaign.
func (a *app) importanceOf(cmd *cobra.Command, name string, o evotune.ImportanceOptions) (evotune.Importance, error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return evotune.TableImportance(name, o)
	}
	var v evotune.Importance
	err := a.withReader(cmd, func(r server.Reader) (err error) {
		if s, ok := r.(*store.Store); ok {
			v, err = a.machine().Importance(s, name, o)
		} else if c, ok := r.(*api.Reader); ok {
			v, err = c.Importance(cmd.Context(), name, o.Best)
		}
		return storeError(err)
	})
	return v, err
}

func (a *app) printImportance(v evotune.Importance, markdown bool) error {
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
