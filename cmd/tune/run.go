package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/store"
)

func (a *app) runCommand() *cobra.Command {
	var fam evotune.FamilySpec
	cmd := &cobra.Command{
		Use:   "run KERNEL",
		Short: "Evolve a kernel for this machine",
		Long: `Evolve a kernel for this machine: search its space, put every candidate through
the ordeal, and measure the best again at the end. The store keeps everything.
The search ends when the first budget is spent. --time is for the whole command:
preparation, search and finals. It is two minutes if you set no budget. Finals that
don't fit end early, and say what they could not separate.

The search begins with the best genomes that the store has of the same kernel, for
other shapes and devices and for this one. They are evaluated like all others. So a
second campaign with the same seed in the same store takes another path, unless
--warm-start is off. Genomes that the kernel's definition names come next, also with
--warm-start off, but not with --strategy random.

Ctrl-C ends the campaign after the candidates in flight; a second one ends it at
once. "tune resume" continues it.

With --json every line is one event; the last one is the "finished" event. With
--backend replay, KERNEL is a file with a recorded table of results.

With --server, or a --store that "tune serve" holds, the campaign is submitted to that
service and followed; a kernel of --kernels is uploaded first. Ctrl-C then only
detaches, and "tune attach" follows the campaign again.

With --family, several shapes are tuned under one budget. Each shape has a campaign
that begins with the winners of its neighbors. The same command again, or "tune
resume", continues. See docs/family.md.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate, exitInterrupted),
		Example: `  tune run sgemm
  tune run attention --shape 2x8x512x64-causal --time 20m
  tune run softmax --family "ROWS=64,1024,8192 COLS=64,1024" --time 10m
  tune run mykernel --kernels ./kernels --evaluations 200 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(fam.Grids) == 0 && cmd.Flags().Changed("between") {
				return badInputf("--between is for shapes between those of a family: give --family as well")
			}
			fam.Between = betweenOf(fam.Between)
			c, err := a.service(cmd.Context())
			if err != nil {
				return err
			}
			if c != nil && len(fam.Grids) > 0 {
				c.Close()
				return badInputf("--family does not run in a service: leave out --server, or name another --store")
			}
			if c != nil {
				defer c.Close()
				return a.submit(cmd.Context(), cmd, c, args[0])
			}
			for _, name := range []string{"detach", "priority"} {
				if cmd.Flags().Changed(name) {
					return badInputf("--%s is for campaigns in a service: give --server URL, or the --store of a `tune serve` on this machine", name)
				}
			}
			job := a.submission(args[0]).Job
			if len(fam.Grids) > 0 {
				f, err := a.machine().Family(cmd.Context(), job, fam)
				if err != nil {
					return err
				}
				s, err := store.Open(a.Store, store.Options{})
				if err != nil {
					return storeError(err)
				}
				defer s.Close() //nolint:errcheck // every append was checked
				return a.family(cmd.Context(), s, f)
			}
			t, err := a.machine().Target(job)
			if err != nil {
				return err
			}
			// The store first: a campaign whose results cannot be kept never starts.
			s, err := store.Open(a.Store, store.Options{})
			if err != nil {
				return storeError(err)
			}
			defer s.Close() //nolint:errcheck // every append was checked
			return a.campaign(cmd.Context(), s, t)
		},
	}
	addOptions(cmd.Flags(), runOptions, workersOption, backendOptions, remoteOptions)
	cmd.Flags().StringArrayVar(&fam.Grids, "family", nil, "tune for all shapes of a `GRID` under one budget, such as \"S=512,2048 D=64,128 B=2 H=8\" (repeatable)")
	cmd.Flags().StringArrayVar(&fam.Between, "between", nil, "also compare the winners of a family at the shapes of a `GRID`; none turns this off (repeatable; default: between values more than a doubling apart)")
	cmd.Flags().Bool("detach", false, "with a service: print the campaign's name and do not follow it")
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [CAMPAIGN]",
		Short: "Continue an interrupted campaign, or a family",
		Long: `Continue an interrupted campaign, or give a finished one a larger budget.
Without a name it continues the last campaign of the store, or the family of that
campaign. The log is replayed into a new search, so the path is the one that the
campaign would have taken without the interruption. If evotune was killed, the
candidates in flight are evaluated first, one at a time; one that kills evotune again,
alone, gets the verdict launch and is not run again. Budgets given here replace all of
the campaign's, for later resumptions too; nothing else of the search can be changed.

With --server, or a --store that "tune serve" holds, that service continues the
campaign, and this command follows it as "tune attach" does.
` + exitHelp(exitOK, exitFailure, exitBadInput, exitNoCandidate, exitInterrupted),
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) == 1 {
				id = args[0]
			}
			c, err := a.service(cmd.Context())
			if err != nil {
				return err
			}
			if c != nil {
				defer c.Close()
				if cmd.Flags().Changed("kernels") {
					return badInputf("--kernels: a campaign in a service keeps the kernel that it was submitted with: submit another campaign with `tune run`")
				}
				if err := elsewhereOnly(cmd); err != nil {
					return err
				}
				return a.resumeThere(cmd.Context(), c, id, a.Run.Budget)
			}
			return a.resume(cmd.Context(), id)
		},
	}
	addOptions(cmd.Flags(), budgetOptions, workersOption, backendOptions, remoteOptions)
	return cmd
}

// submission is the job of the settings, with what belongs to a service. With the backend replay, kernel is a table's file.
func (a *app) submission(kernel string) api.Submission {
	s := a.Run
	if s.Kernel = kernel; s.Backend == evotune.Replay {
		s.Kernel, s.Table = "", kernel
	}
	return s
}

func (a *app) resume(ctx context.Context, id string) error {
	s, err := store.Open(a.Store, store.Options{MustExist: true})
	if err != nil {
		return storeError(err)
	}
	defer s.Close() //nolint:errcheck // every append was checked
	if f, err := a.continuedFamily(s, id); err != nil {
		return badInput(err)
	} else if f != nil {
		return a.family(ctx, s, f)
	}
	t, err := a.machine().Continue(s, id, a.Run.Budget)
	var done *evotune.FinishedError
	if errors.As(err, &done) {
		return a.isFinished(done.Campaign.ID, done.Campaign.Evaluated)
	}
	if err != nil {
		return badInput(err)
	}
	return a.campaign(ctx, s, t)
}

// isFinished says what a resumption of a finished campaign lacks.
func (a *app) isFinished(id string, evaluated int) error {
	_, err := fmt.Fprintf(a.out, "campaign %s is finished; give it a larger budget to go on, such as --evaluations %d\n", id, 2*evaluated)
	return err
}

// campaign runs or resumes a campaign and prints it.
func (a *app) campaign(ctx context.Context, s *store.Store, t *evotune.Target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sig := catchSignals(ctx, cancel)
	stop, err := server.Serve(s)
	if err != nil {
		return fmt.Errorf("answer queries beside %s: %w", s.Path(), err)
	}
	defer stop()
	if !a.JSON && t.Job.Backend != evotune.Replay {
		a.preparing(t.Job.Kernel)
	}
	var out printer
	defer func() {
		if out != nil {
			out.close()
		}
	}()
	following, prepared := a.followPreparation(ctx)
	defer prepared()
	sum, err := t.Run(following, s, evotune.Options{
		Workers: a.Workers, Drain: sig.drain,
		Ready: func(workers int, ev evaluator.Evaluator) {
			prepared()
			out = a.printer(workers, func() (evaluator.Usage, bool) { return evaluator.UsageOf(ev) })
			sig.say = out.say
			sig.begun.Store(true)
		},
		Listen:  func(e evotune.Event) { out.event(e) },
		OnStage: func(worker int, candidate string, stage evaluator.Stage) { out.stage(worker, candidate, stage) },
	})
	switch {
	case out == nil && err != nil && ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted before the campaign began")}
	case out == nil:
		return err
	case err != nil:
		return fmt.Errorf("%w: what was evaluated is in %s; `tune resume %s` goes on", err, s.Path(), sum.Campaign)
	case !sum.Complete:
		return &exitError{code: exitInterrupted}
	case sum.Best == nil:
		return &exitError{exitNoCandidate, fmt.Errorf("campaign %s has no valid candidate: see `tune show %s` for the verdicts", sum.Campaign, sum.Campaign)}
	}
	if t.Job.Sweep {
		return nil
	}
	out.close()
	c, err := s.Campaign(sum.Campaign)
	if err != nil {
		return storeError(err)
	}
	return a.nextSteps(c, t.Job, t.Definition(), sum, a.given("store"))
}

// printer chooses how events are shown: JSON lines, a live display in a
// terminal, or plain lines.
func (a *app) printer(workers int, usage func() (evaluator.Usage, bool)) printer {
	if a.JSON {
		return jsonPrinter{a.out, a.err}
	}
	if f, ok := a.out.terminal(); ok {
		return newLivePrinter(f, workers, usage)
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

// endSignals are the signals that ask a command to end.
func endSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// catchSignals cancels at the second signal, or at the first one if there is
// nothing in flight yet.
func catchSignals(ctx context.Context, cancel context.CancelFunc) *signals {
	s := &signals{drain: make(chan struct{})}
	sig := make(chan os.Signal, 2)
	signal.Notify(sig, endSignals()...)
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
