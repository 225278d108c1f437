package cuda

import (
	"context"
	"fmt"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// repeats is how often a candidate is launched on the same inputs: the answers
// must be the same bits.
const repeats = 2

// prepareTimeout is how long a worker may take to make the inputs and the
// reference of a shape for the first time.
const prepareTimeout = 5 * time.Minute

// Parity implements [evaluator.Bench]: every shape that the candidate can
// compute, several contents of the inputs, each twice.
func (h *bench) Parity(ctx context.Context, bin evaluator.Binary) (evaluator.Outcome, error) {
	ctx, c, leave, err := h.stage(ctx, evaluator.StageParity, bin)
	if err != nil {
		return evaluator.Outcome{}, err
	}
	defer leave()
	g, free := h.place()
	defer free()
	return h.parity(ctx, g, c)
}

func (h *bench) parity(ctx context.Context, g *gpu, c *candidate) (evaluator.Outcome, error) {
	var out evaluator.Outcome
	check := "load"
	err := g.parity.run(ctx, func(w *worker) (err error) {
		out, check, err = h.parityOn(ctx, w, c)
		return err
	})
	if err = blame(err); err != nil {
		return outcome(err, out.Evidence, check)
	}
	return out, nil
}

// parityOn compares a candidate in one worker. Check names what an error was
// met at.
func (h *bench) parityOn(ctx context.Context, w *worker, c *candidate) (out evaluator.Outcome, check string, err error) {
	check = "load"
	loaded, err := h.load(ctx, w, c)
	if err != nil {
		return out, check, err
	}
	defer h.unload(w, c)
	if loaded.Fault != nil {
		out, err = outcome(w.faulted(loaded.Fault), nil, check)
		return out, check, err
	}
	for _, d := range h.problem.shapes() {
		if why := c.unsupported[d]; why != "" {
			out.Evidence = append(out.Evidence, evaluator.Evidence{Check: "parity " + d.shape.Name, Outcome: evaluator.NotRun, Detail: why})
			continue
		}
		for v := range d.seeds() {
			check = fmt.Sprintf("parity %s seed %d", d.shape.Name, v+1)
			answer, err := h.askParity(ctx, w, c, d, v)
			if err != nil {
				return out, check, err
			}
			if answer.Fault != nil {
				out, err := outcome(w.faulted(answer.Fault), out.Evidence, check)
				return out, check, err
			}
			e, failed := judgeParity(check, answer)
			if failed != nil {
				out, err := outcome(failed, out.Evidence, check)
				last := &out.Evidence[len(out.Evidence)-1]
				last.Value, last.Limit = e.Value, e.Limit
				return out, check, err
			}
			out.Evidence = append(out.Evidence, e)
		}
	}
	return out, check, nil
}

func (h *bench) askParity(ctx context.Context, w *worker, c *candidate, d *shapeData, variant int) (wire.ParityAnswer, error) {
	seed := h.problem.seedOf(variant)
	if err := h.prepareShape(ctx, w, d, seed); err != nil {
		return wire.ParityAnswer{}, err
	}
	r := wire.ParityRequest{
		Binary: c.name, Geometry: c.geometry[d], Shape: d.wire, Seed: seed, Repeat: repeats,
		TimeoutNS: h.hangs(d).Nanoseconds(),
	}
	var a wire.ParityAnswer
	if err := w.call(ctx, h.hangs(d), wire.Parity, r, &a); err != nil {
		return a, err
	}
	if a.Fault != nil && a.Fault.Fatal {
		w.dead = true
	}
	return a, nil
}

// prepareShape has a worker make the inputs and the reference of a shape, which may
// take long, before there is a candidate whose time is limited: a worker that
// does so for the first time must not give one that hangs minutes of the GPU.
func (h *bench) prepareShape(ctx context.Context, w *worker, d *shapeData, seed uint64) error {
	return h.once(w, fmt.Sprint(d.shape.Name, " ", seed), func() error {
		var a wire.ControlAnswer
		return w.call(ctx, prepareTimeout, wire.Control, wire.ControlRequest{Kind: "zeros", Shape: d.wire, Seed: seed}, &a)
	})
}

// once prepares a worker for something that it has not done before.
func (h *bench) once(w *worker, what string, do func() error) error {
	if w.prepared[what] {
		return nil
	}
	if err := do(); err != nil {
		return fmt.Errorf("preparing %s: %w", what, notOurs(err))
	}
	w.prepared[what] = true
	return nil
}

// hangs is how long a comparison at a shape may take. While one hangs nothing
// can be timed on the GPU, so it is less than the timeout where the baseline
// shows that less is plenty.
func (h *bench) hangs(d *shapeData) time.Duration {
	if t, ok := h.parityTime[d]; ok {
		return min(h.options.Timeout, max(10*time.Second, 200*t))
	}
	return h.options.Timeout
}

// judgeParity makes evidence of an answer without a fault, or the candidate's
// failure.
func judgeParity(check string, a wire.ParityAnswer) (evaluator.Evidence, *failure) {
	o := worst(a.Outputs)
	e := evaluator.Evidence{Check: check, Outcome: evaluator.Passed, Value: finite(float64(o.Error)), Limit: o.Limit}
	var reason string
	switch {
	case a.RedZone != "":
		reason = fmt.Sprintf("memory outside of buffer %s was changed, at byte %d from its start", a.RedZone, a.RedZoneOffset)
	case a.InputChanged != "":
		reason = fmt.Sprintf("input %s was changed", a.InputChanged)
	default:
		reason = compare(o)
	}
	if reason == "" && a.Different > 0 {
		reason = fmt.Sprintf("not the same answer twice: %d elements differ between launches on the same inputs", a.Different)
	}
	if reason == "" && len(a.Outputs) == 0 {
		reason = "no output was compared"
	}
	if reason != "" {
		e.Outcome = evaluator.Failed
		return e, &failure{evaluator.Parity, reason, ""}
	}
	return e, nil
}
