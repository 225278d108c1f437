package campaign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

const (
	// maxDisturbed is how many disturbed results, without one between them that was
	// timed on a calm machine, pause the campaign.
	maxDisturbed = 5
	// maxAgain bounds the candidates that are measured again: the newest of them.
	// With more, the machine was disturbed for most of the campaign, and the
	// search did not find its way by what it was told.
	maxAgain = 64
	// calmEvery is how often a paused campaign looks at the machine, and calmLooks
	// how many looks in a row must find it calm. Where the evaluator cannot tell,
	// the campaign waits for blindWait and tries.
	calmEvery = 5 * time.Second
	calmLooks = 2
	blindWait = time.Minute
)

// errHeld ends a campaign that is interrupted in a pause: what is held up at the
// gate is given up, and evaluated by a resumption.
var errHeld = errors.New("interrupted while paused")

// A gate holds up candidates that are about to be timed. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // nil when the gate is open
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened = nil
}

// held is nil when the gate is open, else it is closed when the gate opens.
func (g *gate) held() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// account keeps account of what results say about the machine, as they arrive. A
// measurement that settled while others used the device counts as disturbed, too:
// it took far longer, and its figures are worse.
func (r *runner) account(res evaluator.Result) {
	if res.SharedWith != "" {
		return // it was measured before
	}
	why := res.Disturbed
	for _, t := range res.Timings {
		if why == "" && t.Conditions != nil && t.Conditions.OthersShare > 0 {
			why = t.Conditions.Disturbed
		}
	}
	switch {
	case why != "":
		r.disturbed++
		r.disturbs = why
	case len(res.Timings) > 0:
		r.disturbed = 0 // a candidate that does not compile says nothing about the machine
	}
}

// failed keeps account of results that the machine failed, other than by being
// disturbed. The error is ErrInfrastructure.
func (r *runner) failed(res evaluator.Result) error {
	switch {
	case res.Verdict != evaluator.Infrastructure:
		r.failures = 0
	case res.Disturbed == "":
		if r.failures++; r.failures >= maxInfrastructure {
			return fmt.Errorf("%w: %d results in a row, the last: %s", ErrInfrastructure, r.failures, res.Reason)
		}
	}
	return nil
}

// pause waits until the machine is calm, the campaign is drained or ctx ends.
// Nothing is timed meanwhile, and no result is told. In the log a pause is a stop and a resumption, so
// that it does not count for those that read the log either.
func (r *runner) pause(ctx context.Context) error {
	r.gate.close()
	defer r.gate.open()
	why, wait := r.disturbs, calmEvery
	if c, ok := evaluator.ConditionsOf(ctx, r.problem.Evaluator); !ok {
		wait = blindWait
	} else if c.Disturbed != "" {
		why = c.Disturbed
	}
	r.pausedAt = time.Now()
	r.log(store.Event{Kind: store.KindStopped, Note: &store.Note{Reason: pausedBy + why, Evaluated: r.evaluated()}})
	r.notes = append(r.notes, Event{Paused: &Paused{Reason: why}})
	if err := r.flush(); err != nil {
		return err
	}
	err := r.calm(ctx, wait)
	took := time.Since(r.pausedAt)
	r.paused, r.pausedAt = r.paused+took, time.Time{}
	if lerr := r.logResume(store.Continued, r.evaluated()); lerr != nil {
		return lerr
	}
	if err == nil && !r.interrupt {
		r.notes = append(r.notes, Event{Continued: &Continued{After: took}})
	}
	return err
}

// calm waits for the end of a pause, looking at the machine each time that wait
// is over.
func (r *runner) calm(ctx context.Context, wait time.Duration) error {
	for looks := 0; looks < calmLooks; looks++ {
		select {
		case <-time.After(wait):
		case <-r.until():
			r.disturbed = 0 // it is measured as it is
			return nil
		case b, ok := <-r.opts.Budgets:
			if err := r.rebudget(b, ok); err != nil {
				return err
			}
			if err := r.flush(); err != nil {
				return err
			}
			looks--
			continue
		case <-r.opts.Drain:
			r.interrupt = true
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		c, ok := evaluator.ConditionsOf(ctx, r.problem.Evaluator)
		if !ok {
			r.disturbed = maxDisturbed - 1 // one more is enough to wait again
			return nil
		}
		if c.Disturbed != "" {
			looks = -1
		}
	}
	r.disturbed = 0
	return nil
}

// measureAgain measures the candidates once more that the machine disturbed,
// unless the log has it. The search is over, and is not told.
func (r *runner) measureAgain(parent context.Context) error {
	ctx := parent
	var disturbed []int
	for i, c := range r.candidates {
		if c.told && c.disturbed {
			disturbed = append(disturbed, i)
		}
	}
	if left, limited := r.left(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(0, left))
		defer cancel()
	}
	for k, i := range disturbed {
		c := &r.candidates[i]
		was := c.verdict
		if logged := r.past.proposal(i).Measured; logged != nil {
			c.recall(logged)
		} else if k < len(disturbed)-maxAgain {
			continue
		} else {
			if left, limited := r.left(); limited && left < r.typical() {
				return nil // a resumption with more time measures it
			}
			if r.disturbed >= maxDisturbed {
				if err := r.pause(parent); err != nil {
					return err
				}
			}
			select {
			case <-r.opts.Drain:
				r.interrupt = true
			default:
			}
			if r.interrupt {
				return nil
			}
			var res evaluator.Result
			var err error
			if a := r.past.culprit(c.id); a != nil {
				res = verdictOn(*a)
			} else if res, err = r.evaluate(ctx, 0, job{index: i, id: c.id, genome: c.genome, incumbent: r.incumbent(), alone: r.past.broken}); err != nil {
				if ctx.Err() != nil && parent.Err() == nil {
					return nil
				}
				return err
			}
			t, err := c.judged(i, res)
			if err != nil {
				return err
			}
			r.past.finals = nil // they did not have this one
			r.log(store.Event{Kind: store.KindMeasured, Measured: t})
			if r.opts.Listen != nil {
				r.notes = append(r.notes, Event{Measured: r.announced(i, res, false)})
			}
			if err := r.flush(); err != nil {
				return err
			}
			r.account(res)
			if err := r.failed(res); err != nil {
				return err
			}
		}
		c.again = true
		if r.verdicts[was]--; r.verdicts[was] == 0 {
			delete(r.verdicts, was)
		}
		r.verdicts[c.verdict]++
		r.consider(i)
	}
	if left, limited := r.left(); r.disturbed >= maxDisturbed && !r.interrupt && (!limited || left > 0) {
		return r.pause(parent) // the finals need a calm machine as well
	}
	return nil
}
