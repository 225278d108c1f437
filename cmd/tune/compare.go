package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
)

func (a *app) compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Show how two candidates differ",
		Long: `Compare two candidates: the genes in which they differ, what the stages found for
each, and their times by shape, with a test of whether B is faster or slower than A;
"~" means that the difference is noise.

Times measured at different moments are compared through the baseline that was
measured beside each: in the rounds of the finals that both were in, else in the
finals of each, else in the search. If kernel, definition, device, compiler or
harness differ, times are not compared, and the output says why.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: "  tune compare bd62 1f3a",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReader(cmd, func(r server.Reader) error {
				var of [2]evotune.Subject
				for i, id := range args {
					s, err := a.subject(r, id)
					if err != nil {
						return err
					}
					if s.Candidate.Told == nil {
						return badInputf("candidate %s has no result yet: resume campaign %s", s.Candidate.ID, s.Candidate.Campaign)
					}
					of[i] = s
				}
				if id := of[0].Candidate.ID; id == of[1].Candidate.ID {
					return badInputf("%s and %s are one candidate, %s: name two", args[0], args[1], id)
				}
				d, err := report.Compare(of[0], of[1])
				if err != nil {
					return err
				}
				if a.JSON {
					return a.printJSON(d)
				}
				printDifference(a.out, d)
				return nil
			})
		},
	}
}

// pageWidth is the width of the text of compare, in characters.
const pageWidth = 120

func printDifference(w io.Writer, d *report.Difference) {
	rows := [][]string{
		{"", "A", "B"},
		{"candidate", d.A.Candidate, d.B.Candidate},
		{"campaign", d.A.Campaign, d.B.Campaign},
		{"kernel", d.A.Kernel, d.B.Kernel},
		{"shapes", strings.Join(d.A.Shapes, ", "), strings.Join(d.B.Shapes, ", ")},
		{"device", d.A.Device, d.B.Device},
		{},
	}
	for _, g := range d.Genes {
		rows = append(rows, []string{g.Gene, geneText(g.A), geneText(g.B)})
	}
	switch {
	case len(d.Genes) == 0:
		rows = append(rows, []string{"genes", fmt.Sprintf("all %d alike", d.SameGenes), ""})
	case d.SameGenes > 0:
		rows = append(rows, []string{"other genes", fmt.Sprintf("%d alike", d.SameGenes), ""})
	}
	rows = append(rows, []string{})
	for _, e := range d.Evidence {
		rows = append(rows, []string{e.What, e.A, e.B})
	}
	printColumns(w, rows, 28, 42, 42)
	if len(d.Times) > 0 {
		fmt.Fprintf(w, "\ntimes of %s\n", d.From)
		rows = [][]string{{"SHAPE", "A", "OF BASELINE", "B", "OF BASELINE", "B AGAINST A"}}
		for _, t := range d.Times {
			shape := t.Shape
			if t.HeldOut {
				shape += " (held out)"
			}
			rows = append(rows, append(append([]string{shape}, timeText(t.A)...), append(timeText(t.B), testText(t.Test))...))
		}
		if d.Overall != nil {
			rows = append(rows, []string{"all tuned shapes", "", "", "", "", testText(d.Overall)})
		}
		printColumns(w, rows, 28, 10, 11, 10, 11, 40)
	}
	for _, why := range d.NotComparable {
		printWrapped(w, "not comparable: "+why, pageWidth)
	}
	for _, note := range warnings(d) {
		printWrapped(w, "note: "+note, pageWidth)
	}
}

func geneText(v any) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(v)
}

func timeText(t *report.Time) []string {
	if t == nil {
		return []string{"-", "-"}
	}
	return []string{nanoseconds(t.MedianNS), fmt.Sprintf("%.3f", t.Ratio)}
}

// testText says by how much B's time differs from A's, or "~".
func testText(c *evaluator.Comparison) string {
	if c == nil {
		return "-"
	}
	return fmt.Sprintf("%s (p=%.2g, n=%d+%d)", c, c.P, c.N1, c.N2)
}

// warnings are those of all tests, each once.
func warnings(d *report.Difference) []string {
	var out []string
	seen := map[string]bool{}
	add := func(c *evaluator.Comparison) {
		if c == nil {
			return
		}
		for _, s := range c.Warnings {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	for _, t := range d.Times {
		add(t.Test)
	}
	add(d.Overall)
	return out
}

// printColumns prints rows in columns of at most the given widths; what is
// longer is cut.
func printColumns(w io.Writer, rows [][]string, most ...int) {
	widths := make([]int, len(most))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(cell), most[i]))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			r := []rune(words.OneLine(cell))
			if len(r) > most[i] {
				r = append(r[:most[i]-1], '…')
			}
			b.WriteString(string(r))
			b.WriteString(strings.Repeat(" ", widths[i]-min(len(r), widths[i])+2))
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// printWrapped breaks a text into lines between words; those after the first
// are indented.
func printWrapped(w io.Writer, s string, width int) {
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintln(w, line)
			line = "   "
		}
		if line == "" {
			line = word
		} else {
			line += " " + word
		}
	}
	fmt.Fprintln(w, line)
}
