package fleet

import (
	"log/slog"
	"math"
	"testing"

	"github.com/evotune/evotune/evaluator"
)

// TestNoise: what lies between a host that a third one says is alone and the others is not noise; where nobody agrees
// with anybody, everything is.
func TestNoise(t *testing.T) {
	found := func(fitness float64) *evaluator.Result {
		return &evaluator.Result{Verdict: evaluator.Correct, Fitness: fitness}
	}
	for _, c := range []struct {
		first, second, third float64
		pairs                int
		most                 float64
	}{
		{1, 1.3, 1.01, 1, .02},
		{1.3, 1, 1.01, 1, .02},
		{1, 1.3, 1.7, 3, .6},
	} {
		campaign := &Campaign{hub: &Hub{o: Options{Logger: slog.New(slog.DiscardHandler)}}}
		campaign.again(&item{by: &host{}, first: found(c.first), second: found(c.second), secondBy: &host{}}, &host{}, *found(c.third))
		if len(campaign.apart) != c.pairs {
			t.Errorf("%+v: %v", c, campaign.apart)
		}
		for _, d := range campaign.apart {
			if d > c.most || math.IsNaN(d) {
				t.Errorf("%+v: %v", c, campaign.apart)
			}
		}
	}
}
