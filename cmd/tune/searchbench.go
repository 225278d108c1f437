package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/search"
	"github.com/evotune/evotune/searchbench"
)

// The formats of --format.
const (
	formatTable    = "table"
	formatMarkdown = "markdown"
	formatJSON     = "json"
)

func (a *app) searchbenchCommand() *cobra.Command {
	plan := searchbench.Plan{}
	var format, traces, peersFile, warm string
	cmd := &cobra.Command{
		Use:   "searchbench SPACE...",
		Short: "Compare search strategies on recorded spaces",
		Long: `Compare strategies on recorded spaces, on a simulated clock: their scores with
standard errors, on each space and on average, the worst space, and the cost of
the search itself. 0 is random search, 1 the optimum at once. A SPACE is any
file that "tune replay" reads. docs/searchbench.md has the formulas.

With several --windows the loss against the first is printed, with --peers the
scores of other programs beside ours, the best first. --warm-start N measures the
gain from beginning with the N best of another of the spaces whose parameters have
the same names.

--traces writes what was evaluated: to a file with one JSON object for each
space, strategy and window, or to a folder (one that exists, or ends in a slash)
with a file for each.
` + exitHelp(exitOK, exitFailure, exitBadInput) + interruptedHelp,
		Example: `  tune searchbench spaces/*.json.gz --repeats 100
  tune searchbench spaces/*.json.gz --strategies evolution --windows 1,8,32
  tune searchbench spaces/*.json.gz --peers peers.json --format markdown
  tune searchbench spaces/gemm.*.json.gz --strategies evolution --warm-start 8`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.JSON {
				format = formatJSON
			}
			plan.Seed = a.Run.SearchSeed()
			if err := a.checkPlan(&plan, format, warm); err != nil {
				return err
			}
			var peers searchbench.Peers
			if peersFile != "" {
				f, err := os.Open(peersFile)
				if err != nil {
					return badInput(err)
				}
				defer f.Close()
				if peers, err = searchbench.ReadPeers(f); err != nil {
					return badInputf("%s: %w", peersFile, err)
				}
			}
			paths := map[*searchbench.Space]string{}
			names := map[string]string{}
			for _, path := range args {
				s, err := a.openSpace(path, "")
				if err != nil {
					return err
				}
				if other, twice := names[s.Name()]; twice {
					return badInputf("%s and %s are both called %s: give each space once, under a name of its own", other, path, s.Name())
				}
				names[s.Name()], paths[s] = path, path
				plan.Spaces = append(plan.Spaces, s)
			}
			result, err := a.compare(cmd.Context(), &plan, traces, paths)
			if err != nil {
				return err
			}
			view := comparisonView{Comparison: result, Repeats: plan.Repeats, Seed: plan.Seed}
			if peersFile != "" {
				view.League = result.League(peers)
			}
			return a.printComparison(view, format)
		},
	}
	cmd.Flags().StringSliceVar(&plan.Strategies, "strategies", search.Names(), "the strategies, separated by commas")
	cmd.Flags().IntVar(&plan.Repeats, "repeats", 40, "search each space `N` times with each strategy and window")
	addOptions(cmd.Flags(), option.Named(runOptions, "seed"))
	cmd.Flags().IntSliceVar(&plan.Windows, "windows", []int{1}, "proposals in flight, separated by commas")
	cmd.Flags().StringVar(&traces, "traces", "", "write what was evaluated to `FILE`, or to a folder")
	cmd.Flags().StringVar(&format, "format", formatTable, "print as table, markdown or json")
	cmd.Flags().StringVar(&peersFile, "peers", "", "print the scores of `FILE` beside ours")
	cmd.Flags().StringVar(&warm, "warm-start", "0", "measure starting from the `N` best of another space of the kernel, with the first strategy and window (0: do not)")
	cmd.Flags().BoolVar(&plan.Overhead, "overhead", false, "add the search's own time to the simulated clock: no two runs are then the same")
	return cmd
}

// checkPlan checks the flags before anything is read.
func (a *app) checkPlan(plan *searchbench.Plan, format, warm string) error {
	if !slices.Contains([]string{formatTable, formatMarkdown, formatJSON}, format) {
		return badInputf("no format is called %q: there are %s, %s and %s", format, formatTable, formatMarkdown, formatJSON)
	}
	var err error
	if plan.Warm, err = strconv.Atoi(warm); err != nil || plan.Warm < 0 || plan.Warm > evotune.MaxWindow {
		return badInputf("--warm-start is %q: it must be a number of genomes up to %d, 0 for none", warm, evotune.MaxWindow)
	}
	if len(plan.Strategies) == 0 || len(plan.Windows) == 0 {
		return badInputf("--strategies and --windows need one at least")
	}
	if err := checkCount("--repeats", plan.Repeats, mostRepeats); err != nil {
		return err
	}
	for i, w := range plan.Windows {
		if err := checkCount("a window", w, evotune.MaxWindow); err != nil {
			return err
		}
		if slices.Contains(plan.Windows[:i], w) {
			return badInputf("the window %d is there twice", w)
		}
	}
	for i, s := range plan.Strategies {
		if slices.Contains(plan.Strategies[:i], s) {
			return badInputf("the strategy %s is there twice", s)
		}
	}
	return badInput(plan.Validate())
}

// compare runs the plan and writes the traces.
func (a *app) compare(ctx context.Context, plan *searchbench.Plan, traces string, paths map[*searchbench.Space]string) (c *searchbench.Comparison, err error) {
	run := func(ctx context.Context, w io.Writer) error {
		if w != nil {
			e := json.NewEncoder(w)
			plan.Runs = func(s *searchbench.Space, how searchbench.Search, runs []searchbench.Run) error {
				return e.Encode(s.Trace(paths[s], traceName(how), runs))
			}
		}
		c, err = plan.Compare(ctx)
		return err
	}
	err = a.interruptible(ctx, plan.Size(), func(ctx context.Context, done func()) error {
		plan.Done = done
		info, statErr := os.Stat(traces)
		switch {
		case traces == "":
			return run(ctx, nil)
		case strings.HasSuffix(traces, string(filepath.Separator)) || statErr == nil && info.IsDir():
			if err := os.MkdirAll(traces, 0o755); err != nil {
				return badInput(err)
			}
			plan.Runs = func(s *searchbench.Space, how searchbench.Search, runs []searchbench.Run) error {
				return writeWhole(filepath.Join(traces, strings.ReplaceAll(s.Name(), string(filepath.Separator), "-")+"."+traceName(how)+".json"), func(w io.Writer) error {
					return json.NewEncoder(w).Encode(s.Trace(paths[s], traceName(how), runs))
				})
			}
			return run(ctx, nil)
		}
		return writeTrace(traces, func(w io.Writer) error { return run(ctx, w) })
	})
	return c, err
}

// traceName puts the window in the name, because scorers see only names.
func traceName(how searchbench.Search) string {
	if how.Window == 1 {
		return how.Strategy
	}
	return fmt.Sprintf("%s-window-%d", how.Strategy, how.Window)
}

// A comparisonView is what is printed.
type comparisonView struct {
	Repeats int   `json:"repeats"`
	Seed    int64 `json:"seed"` // of the first run
	*searchbench.Comparison
	League []searchbench.Rank `json:"league,omitempty"`
}

func (a *app) printComparison(v comparisonView, format string) error {
	if format == formatJSON {
		return a.printJSON(v)
	}
	markdown := format == formatMarkdown
	windows := slices.ContainsFunc(v.Means, func(m searchbench.Mean) bool { return m.LossIso != nil })
	grids := []grid{spacesGrid(v.Scores), meansGrid(v.Means, windows)}
	if v.League != nil {
		grids = append(grids, leagueGrid(v.League, markdown, len(v.Spaces)))
	}
	if v.Warm != nil {
		if len(v.Warm.Pairs) == 0 {
			grids = append(grids, grid{title: "warm start: no two of the spaces have the same parameters"})
		} else {
			grids = append(grids, warmScores(v.Warm), warmTimes(v.Warm))
		}
	}
	fmt.Fprintf(a.out, "%s, %s each, seeds %d to %d\n", words.Plural(len(v.Spaces), "space"), words.Plural(v.Repeats, "run"), v.Seed, v.Seed+int64(v.Repeats)-1)
	for _, g := range grids {
		fmt.Fprintln(a.out)
		if err := g.print(a.out, markdown); err != nil {
			return err
		}
	}
	return nil
}

// A grid is a table that can be printed in two ways.
type grid struct {
	title  string
	header []string
	rows   [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) print(w io.Writer, markdown bool) error {
	if g.title != "" {
		fmt.Fprintln(w, g.title)
		if markdown {
			fmt.Fprintln(w)
		}
	}
	if g.header == nil {
		return nil
	}
	if markdown {
		line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
		line(g.header)
		fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(g.header)))
		for _, r := range g.rows {
			line(r)
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(g.header, "\t")))
	for _, r := range g.rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

func spacesGrid(cells []searchbench.Cell) grid {
	g := grid{header: []string{"space", "strategy", "window", "P_iso", "P_mean", "evaluations", "to 5%: runs", "evaluations", "seconds", "in parallel", "own time"}}
	for _, c := range cells {
		g.add(c.Space, c.Strategy, strconv.Itoa(c.Window), estimate(c.PIso), estimate(c.PMean), c.Evaluations.String(),
			fmt.Sprintf("%.0f%%", 100*c.Within5.Hit), c.Within5.Evaluations.String(), simulated(c.Within5.Seconds), simulated(c.Within5.Parallel), nanoseconds(float64(c.Own)))
	}
	return g
}

func meansGrid(means []searchbench.Mean, windows bool) grid {
	g := grid{header: []string{"mean of", "window", "P_iso", "P_mean", "worst P_iso", "worst P_mean", "own time (longest)"}}
	if windows {
		g.header = append(g.header, "loss of P_iso", "loss of P_mean")
	}
	for _, m := range means {
		row := []string{
			m.Strategy, strconv.Itoa(m.Window), estimate(m.PIso), estimate(m.PMean), worst(m.WorstIso), worst(m.WorstMean),
			fmt.Sprintf("%s (%s)", nanoseconds(m.OwnNS), nanoseconds(m.LongestNS)),
		}
		switch {
		case m.LossIso != nil:
			row = append(row, estimate(*m.LossIso), estimate(*m.LossMean))
		case windows:
			row = append(row, "", "")
		}
		g.rows = append(g.rows, row)
	}
	return g
}

func worst(w searchbench.Worst) string { return fmt.Sprintf("%.3f (%s)", w.Value, w.Space) }

// leagueGrid prints our strategies in bold, or with a star.
func leagueGrid(league []searchbench.Rank, markdown bool, spaces int) grid {
	g := grid{header: []string{"strategy", "P_iso", "P_mean", "worst P_iso", "worst P_mean", "spaces", "runs"}}
	for _, r := range league {
		name, iso := r.Strategy, fmt.Sprintf("%.3f", r.PIso.Value)
		if r.Ours {
			name, iso = name+" *", estimate(r.PIso)
			if markdown {
				name = "**evotune: " + r.Strategy + "**"
			}
		}
		of := strconv.Itoa(r.Spaces)
		if r.Spaces < spaces {
			of += fmt.Sprintf(" of %d", spaces)
		}
		g.add(name, iso, estimate(r.PMean), worst(r.WorstIso), worst(r.WorstMean), of, strconv.Itoa(r.Repeats))
	}
	return g
}

// warmScores has the scores without and with a warm start.
func warmScores(w *searchbench.WarmStart) grid {
	g := grid{
		title:  fmt.Sprintf("warm start: %s with window %d, from the %d best of another space of the kernel", w.Strategy, w.Window, w.Best),
		header: []string{"space", "started from", "genomes", "P_iso without", "with", "P_mean without", "with"},
	}
	for _, p := range w.Pairs {
		g.add(p.Space, p.From, fmt.Sprintf("%.1f", p.Started), estimate(p.PIso.Without), estimate(p.PIso.With), estimate(p.PMean.Without), estimate(p.PMean.With))
	}
	g.add("mean", "", "", estimate(w.PIso.Without), estimate(w.PIso.With), estimate(w.PMean.Without), estimate(w.PMean.With))
	return g
}

// warmTimes has what it took to come near the optimum.
func warmTimes(w *searchbench.WarmStart) grid {
	g := grid{
		title: "to within a share of the optimum: medians without and with, and their ratio (>: half of the runs or more never came so far, and count with all that they had; where both are so there is no ratio)",
		header: []string{
			"space", "started from", "evaluations to 5%", "ratio", "seconds to 5%", "ratio",
			"evaluations to 1%", "ratio", "seconds to 1%", "ratio",
		},
	}
	row := func(space, from string, e, s [2]searchbench.Ratio) {
		cells := []string{space, from}
		for k := range e {
			cells = append(cells, sides(e[k]), warmRatio(e[k]), sides(s[k]), warmRatio(s[k]))
		}
		g.rows = append(g.rows, cells)
	}
	for _, p := range w.Pairs {
		row(p.Space, p.From, p.Evaluations, p.Seconds)
	}
	row("geometric mean", "", w.Evaluations, w.Seconds)
	return g
}

func warmRatio(r searchbench.Ratio) string {
	if r.Ratio == nil {
		return "-"
	}
	return estimate(*r.Ratio)
}

func sides(r searchbench.Ratio) string {
	side := func(x float64, late bool) string {
		mark := ""
		if late {
			mark = ">"
		}
		return fmt.Sprintf("%s%.4g", mark, math.Round(x*10)/10)
	}
	return side(r.Without, r.LateWithout) + " -> " + side(r.With, r.LateWith)
}
