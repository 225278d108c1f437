package main

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/library"
	"github.com/evotune/evotune/server"
	"github.com/evotune/evotune/store"
)

// tableRows is how many candidates a table of `tune query` has unless it is told.
const tableRows = 20

// A selectedView is a candidate of `tune query` as it is printed.
type selectedView struct {
	candidateView
	Backend    string    `json:"backend"`
	DeviceName string    `json:"device_name"`
	AskedAt    time.Time `json:"asked_at"`
}

func (v selectedView) columns() []column {
	return append(
		v.candidateView.columns(), column{"backend", v.Backend}, column{"device_name", v.DeviceName},
		column{"asked_at", v.AskedAt.Format(time.RFC3339Nano)},
	)
}

// selectOptions are the flags of `tune query`.
type selectOptions struct {
	kernel, campaign, sort, format string
	limit                          int
	count                          bool
}

// selectCommand is `tune query`.
func (a *app) selectCommand() *cobra.Command {
	var o selectOptions
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
docs/ask.md says more.
` + exitHelp(exitOK, exitFailure, exitBadInput),
		Example: `  tune query 'verdict == "sanitizer" && genome.STAGES > 2'
  tune query 'speedup > 1.5 && !proven' --kernel attention --sort -speedup --limit 5
  tune query 'asked_at > now() - duration("24h")' --count`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.format(o.format, formatTable, formatJSON, formatCSV)
			if err != nil {
				return err
			}
			switch {
			case o.limit < 0:
				return badInputf("--limit is %d: give 0 for all, or how many", o.limit)
			case format != formatTable && !cmd.Flags().Changed("limit"):
				o.limit = 0
			}
			filter, err := library.CompileFilter(args[0])
			if err != nil {
				return badInput(err)
			}
			return a.withReader(cmd, func(r server.Reader) error {
				s, err := o.run(r, filter)
				if err != nil {
					return err
				}
				return a.printSelected(s, filter.Genes(), format, o)
			})
		},
	}
	cmd.Flags().StringVar(&o.kernel, "kernel", "", "only candidates of this `KERNEL`")
	cmd.Flags().StringVar(&o.campaign, "campaign", "", "only candidates of this `CAMPAIGN`, or the one whose name begins so")
	cmd.Flags().StringVar(&o.sort, "sort", "", "order by this `FIELD` or genome.NAME, the smallest first; -FIELD the largest first")
	cmd.Flags().IntVar(&o.limit, "limit", tableRows, "at most `N`, 0 for all (json and csv: all)")
	cmd.Flags().BoolVar(&o.count, "count", false, "only say how many there are")
	cmd.Flags().StringVar(&o.format, "format", formatTable, "table, json or csv")
	return cmd
}

// A selection is what a query found.
type selection struct {
	found   []hit // at most as many as were wanted
	started map[string]*store.Started
	matched int
	of      int // how many were looked at
}

// A hit is a candidate that was found, and what it is sorted by.
type hit struct {
	*store.Candidate
	key any
}

// spare is how many hits more than wanted are kept before those are dropped that
// will not be shown.
const spare = 1000

// run looks at every candidate once.
func (o selectOptions) run(r server.Reader, filter *library.Filter) (selection, error) {
	s := selection{started: map[string]*store.Started{}}
	campaigns, err := r.Campaigns()
	if err != nil {
		return s, storeError(err)
	}
	q := store.Query{Kernel: o.kernel}
	var names []string
	for _, c := range campaigns {
		s.started[c.ID] = &c.Started
		if !slices.Contains(names, c.Started.Kernel) {
			names = append(names, c.Started.Kernel)
		}
	}
	if o.kernel != "" && !slices.Contains(names, o.kernel) {
		return s, badInputf("no campaign has tuned the kernel %q: there are %s", o.kernel, orNone(strings.Join(names, ", ")))
	}
	if o.campaign != "" {
		c, err := r.Campaign(o.campaign)
		if err != nil {
			return s, storeError(err)
		}
		q.Campaign = c.ID
	}
	var key *library.SortKey
	if o.sort != "" && !o.count {
		if key, err = library.CompileSortKey(o.sort); err != nil {
			return s, badInput(err)
		}
	}
	// sorted puts the hits in order and keeps those that are wanted.
	sorted := func() {
		slices.SortStableFunc(s.found, func(a, b hit) int { return key.Compare(a.key, b.key) })
		if o.limit > 0 {
			s.found = s.found[:min(len(s.found), o.limit)]
		}
	}
	genes := map[string][]string{} // by campaign
	for from, more := uint64(0), true; more; more = from != 0 {
		page, next, err := r.Candidates(q, from)
		if err != nil {
			return s, storeError(err)
		}
		for i := range page {
			c := &page[i]
			started := s.started[c.Campaign]
			if started == nil {
				continue // of a campaign that was started meanwhile
			}
			s.of++
			if genes[c.Campaign] == nil {
				genes[c.Campaign] = geneNames(c.Asked.Genome)
			}
			ok, err := filter.Match(c, started)
			if err != nil {
				return s, badInput(err)
			}
			h := hit{Candidate: c}
			if key != nil && (ok || !key.Known()) {
				if h.key, err = key.Value(c, started); err != nil {
					return s, badInput(err)
				}
			}
			if !ok {
				continue
			}
			s.matched++
			if !o.count && (key != nil || o.limit == 0 || len(s.found) < o.limit) {
				s.found = append(s.found, h)
			}
		}
		if key != nil && o.limit > 0 && len(s.found) > o.limit+spare {
			sorted()
		}
		from = next
	}
	if s.of > 0 {
		var have []string
		for _, g := range genes {
			have = append(have, g...)
		}
		slices.Sort(have)
		have = slices.Compact(have)
		if err := filter.CheckGenes(have); err != nil {
			return s, badInput(err)
		}
		if key != nil {
			if err := key.CheckGenes(have); err != nil {
				return s, badInput(err)
			}
		}
	}
	if key != nil {
		sorted()
	}
	return s, nil
}

func geneNames(encoding string) []string {
	names := []string{}
	for name := range genome.Plain(encoding) {
		names = append(names, name)
	}
	return names
}

func (a *app) printSelected(s selection, genes []string, format string, o selectOptions) error {
	if o.count {
		switch format {
		case formatJSON:
			return a.printJSON(map[string]int{"count": s.matched, "candidates": s.of})
		case formatCSV:
			return csv.NewWriter(a.out).WriteAll([][]string{{"count", "candidates"}, {fmt.Sprint(s.matched), fmt.Sprint(s.of)}})
		}
		fmt.Fprintln(a.out, s.matched)
		return nil
	}
	views := make([]selectedView, len(s.found))
	for i, c := range s.found {
		at := s.started[c.Campaign]
		views[i] = selectedView{viewOf(*c.Candidate), at.Backend, at.Name, c.AskedAt}
	}
	switch format {
	case formatJSON:
		return a.printJSON(views)
	case formatCSV:
		return writeCSV(a.out, views, selectedView{})
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CANDIDATE\tCAMPAIGN\tINDEX\tOPERATOR\tVERDICT\tTIME\tSPEEDUP\tFROM\tGENOME")
	for _, v := range views {
		median, speedup, measured := "-", "-", "-"
		if v.Speedup > 0 {
			median, speedup, measured = nanoseconds(v.MedianNS), fmt.Sprintf("%.3fx", v.Speedup), v.Measured
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Candidate, v.Campaign, v.Index, v.Operator, v.Verdict, median, speedup, measured, genomeText(v.candidateView, genes))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%d of %s\n", s.matched, plural(s.of, "candidate"))
	if len(views) < s.matched {
		fmt.Fprintf(a.out, "%d of them are shown: --limit 0 shows all\n", len(views))
	}
	return nil
}

// genomeText shows a genome in little room: the genes that the query names, or the
// beginning.
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
