package campaign_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/search"
)

// thinking is a strategy that takes a second for each proposal.
const thinking = "thinking"

type slowly struct{ search.Base }

func (s slowly) Ask() (search.Proposal, bool) {
	time.Sleep(time.Second)
	return s.Fresh()
}

func init() {
	search.Register(thinking, 1, func(b search.Base) search.Strategy { return slowly{b} })
}

// TestProposing: a search that takes long to fill its window hands out what it has proposed, and
// heeds budgets, drains and cancellation.
func TestProposing(t *testing.T) {
	job := config(0)
	job.Strategy, job.Window, job.Finalists = thinking, 500, new(0)
	for name, c := range map[string]struct {
		budget   record.Budget
		drain    time.Duration
		cancel   time.Duration
		least    time.Duration // how long it runs
		most     time.Duration
		complete bool
	}{
		"time":          {budget: record.Budget{Time: time.Minute}, least: 50 * time.Second, most: 70 * time.Second, complete: true},
		"money":         {budget: record.Budget{MaxCost: 1, CostPerHour: 60}, least: 50 * time.Second, most: 70 * time.Second, complete: true},
		"drained":       {budget: record.Budget{Evaluations: 1000}, drain: 20 * time.Second, least: 20 * time.Second, most: 30 * time.Second},
		"cancelled":     {budget: record.Budget{Evaluations: 1000}, cancel: 20 * time.Second, least: 20 * time.Second, most: 22 * time.Second},
		"replayed":      {budget: record.Budget{Evaluations: 1000}, cancel: 20 * time.Second, least: 20 * time.Second, most: 22 * time.Second},
		"to its number": {budget: record.Budget{Evaluations: 40}, least: 40 * time.Second, most: 60 * time.Second, complete: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := job
				job.Budget = c.budget
				log := &memory{}
				p := problem(t, 0)
				p.Evaluator = &pace{Evaluator: p.Evaluator, one: 2 * time.Second}
				if name == "replayed" {
					all := job
					all.Budget = record.Budget{Evaluations: 100}
					if _, err := campaign.Run(t.Context(), p, all, campaign.Options{Workers: 4, Log: log}); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				drain := make(chan struct{})
				if c.drain > 0 {
					time.AfterFunc(c.drain, func() { close(drain) })
				}
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				begun := time.Now()
				var first time.Duration
				f, err := campaign.Run(ctx, p, job, campaign.Options{Workers: 4, Log: log, Past: slices.Clone(log.events), Drain: drain, Listen: func(e campaign.Event) {
					if e.Started != nil {
						first = time.Since(begun)
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took < c.least || took > c.most {
					t.Errorf("it ended after %s, expected %s to %s", took, c.least, c.most)
				}
				if f.Complete != c.complete {
					t.Errorf("complete %v: %s", f.Complete, f.Reason)
				}
				if name == "replayed" {
					if f.Evaluated != 100 {
						t.Errorf("%d evaluated while the log's 100 were read again", f.Evaluated)
					}
					return
				}
				if first > 2*time.Second {
					t.Errorf("it began to search after %s", first)
				}
				if f.Evaluated == 0 && c.cancel == 0 { // results out of turn are lost with what is in flight
					t.Error("nothing was evaluated")
				}
			})
		})
	}
}

// TestProposingPath: where a slow search is interrupted, before its window is full too, it goes on
// as if it had not been.
func TestProposingPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := config(30)
		job.Strategy, job.Window, job.Finalists = thinking, 20, new(0)
		run := func(log *memory, workers int, end time.Duration) bool {
			p := problem(t, 0)
			p.Evaluator = &pace{Evaluator: p.Evaluator, one: 2 * time.Second}
			drain := make(chan struct{})
			if end > 0 {
				defer time.AfterFunc(end, func() { close(drain) }).Stop()
			}
			f, err := campaign.Run(t.Context(), p, job, campaign.Options{Workers: workers, Log: log, Past: slices.Clone(log.events), Drain: drain})
			if err != nil {
				t.Fatal(err)
			}
			return f.Complete
		}
		whole, parts := &memory{}, &memory{}
		run(whole, 1, 0)
		for end := 12 * time.Second; !run(parts, 3, end); end += 15 * time.Second { // the log is read again in the search's own time
			if end > 10*time.Minute {
				t.Fatal("it does not end")
			}
		}
		if diff := differ(whole.path(), parts.path()); diff != "" {
			t.Errorf("the path (-whole +interrupted):\n%s", diff)
		}
	})
}
