package cpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evotune/evotune/evaluator"
)

const (
	// duelLimit bounds the finals at one shape; duelLeast rounds are played
	// whatever they take.
	duelLimit = 2 * time.Minute
	duelLeast = 8
)

// Duel implements [evaluator.Bench]: fresh processes for all, the baseline's
// too, all alive at once, and in each round everybody once, in random order,
// each back to back with the baseline.
func (h *bench) Duel(ctx context.Context, bins []evaluator.Binary) ([]evaluator.DuelEntry, error) {
	ctx, leave, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	candidates := make([]*candidate, len(bins))
	for i, b := range bins {
		if candidates[i], err = handle(b); err != nil {
			return nil, err
		}
	}
	if err := machine.Acquire(ctx, wholeMachine); err != nil {
		return nil, err
	}
	defer machine.Release(wholeMachine)
	// The memory of the other timings makes room; it is made again on demand.
	h.timing.close()
	h.timing = nil
	shapes := append(append([]*shapeData{}, h.problem.tune...), h.problem.verify...)
	t, err := newTimingState(shapes)
	if err != nil {
		return nil, err
	}
	defer t.close()

	entries := make([]evaluator.DuelEntry, len(bins))
	processes := make([]*process, len(bins))
	defer func() {
		for _, p := range processes {
			if p != nil {
				p.kill()
			}
		}
	}()
	// lose ends a contender's part, or fails the duel when it is not its fault.
	lose := func(i int, check string, err error) error {
		var clock *errClock
		var below *errFloor
		var f *failure
		switch {
		case errors.As(err, &clock), errors.As(err, &below):
			entries[i].Verdict = evaluator.Implausible
		case errors.As(err, &f):
			entries[i].Verdict = f.verdict
		default:
			return err
		}
		entries[i].Reason = check + ": " + err.Error()
		if processes[i] != nil {
			processes[i].kill()
			processes[i] = nil
		}
		t.fill(t.ours)
		return nil
	}
	f := cleanFlavour()
	for i, c := range candidates {
		p, err := h.start(ctx, &f, c.clean.Object, t.ours, nil, c.src.Threads)
		if err == nil {
			processes[i] = p
			err = p.freeze()
		}
		if err != nil {
			if err := lose(i, "load", err); err != nil {
				return nil, err
			}
		}
	}
	for n, d := range shapes {
		if err := h.duelShape(ctx, t, d, candidates, processes, entries, n < len(h.problem.tune), lose); err != nil {
			return nil, err
		}
	}
	for i, p := range processes {
		if p == nil {
			continue
		}
		if _, err := p.quit(h.options.Timeout); err != nil {
			if err := lose(i, "end of the process", err); err != nil {
				return nil, err
			}
		}
	}
	return entries, nil
}

func (h *bench) duelShape(ctx context.Context, t *timingState, d *shapeData, candidates []*candidate, processes []*process,
	entries []evaluator.DuelEntry, tuned bool, lose func(int, string, error) error,
) error {
	check := "finals " + d.shape.Name
	base, err := h.contendBaseline(t, d)
	if err != nil {
		return err
	}
	if !tuned {
		elapsed, err := base.run(base.batch)
		if err != nil {
			return fmt.Errorf("the baseline: %w", notOurs(err))
		}
		if elapsed < heldOutLeast {
			return nil
		}
	}
	contenders := make([]*contender, len(candidates))
	for i, c := range candidates {
		if processes[i] == nil {
			continue
		}
		if contenders[i], err = h.contend(t, processes[i], d, c.src.Threads); err != nil {
			contenders[i] = nil
			if err := lose(i, check, err); err != nil {
				return err
			}
		}
	}
	t.flush()
	samples, baseline := make([][]float64, len(candidates)), make([][]float64, len(candidates))
	rng := newRand()
	begin := time.Now()
	rounds := 0
	for ; rounds < h.options.FinalsSamples; rounds++ {
		if rounds >= duelLeast && time.Since(begin) > duelLimit {
			break
		}
		for _, i := range rng.Perm(len(contenders)) {
			c := contenders[i]
			if c == nil {
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s, b, err := h.pair(t, c, base)
			if err == nil {
				err = c.inputsIntact()
			}
			if err != nil {
				contenders[i] = nil
				if err := lose(i, check, err); err != nil {
					return err
				}
				continue
			}
			samples[i], baseline[i] = append(samples[i], s), append(baseline[i], b)
		}
	}
	for i, c := range contenders {
		if c == nil {
			continue
		}
		timing := evaluator.NewTiming(d.shape.Name, samples[i], baseline[i], c.batch, base.batch)
		timing.FloorNS = h.floor(d, c.place.sets, c.threads)
		timing.Stopped = "limit"
		err := c.p.checkThreads(c.threads)
		for _, s := range samples[i] {
			if s < timing.FloorNS {
				err = &errFloor{s, timing.FloorNS}
			}
		}
		if err != nil {
			if err := lose(i, check, err); err != nil {
				return err
			}
			continue
		}
		if tuned {
			entries[i].Timings = append(entries[i].Timings, timing)
		} else {
			entries[i].HeldOut = append(entries[i].HeldOut, timing)
		}
	}
	return nil
}

// inputsIntact looks at the inputs of the last batch: contenders share their
// memory, and nobody may answer for what another did.
func (c *contender) inputsIntact() error {
	for _, s := range c.last {
		s := int(s)
		if reason := c.d.inputChanged(c.a, c.place.base, s, s%variants); reason != "" {
			return c.p.fail(evaluator.Parity, fmt.Sprintf("after timing: %s", reason))
		}
	}
	return nil
}
