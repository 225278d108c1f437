package server

import (
	"maps"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A tally sums up a campaign while its log is read, in the little that its beginnings and
// ends are told with.
type tally struct {
	started  *api.Started
	verdicts map[evaluator.Verdict]int
	best     *store.Told
	again    bool // best is of a second measurement
	finals   *store.Finals

	clock   record.Clock
	last    time.Time
	failed  map[int]evaluator.Verdict // of results that are not correct, by their numbers: they may be measured again
	stopped time.Time                 // the newest stop
	paused  time.Duration             // the newest pause
	fresh   int                       // results of this run
	before  time.Duration             // that earlier runs searched
}

// add takes the next event. It says whether that is a new best of the search.
func (t *tally) add(e store.Event) (record bool, err error) {
	switch e.Kind {
	case store.KindStarted:
		t.verdicts, t.failed = map[evaluator.Verdict]int{}, map[int]evaluator.Verdict{}
	case store.KindResumed:
		switch {
		case e.Note == nil:
			t.fresh, t.before = 0, t.clock.Phases().Searched
		case e.Note.Reason == store.Continued:
			t.paused = e.Time.Sub(t.stopped)
		case e.Note.Reason != store.InFinals && e.Note.Reason != store.NewBudget:
			t.fresh, t.before = 0, t.clock.Phases().Searched
		}
	case store.KindTold:
		v := evaluator.Verdict(e.Told.Verdict)
		t.fresh++
		if t.verdicts[v]++; v != evaluator.Correct {
			t.failed[e.Told.Index] = v
		}
		record = t.consider(e.Told, false)
	case store.KindMeasured:
		was := t.failed[e.Measured.Index]
		if t.verdicts[was]--; t.verdicts[was] == 0 {
			delete(t.verdicts, was)
		}
		t.verdicts[evaluator.Verdict(e.Measured.Verdict)]++
		t.consider(e.Measured, true)
	case store.KindStopped:
		t.stopped = e.Time
	case store.KindFinals:
		t.finals = e.Finals
	}
	t.last = e.Time
	return record, t.clock.Add(e)
}

// consider makes a result the best if it is. Of a candidate that is measured again, the first result is not
// correct.
func (t *tally) consider(told *store.Told, again bool) bool {
	if told.Verdict != string(evaluator.Correct) || t.best != nil && told.Fitness >= t.best.Fitness {
		return false
	}
	best := *told
	best.Detail = nil
	t.best, t.again = &best, again
	return true
}

// beginning is what is told when somebody begins to run the campaign, or goes on with it.
func (t *tally) beginning(e store.Event, evaluated int, budget *evotune.Budget) api.Started {
	out, prepared := *t.started, t.clock.Prepared()
	out.Campaign, out.Resumed, out.Prepared, out.Spent = e.Campaign, evaluated, prepared, t.clock.Spent()-prepared
	if budget != nil {
		out.Config.Budget = *budget
	}
	return out
}

// ending is what is told when the campaign stops or has ended.
func (t *tally) ending(e store.Event, encoding func(candidate string) (string, error)) (api.Outcome, error) {
	out := api.Outcome{Campaign: e.Campaign, Verdicts: maps.Clone(t.verdicts), SpaceSize: t.started.SpaceSize, Sanitized: t.started.Config.Sanitized(), ElapsedNS: t.clock.Spent(), Phases: t.clock.Phases()}
	for _, n := range t.verdicts {
		out.Evaluated += n
	}
	if e.Note != nil {
		out.Reason = e.Note.Reason
	}
	if d := out.Phases.Searched - t.before; d > 0 {
		out.PerMinute = float64(t.fresh) / d.Minutes()
	}
	id, f := record.CampaignFigures(store.Campaign{ID: e.Campaign, Best: t.best, BestAgain: t.again, Finals: t.finals})
	if id == "" {
		return out, nil
	}
	text, err := encoding(id)
	out.Best = &api.Best{
		Candidate: id, Genome: genome.Plain(text), Encoding: text,
		AllTimes: evaluator.AllTimes(f.Times), Speedup: f.Speedup(), Significant: f.Significant, Measured: f.From, Slower: f.Slower, Unproven: f.Unproven,
	}
	return out, err
}
