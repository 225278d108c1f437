package campaign

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// How attempts end that no result ends.
const (
	endEvotune  = "evotune ended"
	endSurvived = "survived"
)

// pausedBy begins the reason of the stop that a pause is in the log. What is not timed
// runs on meanwhile, but who waits to be timed is not to blame for an end in a pause.
const pausedBy = "paused: "

// ended takes note that the log breaks off without a stop. What was in flight then
// may have done it; of those that were to be evaluated alone, the one that was.
func (p *past) ended() {
	untold := func(q record.Proposal) bool { return q.Told == nil }
	if p.suspects < p.Offset || !slices.ContainsFunc(p.Proposals[p.Offset:p.suspects], untold) {
		p.suspects = len(p.Proposals) // else nothing but the old suspects has run
	}
	if a := p.alone; a != nil {
		p.culprits[a.Candidate] = *a
		p.alone = nil
	}
}

// suspect says what an unexpected end of evotune, the last thing in the log, means
// for this resumption.
func (r *runner) suspect() {
	pending := 0
	for _, q := range r.past.Proposals[r.offset:max(r.offset, r.past.suspects)] {
		if q.Told == nil && r.past.culprit(q.Candidate) == nil {
			pending++
		}
	}
	if pending > 0 {
		r.warn("evotune ended without a stop, perhaps through a candidate: the %d in flight then are evaluated first, one at a time", pending)
	}
	if a := r.past.unmarked; a != nil {
		r.warn("candidate %s is not run again: %s", a.Candidate, culpable(*a))
		mark := *a
		mark.End = endEvotune
		r.log(store.Event{Kind: store.KindAttempt, Attempt: &mark})
	}
}

// isolate says whether a proposal may have ended evotune, and is evaluated alone.
func (r *runner) isolate(i int) bool { return i < r.past.suspects }

func culpable(a store.Attempt) string {
	return fmt.Sprintf("evotune ended twice while it was in flight, the second time alone, in stage %s", a.Stage)
}

// culprit is the attempt with which a candidate ended evotune, or nil.
func (p *past) culprit(id string) *store.Attempt {
	if a, ok := p.culprits[id]; ok {
		return &a
	}
	return nil
}

// verdictOn is the result of a candidate that ended evotune, and is not run again.
func verdictOn(a store.Attempt) evaluator.Result {
	why := culpable(a)
	return evaluator.Result{
		Verdict: evaluator.Launch, Stage: evaluator.Stage(a.Stage), Reason: why,
		Steps: []evaluator.Step{{Stage: evaluator.Stage(a.Stage), Outcome: evaluator.Failed, Evidence: []evaluator.Evidence{{
			Check: "evotune goes on", Outcome: evaluator.Failed, Detail: why,
		}}}},
	}
}

// alone does something with candidate i while nothing else runs. Each stage that it
// enters is in the log before it begins.
func (r *runner) alone(ctx context.Context, i int, id string, do func(ctx context.Context, enter func(evaluator.Stage)) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := do(ctx, func(s evaluator.Stage) {
		if err := r.attempt(store.Attempt{Index: i, Candidate: id, Stage: string(s)}); err != nil {
			cancel(err)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// attempt makes an attempt durable, from any goroutine.
func (r *runner) attempt(a store.Attempt) error {
	if r.opts.Log == nil {
		return nil
	}
	_, err := r.opts.Log.Append(store.Event{Campaign: r.cfg.ID, Time: time.Now().UTC(), Kind: store.KindAttempt, Attempt: &a})
	if err != nil {
		return fmt.Errorf("campaign %s: %w", r.cfg.ID, err)
	}
	return nil
}

// compare holds the finals of those that may run. Where evotune ended in the finals
// before, each is first measured alone. Whom earlier finals of the same finalists found
// wrong stays out.
func (r *runner) compare(ctx context.Context, finalists []int, earlier []evaluator.Finalist) (evaluator.Finals, error) {
	all := make([]evaluator.Finalist, len(finalists))
	var genomes []genome.Genome
	var of []int
	for k, i := range finalists {
		c := r.candidates[i]
		all[k].Genome = c.genome
		if a := r.past.culprit(c.id); a != nil {
			all[k].Verdict, all[k].Reason = evaluator.Launch, culpable(*a)
			continue
		}
		if earlier != nil && record.Refuses(earlier[k].Verdict) {
			all[k] = earlier[k]
			continue
		}
		genomes, of = append(genomes, c.genome), append(of, k)
	}
	if len(of) == 0 {
		return evaluator.Finals{Entries: all, Winner: -1}, nil
	}
	if r.past.inFinals && earlier == nil {
		for n, k := range of {
			// Each has an equal share of the time, and all together one more.
			alone := ctx
			if end, limited := evaluator.EndOf(ctx); limited {
				end.By = time.Now().Add(time.Until(end.By) / time.Duration(len(of)-n+1))
				alone = evaluator.WithEnd(ctx, end)
			}
			if err := r.compareAlone(alone, finalists[k]); err != nil {
				return evaluator.Finals{}, err
			}
		}
	}
	res, err := r.problem.Evaluator.Finals(ctx, genomes)
	if err != nil {
		return res, err
	}
	for n, k := range of {
		all[k] = res.Entries[n]
	}
	res.Entries = all
	if res.Winner >= 0 {
		res.Winner = of[res.Winner]
	}
	return res, nil
}

// compareAlone holds finals of one candidate, to see that evotune survives them.
func (r *runner) compareAlone(ctx context.Context, i int) error {
	id, entered := r.candidates[i].id, evaluator.Stage("")
	err := r.alone(ctx, i, id, func(ctx context.Context, enter func(evaluator.Stage)) error {
		ctx = evaluator.WithTrace(ctx, func(s evaluator.Stage) {
			entered = s
			enter(s)
		})
		_, err := r.problem.Evaluator.Finals(ctx, []genome.Genome{r.candidates[i].genome})
		return err
	})
	if err != nil || entered == "" {
		return err
	}
	return r.attempt(store.Attempt{Index: i, Candidate: id, Stage: string(entered), End: endSurvived})
}
