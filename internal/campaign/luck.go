package campaign

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/evotune/evotune/evaluator"
)

// A Reading is the outcome of one measurement of a search.
type Reading struct {
	// Fitness is candidate time over baseline time.
	Fitness float64
	// Noise is the standard error of its logarithm.
	Noise float64
}

// processNoise is what a reading differs by from one process to the next at least,
// of which its samples, taken in one process, show nothing.
const processNoise = 0.01

// NewReading takes a measurement, over all its shapes. The noise is the standard
// error of the median paired ratio, from the width of its 95% interval, and the
// noise between processes.
func NewReading(timings []evaluator.Timing) Reading {
	var ratios []float64
	variance := 0.0
	for _, t := range timings {
		ratios = append(ratios, t.Ratio)
		se := logError(t.Ratios())
		variance += se * se
	}
	n := float64(max(1, len(timings)))
	return Reading{Fitness: evaluator.GeometricMean(ratios), Noise: math.Sqrt(variance/(n*n) + processNoise*processNoise)}
}

// logError is the standard error of the logarithm of a median; 0 where one value
// tells nothing of it.
func logError(values []float64) float64 {
	const (
		// halfWidth is half of an interval, in standard errors. One of order statistics
		// covers 96% where it has to cover 95%, at 10 to 30 values.
		halfWidth = 2.05
		median    = 1.2533141373155003 // standard error of a median over that of a mean, sqrt(pi/2)
	)
	if _, lo, hi := evaluator.Interval(values); lo > 0 && !math.IsInf(hi, 0) {
		return math.Log(hi/lo) / (2 * halfWidth)
	}
	n := float64(len(values)) // too few for an interval
	if n < 2 {
		return 0
	}
	mean, square := 0.0, 0.0
	for _, v := range values {
		mean += math.Log(v) / n
	}
	for _, v := range values {
		square += (math.Log(v) - mean) * (math.Log(v) - mean)
	}
	return median * math.Sqrt(square/(n-1)/n)
}

// Optimism estimates by how much the logarithm of a reading is too small because the
// reading was selected: of many readings those that look best are also those that
// noise made better. It is negative for the best of many.
//
// The method is a parametric bootstrap of the winner's curse: readings are drawn
// around what they were, with the noise of each, and the mean of (reading - truth) is
// taken over whoever comes at the rank that this one has. Drawn around the readings
// themselves the truths would be spread too widely, since the readings hold the noise
// once already, and the estimate too small; so a first round estimates the truths,
// and a second one draws around them (a double bootstrap). See B. Efron, "Tweedie's
// Formula and Selection Bias", JASA 106 (2011), for what is estimated, and Efron and
// Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 10, for how. The
// seed is fixed.
func Optimism(readings []Reading, at int) float64 {
	order := make([]int, len(readings))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(readings[a].Fitness, readings[b].Fitness) })
	truth, noise := make([]float64, len(order)), make([]float64, len(order))
	for rank, i := range order {
		truth[rank], noise[rank] = math.Log(readings[i].Fitness), readings[i].Noise
	}
	// A noise that is known from a dozen samples is itself no better than by a third.
	// Where it is that of most readings, but for such chance, theirs is the better
	// estimate; left alone, those whose noise came out too large would win most draws.
	typical := evaluator.Median(noise)
	for rank, x := range noise {
		if x > typical/2 && x < typical*2 {
			noise[rank] = typical
		}
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(readings))))
	for rank, bias := range selectionBias(truth, noise, rng) {
		truth[rank] -= bias
	}
	return selectionBias(truth, noise, rng)[slices.Index(order, at)]
}

// selectionBias draws readings around truths and gives the mean of (reading - truth)
// by rank.
func selectionBias(truth, noise []float64, rng *rand.Rand) []float64 {
	rounds := max(50, 400_000/max(len(truth), 1000))
	bias := make([]float64, len(truth))
	type draw struct{ reading, truth float64 }
	draws := make([]draw, len(truth))
	for range rounds {
		for i, t := range truth {
			draws[i] = draw{t + noise[i]*rng.NormFloat64(), t}
		}
		slices.SortFunc(draws, func(a, b draw) int { return cmp.Compare(a.reading, b.reading) })
		for rank, d := range draws {
			bias[rank] += (d.reading - d.truth) / float64(rounds)
		}
	}
	return bias
}
