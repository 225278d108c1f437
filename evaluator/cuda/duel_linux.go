package cuda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evotune/evotune/evaluator"
)

const (
	// duelProcesses is how many fresh processes take part in the finals, one
	// after the other: how a process came to lie in memory must not decide.
	duelProcesses = 3
	// duelBudget bounds the sampling of all contenders at one shape in one
	// process.
	duelBudget = 20 * time.Second
)

// Duel implements [evaluator.Bench]: fresh processes, in each of them everybody
// at every shape, and in each round everybody once, in random order.
func (h *bench) Duel(ctx context.Context, bins []evaluator.Binary) ([]evaluator.DuelEntry, error) {
	ctx, leave, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	entries := make([]evaluator.DuelEntry, len(bins))
	contenders := make([]*duellist, len(bins))
	for i, b := range bins {
		c, err := handle(b)
		if err != nil {
			return nil, err
		}
		contenders[i] = &duellist{candidate: c, entry: &entries[i], shapes: map[*shapeData]*evaluator.Timing{}}
	}
	g, free := h.place()
	defer free()
	for n := 0; n < duelProcesses; {
		lost := 0
		for _, c := range contenders {
			if c.entry.Verdict != "" {
				lost++
			}
		}
		if lost == len(contenders) {
			break
		}
		err := g.timing.fresh(ctx, func(w *worker) error { return h.duelOn(ctx, w, contenders) })
		var again *errDuelAgain
		switch {
		case errors.As(err, &again):
			// One of them took the process with it; the others go on without.
			continue
		case err != nil:
			return nil, err
		}
		n++
	}
	for _, d := range h.duelShapes() {
		for _, c := range contenders {
			t := c.shapes[d]
			if t == nil || c.entry.Verdict != "" {
				continue
			}
			whole := evaluator.NewTiming(t.Shape, t.SamplesNS, t.BaselineNS, t.Batch, t.BaselineBatch)
			whole.FloorNS, whole.Stopped = t.FloorNS, "limit"
			if d.tuned {
				c.entry.Timings = append(c.entry.Timings, whole)
			} else {
				c.entry.HeldOut = append(c.entry.HeldOut, whole)
			}
		}
	}
	if err := h.profile(ctx, g, contenders); err != nil {
		return nil, err
	}
	return entries, nil
}

// A duellist is one contender of the finals.
type duellist struct {
	*candidate
	entry  *evaluator.DuelEntry
	shapes map[*shapeData]*evaluator.Timing
	deaths int
}

func (c *duellist) lose(verdict evaluator.Verdict, reason string) {
	if c.entry.Verdict == "" {
		c.entry.Verdict, c.entry.Reason = verdict, reason
	}
}

// errDuelAgain says that a process of the finals was lost to one contender.
type errDuelAgain struct{ error }

func (h *bench) duelShapes() []*shapeData {
	return append(append([]*shapeData{}, h.problem.tune...), h.problem.verify...)
}

// duelOn plays one process's part of the rounds.
func (h *bench) duelOn(ctx context.Context, w *worker, contenders []*duellist) error {
	// suspect is who is blamed when the process dies.
	var suspect *duellist
	err := h.duelRounds(ctx, w, contenders, &suspect)
	var late *timeoutError
	var died *workerError
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case !errors.As(err, &late) && !errors.As(err, &died):
		return err
	case suspect == nil:
		// Somebody among several: each is tried alone with the baseline.
		return h.findCulprit(ctx, contenders, err)
	}
	suspect.deaths++
	if suspect.deaths > 1 || late != nil {
		var f *failure
		errors.As(blame(err), &f)
		suspect.lose(f.verdict, "finals: "+f.reason)
	}
	return &errDuelAgain{err}
}

func (h *bench) duelRounds(ctx context.Context, w *worker, contenders []*duellist, suspect **duellist) error {
	var alive []*duellist
	for _, c := range contenders {
		if c.entry.Verdict != "" {
			continue
		}
		*suspect = c
		a, err := h.load(ctx, w, c.candidate)
		if err != nil {
			return err
		}
		if a.Fault != nil {
			c.lose(evaluator.Launch, "load: "+faultText(a.Fault))
			if w.dead {
				return &errDuelAgain{errors.New("load")}
			}
			continue
		}
		alive = append(alive, c)
	}
	*suspect = nil
	// What a process that was lost has measured does not count.
	type sample struct {
		*duellist
		shape  *shapeData
		timing evaluator.Timing
	}
	var samples []sample
	for _, d := range h.duelShapes() {
		var here []*duellist
		list := []*candidate{h.baselines[d]}
		for _, c := range alive {
			if c.unsupported[d] == "" && c.entry.Verdict == "" {
				here = append(here, c)
				list = append(list, c.candidate)
			}
		}
		if h.baselines[d] == nil || len(here) == 0 {
			continue
		}
		if err := h.loadBaseline(ctx, w, d); err != nil {
			return err
		}
		if len(here) == 1 {
			*suspect = here[0]
		}
		r := h.timeRequest(d, list...)
		rounds := (h.options.FinalsSamples + duelProcesses - 1) / duelProcesses
		// Other inputs and another order in every process.
		r.Seed = h.problem.seedOf(variants + int(h.serial.Add(1)))
		r.MinRounds, r.MaxRounds, r.BudgetNS, r.Precision, r.Latencies = rounds, rounds, duelBudget.Nanoseconds(), 0, 0
		a, err := h.time(ctx, w, d, r)
		if err != nil {
			return err
		}
		if err := baselineFault(a); err != nil {
			return err
		}
		for i, c := range here {
			if f := a.Contenders[i+1].Fault; f != nil {
				c.lose(evaluator.Launch, "finals "+d.shape.Name+": "+faultText(f))
				return &errDuelAgain{errors.New(faultText(f))}
			}
		}
		for i, c := range here {
			timing, _, failed := h.judgeTiming(d, a, i+1)
			if failed != nil {
				c.lose(failed.verdict, "finals "+failed.reason)
				continue
			}
			samples = append(samples, sample{c, d, timing})
		}
		*suspect = nil
	}
	for _, s := range samples {
		s.add(s.shape, s.timing)
	}
	return nil
}

// add puts the samples of another process behind those before.
func (c *duellist) add(d *shapeData, t evaluator.Timing) {
	have := c.shapes[d]
	if have == nil {
		c.shapes[d] = &t
		return
	}
	have.SamplesNS = append(have.SamplesNS, t.SamplesNS...)
	have.BaselineNS = append(have.BaselineNS, t.BaselineNS...)
}

// findCulprit times the contenders one by one after they have lost a process
// together.
func (h *bench) findCulprit(ctx context.Context, contenders []*duellist, cause error) error {
	for _, c := range contenders {
		if c.entry.Verdict != "" {
			continue
		}
		err := h.gpus[0].timing.freshAlone(ctx, func(w *worker) error {
			scratch := evaluator.DuelEntry{}
			alone := &duellist{candidate: c.candidate, entry: &scratch, shapes: map[*shapeData]*evaluator.Timing{}}
			var suspect *duellist
			return h.duelRounds(ctx, w, []*duellist{alone}, &suspect)
		})
		var late *timeoutError
		var died *workerError
		if errors.As(err, &late) || errors.As(err, &died) {
			var f *failure
			errors.As(blame(err), &f)
			c.lose(f.verdict, "finals: "+f.reason)
			return &errDuelAgain{err}
		}
	}
	return fmt.Errorf("finals: %s", cause.Error())
}
