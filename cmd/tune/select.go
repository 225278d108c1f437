package main

import (
	"encoding/csv"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/internal/words"
)

// tableRows is how many candidates a table of `tune query` has by default.
const tableRows = 20

// selectedColumns lists what CSV has of a candidate of `tune query`.
func selectedColumns(v selectedView) []column {
	return append(
		candidateColumns(v.Found), column{"backend", v.Backend}, column{"device_name", v.DeviceName},
		column{"asked_at", v.AskedAt.Format(time.RFC3339Nano)},
	)
}

// selectCommand is `tune query`.
func (a *app) selectCommand() *cobra.Command {
	var o evotune.Selection
	var text string
	cmd := &cobra.Command{
		Use:   "query 'EXPRESSION'",
		Short: "List the candidates that meet a condition",
		Long: `List the stored candidates that meet a condition, in the order of the log or by
--sort. The condition is written in expr-lang over the fields of a candidate:
candidate, campaign, kernel, backend, device (the fingerprint), device_name,
shapes (a list), index, operator, parent_ids, verdict ("pending" without a
result), fitness, speedup, median_ns, baseline_ns, key, finalist, proven,
significant, measured ("finals", "again" or "search": which measurement the figures
are of), asked_at, encoding and genome.NAME for its genes.

What a candidate does not have (a gene, a time without a correct result) is nil,
and comparisons with it are false. A gene that no candidate has is an error.
See docs/ask.md.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: `  tune query 'verdict == "sanitizer" && genome.STAGES > 2'
  tune query 'speedup > 1.5 && !proven' --kernel attention --sort -speedup --limit 5
  tune query 'asked_at > now() - duration("24h")' --count`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.format(text, formatTable, formatJSON, formatCSV)
			if err != nil {
				return err
			}
			switch {
			case o.Limit < 0:
				return badInputf("--limit is %d: give 0 for all, or how many", o.Limit)
			case format != formatTable && !cmd.Flags().Changed("limit"):
				o.Limit = 0
			}
			o.Where = args[0]
			if err := o.Check(); err != nil {
				return err
			}
			return a.withReader(cmd, func(r server.Reader) error {
				s, err := evotune.Select(r, o)
				if err != nil {
					return storeError(err)
				}
				return a.printSelected(s, format, o.Count)
			})
		},
	}
	cmd.Flags().StringVar(&o.Kernel, "kernel", "", "only candidates of this `KERNEL`")
	cmd.Flags().StringVar(&o.Campaign, "campaign", "", "only candidates of this `CAMPAIGN`: its name or a unique prefix")
	cmd.Flags().StringVar(&o.Sort, "sort", "", "order by this `FIELD` or genome.NAME, the smallest first; -FIELD the largest first")
	cmd.Flags().IntVar(&o.Limit, "limit", tableRows, "at most `N`, 0 for all (json and csv: all)")
	cmd.Flags().BoolVar(&o.Count, "count", false, "only say how many there are")
	cmd.Flags().StringVar(&text, "format", formatTable, "table, json or csv")
	addOptions(cmd.Flags(), remoteOptions)
	return cmd
}

func (a *app) printSelected(s evotune.Selected, format string, count bool) error {
	if count {
		switch format {
		case formatJSON:
			return a.printJSON(map[string]int{"count": s.Matched, "candidates": s.Of})
		case formatCSV:
			return csv.NewWriter(a.out).WriteAll([][]string{{"count", "candidates"}, {fmt.Sprint(s.Matched), fmt.Sprint(s.Of)}})
		}
		fmt.Fprintln(a.out, s.Matched)
		return nil
	}
	views := api.MatchesOf(s)
	switch format {
	case formatJSON:
		return a.printJSON(views)
	case formatCSV:
		return writeCSV(a.out, views, selectedColumns)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CANDIDATE\tCAMPAIGN\tINDEX\tOPERATOR\tVERDICT\tTIME\tSPEEDUP\tFROM\tGENOME")
	for _, v := range views {
		median, speedup, measured := "-", "-", "-"
		if v.Speedup > 0 {
			median, speedup, measured = nanoseconds(v.MedianNS), fmt.Sprintf("%.3fx", v.Speedup), v.Measured
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Candidate, v.Campaign, v.Index, v.Operator, v.Verdict, median, speedup, measured, genomeText(v.Found, s.Genes))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%d of %s\n", s.Matched, words.Plural(s.Of, "candidate"))
	if len(views) < s.Matched {
		fmt.Fprintf(a.out, "%d of them are shown: --limit 0 shows all\n", len(views))
	}
	return nil
}

// genomeText shortens a genome: the genes that the query names, or its beginning.
func genomeText(v candidateView, genes []string) string {
	const most = 20
	text := v.Encoding
	if len(genes) > 0 {
		var parts []string
		for _, name := range genes {
			if value, ok := v.Genome[name]; ok {
				parts = append(parts, fmt.Sprintf("%s=%v", name, value))
			}
		}
		text = strings.Join(parts, ",")
	}
	if r := []rune(text); len(r) > most {
		text = string(r[:most-3]) + "..."
	}
	return text
}
