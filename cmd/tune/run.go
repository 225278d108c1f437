package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune/campaign"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/server"
	"github.com/evotune/evotune/store"
)

// defaultTime is the budget of a campaign that was given none.
const defaultTime = 3 * time.Minute

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run KERNEL",
		Short: "Evolve a kernel for this machine",
		Long: `Evolve a kernel for this machine: search its space, put every candidate through
the ordeal, and measure the best again at the end. Everything is kept in the
store. The first of the budgets to be spent ends the search; without any, it
ends after three minutes.

The search begins with the best that the store knows of the same kernel for other
shapes and devices, and of earlier campaigns for this one. They are evaluated like
all others. So a second campaign of the same seed in the same store walks another
path; --warm-start off gives the path of an empty store.

Ctrl-C ends the campaign after the candidates in flight, a second one at once;
"tune resume" goes on where it stopped.

With --json every line is one event; the last one is the "finished" event. With
--backend replay, KERNEL is a file with a recorded table of results.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate, exitInterrupted),
		Example: `  tune run sgemm
  tune run attention --shape 2x8x512x64-causal --time 20m
  tune run mykernel --kernels ./kernels --evaluations 200 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, target, err := a.newCampaign(args[0])
			if err != nil {
				return badInput(err)
			}
			return a.campaign(cmd.Context(), cfg, target, "")
		},
	}
	addSettings(cmd.Flags(), runSettings)
	addSettings(cmd.Flags(), backendSettings)
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [CAMPAIGN]",
		Short: "Go on with a campaign that was interrupted",
		Long: `Go on with a campaign that was interrupted, or give a finished one a larger budget.
Without a name it is the last campaign of the store. The log is replayed into a
fresh search, so the path is the one that the campaign would have walked anyway.
If evotune was killed, what was in flight then is evaluated first, one at a time; a
candidate that ends it once more, alone, gets the verdict launch and is not run again.
Budgets given here replace all of the campaign's, for later resumptions too;
nothing else can be changed.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate, exitInterrupted),
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) == 1 {
				id = args[0]
			}
			return a.resume(cmd, id)
		},
	}
	addSettings(cmd.Flags(), budgetSettings())
	addSettings(cmd.Flags(), backendSettings)
	return cmd
}

// budgetSettings are what a resumption may change.
func budgetSettings() []setting {
	var out []setting
	for _, s := range runSettings {
		switch s.key {
		case "evaluations", "time", "target", "patience", "cost-per-hour", "max-cost", "workers":
			out = append(out, s)
		}
	}
	return out
}

func (a *app) budget() campaign.Budget {
	return campaign.Budget{
		Evaluations: a.v.GetInt("evaluations"),
		Time:        a.v.GetDuration("time"),
		Target:      a.v.GetFloat64("target"),
		Patience:    a.v.GetInt("patience"),
		CostPerHour: a.v.GetFloat64("cost-per-hour"),
		MaxCost:     a.v.GetFloat64("max-cost"),
	}
}

// gpuWindow is the default window for GPUs: compilers and sanitizers work ahead
// of the device, which takes one candidate at a time.
const gpuWindow = 32

// newCampaign makes the configuration of a campaign from the settings.
func (a *app) newCampaign(kernel string) (campaign.Config, target, error) {
	t := a.target(kernel)
	if err := t.resolve(); err != nil {
		return campaign.Config{}, t, err
	}
	if t.table == nil {
		b, err := a.backend(t.backend)
		if err != nil {
			return campaign.Config{}, t, err
		}
		t.limits = b.Limits()
	}
	cfg := campaign.Config{
		Kernel: t.name(), Shapes: t.shapes,
		Strategy: a.v.GetString("strategy"), Seed: a.v.GetInt64("seed"),
		Window: a.v.GetInt("window"), Finalists: a.v.GetInt("finalists"),
		Budget: a.budget(), Extra: t.record(),
	}
	if cfg.Budget.IsZero() {
		cfg.Budget.Time = defaultTime
	}
	if cfg.Window == 0 && t.backend == backendCUDA {
		cfg.Window = gpuWindow
	}
	return cfg, t, cfg.Validate()
}

// warmLimit is how many genomes of the store a new campaign may begin with. Auto
// is none where campaigns are repeated to compare searches, and for sweeps, which
// are samples.
func (a *app) warmLimit(cfg campaign.Config) (int, error) {
	switch text := a.v.GetString("warm-start"); {
	case cfg.Extra[sweepKey] != "" || text == "off":
		return 0, nil
	case text == "auto" && (cfg.Strategy == "random" || cfg.Extra["backend"] == backendReplay):
		return 0, nil
	case text == "auto":
		return campaign.DefaultWarmStart, nil
	default:
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("--warm-start is %q: give auto, off or a number of genomes", text)
		}
		return n, nil
	}
}

func (a *app) resume(cmd *cobra.Command, id string) error {
	s, err := store.Open(a.v.GetString("store"), store.Options{MustExist: true})
	if err != nil {
		return storeError(err)
	}
	c, last, err := lastRun(s, id)
	s.Close() //nolint:errcheck // nothing was written
	if err != nil {
		return badInput(err)
	}
	cfg, t, err := a.recordedCampaign(c)
	if err != nil {
		return badInput(err)
	}
	cfg.Budget = last
	if given := a.budget(); !given.IsZero() {
		cfg.Budget = given
	}
	if c.State == store.Finished && cfg.Budget == last {
		fmt.Fprintf(a.out, "campaign %s is finished; give it a larger budget to go on, such as --evaluations %d\n", c.ID, 2*c.Evaluated)
		return nil
	}
	return a.campaign(cmd.Context(), cfg, t, c.ID)
}

// pickCampaign finds the campaign of that name, or the last one.
func pickCampaign(s *store.Store, id string) (store.Campaign, error) {
	if id != "" {
		return s.Campaign(id)
	}
	all, err := s.Campaigns()
	if err != nil {
		return store.Campaign{}, err
	}
	if len(all) == 0 {
		return store.Campaign{}, fmt.Errorf("%s holds no campaign: start one with `tune run`", s.Path())
	}
	return s.Campaign(all[len(all)-1].ID)
}

// lastRun finds a campaign as pickCampaign does, and the budget that it last ran
// under, which need not be the one of its configuration.
func lastRun(s *store.Store, id string) (store.Campaign, campaign.Budget, error) {
	c, err := pickCampaign(s, id)
	if err != nil {
		return c, campaign.Budget{}, err
	}
	last, err := campaign.LastBudget(s.Events(c.ID, 0))
	return c, last, err
}

// campaign runs or resumes a campaign and prints it.
func (a *app) campaign(ctx context.Context, cfg campaign.Config, t target, resumed string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sig := catchSignals(ctx, cancel)
	warm, err := a.warmLimit(cfg)
	if err != nil {
		return badInput(err)
	}

	// The store first: a campaign whose results cannot be kept never starts.
	s, err := store.Open(a.v.GetString("store"), store.Options{MustExist: resumed != ""})
	if err != nil {
		return storeError(err)
	}
	defer s.Close() //nolint:errcheck // every append was checked
	stop, err := server.Serve(s)
	if err != nil {
		return fmt.Errorf("answer queries beside %s: %w", s.Path(), err)
	}
	defer stop()

	var past []store.Event
	if resumed != "" {
		for e, err := range s.Events(resumed, 0) {
			if err != nil {
				return storeError(err)
			}
			past = append(past, e)
		}
	}
	if !a.v.GetBool("json") && t.table == nil {
		fmt.Fprintf(a.out, "preparing %s: harness, reference, baseline, ceilings of this machine\n", cfg.Kernel)
	}
	p, err := a.open(ctx, t, cfg.Seed)
	if err != nil {
		if ctx.Err() != nil {
			return &exitError{exitInterrupted, errors.New("interrupted before the campaign began")}
		}
		return err
	}
	defer p.Evaluator.Close() //nolint:errcheck // the campaign is over
	if cfg.Extra[sweepKey] != "" {
		p.Evaluator = thorough{p.Evaluator}
	}
	if resumed != "" {
		if err := sameDevice(past, p.Evaluator.Describe()); err != nil {
			return badInput(err)
		}
	}
	if resumed == "" && warm > 0 {
		if cfg.Start, err = campaign.WarmStart(s, p, cfg, t.dims, warm); err != nil {
			return storeError(err)
		}
	}
	workers := workersFor(a.v.GetInt("workers"), cfg.Window, t.backend)
	out := a.printer(workers, p.Evaluator)
	defer out.close()
	sig.say = out.say
	sig.begun.Store(true)
	sum, err := campaign.Run(ctx, p, cfg, campaign.Options{
		Workers: workers, Log: s, Past: past, Drain: sig.drain,
		Listen: out.event, OnStage: out.stage,
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: what was evaluated is in %s; `tune resume %s` goes on", err, s.Path(), sum.Campaign)
	case !sum.Complete:
		return &exitError{code: exitInterrupted}
	case sum.Best == nil:
		return &exitError{exitNoCandidate, fmt.Errorf("campaign %s has no valid candidate: see `tune show %s` for the verdicts", sum.Campaign, sum.Campaign)}
	}
	if cfg.Extra[sweepKey] != "" {
		return nil
	}
	out.close()
	c, err := s.Campaign(sum.Campaign)
	if err != nil {
		return storeError(err)
	}
	return a.nextSteps(c, t, sum)
}

// workersFor is how many candidates are evaluated at once: those asked for, else
// one per core, for GPUs as many as there are proposals in flight, since most of
// them wait for the GPU. A window of zero is the default one.
func workersFor(asked, window int, backend string) int {
	window = cmp.Or(window, campaign.DefaultWindow)
	switch {
	case asked > 0:
		return min(asked, window)
	case backend == backendCUDA:
		return window
	}
	return min(runtime.NumCPU(), window)
}

// printer chooses how events are shown: JSON lines, a live display in a
// terminal, or plain lines.
func (a *app) printer(workers int, ev evaluator.Evaluator) printer {
	if a.v.GetBool("json") {
		return jsonPrinter{a.out, a.err}
	}
	if f, ok := a.terminal(); ok {
		return newLivePrinter(f, workers, ev)
	}
	return &textPrinter{w: a.out}
}

// signals turns Ctrl-C, SIGTERM and a lost connection into a clean end.
type signals struct {
	// drain is closed by the first signal, if the campaign has begun by then.
	drain chan struct{}
	begun atomic.Bool
	say   func(string) // set before begun
}

// catchSignals cancels at the second signal, or at the first one if there is
// nothing in flight yet.
func catchSignals(ctx context.Context, cancel context.CancelFunc) *signals {
	s := &signals{drain: make(chan struct{})}
	sig := make(chan os.Signal, 2)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		defer signal.Stop(sig)
		select {
		case <-sig:
		case <-ctx.Done():
			return
		}
		if s.begun.Load() {
			s.say("ending after the candidates in flight; once more ends at once")
			close(s.drain)
			select {
			case <-sig:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return s
}

// formatDims prints the sizes of a shape in the order of the problem.
func formatDims(dims []string, sizes map[string]int64) string {
	parts := make([]string, len(dims))
	for i, d := range dims {
		parts[i] = d + "=" + strconv.FormatInt(sizes[d], 10)
	}
	return strings.Join(parts, " ")
}
