package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/kernels"
)

const (
	// batchTime is how long one sample should last at least: far above the
	// resolution of events and the cost of a launch.
	batchTime = 500 * time.Microsecond
	// leastRounds are taken whatever they cost.
	leastRounds = 6
	// preciseEnough is the relative width at which sampling ends.
	preciseEnough = 0.005
	// slowMargin is by how much a candidate must be slower than the incumbent
	// for its sampling to be cut short; at one of several shapes it may make up
	// for more.
	slowMargin      = 1.1
	slowMarginShape = 1.5
	// latencies is how many single launches are timed by the wall clock.
	latencies = 16
	// The events and the wall clock time the same work. The wall clock may show
	// more, by what it takes to start a batch and to learn of its end, and by a
	// share of the whole; never less than the clocks differ by.
	clockAllowance = 60e3 // nanoseconds
	clockShare     = 0.10
	clockAccuracy  = 0.02
)

// Benchmark implements [evaluator.Bench].
func (h *bench) Benchmark(ctx context.Context, bin evaluator.Binary, incumbent float64) ([]evaluator.Timing, evaluator.Outcome, error) {
	ctx, c, leave, err := h.stage(ctx, evaluator.StageBenchmark, bin)
	if err != nil {
		return nil, evaluator.Outcome{}, err
	}
	defer leave()
	g, free := h.place()
	defer free()
	timings, out, err := h.benchmark(ctx, g, c, incumbent, false)
	if err != nil || out.Verdict != evaluator.Implausible {
		return timings, out, err
	}
	// Nobody is called impossible on one measurement: the peaks may have been
	// measured while something else was running.
	h.log.Info("implausible timing, measured again in a fresh process", "reason", out.Reason)
	if err := h.measurePeaks(ctx, g); err != nil {
		return nil, evaluator.Outcome{}, err
	}
	again, second, err := h.benchmark(ctx, g, c, 0, true)
	if err != nil {
		return nil, evaluator.Outcome{}, err
	}
	first := evaluator.Evidence{Check: "first measurement", Outcome: evaluator.Failed, Detail: out.Reason}
	if second.Verdict == "" {
		first.Outcome = evaluator.Passed
		first.Detail = "implausible, and not so when measured again in a fresh process: " + out.Reason
	}
	second.Evidence = append([]evaluator.Evidence{first}, second.Evidence...)
	return again, second, nil
}

// benchmark times a candidate at every tuned shape. With fresh set it does so
// in a process that has seen no other.
func (h *bench) benchmark(ctx context.Context, g *gpu, c *candidate, incumbent float64, fresh bool) ([]evaluator.Timing, evaluator.Outcome, error) {
	var timings []evaluator.Timing
	var out evaluator.Outcome
	check := "load"
	run := g.timing.run
	if fresh {
		run = g.timing.fresh
	}
	err := run(ctx, func(w *worker) (err error) {
		timings, out, check, err = h.benchmarkOn(ctx, g, w, c, incumbent)
		return err
	})
	if err = blame(err); err != nil {
		out, err := outcome(err, out.Evidence, check)
		return timings, out, err
	}
	return timings, out, nil
}

func (h *bench) benchmarkOn(ctx context.Context, g *gpu, w *worker, c *candidate, incumbent float64) (timings []evaluator.Timing, out evaluator.Outcome, check string, err error) {
	check = "load"
	loaded, err := h.load(ctx, w, c)
	if err != nil {
		return nil, out, check, err
	}
	defer h.unload(w, c)
	if loaded.Fault != nil {
		out, err = outcome(launchFailure(loaded.Fault), nil, check)
		return nil, out, check, err
	}
	for _, d := range h.problem.tune {
		check = "benchmark " + d.shape.Name
		if err := h.loadBaseline(ctx, w, d); err != nil {
			return timings, out, check, err
		}
		r := h.timeRequest(d, h.baselines[d], c)
		if incumbent > 0 {
			r.Slower = incumbent * slowMargin
			if len(h.problem.tune) > 1 {
				r.Slower = incumbent * slowMarginShape
			}
		}
		a, err := h.time(ctx, w, d, r)
		if err != nil {
			return timings, out, check, err
		}
		g.measured.Add(a.GPUNS)
		if err := baselineFault(a); err != nil {
			return timings, out, check, err
		}
		if f := a.Contenders[1].Fault; f != nil {
			out, err = outcome(launchFailure(f), out.Evidence, check)
			return timings, out, check, err
		}
		timing, evidence, failed := h.judgeTiming(d, a, 1)
		out.Evidence = append(out.Evidence, evidence...)
		if failed != nil {
			out.Verdict, out.Reason = failed.verdict, failed.reason
			return append(timings, timing), out, check, nil
		}
		timings = append(timings, timing)
	}
	return timings, out, check, nil
}

// timeRequest asks for the contenders at a shape, the baseline first.
func (h *bench) timeRequest(d *shapeData, contenders ...*candidate) wire.TimeRequest {
	r := wire.TimeRequest{
		Shape: d.wire, Seed: h.problem.seedOf(variants), Cold: h.problem.spec.Cache == kernels.Cold,
		BatchNS: batchTime.Nanoseconds(), MinRounds: min(leastRounds, h.options.Samples), MaxRounds: h.options.Samples,
		BudgetNS: h.options.SampleTime.Nanoseconds(), Precision: preciseEnough, Latencies: latencies,
	}
	for _, c := range contenders {
		r.Contenders = append(r.Contenders, wire.Contender{Binary: c.name, Geometry: c.geometry[d]})
	}
	return r
}

// time asks a worker. What the baseline does wrong there is an error.
func (h *bench) time(ctx context.Context, w *worker, d *shapeData, r wire.TimeRequest) (wire.TimeAnswer, error) {
	var a wire.TimeAnswer
	// The baseline alone makes the inputs of all sets and their references.
	err := h.once(w, "timing at "+d.shape.Name, func() error {
		alone := r
		alone.Contenders, alone.MinRounds, alone.MaxRounds, alone.Latencies = r.Contenders[:1], 1, 1, 0
		return w.call(ctx, prepareTimeout, wire.Time, alone, &wire.TimeAnswer{})
	})
	if err != nil {
		return a, err
	}
	if err := w.call(ctx, h.options.Timeout+10*time.Duration(r.BudgetNS), wire.Time, r, &a); err != nil {
		return a, err
	}
	if len(a.Contenders) != len(r.Contenders) {
		return a, fmt.Errorf("the worker answered for %d of %d contenders", len(a.Contenders), len(r.Contenders))
	}
	for _, t := range a.Contenders {
		if t.Fault != nil && t.Fault.Fatal {
			w.dead = true
		}
	}
	return a, nil
}

func baselineFault(a wire.TimeAnswer) error {
	if f := a.Contenders[0].Fault; f != nil {
		return fmt.Errorf("the baseline: %s", faultText(f))
	}
	for _, t := range a.Contenders[1:] {
		if t.Fault != nil {
			return nil // the context may be lost: the baseline says no more
		}
	}
	if reason := afterTiming(a.Contenders[0]); reason != "" {
		return fmt.Errorf("the baseline %s", reason)
	}
	return nil
}

// loadBaseline brings the baseline of a shape to a worker, once.
func (h *bench) loadBaseline(ctx context.Context, w *worker, d *shapeData) error {
	b := h.baselines[d]
	if b == nil {
		return fmt.Errorf("there is no baseline for shape %s", d.shape.Name)
	}
	return h.once(w, "the baseline "+b.name, func() error {
		a, err := h.load(ctx, w, b)
		w.loaded-- // it is no candidate
		if err == nil && a.Fault != nil {
			err = errors.New(faultText(a.Fault))
		}
		return err
	})
}

// notOurs makes an error of the machine out of the death of a worker that had
// no candidate.
func notOurs(err error) error {
	var died *workerError
	var late *timeoutError
	if errors.As(err, &died) || errors.As(err, &late) {
		return errors.New(err.Error())
	}
	return err
}

// afterTiming says what is wrong with what the timed launches left.
func afterTiming(t wire.Timed) string {
	for _, o := range t.After {
		if reason := compare(o); reason != "" {
			return "after timing: " + reason
		}
	}
	if len(t.After) == 0 {
		return "after timing: no output was compared"
	}
	return ""
}

// judgeTiming makes a timing of one contender's samples and those of the
// baseline, with the evidence, and says what was wrong with it.
func (h *bench) judgeTiming(d *shapeData, a wire.TimeAnswer, i int) (evaluator.Timing, []evaluator.Evidence, *failure) {
	base, t := a.Contenders[0], a.Contenders[i]
	timing := evaluator.NewTiming(d.shape.Name, t.SamplesNS, base.SamplesNS, t.Batch, base.Batch)
	timing.Stopped = a.Stopped
	if timing.Stopped == "" {
		timing.Stopped = "limit"
	}
	timing.FloorNS = h.problem.floor(d, h.currentPeaks(), h.gpus[0].device.L2Bytes)
	var evidence []evaluator.Evidence
	fail := func(verdict evaluator.Verdict, check, reason string, value, limit float64) *failure {
		evidence = append(evidence, evaluator.Evidence{Check: check, Outcome: evaluator.Failed, Value: value, Limit: limit, Detail: reason})
		return &failure{verdict, check + ": " + reason, ""}
	}
	least := math.Inf(1)
	for _, s := range t.SamplesNS {
		least = math.Min(least, s)
	}
	outputs := "outputs after timing " + d.shape.Name
	if reason := afterTiming(t); reason != "" {
		w := worst(t.After)
		return timing, evidence, fail(evaluator.Parity, outputs, reason, finite(float64(w.Error)), w.Limit)
	}
	w := worst(t.After)
	evidence = append(evidence, evaluator.Evidence{
		Check: outputs, Outcome: evaluator.Passed, Value: finite(float64(w.Error)), Limit: w.Limit,
		Detail: fmt.Sprintf("%d sets of inputs", t.Sets),
	})
	clock := "clock " + d.shape.Name
	if reason := clocksDisagree(t); reason != "" {
		return timing, evidence, fail(evaluator.Implausible, clock, reason, 0, 0)
	}
	evidence = append(evidence, evaluator.Evidence{
		Check: clock, Outcome: evaluator.Passed, Value: evaluator.Median(t.WallNS), Unit: "ns",
		Detail: fmt.Sprintf("per launch by the wall clock, in batches of %d", t.Batch),
	})
	floor := "floor " + d.shape.Name
	if !(least >= timing.FloorNS) || !(least > 0) {
		reason := fmt.Sprintf("a launch took %.4g us, below the physical floor of %.4g us that this device's measured peaks set", least/1e3, timing.FloorNS/1e3)
		return timing, evidence, fail(evaluator.Implausible, floor, reason, least, timing.FloorNS)
	}
	evidence = append(evidence, evaluator.Evidence{Check: floor, Outcome: evaluator.Passed, Value: least, Limit: timing.FloorNS, AtLeast: true, Unit: "ns"})
	return timing, append(evidence, conditions(d, a, i)...), nil
}

// clocksDisagree holds the events against the wall clock.
func clocksDisagree(t wire.Timed) string {
	if len(t.SamplesNS) == 0 || len(t.WallNS) != len(t.SamplesNS) {
		return "the samples have no times by the wall clock beside them"
	}
	batch := float64(max(t.Batch, 1))
	event, wall := evaluator.Median(t.SamplesNS)*batch, evaluator.Median(t.WallNS)*batch
	switch {
	case wall-event > clockAllowance+clockShare*wall:
		return fmt.Sprintf("%d launches took %.4g us between events, and %.4g us by the wall clock", t.Batch, event/1e3, wall/1e3)
	case event > wall*(1+clockAccuracy):
		return fmt.Sprintf("%d launches took %.4g us between events, more than the %.4g us by the wall clock", t.Batch, event/1e3, wall/1e3)
	}
	return ""
}

// conditions is what the device was like while it timed.
func conditions(d *shapeData, a wire.TimeAnswer, i int) []evaluator.Evidence {
	t := a.Contenders[i]
	var list []evaluator.Evidence
	if n := len(t.LatencyNS); n > 0 {
		list = append(list, evaluator.Evidence{
			Check: "latency " + d.shape.Name, Outcome: evaluator.Passed, Value: evaluator.Median(t.LatencyNS), Unit: "ns",
			Detail: fmt.Sprintf("one launch and its synchronisation by the wall clock: median of %d, 90th percentile %.4g us", n, quantile(t.LatencyNS, 0.9)/1e3),
		})
	}
	s := a.After
	if s.SMClockMHz == 0 && s.PowerWatts == 0 && s.Celsius == 0 {
		return append(list, evaluator.Evidence{Check: "clocks " + d.shape.Name, Outcome: evaluator.NotRun, Detail: "NVML does not tell here"})
	}
	detail := fmt.Sprintf("before: %s; after: %s", stateText(a.Before), stateText(s))
	return append(list, evaluator.Evidence{Check: "clocks " + d.shape.Name, Outcome: evaluator.Passed, Value: float64(s.SMClockMHz), Unit: "MHz", Detail: detail})
}

func stateText(s wire.State) string {
	text := fmt.Sprintf("%d MHz, memory %d MHz, %.0f W, %d C", s.SMClockMHz, s.MemoryClockMHz, s.PowerWatts, s.Celsius)
	if len(s.Throttle) > 0 {
		text += ", slowed by " + strings.Join(s.Throttle, " and ")
	}
	if s.OtherProcesses > 0 {
		text += fmt.Sprintf(", %d other processes on the GPU", s.OtherProcesses)
	}
	return text
}

// quantile is the smallest value that is not below a share of them.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
