package campaign

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
)

// A budget of time is for the whole campaign: preparation, search and finals, over all
// resumptions. The search ends when what is left is needed for the finals; nothing else of its
// path depends on the time. What is in flight then is given up: the log has these proposals and
// no results, as after a crash, and a resumption evaluates them.
//
// Pauses count while they last, so that a campaign ends in time on a machine that does not become
// calm. They are not in the log's time: a resumption has it back.

const (
	// unknownFinals is what finals take where the evaluator cannot tell.
	unknownFinals = 10 * time.Second
	// finalsMargin multiplies the estimate of the finals' time: the machine may become busier.
	finalsMargin = 1.25
	// recentCosts is how many of the newest evaluations tell how long one takes.
	recentCosts = 16
	// leastGrace and graceShare, of the budget, are how much later than its time a campaign ends
	// at most. Finals use lastShare of that, then endingFinals to end their processes.
	leastGrace   = 10 * time.Second
	endingFinals = 3 * time.Second
	graceShare   = 0.1
	lastShare    = 0.6
)

// used is the campaign's time as its budget counts it: pauses of this process are in it. With
// Options.SearchOnly only the search counts.
func (r *runner) used() time.Duration {
	if r.opts.SearchOnly {
		return r.past.Phases().Searched + time.Since(r.start) - r.prepared
	}
	return r.past.Spent() + time.Since(r.start)
}

// left is how long the search may go on by the budgets of time and money, if there is one.
func (r *runner) left() (left time.Duration, limited bool) {
	b := r.cfg.Budget
	if b.Time > 0 {
		left, limited = b.Time-r.reserve()-r.used(), true
	}
	if d := costs(b); d > 0 && (!limited || d-r.elapsed() < left) {
		left, limited = d-r.elapsed(), true
	}
	return left, limited
}

// timeOf begins what ended a search whose time is over.
const timeOf = "time of "

// timeSpent names the limit that left comes from.
func (r *runner) timeSpent() string {
	b := r.cfg.Budget
	if d := costs(b); d > 0 && (b.Time == 0 || d-r.elapsed() < b.Time-r.reserve()-r.used()) {
		return fmt.Sprintf("cost of %g reached", b.MaxCost)
	}
	return timeOf + b.Time.String()
}

// reserve is how much of the time is kept for the finals: what they are estimated to take, but at
// most half of what preparation has left, or two thirds where finals that show something take more.
// Finals for which that is too little end early.
func (r *runner) reserve() time.Duration {
	if r.cfg.FinalsOf() < 1 || r.opts.SearchOnly || r.cfg.Budget.Time == 0 {
		return 0
	}
	left := max(0, r.cfg.Budget.Time-r.past.Spent()-r.prepared)
	return min(r.finalsTime(r.cfg.FinalsOf()), max(left/2, min(left*2/3, r.leastFinals())))
}

// leastFinals is what finals take that show something: half of those of one finalist.
func (r *runner) leastFinals() time.Duration { return r.finalsTime(1) / 2 }

// finalsTime estimates what complete finals of n take, with a margin.
func (r *runner) finalsTime(n int) time.Duration {
	d, ok := evaluator.FinalsTimeOf(r.problem.Evaluator, n)
	if !ok {
		d = unknownFinals
	}
	return time.Duration(finalsMargin * float64(d))
}

// spentEarly says that preparation took all of the time that was left.
func (r *runner) spentEarly() bool {
	b := r.cfg.Budget
	return b.Time > 0 && !r.opts.SearchOnly && r.past.Spent()+r.prepared >= b.Time
}

// rush says what a campaign does that has no time after its preparation.
func (r *runner) rush() {
	if !r.spentEarly() {
		return
	}
	what := "the finals follow"
	if r.past.Evaluated == 0 {
		what = fmt.Sprintf("one window of %d candidates is evaluated, and finals of these follow", r.cfg.Window)
	}
	before := ""
	if s := r.past.Spent(); s > 0 {
		before = fmt.Sprintf(" and earlier runs %s", s.Round(time.Second))
	}
	r.warn("preparation took %s%s of the time of %s: %s", r.prepared.Round(time.Second), before, r.cfg.Budget.Time, what)
}

// await says whether the candidates of the first window go on though the time is over: all of
// them where preparation alone took it, otherwise until one is correct, because there is nothing to
// hold finals of. One that takes too long does not keep the command from ending.
func (r *runner) await() bool {
	if r.told >= r.cfg.Window || r.cfg.Budget.Time == 0 {
		return false
	}
	return r.past.Evaluated == 0 && (r.spentEarly() || r.best < 0) && r.overtime() > 0
}

// overtime is how much longer the first window may go on when the time of the search is over: for as
// long as preparation took, if that left hardly any time. Otherwise it may use the time of the finals,
// which cannot be held without it.
func (r *runner) overtime() time.Duration {
	t, prepared := r.cfg.Budget.Time, r.past.Spent()+r.prepared
	most := max(r.reserve(), time.Duration(lastShare*float64(grace(t))))
	if !r.opts.SearchOnly && t-prepared < grace(t) {
		most = max(leastGrace, prepared)
	}
	return most - (r.used() + r.reserve() - t)
}

// grace is how much later than its time a campaign ends at most.
func grace(t time.Duration) time.Duration {
	return max(leastGrace, time.Duration(graceShare*float64(t)))
}

// hurry ends the search when its time or money is over. What is in flight is given up then,
// except for money; and what would probably not end in time does not begin.
func (r *runner) hurry() {
	left, limited := r.left()
	switch {
	case !limited:
	case left <= 0:
		why := r.timeSpent()
		if r.running > 0 || r.more() {
			r.instead(why)
		}
		r.stop(why)
		if r.await() {
			if !r.awaited && !r.spentEarly() {
				r.warn("no candidate was correct yet when the time of the search was over: the first window goes on until one is")
			}
			r.awaited = true
			return
		}
		if r.late = true; strings.HasPrefix(why, timeOf) {
			r.cut()
		}
	case r.more() && r.best >= 0 && left < r.typical():
		r.instead(r.timeSpent())
		r.stop(r.timeSpent())
		r.late = true
	}
}

// instead takes the place of a number of evaluations that was proposed, and is not reached.
func (r *runner) instead(why string) {
	if n := r.cfg.Budget.Evaluations; n > 0 && r.reason == spent(r.cfg.Budget, 0, n, 0, 0) {
		r.reason = why
	}
}

// typical is what most evaluations take; 0 where that is not known.
func (r *runner) typical() time.Duration {
	if len(r.costs) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(r.costs))[len(r.costs)*3/4]
}

// until gives a channel that receives when the search's time is over; nil if there is no limit.
func (r *runner) until() <-chan time.Time {
	if left, limited := r.left(); limited {
		return time.After(max(0, left))
	}
	return nil
}

// end is when finals that begin now must be over; ok is false where there is no limit. Where
// preparation or the first window took all of the time, they have some of their own.
func (r *runner) end(n int) (e evaluator.End, ok bool) {
	t := r.cfg.Budget.Time
	if t == 0 {
		return e, false
	}
	left := t - r.used()
	if r.spentEarly() {
		left = max(left, min(r.finalsTime(n), t/2))
	} else if r.awaited || left <= 0 {
		left = max(left, min(r.leastFinals(), t/2))
	}
	e.By = time.Now().Add(left)
	e.Last = e.By.Add(time.Duration(lastShare * float64(grace(t))))
	return e, true
}
