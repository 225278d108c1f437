package server

import (
	"maps"
	"sync"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
)

// Progress follows a running campaign.
type progress struct {
	mu      sync.Mutex
	ev      evaluator.Evaluator
	budget  evotune.Budget
	begun   time.Time
	resumed int
	last    evotune.Progress
	lastAt  time.Time
	workers []api.Worker
	since   []time.Time

	preparation evaluator.Preparation
}

func (p *progress) ready(workers int, ev evaluator.Evaluator) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ev, p.begun = ev, time.Now()
	p.workers, p.since = make([]api.Worker, workers), make([]time.Time, workers)
	for i := range p.since {
		p.since[i] = p.begun
	}
}

func (p *progress) event(e evotune.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Started != nil:
		p.budget, p.resumed = e.Started.Config.Budget, e.Started.Resumed
		p.last = evotune.Progress{Evaluated: e.Started.Resumed, Elapsed: e.Started.Spent + e.Started.Prepared, Remaining: -1}
		p.begun, p.lastAt = e.Time, e.Time
	case e.Budget != nil:
		p.budget = *e.Budget
	case e.Evaluated != nil:
		p.last, p.lastAt = e.Evaluated.Progress, e.Time
	}
}

func (p *progress) stage(worker int, candidate string, stage evaluator.Stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if worker < len(p.workers) {
		p.workers[worker] = api.Worker{Candidate: candidate, Stage: stage}
		p.since[worker] = time.Now()
	}
}

// now is the progress of this moment.
func (p *progress) now(campaign string, state api.State) api.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := api.Progress{
		Campaign: campaign, State: state, Evaluated: p.last.Evaluated, Verdicts: map[string]int{},
		ElapsedNS: p.last.Elapsed, RemainingNS: p.last.Remaining, Workers: make([]api.Worker, len(p.workers)),
	}
	for v, n := range maps.All(p.last.Verdicts) {
		out.Verdicts[string(v)] = n
	}
	if state == api.Searching && !p.lastAt.IsZero() {
		waited := time.Since(p.lastAt)
		out.ElapsedNS += waited
		if out.RemainingNS >= 0 {
			out.RemainingNS = max(0, out.RemainingNS-waited)
		}
	}
	if d := time.Since(p.begun); p.last.Evaluated > p.resumed && d > 0 {
		out.PerMinute = float64(p.last.Evaluated-p.resumed) / d.Minutes()
	}
	out.Cost = p.budget.CostPerHour * out.ElapsedNS.Hours()
	for i, w := range p.workers {
		w.SinceNS = time.Since(p.since[i])
		out.Workers[i] = w
	}
	if state == api.Preparing {
		out.Preparing = stepOf(&p.preparation)
	}
	out.Usage = p.used()
	return out
}

// stepOf is the step that a preparation is at, or nil.
func stepOf(p *evaluator.Preparation) *api.Preparation {
	if what, took := p.Now(); what != "" {
		return &api.Preparation{Step: what, SinceNS: took}
	}
	return nil
}

// usage says how busy the device is.
func (p *progress) usage() *evaluator.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used()
}

func (p *progress) used() *evaluator.Usage {
	if p.ev != nil {
		if u, ok := evaluator.UsageOf(p.ev); ok {
			return &u
		}
	}
	return nil
}
