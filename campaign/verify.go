package campaign

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// A Verification compares a stored result with one made again.
type Verification struct {
	Stored evaluator.Result `json:"stored"`
	Again  evaluator.Result `json:"again"`
	// SameSource, SameBinary and SameKey say what is as it was: the rendered
	// source, the machine code, and everything that could change the result.
	SameSource bool `json:"same_source"`
	SameBinary bool `json:"same_binary"`
	SameKey    bool `json:"same_key"`
	// Change is (time again / time stored) - 1, each time relative to the
	// baseline that was measured beside it; 0 unless both are correct.
	Change float64 `json:"change"`
	// Test compares the samples; nil unless both are correct.
	Test *evaluator.Comparison `json:"test,omitempty"`
	// Reproduced: the verdict is the same, and where it is correct the time did
	// not change by more than the tolerance, or not by more than noise.
	Reproduced bool   `json:"reproduced"`
	Reason     string `json:"reason,omitempty"`
}

// Verify judges a genome again, in fresh processes, and compares the outcome
// with the stored one. tolerance is the relative change of the time that is
// allowed (0.05 is 5%).
func Verify(ctx context.Context, ev evaluator.Evaluator, g genome.Genome, stored evaluator.Result, tolerance float64) (Verification, error) {
	again, err := ev.Evaluate(ctx, g, 0)
	if err != nil {
		return Verification{}, err
	}
	v := Verification{
		Stored: stored, Again: again,
		SameSource: stored.Source == again.Source,
		SameBinary: stored.Binary == again.Binary,
		SameKey:    stored.Key == again.Key,
	}
	switch {
	case stored.Verdict != again.Verdict:
		v.Reason = fmt.Sprintf("the verdict was %s and is now %s: %s", stored.Verdict, again.Verdict, again.Reason)
	case stored.Verdict != evaluator.Correct:
		v.Reproduced = true
	default:
		v.Change = again.Fitness/stored.Fitness - 1
		now, then := alike(again.Timings, stored.Timings)
		test := evaluator.Compare(now, then)
		v.Test = &test
		v.Reproduced = math.Abs(v.Change) <= tolerance || !test.Significant
		if !v.Reproduced {
			v.Reason = fmt.Sprintf("relative to the baseline it took %+.1f%% of the stored time, more than noise and more than the %.0f%% allowed", 100*v.Change, 100*tolerance)
		}
	}
	return v, nil
}

// alike gives the paired ratios candidate/baseline of two measurements over all
// shapes that both have, each relative to the median of b at its shape: shapes
// have speedups of their own, which would drown what changed.
func alike(a, b []evaluator.Timing) (now, then []float64) {
	for _, t := range b {
		i := slices.IndexFunc(a, func(x evaluator.Timing) bool { return x.Shape == t.Shape })
		if i < 0 {
			continue
		}
		r := t.Ratios()
		m := evaluator.Median(r)
		if !(m > 0) {
			continue
		}
		for _, x := range a[i].Ratios() {
			now = append(now, x/m)
		}
		for _, x := range r {
			then = append(then, x/m)
		}
	}
	return now, then
}
