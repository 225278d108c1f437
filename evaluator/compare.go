package evaluator

import (
	"fmt"
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
// they are: what disturbs both alike makes the test say "no difference" more
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
	// An exact result has P 0. For benchstat, a P equal to alpha also means "differs",
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

// agree marks a comparison of a with b, or with the baseline where b is nil, as not significant
// unless every set of processes agrees with the overall result on which is faster. The test assumes
// independent samples, and those of one set are not: where a process lies in memory can change its
// time by a tenth. If there is no difference, six sets all agree by chance once in 32 times.
func (c *Comparison) agree(a, b []Timing) {
	ratios := ratiosOfSets(a, b)
	other := func(r float64) bool { return r == 1 || (r < 1) != (c.Ratio < 1) }
	if c.Significant && slices.ContainsFunc(ratios, other) {
		c.Significant = false
		c.Warnings = append(c.Warnings, fmt.Sprintf("the sets of processes do not agree: %.3f to %.3f", slices.Min(ratios), slices.Max(ratios)))
	}
}

// tAt5 is the two-sided 5% point of Student's t distribution, for 1, 2, ... degrees of freedom.
var tAt5 = []float64{12.706, 4.303, 3.182, 2.776, 2.571}

// few marks a comparison, after agree, as not significant unless the ratios of the sets of
// processes differ from 1 by more than they differ from each other: by Student's t test of their
// logarithms at the 0.05 level. It is for finals that ended early. Two sets agree by chance once in
// two times, so agreement shows nothing then, and one set never shows a difference.
func (c *Comparison) few(a, b []Timing) {
	if !c.Significant {
		return
	}
	ratios := ratiosOfSets(a, b)
	mean, square, n := 0.0, 0.0, float64(len(ratios))
	for _, r := range ratios {
		mean += math.Log(r) / n
	}
	for _, r := range ratios {
		square += (math.Log(r) - mean) * (math.Log(r) - mean)
	}
	if len(ratios) < 2 || math.Abs(mean) <= tAt5[min(len(ratios)-2, len(tAt5)-1)]*math.Sqrt(square/(n-1)/n) {
		c.Significant = false
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d of the sets of processes were measured: too few to tell", max(1, len(ratios))))
	}
}

// ratiosOfSets gives the ratios of a, relative to those of b where it is not nil, for the sets of
// processes in which both were measured.
func ratiosOfSets(a, b []Timing) (ratios []float64) {
	beside := setRatios(b)
	for i, r := range setRatios(a) {
		if b != nil && i < len(beside) {
			r /= beside[i]
		}
		if (b == nil || i < len(beside)) && r > 0 && !math.IsInf(r, 1) {
			ratios = append(ratios, r)
		}
	}
	return ratios
}

// setRatios gives, for every set of processes, the geometric mean over the shapes of the median
// ratio to the baseline; 0 for a set without samples at some shape.
func setRatios(timings []Timing) []float64 {
	var all [][]float64 // by set and shape
	for _, t := range timings {
		ratios := t.Ratios()
		for set, n := range t.PerSet {
			if len(all) <= set {
				all = append(all, nil)
			}
			n = min(n, len(ratios))
			if n > 0 {
				all[set] = append(all[set], Median(ratios[:n]))
			}
			ratios = ratios[n:]
		}
	}
	var out []float64
	for _, shapes := range all {
		mean := 0.0
		if len(shapes) == len(timings) {
			mean = GeometricMean(shapes)
		}
		out = append(out, mean)
	}
	return out
}

// String is the change in percent, or "~" when the difference is not
// significant.
func (c Comparison) String() string {
	if !c.Significant || c.Ratio == 0 {
		return "~"
	}
	return formatPercent(c.Ratio - 1)
}
