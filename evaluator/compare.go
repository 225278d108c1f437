package evaluator

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Alpha is the significance level of every test that evotune makes.
const Alpha = 0.05

// enoughSamples is the count below which a comparison carries a warning: with
// fewer, the U test has little power and a median's confidence interval is wide.
const enoughSamples = 10

// Compare tests whether a and b differ, by the Mann-Whitney U test of
// [benchmath.AssumeNothing] at the level [Alpha]: nothing is assumed of the
// distributions. Samples taken in turns in random order may be compared as
// they are; what disturbs both alike makes the test say "no difference" more
// often, never less. Ratio is the median of a over the median of b. The
// arguments are not changed.
func Compare(a, b []float64) Comparison {
	c := Comparison{Alpha: Alpha, N1: len(a), N2: len(b), P: 1}
	if len(a) == 0 || len(b) == 0 {
		c.Warnings = append(c.Warnings, "no samples to compare")
		return c
	}
	thresholds := &benchmath.Thresholds{CompareAlpha: Alpha}
	// NewSample sorts in place.
	sa := benchmath.NewSample(slices.Clone(a), thresholds)
	sb := benchmath.NewSample(slices.Clone(b), thresholds)
	if m := Median(b); m != 0 {
		c.Ratio = Median(a) / m
	}
	bc := benchmath.AssumeNothing.Compare(sa, sb)
	c.P = bc.P
	// An exact result has P 0; a P equal to alpha is benchstat's "differs" too,
	// but a claim should not rest on equality.
	c.Significant = bc.P < bc.Alpha
	if math.IsNaN(c.P) {
		c.P, c.Significant = 1, false
	}
	for _, w := range bc.Warnings {
		c.Warnings = append(c.Warnings, w.Error())
	}
	if n := min(len(a), len(b)); n < enoughSamples {
		c.Warnings = append(c.Warnings, "few samples: a small difference would not be seen")
	}
	return c
}

// String is the change in percent, or "~" when the difference is not
// significant.
func (c Comparison) String() string {
	if !c.Significant || c.Ratio == 0 {
		return "~"
	}
	return formatPercent(c.Ratio - 1)
}
