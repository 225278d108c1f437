package campaign

import (
	"context"
	"math"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

type again struct {
	evaluator.Evaluator
	evaluator.Result
}

func (a again) Evaluate(context.Context, genome.Genome, float64) (evaluator.Result, error) {
	return a.Result, nil
}

// measured is a correct result of n samples at each of two shapes, one of which
// is four times as fast as the baseline, the other half as fast.
func measured(n [2]int, factor float64) evaluator.Result {
	r := evaluator.Result{Verdict: evaluator.Correct, Fitness: factor * math.Sqrt(0.25*2)}
	for i, ratio := range []float64{0.25, 2} {
		var samples, baseline []float64
		for k := range n[i] {
			wobble := 1 + 0.001*float64(k%5)
			samples, baseline = append(samples, 1000*ratio*factor*wobble), append(baseline, 1000)
		}
		r.Timings = append(r.Timings, evaluator.NewTiming([]string{"fast", "slow"}[i], samples, baseline, 1, 1))
	}
	return r
}

// TestVerifyOverShapes: numbers of samples that differ from shape to shape are
// no change, and a change at all shapes is one, though it is small beside what
// lies between the shapes.
func TestVerifyOverShapes(t *testing.T) {
	for _, c := range []struct {
		name        string
		stored, now evaluator.Result
		ratio       float64
		significant bool
	}{
		{"fewer samples of one shape", measured([2]int{14, 14}, 1), measured([2]int{6, 14}, 1), 1, false},
		{"slower by 3%", measured([2]int{14, 14}, 1), measured([2]int{14, 11}, 1.03), 1.03, true},
	} {
		v, err := Verify(t.Context(), again{Result: c.now}, genome.Genome{}, c.stored, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(v.Test.Ratio-c.ratio) > 0.002 || v.Test.Significant != c.significant {
			t.Errorf("%s: ratio %.4f, significant %v (p=%.3g), expected %.2f, %v", c.name, v.Test.Ratio, v.Test.Significant, v.Test.P, c.ratio, c.significant)
		}
	}
}
