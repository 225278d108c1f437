// Package replay is the recorded backend: an evaluator whose results come from
// a table that was measured earlier, elsewhere, by exhaustive search.
//
// It serves to compare strategies without a device and to test whatever drives
// an evaluator. The same question always has the same answer.
//
// # Model
//
// A [tables.Table] holds, for each configuration of a space, the time that was
// measured or the fact that it failed, and what it cost to try. An evaluator
// looks the genome up and gives:
//
//   - correct, with the recorded time as the only sample. The baseline is the
//     median of all recorded times, so that a fitness below 1 means "better
//     than half of the space";
//   - the verdict with which it failed, for a configuration that is recorded as
//     failed; launch, where the table's form does not say how;
//   - infeasible, for a genome that is not recorded.
//
// # Caveats
//
// Nothing is compiled, checked or measured: every stage but the benchmark is
// absent from the results, and the hashes of source and binary stand for the
// configuration's place in the table. One recorded time per configuration tells
// nothing of its noise, so finals never call a difference significant.
package replay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/tables"
)

// ErrClosed is returned when an evaluator is used after Close.
var ErrClosed = errors.New("replay: the evaluator is closed")

// Shape is the name of the one shape of a recorded space.
const Shape = "recorded"

// harness names the version of what makes results out of tables.
const harness = "replay/1"

// Options configure an evaluator.
type Options struct {
	// Latency is how long each evaluation takes on the wall clock, to stand
	// for a device; zero answers at once. It never changes a result.
	Latency time.Duration
}

// An Evaluator answers from a table. It implements evaluator.Evaluator and is
// safe for concurrent use.
type Evaluator struct {
	table       *tables.Table
	space       *genome.Space
	options     Options
	description evaluator.Description
	closing     sync.Once
	closed      chan struct{}
}

var _ evaluator.Evaluator = (*Evaluator)(nil)

// New makes an evaluator over a table; an error if the table has no space.
func New(t *tables.Table, o Options) (*Evaluator, error) {
	space, err := t.Space()
	if err != nil {
		return nil, err
	}
	return &Evaluator{
		table: t, space: space, options: o, closed: make(chan struct{}),
		description: evaluator.Description{
			Backend: "replay",
			Device: evaluator.Device{
				Name: cmp.Or(t.Device(), "unknown device"), Kind: "recorded", Fingerprint: digest(t.Hash() + "\n" + t.Device())[:16],
				Facts: map[string]string{"table": t.Hash()},
			},
			Kernel:   t.Name(),
			Shapes:   []string{Shape},
			Baseline: "the median of all recorded times",
			Harness:  harness,
		},
	}, nil
}

// Space is the space of the table; the genomes to evaluate come from it.
func (e *Evaluator) Space() *genome.Space { return e.space }

// Describe tells what the results depend on.
func (e *Evaluator) Describe() evaluator.Description { return e.description }

// Evaluate looks the genome up. incumbent changes nothing.
func (e *Evaluator) Evaluate(ctx context.Context, g genome.Genome, _ float64) (evaluator.Result, error) {
	if err := e.wait(ctx); err != nil {
		return evaluator.Result{}, err
	}
	return e.result(g), nil
}

// wait lets the latency pass.
func (e *Evaluator) wait(ctx context.Context) error {
	select {
	case <-e.closed:
		return ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if e.options.Latency <= 0 {
		return nil
	}
	timer := time.NewTimer(e.options.Latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-e.closed:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("replay: %w", ctx.Err())
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (e *Evaluator) result(g genome.Genome) evaluator.Result {
	r := evaluator.Result{Key: digest(harness + "\n" + e.table.Hash() + "\n" + g.String()), Stage: evaluator.StageBenchmark}
	w, ok := e.table.Lookup(g)
	if !ok {
		r.Verdict = evaluator.Infeasible
		r.Reason = "the configuration is not in the recorded table " + e.table.Name()
		r.Steps = []evaluator.Step{{
			Stage: r.Stage, Outcome: evaluator.Failed,
			Evidence: []evaluator.Evidence{{Check: "lookup", Outcome: evaluator.Failed, Detail: r.Reason}},
		}}
		return r
	}
	r.Source, r.Binary = r.Key, r.Key
	r.Cost = w.Cost()
	if w.Failed != "" {
		r.Verdict = w.Failed
		r.Reason = "recorded as failed"
		r.Steps = []evaluator.Step{{
			Stage: r.Stage, Outcome: evaluator.Failed, Elapsed: r.Cost,
			Evidence: []evaluator.Evidence{{Check: "lookup", Outcome: evaluator.Failed, Detail: r.Reason}},
		}}
		return r
	}
	r.Verdict = evaluator.Correct
	r.Fitness = w.TimeMS / e.table.MedianMS()
	r.Steps = []evaluator.Step{{
		Stage: r.Stage, Outcome: evaluator.Passed, Elapsed: r.Cost,
		Evidence: []evaluator.Evidence{{Check: "lookup", Outcome: evaluator.Passed, Value: w.TimeMS, Unit: "ms"}},
	}}
	r.Timings = []evaluator.Timing{e.timing(w)}
	return r
}

// timing presents the recorded time as a single sample.
func (e *Evaluator) timing(w tables.Row) evaluator.Timing {
	const nsPerMS = 1e6
	ns, baseline := w.TimeMS*nsPerMS, e.table.MedianMS()*nsPerMS
	return evaluator.Timing{
		Shape:     Shape,
		SamplesNS: []float64{ns}, BaselineNS: []float64{baseline},
		Batch: 1, BaselineBatch: 1,
		MedianNS: ns, BaselineMedianNS: baseline,
		Ratio:   w.TimeMS / e.table.MedianMS(),
		Stopped: "limit",
	}
}

// FinalsTime is how long Finals take.
func (e *Evaluator) FinalsTime(int) (time.Duration, bool) { return e.options.Latency, true }

// Finals looks the finalists up again. The fastest wins, the first of equals;
// the comparisons carry the warning that one sample proves nothing.
func (e *Evaluator) Finals(ctx context.Context, finalists []genome.Genome) (evaluator.Finals, error) {
	if len(finalists) == 0 {
		return evaluator.Finals{}, errors.New("replay: finals need at least one finalist")
	}
	if err := e.wait(ctx); err != nil {
		return evaluator.Finals{}, err
	}
	f := evaluator.Finals{Winner: -1}
	second := -1
	for i, g := range finalists {
		r := e.result(g)
		f.Entries = append(f.Entries, evaluator.Finalist{
			Genome: g, Verdict: r.Verdict, Reason: r.Reason, Fitness: r.Fitness, Timings: r.Timings,
		})
		switch {
		case r.Verdict != evaluator.Correct:
		case f.Winner < 0 || r.Fitness < f.Entries[f.Winner].Fitness:
			f.Winner, second = i, f.Winner
		case second < 0 || r.Fitness < f.Entries[second].Fitness:
			second = i
		}
	}
	if f.Winner < 0 {
		return f, nil
	}
	won := f.Entries[f.Winner].Timings[0]
	vs := evaluator.Compare(won.SamplesNS, won.BaselineNS)
	f.VsBaseline = &vs
	if second >= 0 {
		vs := evaluator.Compare(won.SamplesNS, f.Entries[second].Timings[0].SamplesNS)
		f.VsRunnerUp = &vs
	}
	return f, nil
}

// Close ends evaluations that wait for their latency. It may be called again.
func (e *Evaluator) Close() error {
	e.closing.Do(func() { close(e.closed) })
	return nil
}
