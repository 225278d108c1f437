package evaluator

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	noisy := func(n int, centre float64) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = centre * (1 + 0.01*rng.NormFloat64())
		}
		return s
	}
	faster, slower := noisy(20, 90), noisy(20, 100)
	kept := slices.Clone(slower)
	c := Compare(faster, slower)
	if !c.Significant || c.P >= Alpha || math.Abs(c.Ratio-0.9) > 0.02 || c.N1 != 20 || c.N2 != 20 || len(c.Warnings) > 0 {
		t.Errorf("%+v", c)
	}
	if s := c.String(); s[0] != '-' || s[len(s)-1] != '%' {
		t.Errorf("printed as %q", s)
	}
	if !slices.Equal(slower, kept) {
		t.Error("the samples were changed")
	}
	if c := Compare(slower, slower); c.Significant || c.String() != "~" {
		t.Errorf("a sample differs from itself: %+v", c)
	}
	if c := Compare([]float64{1, 2, 3}, []float64{10, 20, 30}); c.Significant || len(c.Warnings) == 0 {
		t.Errorf("three samples each: %+v", c)
	}
	if c := Compare(nil, slower); c.Significant || c.P != 1 || len(c.Warnings) == 0 {
		t.Errorf("no samples: %+v", c)
	}
}

// Where there is no difference, one is claimed about as often as alpha says.
func TestCompareFalseAlarms(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	alarms := 0
	const trials = 2000
	for range trials {
		a, b := make([]float64, 20), make([]float64, 20)
		for i := range a {
			a[i], b[i] = 100+rng.ExpFloat64(), 100+rng.ExpFloat64()
		}
		if Compare(a, b).Significant {
			alarms++
		}
	}
	if rate := float64(alarms) / trials; rate > 0.07 {
		t.Errorf("a difference was claimed in %.1f%% of the trials without one", 100*rate)
	}
}

func TestSummaries(t *testing.T) {
	if m := Median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median %v", m)
	}
	if m := Median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	if m := Median(nil); m == m {
		t.Errorf("median of nothing %v", m)
	}
	if m := GeometricMean([]float64{2, 8}); math.Abs(m-4) > 1e-12 {
		t.Errorf("geometric mean %v", m)
	}
	if _, lo, hi := Interval([]float64{1, 2, 3, 4, 5}); !math.IsInf(hi-lo, 1) {
		t.Errorf("five values have an interval: %v, %v", lo, hi)
	}
	if m, lo, hi := Interval([]float64{1, 2, 3, 4, 5, 6}); m != 3.5 || lo != 1 || hi != 6 {
		t.Errorf("%v in %v, %v", m, lo, hi)
	}
}

func TestNewTiming(t *testing.T) {
	// The machine is half as fast for two samples: the ratio does not care.
	tm := NewTiming("s", []float64{10, 20, 20, 10, 10}, []float64{20, 40, 40, 20, 20}, 3, 4)
	if tm.Ratio != 0.5 || tm.MedianNS != 10 || tm.BaselineMedianNS != 20 || tm.Batch != 3 || tm.BaselineBatch != 4 || tm.Spread != 1 {
		t.Errorf("%+v", tm)
	}
}

// The interval has the median that the values were drawn around at least 95 times
// in 100, for as few values as it is given for and for times with a tail.
func TestIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 8, 10, 20, 21, 33} {
		const trials = 4000
		held := 0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				values[i] = math.Exp(0.02 * rng.NormFloat64()) // with the median 1
				if values[i] > 1 {
					values[i] += 0.1 * rng.ExpFloat64()
				}
			}
			if _, lo, hi := Interval(values); lo <= 1 && 1 <= hi {
				held++
			}
		}
		if share := float64(held) / trials; share < 0.95 {
			t.Errorf("of %d values the interval has the median in %.1f%%", n, 100*share)
		}
	}
}

func TestIntervalHoldsMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0.1, 10), 1, 40).Draw(t, "values")
		m, lo, hi := Interval(values)
		if lo > m || m > hi {
			t.Fatalf("%v is not in %v, %v", m, lo, hi)
		}
		if math.Abs(m-Median(values)) > 1e-9 {
			t.Fatalf("medians %v and %v", m, Median(values))
		}
	})
}

// A difference is significant only if every set of processes says the same.
func TestSetsAgree(t *testing.T) {
	timing := func(sets ...float64) Timing {
		var samples, baseline []float64
		var per []int
		for i, r := range sets {
			n := 3 + i%2
			for k := range n {
				samples, baseline = append(samples, r*(100+float64(k))), append(baseline, 100+float64(k))
			}
			per = append(per, n)
		}
		out := NewTiming("main", samples, baseline, 1, 1)
		out.PerSet = per
		return out
	}
	fast, other := timing(0.5, 0.5, 0.6, 0.5, 0.5, 0.5), timing(0.7, 0.7, 0.55, 0.7, 0.7, 0.7)
	one := timing(0.5, 0.5, 0.5, 0.5, 0.5, 1.2)
	for i, c := range []struct {
		a, b []Timing
		want bool
	}{
		{[]Timing{fast}, nil, true},
		{[]Timing{one}, nil, false},
		{[]Timing{one, fast}, nil, true}, // all shapes together
		{[]Timing{fast}, []Timing{other}, false},
		{[]Timing{fast}, []Timing{timing(0.7, 0.7, 0.7, 0.7, 0.7, 0.7)}, true},
		{[]Timing{fast}, []Timing{timing(0.7, 0.7)}, true}, // where both were measured
		{[]Timing{NewTiming("main", []float64{1}, []float64{2}, 1, 1)}, nil, true},
	} {
		got := Comparison{Ratio: 0.6, Significant: true}
		got.agree(c.a, c.b)
		if got.Significant != c.want || (len(got.Warnings) == 0) != c.want {
			t.Errorf("%d: %+v, want significant: %t", i, got, c.want)
		}
	}
	slow := Comparison{Ratio: 1.3, Significant: true}
	if slow.agree([]Timing{timing(1.2, 1.3, 1.4)}, nil); !slow.Significant {
		t.Error("sets that agree that it is slower")
	}
}
