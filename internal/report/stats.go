package report

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/evotune/evotune/evaluator"
)

// An Estimate is a median with the bounds of its 95% bootstrap interval
// (percentiles of the medians of resamples drawn with a fixed seed). With
// fewer than six values there are no bounds: resamples of so few say nothing.
type Estimate struct {
	Median float64 `json:"median"`
	Lo     float64 `json:"lo,omitempty"`
	Hi     float64 `json:"hi,omitempty"`
	N      int     `json:"n"`
}

// fewestForInterval is the least number of values that have an interval.
const fewestForInterval = 6

// bounded says whether the estimate has an interval.
func (e *Estimate) bounded() bool { return e.N >= fewestForInterval }

// interval prints the bounds with some digits.
func (e *Estimate) interval() string {
	switch {
	case e == nil:
		return "-"
	case !e.bounded():
		return "too few samples"
	}
	return fmt.Sprintf("%.3f to %.3f", e.Lo, e.Hi)
}

// resamples is how many bootstrap resamples an interval rests on.
const resamples = 2000

// bootstrap estimates the median of the finite values; nil when there are none.
func bootstrap(values []float64) *Estimate {
	values = finite(values)
	if len(values) == 0 {
		return nil
	}
	e := &Estimate{Median: evaluator.Median(values), N: len(values)}
	if !e.bounded() {
		return e
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(values))))
	medians := make([]float64, resamples)
	draw := make([]float64, len(values))
	for i := range medians {
		for j := range draw {
			draw[j] = values[rng.IntN(len(values))]
		}
		medians[i] = evaluator.Median(draw)
	}
	slices.Sort(medians)
	e.Lo, e.Hi = evaluator.Quantile(medians, 0.025), evaluator.Quantile(medians, 0.975)
	return e
}
