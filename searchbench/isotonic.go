package searchbench

import (
	"cmp"
	"math"
	"math/rand"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/evotune/evotune/evaluator"
)

// resamples is how many bootstrap samples of the runs make an error.
const resamples = 200

// A point is the rank of one run's best at one time.
type point struct {
	at   float64
	rank float64
	run  int
}

// isotonic is P_iso with a bootstrap error: the runs are drawn anew with
// replacement. The generator has a fixed seed, so that the error is the same
// each time.
func (s *Space) isotonic(runs [][]step) Estimate {
	var points []point
	ends := make([]float64, len(runs)) // NaN for a run that found nothing
	first, last := s.times[0], s.times[moments-1]
	for i, run := range runs {
		ends[i] = math.NaN()
		for _, p := range run {
			if p.rank < 0 {
				continue
			}
			ends[i] = p.at
			if p.at >= 0.9*first && p.at <= 1.1*last {
				points = append(points, point{p.at, float64(p.rank), i})
			}
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	weights := make([]float64, len(runs))
	for i := range weights {
		weights[i] = 1
	}
	var fit isotonicFit
	e := Estimate{Value: s.scoreIso(&fit, points, ends, weights)}
	if len(runs) < 2 {
		return e
	}
	rng := rand.New(rand.NewSource(1))
	values := make([]float64, resamples)
	for k := range values {
		clear(weights)
		for range runs {
			weights[rng.Intn(len(runs))]++
		}
		values[k] = s.scoreIso(&fit, points, ends, weights)
	}
	e.Err = stat.StdDev(values, nil)
	return e
}

// scoreIso is P_iso of runs, each of which counts as often as its weight says.
func (s *Space) scoreIso(fit *isotonicFit, points []point, ends, weights []float64) float64 {
	fit.decreasing(points, weights)
	var stops []float64
	for i, w := range weights {
		for range int(w) {
			if !math.IsNaN(ends[i]) {
				stops = append(stops, ends[i])
			}
		}
	}
	stop := evaluator.Median(stops) // NaN, and never before a time, without any
	sum, have := 0.0, s.median
	frozen := false
	for i, t := range s.times {
		// Once the median run has ended the curve does not change.
		if fit.points >= 2 && !frozen {
			rank := math.RoundToEven(fit.at(t))
			have = s.sorted[int(min(max(rank, 0), float64(len(s.sorted)-1)))]
			frozen = t > stop
		}
		sum += (s.smoothed[i] - have) / (s.smoothed[i] - s.sorted[0])
	}
	return sum / moments
}

// An isotonicFit is the non-increasing function of time that fits points best
// by least squares, found by pooling adjacent violators. It is linear between
// the points and constant outside. It may be fitted again.
type isotonicFit struct {
	points float64 // their weight
	xs     []float64
	blocks []block
	// The position of the last call of at: times come in ascending order.
	i, block int
}

// A block is a stretch of xs with one value.
type block struct {
	value, weight float64
	end           int // index behind its last x
}

// decreasing fits. points are sorted by time.
func (f *isotonicFit) decreasing(points []point, weights []float64) {
	f.points, f.xs, f.blocks, f.i, f.block = 0, f.xs[:0], f.blocks[:0], 0, 0
	for i := 0; i < len(points); {
		// Points of one time are one point.
		x, sum, weight := points[i].at, 0.0, 0.0
		for ; i < len(points) && points[i].at == x; i++ {
			w := weights[points[i].run]
			sum += w * points[i].rank
			weight += w
		}
		if weight == 0 {
			continue
		}
		f.points += weight
		f.xs = append(f.xs, x)
		b := block{sum / weight, weight, len(f.xs)}
		for k := len(f.blocks) - 1; k >= 0 && f.blocks[k].value < b.value; k-- {
			p := f.blocks[k]
			w := b.weight + p.weight
			b = block{(b.value*b.weight + p.value*p.weight) / w, w, b.end}
			f.blocks = f.blocks[:k]
		}
		f.blocks = append(f.blocks, b)
	}
}

// at is the value at a time that is not before the last one asked for.
func (f *isotonicFit) at(x float64) float64 {
	for f.i < len(f.xs) && f.xs[f.i] <= x {
		f.i++
	}
	before := max(0, f.i-1)
	for f.blocks[f.block].end <= before {
		f.block++
	}
	y := f.blocks[f.block].value
	if f.i == 0 || f.i == len(f.xs) || f.blocks[f.block].end > f.i {
		return y
	}
	next := f.blocks[f.block+1].value
	slope := (next - y) / (f.xs[f.i] - f.xs[before])
	return slope*(x-f.xs[before]) + y
}
