package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/internal/option"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/search"
	"github.com/evotune/evotune/searchbench"
)

// interruptedHelp ends the help of commands that are not resumed.
const interruptedHelp = "  130  interrupted; no file is left half written\n"

// autoBudget is the --budget that the methodology defines.
const autoBudget = "auto"

// A replayed is what `tune replay` gives.
type replayed struct {
	searchbench.Facts
	Strategy string  `json:"strategy"`
	Version  int     `json:"search_version"`
	Seed     int64   `json:"seed"` // of the first run
	Window   int     `json:"window"`
	SpentS   float64 `json:"given_s"` // the budget of this command, simulated seconds
	searchbench.Score
}

func (a *app) replayCommand() *cobra.Command {
	var repeats, window int
	var budget, trace, t1 string
	var overhead bool
	cmd := &cobra.Command{
		Use:   "replay SPACE",
		Short: "Search a recorded space on a simulated clock, and score it",
		Long: `Search a recorded space many times, on a simulated clock that every evaluation
advances by its recorded cost, and score the search: 0 is random search, 1 the
optimum at once. SPACE is a table as "tune sweep" writes it, a T4
file or a cache file of Kernel Tuner, gzipped or not. docs/searchbench.md has
the formulas.

Run i has the seed --seed + i. --trace writes the configurations of every run,
for other scorers.
` + exitHelp(exitOK, exitFailure, exitBadInput) + interruptedHelp,
		Example: `  tune replay softmax.json --repeats 40
  tune replay gemm.json.gz --strategy random --repeats 100 --trace random.json
  tune replay gemm.json.gz --window 32 --budget 600`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			how := searchbench.Search{
				Strategy: a.Run.Strategy, Seed: a.Run.SearchSeed(), Window: window, Overhead: overhead,
			}
			if budget != autoBudget {
				s, err := strconv.ParseFloat(budget, 64)
				if err != nil || !(s > 0 && s < 1e9) {
					return badInputf("--budget is %q: it must be a number of simulated seconds above 0, or %s", budget, autoBudget)
				}
				how.Budget = s
			}
			if err := cmp.Or(checkCount("--repeats", repeats, mostRepeats), checkCount("--window", window, evotune.MaxWindow)); err != nil {
				return err
			}
			plan := searchbench.Plan{Strategies: []string{how.Strategy}}
			if err := plan.Validate(); err != nil {
				return badInput(err)
			}
			s, err := a.openSpace(args[0], t1)
			if err != nil {
				return err
			}
			return a.replay(cmd.Context(), s, args[0], how, repeats, trace)
		},
	}
	addOptions(cmd.Flags(), option.Named(runOptions, "strategy", "seed"))
	cmd.Flags().IntVar(&repeats, "repeats", 40, "search `N` times")
	cmd.Flags().StringVar(&budget, "budget", autoBudget, "simulated `SECONDS` of each run; auto is the methodology's budget")
	cmd.Flags().IntVar(&window, "window", 1, "proposals in flight")
	cmd.Flags().StringVar(&trace, "trace", "", "write what was evaluated to `FILE`")
	cmd.Flags().StringVar(&t1, "t1", "", "the T1 description, in `FILE`, of results without constraints")
	cmd.Flags().BoolVar(&overhead, "overhead", false, "add the search's own time to the simulated clock and to the trace: no two runs are then the same")
	return cmd
}

// mostRepeats is the most runs of one search that are scored: far more than narrow any score.
const mostRepeats = 100_000

// checkCount checks a flag that is at least 1.
func checkCount(flag string, n, most int) error {
	switch {
	case n < 1:
		return badInputf("%s is %d, it must be at least 1", flag, n)
	case n > most:
		return badInputf("%s is %d, it must be at most %d", flag, n, most)
	}
	return nil
}

// openSpace loads a table for scoring, as a space with the name of the file.
// description is a T1 file, or empty.
func (a *app) openSpace(path, description string) (*searchbench.Space, error) {
	table, err := tables.LoadDescribed(path, description)
	if err != nil {
		return nil, badInput(err)
	}
	for _, notice := range table.Notices() {
		fmt.Fprintf(a.err, "tune: %s\n", notice)
	}
	name := filepath.Base(path)
	for _, ending := range []string{".gz", ".json"} {
		name = strings.TrimSuffix(name, ending)
	}
	s, err := searchbench.New(name, table)
	return s, badInput(err)
}

func (a *app) replay(ctx context.Context, s *searchbench.Space, path string, how searchbench.Search, repeats int, trace string) error {
	if how.Budget == 0 {
		how.Budget = s.Budget()
	}
	var runs []searchbench.Run
	err := a.interruptible(ctx, repeats, func(ctx context.Context, done func()) (err error) {
		if trace == "" {
			runs, err = s.Runs(ctx, how, repeats, done)
			return err
		}
		return writeTrace(trace, func(w io.Writer) error {
			if runs, err = s.Runs(ctx, how, repeats, done); err != nil {
				return err
			}
			return json.NewEncoder(w).Encode(s.Trace(path, how.Strategy, runs))
		})
	})
	if err != nil {
		return err
	}
	r := replayed{s.Facts(), how.Strategy, search.Version(how.Strategy), how.Seed, how.Window, how.Budget, s.Score(runs)}
	if a.JSON {
		return a.printJSON(r)
	}
	return a.printReplayed(r)
}

func (a *app) printReplayed(r replayed) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "space\t%s%s: %s configurations, %s of them failed\n", r.Space, onDevice(r.Device), count(float64(r.Configurations)), count(float64(r.Failed)))
	fmt.Fprintf(w, "search\t%s version %d, window %d, %s\n", r.Strategy, r.Version, r.Window, seeds(r.Seed, r.Runs))
	fmt.Fprintf(w, "budget\t%.1f s simulated\n", r.SpentS)
	fmt.Fprintf(w, "evaluations\t%s\n", r.Evaluations)
	fmt.Fprintf(w, "best found\t%.6g ms\n", float64(r.BestMS))
	fmt.Fprintf(w, "ratio to the optimum\t%.4g\n", float64(r.Ratio))
	fmt.Fprintf(w, "within 5%%\t%s\n", reachText(r.Within5))
	fmt.Fprintf(w, "within 1%%\t%s\n", reachText(r.Within1))
	fmt.Fprintf(w, "P_iso\t%s\n", estimate(r.PIso))
	fmt.Fprintf(w, "P_mean\t%s\n", estimate(r.PMean))
	fmt.Fprintf(w, "search's own time\t%s an evaluation\n", nanoseconds(float64(r.Own)))
	return w.Flush()
}

func onDevice(device string) string {
	if device == "" {
		return ""
	}
	return " on " + device
}

func seeds(first int64, n int) string {
	if n == 1 {
		return fmt.Sprintf("seed %d", first)
	}
	return fmt.Sprintf("seeds %d to %d (medians)", first, first+int64(n)-1)
}

func reachText(r searchbench.Reach) string {
	return fmt.Sprintf("%.0f%% of the runs; after %s evaluations, %s", 100*r.Hit, r.Evaluations, simulated(r.Seconds))
}

// simulated prints simulated seconds.
func simulated(m searchbench.Median) string {
	if m.String() == "-" {
		return "-"
	}
	return fmt.Sprintf("%.1f s", float64(m))
}

// estimate prints a score with its error.
func estimate(e searchbench.Estimate) string { return fmt.Sprintf("%.3f ± %.3f", e.Value, e.Err) }

// interruptible runs work that takes long: with a bar on a terminal, and so that
// Ctrl-C ends it. done is to be called total times.
func (a *app) interruptible(ctx context.Context, total int, work func(ctx context.Context, done func()) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	done, end := func() {}, func() {}
	if f, ok := a.err.terminal(); ok {
		done, end = runsBar(f, total)
	}
	err := work(ctx, done)
	end()
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted")}
	}
	return err
}

// runsBar shows how many runs are done.
func runsBar(w io.Writer, total int) (done, end func()) {
	began := time.Now()
	progress := mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh(), mpb.WithRefreshRate(200*time.Millisecond), mpb.WithWidth(40))
	bar := progress.New(int64(total), mpb.BarStyle().Lbound("[").Rbound("]").Filler("=").Tip(">").Padding(" "),
		mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string {
			text := fmt.Sprintf(" %d of %s, %s", s.Current, words.Plural(total, "run"), duration(time.Since(began)))
			if s.Current > 0 {
				text += fmt.Sprintf(", about %s left", duration(time.Since(began)*time.Duration(int64(total)-s.Current)/time.Duration(s.Current)))
			}
			return text
		})))
	return bar.Increment, func() {
		bar.Abort(true)
		progress.Wait()
	}
}

// writeTrace is writeWhole for a file that the command line names.
func writeTrace(path string, write func(io.Writer) error) error {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return badInputf("cannot write %s: %w", path, err)
	}
	return writeWhole(path, write)
}
