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

	spent       time.Duration // before begun
	begun, last time.Time
	paused      time.Duration // the newest pause
	fresh       int           // results of this run, which took ran before begun
	ran         time.Duration
	rested      time.Time // when the search came to rest: of the finals, or zero
}

// add takes the next event. It says whether that is a new best of the search.
func (t *tally) add(e store.Event) bool {
	record := false
	switch e.Kind {
	case store.KindStarted:
		t.begun, t.verdicts = e.Time, map[evaluator.Verdict]int{}
	case store.KindResumed:
		switch {
		case e.Note != nil && e.Note.Reason == store.InFinals:
			t.rested = e.Time
		case e.Note != nil && e.Note.Reason == store.NewBudget: // it goes on as before
		default:
			if e.Note == nil || e.Note.Reason != store.Continued {
				t.fresh, t.ran, t.rested = 0, 0, time.Time{}
			} else {
				t.ran, t.paused = t.ran+t.last.Sub(t.begun), e.Time.Sub(t.last)
			}
			t.spent += t.last.Sub(t.begun)
			t.begun = e.Time
		}
	case store.KindTold:
		t.fresh++
		t.verdicts[evaluator.Verdict(e.Told.Verdict)]++
		record = t.consider(e.Told, false)
	case store.KindMeasured:
		t.consider(e.Measured, true)
	case store.KindFinals:
		t.finals = e.Finals
	}
	t.last = e.Time
	return record
}

// consider makes a result the best if it is. A second measurement takes the place of the
// first, also where that was better.
func (t *tally) consider(told *store.Told, again bool) bool {
	if told.Verdict != string(evaluator.Correct) || t.best != nil && told.Fitness >= t.best.Fitness {
		return false
	}
	best := *told
	best.Detail = nil
	t.best, t.again = &best, again
	return true
}

// elapsed is the wall time that the campaign took until the newest event.
func (t *tally) elapsed() time.Duration { return t.spent + t.last.Sub(t.begun) }

// beginning is what is told when somebody begins to run the campaign, or goes on with it.
func (t *tally) beginning(e store.Event, evaluated int, budget *evotune.Budget) api.Started {
	out := *t.started
	out.Campaign, out.Resumed, out.Spent = e.Campaign, evaluated, t.spent
	if budget != nil {
		out.Config.Budget = *budget
	}
	return out
}

// ending is what is told when the campaign stops or has ended.
func (t *tally) ending(e store.Event, encoding func(candidate string) (string, error)) (api.Outcome, error) {
	out := api.Outcome{Campaign: e.Campaign, Verdicts: maps.Clone(t.verdicts), Sanitized: t.started.Config.Sanitized(), ElapsedNS: t.elapsed()}
	for _, n := range t.verdicts {
		out.Evaluated += n
	}
	if e.Note != nil {
		out.Reason = e.Note.Reason
	}
	end := t.last
	if !t.rested.IsZero() {
		end = t.rested
	}
	if d := t.ran + end.Sub(t.begun); d > 0 {
		out.PerMinute = float64(t.fresh) / d.Minutes()
	}
	id, f := record.CampaignFigures(store.Campaign{ID: e.Campaign, Best: t.best, BestAgain: t.again, Finals: t.finals})
	if id == "" {
		return out, nil
	}
	text, err := encoding(id)
	out.Best = &api.Best{
		Candidate: id, Genome: genome.Plain(text), Encoding: text,
		AllTimes: evaluator.AllTimes(f.Times), Speedup: f.Speedup(), Significant: f.Significant, Slower: f.Slower,
	}
	return out, err
}
