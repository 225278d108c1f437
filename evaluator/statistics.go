package evaluator

import (
	"math"
	"slices"
	"strconv"

	"golang.org/x/perf/benchmath"
)

// Median returns the median of the values, or NaN when there are none. The
// argument is not changed.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// GeometricMean returns the geometric mean of positive values, or NaN when
// there are none.
func GeometricMean(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	if len(values) == 1 {
		return values[0] // unchanged, without the rounding of a logarithm
	}
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}

// Interval returns the median of the values and its 95% confidence interval,
// which is every 95% interval that evotune prints or decides by. Its bounds are
// two of the values: how many of n independent values lie below the median of
// their distribution is binomial(n, 1/2), whatever that distribution is, so the order
// statistics between which the median lies with a probability of at least 95% are
// known (W. R. Thompson, "On Confidence Ranges for the Median", Annals of
// Mathematical Statistics 7, 1936; G. J. Hahn and W. Q. Meeker, "Statistical
// Intervals", 1991, section 5.2). With fewer than six values no two of them suffice,
// and the interval is infinite.
func Interval(values []float64) (median, lo, hi float64) {
	if len(values) == 0 {
		return math.NaN(), math.Inf(-1), math.Inf(1)
	}
	s := benchmath.AssumeNothing.Summary(
		benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds), 1-Alpha)
	return s.Center, s.Lo, s.Hi
}

// NewTiming summarizes paired samples, in nanoseconds per launch.
func NewTiming(shape string, samples, baseline []float64, batch, baselineBatch int) Timing {
	t := Timing{
		Shape:     shape,
		SamplesNS: samples, BaselineNS: baseline,
		Batch: batch, BaselineBatch: baselineBatch,
		MedianNS: Median(samples), BaselineMedianNS: Median(baseline),
	}
	t.Ratio = Median(t.Ratios())
	if s := slices.Sorted(slices.Values(samples)); len(s) > 0 && t.MedianNS > 0 {
		t.Spread = (Quantile(s, 0.75) - Quantile(s, 0.25)) / t.MedianNS
	}
	return t
}

// Ratios returns the paired ratios candidate/baseline.
func (t Timing) Ratios() []float64 {
	r := make([]float64, 0, len(t.SamplesNS))
	for i := range min(len(t.SamplesNS), len(t.BaselineNS)) {
		r = append(r, t.SamplesNS[i]/t.BaselineNS[i])
	}
	return r
}

// Quantile interpolates linearly between the order statistics of s, which is
// sorted and not empty.
func Quantile(s []float64, q float64) float64 {
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// formatPercent prints a relative difference as benchstat does.
func formatPercent(x float64) string {
	sign := "+"
	if x < 0 {
		sign = "-"
	}
	return sign + strconv.FormatFloat(100*math.Abs(x), 'f', 2, 64) + "%"
}
