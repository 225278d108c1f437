package campaign

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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

func (a again) Finals(context.Context, []genome.Genome) (evaluator.Finals, error) {
	return evaluator.Finals{Entries: []evaluator.Finalist{{Verdict: evaluator.Correct, Fitness: a.Fitness, Timings: a.Timings}}}, nil
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
		v, err := Verify(t.Context(), again{Result: c.now}, genome.Genome{}, Record{Result: c.stored}, 0.05)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(v.Test.Ratio-c.ratio) > 0.002 || v.Test.Significant != c.significant {
			t.Errorf("%s: ratio %.4f, significant %v (p=%.3g), expected %.2f, %v", c.name, v.Test.Ratio, v.Test.Significant, v.Test.P, c.ratio, c.significant)
		}
	}
}

// script answers with a result and with finals, one after another and the last
// again and again.
type script struct {
	evaluator.Evaluator
	result evaluator.Result
	finals []evaluator.Finalist
	n      int // finals asked for
}

func (s *script) Evaluate(context.Context, genome.Genome, float64) (evaluator.Result, error) {
	return s.result, nil
}

func (s *script) Finals(context.Context, []genome.Genome) (evaluator.Finals, error) {
	f := s.finals[min(s.n, len(s.finals)-1)]
	s.n++
	return evaluator.Finals{Entries: []evaluator.Finalist{f}}, nil
}

// final is a measurement of finals around a ratio to the baseline, with next to no
// noise.
func final(ratio float64) evaluator.Finalist {
	var samples, baseline []float64
	for i := range 20 {
		samples, baseline = append(samples, 1000*ratio*(1+0.001*float64(i*7%20))), append(baseline, 1000)
	}
	return evaluator.Finalist{Verdict: evaluator.Correct, Fitness: ratio, Timings: []evaluator.Timing{evaluator.NewTiming("8", samples, baseline, 1, 1)}}
}

func TestVerify(t *testing.T) {
	correct := evaluator.Result{Verdict: evaluator.Correct, Fitness: 0.4, Timings: final(0.4).Timings, Source: "s", Binary: "b", Key: "k"}
	in := final(0.5)
	finals := Record{Result: correct, Finals: &in}
	fails := func(v evaluator.Verdict) evaluator.Result {
		return evaluator.Result{Verdict: v, Stage: evaluator.StageParity, Reason: "because"}
	}
	for _, c := range []struct {
		name       string
		record     Record
		again      evaluator.Result
		finals     []evaluator.Finalist
		looks      int
		reproduced bool
		reason     string
	}{
		{"as the finals had it", finals, correct, []evaluator.Finalist{final(0.5)}, 1, true, ""},
		{"as the search had it", finals, correct, []evaluator.Finalist{final(0.4)}, 2, false, "took -20.0% of"},
		{"slower twice", finals, correct, []evaluator.Finalist{final(0.58), final(0.57)}, 2, false, "took +14.0% of the stored time, more than noise and more than the 5% allowed, in each of 2"},
		{"slower once", finals, correct, []evaluator.Finalist{final(0.58), final(0.51)}, 2, true, "+16.0% at first, but not in measurement 2"},
		{"slower and faster", finals, correct, []evaluator.Finalist{final(0.58), final(0.4)}, 2, true, "not steady"},
		{"without finals", Record{Result: correct}, correct, []evaluator.Finalist{final(0.41)}, 1, true, ""},
		{"wrong now", finals, fails(evaluator.Parity), nil, 0, false, "was correct and is now parity: because"},
		{"slower, and right", Record{Result: evaluator.Result{Verdict: evaluator.Slower, Fitness: 3}}, correct, nil, 0, true, "did not sanitize it"},
		{"slower, and wrong", Record{Result: evaluator.Result{Verdict: evaluator.Slower, Fitness: 3}}, fails(evaluator.Sanitizer), nil, 0, false, "was slower and is now sanitizer: because"},
		{"wrong as it was", Record{Result: fails(evaluator.Parity)}, fails(evaluator.Parity), nil, 0, true, ""},
		{"crashes in finals", finals, correct, []evaluator.Finalist{{Verdict: evaluator.Launch, Reason: "signal"}}, 1, false, "launch: signal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := &script{result: c.again, finals: c.finals}
			v, err := Verify(t.Context(), ev, genome.Genome{}, c.record, 0.05)
			if err != nil {
				t.Fatal(err)
			}
			if v.Reproduced != c.reproduced || ev.n != c.looks || v.Measurements != c.looks || v.Disturbed != "" {
				t.Errorf("%+v after %d looks", v, ev.n)
			}
			if !strings.Contains(v.Reason, c.reason) || (c.reason == "") != (v.Reason == "") {
				t.Errorf("reason %q, want %q", v.Reason, c.reason)
			}
		})
	}
	// A machine that cannot measure finds nothing, and one that fails is an error.
	busy := evaluator.Result{Verdict: evaluator.Infrastructure, Disturbed: "steal 43%"}
	for name, ev := range map[string]*script{
		"steal 43%": {result: busy},
		"other":     {result: correct, finals: []evaluator.Finalist{{Verdict: evaluator.Infrastructure, Reason: "other"}}},
	} {
		if v, err := Verify(t.Context(), ev, genome.Genome{}, finals, 0.05); err != nil || v.Disturbed != name || v.Reproduced || v.Reason != "" {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	// A change that was seen while others used the machine may be their doing; a time
	// that is as it was needs no calm.
	for _, c := range []struct {
		fitness   float64
		disturbed string
	}{{0.58, "steal 43%; relative to the baseline it took +16.0%"}, {0.5, ""}} {
		now := final(c.fitness)
		now.Timings[0].Conditions = &evaluator.Conditions{Disturbed: "steal 43%"}
		v, err := Verify(t.Context(), &script{result: correct, finals: []evaluator.Finalist{now}}, genome.Genome{}, finals, 0.05)
		if err != nil || !strings.HasPrefix(v.Disturbed, c.disturbed) || (v.Disturbed == "") != v.Reproduced || v.Reproduced != (c.disturbed == "") {
			t.Errorf("%g: %+v, %v", c.fitness, v, err)
		}
	}
	if _, err := Verify(t.Context(), &script{result: fails(evaluator.Infrastructure)}, genome.Genome{}, finals, 0.05); err == nil {
		t.Error("the machine failed, and nobody said so")
	}
}

// TestVerifyLuck: the best reading of a hundred, all of one truth, is reproduced by
// an honest measurement, and a change of 15% is seen.
func TestVerifyLuck(t *testing.T) {
	const (
		runs, n, pairs = 40, 100, 12
		truth          = 0.4
		// That of a sample, so that the median of so many has a noise of 3%. A round of
		// finals takes longer, and has half of it.
		noise = 0.03 * 3.4641016151377544 / 1.2533141373155003
	)
	rng := rand.New(rand.NewPCG(5, 5))
	measure := func(truth float64, n int, noise float64) evaluator.Finalist {
		var samples, baseline []float64
		for range n {
			samples, baseline = append(samples, 1000*truth*math.Exp(noise*rng.NormFloat64())), append(baseline, 1000)
		}
		ts := []evaluator.Timing{evaluator.NewTiming("8", samples, baseline, 1, 1)}
		return evaluator.Finalist{Verdict: evaluator.Correct, Fitness: ts[0].Ratio, Timings: ts}
	}
	honest, seen, raw := 0, 0, 0
	for range runs {
		var r Record
		for i := range n {
			f := measure(truth, pairs, noise)
			r.Readings = append(r.Readings, NewReading(f.Timings))
			if i == 0 || f.Fitness < r.Result.Fitness {
				r.At, r.Result = i, evaluator.Result{Verdict: evaluator.Correct, Fitness: f.Fitness, Timings: f.Timings}
			}
		}
		reproduced := func(r Record, truth float64) bool {
			ev := &script{result: r.Result, finals: []evaluator.Finalist{measure(truth, 20, noise/2), measure(truth, 20, noise/2)}}
			v, err := Verify(t.Context(), ev, genome.Genome{}, r, 0.05)
			if err != nil {
				t.Fatal(err)
			}
			return v.Reproduced
		}
		if reproduced(r, truth) {
			honest++
		}
		if !reproduced(r, 1.15*truth) {
			seen++
		}
		r.Readings = nil
		if reproduced(r, truth) {
			raw++
		}
	}
	t.Logf("of %d, %d are reproduced and %d would be without the correction; a change of 15%% is seen in %d", runs, honest, raw, seen)
	if honest < runs*95/100 || seen < runs*95/100 {
		t.Errorf("of %d lucky readings %d were reproduced, and %d changes seen", runs, honest, seen)
	}
}

func TestOptimism(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	flat, apart := make([]Reading, 100), make([]Reading, 100)
	for i := range flat {
		flat[i] = Reading{0.5 * math.Exp(0.03*rng.NormFloat64()), 0.03}
		apart[i] = Reading{math.Pow(1.2, float64(i)), 0.03}
	}
	slices.SortFunc(flat, func(a, b Reading) int { return int(math.Copysign(1, a.Fitness-b.Fitness)) })
	// The least of 100 draws of a normal distribution is 2.5 standard deviations low.
	if got := Optimism(flat, 0); got > -2*0.03 || got < -3*0.03 {
		t.Errorf("the best of equals is optimistic by %.4f", got)
	}
	if got := Optimism(flat, 50); math.Abs(got) > 0.01 {
		t.Errorf("who is in the middle is optimistic by %.4f", got)
	}
	if got := Optimism(apart, 0); math.Abs(got) > 0.01 {
		t.Errorf("who is far ahead is optimistic by %.4f", got)
	}
	if a, b := Optimism(flat, 3), Optimism(flat, 3); a != b {
		t.Errorf("%v, then %v", a, b)
	}
	if got := Optimism([]Reading{{0.5, 0.03}}, 0); math.Abs(got) > 0.01 {
		t.Errorf("one of one is optimistic by %.4f", got)
	}
}
