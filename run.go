package evotune

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// Options say how a campaign runs here and now; they never change its path. The zero
// value works.
type Options struct {
	// Workers is how many candidates are evaluated at once, at most one for each
	// proposal in flight. Zero means two per core or, on GPUs, one per proposal.
	Workers int
	// Listen, when not nil, is called with every event, from one goroutine.
	Listen func(Event)
	// OnStage, when not nil, is called from the workers: with an empty stage when
	// they take a candidate, with the stages it enters, and with an empty
	// candidate when they are idle.
	OnStage func(worker int, candidate string, stage evaluator.Stage)
	// Ready, when not nil, is called once before the first event, when the evaluator
	// is open.
	Ready func(workers int, ev evaluator.Evaluator)
	// Drain, when it is closed, ends the campaign after the candidates that are
	// being evaluated. The end of the context ends it at once. Either way Finished is
	// not Complete, and Resume continues the campaign.
	Drain <-chan struct{}
	// Fleet, when not nil, evaluates the candidates on its workers, on at most FleetWorkers of
	// them at once (zero: four). Workers is then set to the window: how many candidates are
	// evaluated at once follows from the fleet's workers. The path is the same.
	Fleet        *Fleet
	FleetWorkers int
	// Priority orders the campaigns of a fleet, the largest first.
	Priority int
	// Budgets, when not nil, replaces the whole budget of the running campaign. A new budget
	// takes effect between two results, for later resumptions too, and the event Budget says
	// that it is durable. With a larger budget the search goes on; one that is already spent
	// ends it as usual, with finals. The campaign receives until the event Searched; after
	// that, Resume continues it with a larger budget. A sender must not wait for the
	// campaign alone: it may have ended. A budget that Validate refuses only causes an event
	// Warning.
	Budgets <-chan Budget

	searchOnly bool // as in campaign.Options
}

// Run does a job as a new campaign of the store. When s is nil, nothing is kept, and
// the campaign begins without earlier winners. Run returns when the budget is spent
// and the finals are done, when o.Drain is closed, or when ctx ends. What was
// evaluated is in the store even when there is an error. Finished names the campaign,
// if it began.
func (m *Machine) Run(ctx context.Context, s *store.Store, job Job, o Options) (Finished, error) {
	t, err := m.Target(job)
	if err != nil {
		return Finished{}, err
	}
	return t.Run(ctx, s, o)
}

// Resume calls Continue and then Run.
func (m *Machine) Resume(ctx context.Context, s *store.Store, id string, b Budget, o Options) (Finished, error) {
	t, err := m.Continue(s, id, b)
	if err != nil {
		return Finished{}, err
	}
	return t.Run(ctx, s, o)
}

// A FinishedError is the error of Continue for a campaign that its budget has ended.
type FinishedError struct{ Campaign store.Campaign }

func (e *FinishedError) Error() string {
	return fmt.Sprintf("campaign %s is finished; give it a larger budget to go on, such as %d evaluations", e.Campaign.ID, 2*e.Campaign.Evaluated)
}

// Is reports that e is an ErrInput.
func (e *FinishedError) Is(target error) bool { return target == ErrInput }

// Continue returns the target that continues a stored campaign, or the last one for an
// empty id. A budget that is not zero replaces the campaign's, for later
// resumptions too. The error is one of the store, an ErrInput or a *FinishedError.
func (m *Machine) Continue(s *store.Store, id string, b Budget) (*Target, error) {
	c, last, err := lastRun(s, id)
	if err != nil {
		return nil, err
	}
	t, err := m.Recorded(c)
	if err != nil {
		return nil, err
	}
	t.resumed, t.Job.Budget = true, last
	if !b.IsZero() {
		t.Job.Budget = b
	}
	if c.State == store.Finished && t.Job.Budget == last {
		return nil, &FinishedError{c}
	}
	if err := notArchived(s, c); err != nil {
		return nil, err
	}
	if a := t.Job.Arch; a != "" && a != runtime.GOARCH {
		return nil, badInput(fmt.Errorf("campaign %s began on %s; floating-point results on %s differ, so its path would change: resume it on %s, or start a new campaign", c.ID, a, runtime.GOARCH, a))
	}
	return t, badInput(campaign.Validate(t.Job))
}

// notArchived refuses to continue an archived campaign, which takes no more events.
func notArchived(s *store.Store, c store.Campaign) error {
	if c.Archive == "" {
		return nil
	}
	return badInput(fmt.Errorf("campaign %s is in the archive %s and takes no more evaluations: `tune merge %s --into NEW` makes a store in which it does",
		c.ID, c.Archive, s.Path()))
}

// lastRun finds a campaign, or the last one for an empty id, and the budget that it
// last ran under, which may differ from the one of its configuration.
func lastRun(s *store.Store, id string) (store.Campaign, Budget, error) {
	if id == "" {
		all, err := s.Campaigns()
		if err != nil {
			return store.Campaign{}, Budget{}, err
		}
		if len(all) == 0 {
			return store.Campaign{}, Budget{}, badInput(fmt.Errorf("%s holds no campaign: start one with `tune run`", s.Path()))
		}
		id = all[len(all)-1].ID
	}
	c, err := s.Campaign(id)
	if err != nil {
		return c, Budget{}, err
	}
	sum, err := record.ReadSummary(s, c.ID)
	return c, sum.Job.Budget, err
}

// Run runs the target as a campaign of the store, as [Machine.Run] does, or continues the one that
// [Machine.Continue] or [Machine.ContinueSweep] made it from. The targets of FileTarget and of
// Recorded are refused with an ErrInput.
func (t *Target) Run(ctx context.Context, s *store.Store, o Options) (Finished, error) {
	begun := time.Now()
	cfg, err := t.Fix(ctx, s)
	if err != nil {
		return Finished{}, err
	}
	var past []store.Event
	if t.resumed {
		for e, err := range s.Events(t.recorded, 0) {
			if err != nil {
				return Finished{}, err
			}
			past = append(past, e)
		}
	}
	var p Problem
	if o.Fleet != nil {
		begun = time.Time{} // waiting for a worker is not preparing
		o.Workers = campaign.WithDefaults(cfg).Window
		p, err = t.openOn(ctx, s, past, cfg, &o)
	} else {
		if t.search, err = searches(cfg.Budget, past, o.searchOnly); err != nil {
			return Finished{}, err
		}
		p, err = t.Open(ctx)
	}
	if err != nil {
		return Finished{}, err
	}
	defer p.Evaluator.Close() //nolint:errcheck // the campaign is over
	if t.Job.Sweep {
		p.Evaluator = thorough{p.Evaluator}
	}
	if err := resumable(past, p.Evaluator.Describe()); err != nil {
		return Finished{}, badInput(err)
	}
	o.Listen = t.warned(o.Listen)
	workers := workersFor(o.Workers, cfg.Window, cfg.Backend)
	if o.Ready != nil {
		o.Ready(workers, p.Evaluator)
	}
	run := campaign.Options{
		Workers: workers, Remote: o.Fleet != nil, Begun: begun, Past: past, Drain: o.Drain, Budgets: o.Budgets, Listen: o.Listen, OnStage: o.OnStage, SearchOnly: o.searchOnly,
	}
	if s != nil {
		run.Log = s
	}
	return campaign.Run(ctx, p, cfg, run)
}

// warned passes on the events of a campaign, and after its start what is left out.
func (t *Target) warned(listen func(Event)) func(Event) {
	lines := t.LeftOut()
	if listen == nil || len(lines) == 0 {
		return listen
	}
	return func(e Event) {
		listen(e)
		if e.Started == nil {
			return
		}
		for _, line := range lines {
			listen(Event{Time: e.Time, Warning: line})
		}
	}
}

// few candidates are evaluated as fast by the first worker of each kind.
const few = 8

// searches says that more than a few candidates are left of a budget. Where a campaign goes on for
// its finals alone, to start workers for a search costs more than they can save.
func searches(b Budget, past []store.Event, searchOnly bool) (bool, error) {
	var done record.Summary
	for _, e := range past {
		if err := done.Add(e); err != nil {
			return false, err
		}
	}
	spent := done.Spent()
	if searchOnly {
		spent = done.Phases().Searched
	}
	over := b.Time > 0 && spent >= b.Time
	return !over && (b.Evaluations == 0 || b.Evaluations-done.Evaluated > few), nil
}

// Fix returns the target's job with all that a campaign records of it: name and defaults are
// filled in, and Start has the genomes to begin with, from what the store holds now; s may be
// nil. [Target.Run] begins with Fix. A caller that queues jobs fixes them when it accepts
// them: [Machine.Run] then takes the path that the target would have taken at that time,
// whatever the store holds later. Fix builds nothing, but looks for a GPU. The targets of
// FileTarget and of Recorded are refused with an ErrInput; the job of a campaign to continue
// is unchanged.
func (t *Target) Fix(ctx context.Context, s *store.Store) (Job, error) {
	switch {
	case t.file != nil:
		return Job{}, badInput(fmt.Errorf("%s is a finished kernel, which no campaign searches: judge it", t.file.path))
	case t.resumed:
		return t.Job, nil
	case t.recorded != "":
		return Job{}, badInput(fmt.Errorf("campaign %s is recorded: go on with it, or start a new campaign with its job", t.recorded))
	}
	job := campaign.WithDefaults(t.Job)
	job.Arch = runtime.GOARCH
	if job.Start != nil {
		return job, nil
	}
	n := warmStart(job)
	job.Start = []Start{}
	if s == nil || n < 0 {
		n = 0
	}
	if n == 0 && cold(job) {
		return job, nil
	}
	space, here, err := t.here(ctx)
	if err != nil {
		return Job{}, err
	}
	if n > 0 {
		found, err := campaign.WarmStart(s, space, here, job, t.dims, n)
		if err != nil {
			return Job{}, err
		}
		job.Start = append(job.Start, found...)
	}
	if !cold(job) {
		job.Start = campaign.Named(space, here, job.Start, t.chosen)
	}
	return job, nil
}

// here returns the space, and the part of the evaluator's description that is
// known before it is open: backend, device and implementations.
func (t *Target) here(ctx context.Context) (space *genome.Space, d evaluator.Description, err error) {
	if t.table != nil {
		ev, err := replay.New(t.table, replay.Options{})
		if err != nil {
			return nil, d, badInput(err)
		}
		return ev.Space(), ev.Describe(), nil
	}
	d.Backend = t.Job.Backend
	for _, im := range t.chosen {
		d.Implementations = append(d.Implementations, im.Name)
	}
	if d.Device, err = t.machine.device(ctx, d.Backend); err != nil {
		return nil, d, err
	}
	space, err = t.Space()
	return space, d, err
}

// warmStart is how many genomes of the store a new campaign may begin with.
func warmStart(j Job) int {
	switch {
	case j.Sweep || j.Start != nil:
		return 0
	case j.WarmStart != nil:
		return *j.WarmStart
	case cold(j):
		return 0
	}
	return DefaultWarmStart
}

// cold says that a campaign begins without genomes that are known to be good: campaigns
// that are repeated to compare searches, and sweeps, which are samples.
func cold(j Job) bool { return j.Sweep || j.Strategy == "random" || j.Backend == Replay }

// workersFor is how many candidates are evaluated at once: as many as asked for, else
// two per core, so that one is ready when a core or the turn to time is free, or for GPUs
// as many as there are proposals in flight, since most of them wait for the GPU. A window of
// zero is the default one.
func workersFor(asked, window int, name string) int {
	window = cmp.Or(window, campaign.DefaultWindow)
	switch {
	case asked > 0:
		return min(asked, window)
	case backend.Of(name).Accelerator:
		return window
	}
	return min(2*runtime.NumCPU(), window)
}

// resumable refuses to continue a campaign on another device or against another baseline:
// its results would not be comparable.
func resumable(past []store.Event, now evaluator.Description) error {
	for _, e := range past {
		if e.Started == nil {
			continue
		}
		if e.Started.Device != now.Device.Fingerprint {
			return fmt.Errorf("campaign %s was started on another device (%s, %s; this is %s, %s): results would not be comparable; start a new campaign here",
				e.Campaign, e.Started.Name, e.Started.Device, now.Device.Name, now.Device.Fingerprint)
		}
		then, err := record.ReadDescription(e.Campaign, e.Started)
		if err != nil {
			return err
		}
		if err := sameBaseline(then, now); err != nil {
			return fmt.Errorf("campaign %s: %w; or start a new campaign here", e.Campaign, err)
		}
	}
	return nil
}

// sameBaseline checks that the baseline of a record is the one here now, which depends on
// the installed libraries.
func sameBaseline(then, now evaluator.Description) error {
	if then.Baseline == "" || then.Baseline == now.Baseline {
		return nil
	}
	way := ""
	if strings.Contains(then.Baseline+now.Baseline, "libcudnn") {
		way = "; TUNE_CUDA_CUDNN chooses cuDNN's file, or none"
	}
	return fmt.Errorf("it was measured against %s, and here the baseline is %s: results would not be comparable%s", then.Baseline, now.Baseline, way)
}

// thorough measures every candidate as if it could be the best: a benchmark that
// ends early because others are faster does not measure a space.
type thorough struct{ evaluator.Evaluator }

// Usage passes on the evaluator's usage.
func (t thorough) Usage() (evaluator.Usage, bool) { return evaluator.UsageOf(t.Evaluator) }

// Conditions passes on the evaluator's conditions.
func (t thorough) Conditions(ctx context.Context) (evaluator.Conditions, bool) {
	return evaluator.ConditionsOf(ctx, t.Evaluator)
}

// Evaluate ignores the incumbent.
func (t thorough) Evaluate(ctx context.Context, g genome.Genome, _ float64) (evaluator.Result, error) {
	return t.Evaluator.Evaluate(ctx, g, 0)
}
