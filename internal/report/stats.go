package report

import (
	"fmt"
	"math"

	"github.com/evotune/evotune/evaluator"
)

// An Estimate is a median with the bounds of its 95% interval, as
// [evaluator.Interval] gives them. With fewer than six values there are none.
type Estimate struct {
	Median float64 `json:"median"`
	Lo     float64 `json:"lo,omitempty"`
	Hi     float64 `json:"hi,omitempty"`
	N      int     `json:"n"`
}

// estimate is that of the finite values; nil when there are none.
func estimate(values []float64) *Estimate {
	values = finite(values)
	if len(values) == 0 {
		return nil
	}
	e := &Estimate{N: len(values)}
	e.Median, e.Lo, e.Hi = evaluator.Interval(values)
	if math.IsInf(e.Lo, 0) || math.IsInf(e.Hi, 0) {
		e.Lo, e.Hi = 0, 0 // JSON has no infinity
	}
	return e
}

// bounded says whether the estimate has an interval.
func (e *Estimate) bounded() bool { return e.Lo != 0 || e.Hi != 0 }

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
