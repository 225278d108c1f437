package evaluator

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestContenders: with Plan.Contenders a candidate that passed parity takes its first readings. If all
// are more than a quarter slower than the incumbent, nothing else is done; otherwise the sanitizers
// run before any further reading.
func TestContenders(t *testing.T) {
	faulty := func(string) (Findings, error) { return Findings{By: "asan", Found: "a fault"}, nil }
	still := calm
	still.noise = 0
	const (
		slower    = "first readings"
		contender = "first readings, sanitizers, readings"
		sanitized = "first readings, sanitizers"
		usual     = "sanitizers, readings"
	)
	for _, c := range []struct {
		name      string
		ns        float64 // the baseline takes 100e3
		incumbent float64
		all       bool // the plan has every candidate sanitized
		change    func(l *scriptedLab, a *actor)
		shapes    bool // two of them
		verdict   Verdict
		order     string
		fitness   float64
		first     int // pairs of a correct candidate that decide
	}{
		{name: "all", ns: 300e3, incumbent: 0.8, all: true, verdict: Correct, order: usual, fitness: 3},
		{name: "no incumbent", ns: 300e3, verdict: Correct, order: usual, fitness: 3},
		{name: "slower", ns: 300e3, incumbent: 0.8, verdict: Slower, order: slower, fitness: 3},
		{name: "faster", ns: 80e3, incumbent: 0.9, verdict: Correct, order: contender, fitness: 0.8, first: 1},
		{name: "exactly a quarter", ns: 125e3, incumbent: 1, verdict: Correct, order: contender, fitness: 1.25, first: 1},
		{name: "a little more", ns: 126.5e3, incumbent: 1, verdict: Slower, order: slower, fitness: 1.265},
		{
			name: "one reading is fast", ns: 300e3, incumbent: 0.8, verdict: Correct, order: contender, fitness: 0.8, first: 2,
			change: func(_ *scriptedLab, a *actor) {
				n := 0
				a.claims = func(r Reading, _ float64, _ *rand.Rand) Reading {
					if n++; n == 3 { // after the first reading, and two calls that size batches
						a.ns = 80e3
					}
					return r
				}
			},
		},
		{
			name: "readings that do not count", ns: 300e3, incumbent: 0.8, verdict: Infrastructure, order: contender,
			change: func(_ *scriptedLab, a *actor) {
				a.claims = func(r Reading, _ float64, _ *rand.Rand) Reading {
					r.CPUNS, r.WaitedNS = 0, r.WallNS
					return r
				}
			},
		},
		{
			name: "a contender with a fault", ns: 80e3, incumbent: 0.9, verdict: Sanitizer, order: sanitized,
			change: func(_ *scriptedLab, a *actor) { a.launch = faulty },
		},
		{
			name: "a slower one with a fault", ns: 300e3, incumbent: 0.9, verdict: Slower, order: slower, fitness: 3,
			change: func(_ *scriptedLab, a *actor) { a.launch = faulty },
		},
		{
			name: "wrong while it is timed", ns: 300e3, incumbent: 0.9, verdict: Parity, order: slower,
			change: func(_ *scriptedLab, a *actor) {
				a.after = func(SampleRequest) Observation {
					return Observation{Outputs: []Output{{Name: "y", Error: 1, Elements: 100}}, Threads: 1}
				}
			},
		},
		{
			name: "crashes while it is timed", ns: 300e3, incumbent: 0.9, verdict: Launch, order: slower,
			change: func(_ *scriptedLab, a *actor) {
				a.fault = func(Purpose, SampleRequest) error { return &Fault{Reason: "it crashed"} }
			},
		},
		{
			name: "slow at one of two shapes", ns: 200e3, incumbent: 0.9, shapes: true, verdict: Correct, order: contender, fitness: 1, first: 6,
			change: func(l *scriptedLab, _ *actor) { l.baseline["wide"] = &actor{ns: 400e3, threads: 1} },
		},
		{
			name: "slower over two shapes", ns: 200e3, incumbent: 0.7, shapes: true, verdict: Slower, order: slower, fitness: 1,
			change: func(l *scriptedLab, _ *actor) { l.baseline["wide"] = &actor{ns: 400e3, threads: 1} },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, p := newLab(), labPlan()
			if c.shapes {
				p = twoShapes()
			}
			p.Contenders, l.weather = !c.all, still
			l.actors["1"].ns = c.ns
			if c.change != nil {
				c.change(l, l.actors["1"])
			}
			var r Result
			synctest.Test(t, func(t *testing.T) {
				j, err := newJudge(t.Context(), l, p)
				if err != nil {
					t.Fatal(err)
				}
				l.log = nil // what the baseline did
				if r, err = newOrdeal(j, p).Evaluate(t.Context(), labGenome(t, p, 1), c.incumbent); err != nil {
					t.Fatal(err)
				}
			})
			var order []string
			for _, call := range l.log {
				what := ""
				switch {
				case strings.HasPrefix(call, "launch"):
					what = "sanitizers"
				case strings.HasPrefix(call, "sample") && !c.all && c.incumbent > 0 && !slices.Contains(order, "sanitizers"):
					what = "first readings"
				case strings.HasPrefix(call, "sample"):
					what = "readings"
				}
				if what != "" && !slices.Contains(order, what) {
					order = append(order, what)
				}
			}
			if got := strings.Join(order, ", "); got != c.order {
				t.Errorf("%s, want %s: %q", got, c.order, l.log)
			}
			if r.Verdict != c.verdict || math.Abs(r.Fitness-c.fitness) > 0.03*c.fitness {
				t.Fatalf("%s with the fitness %g (%s), want %s with %g", r.Verdict, r.Fitness, r.Reason, c.verdict, c.fitness)
			}
			if l.open != 0 {
				t.Errorf("%d sessions are still open", l.open)
			}
			if c.verdict == Slower {
				if want := 3 * len(p.Tune); l.asked != want {
					t.Errorf("%d pairs of readings, want %d", l.asked, want)
				}
				s, _ := r.Step(StageSanitize)
				if s.Outcome != NotRun || len(s.Evidence) != 1 || s.Evidence[0].Outcome != NotRun || s.Evidence[0].Detail != "slower than the best" {
					t.Errorf("the sanitizers: %+v", s)
				}
				if b, _ := r.Step(StageBenchmark); b.Outcome != Passed || r.Stage != StageBenchmark || len(r.Timings) != len(p.Tune) || r.Reason == "" {
					t.Errorf("%s, %q, %d timings, %+v", r.Stage, r.Reason, len(r.Timings), b)
				}
			}
			if (c.verdict == Sanitizer) != (r.Stage == StageSanitize) || c.verdict == Sanitizer && r.Timings != nil {
				t.Errorf("%s in the stage %s, with %d timings", r.Verdict, r.Stage, len(r.Timings))
			}
			if c.verdict == Infrastructure {
				if b, _ := r.Step(StageBenchmark); b.Evidence[0].Check != "first readings" || b.Evidence[0].Outcome != NotRun {
					t.Errorf("readings that do not count: %+v", b.Evidence[0])
				}
			}
			if seen := map[Stage]bool{}; true { // one step for each stage
				for _, s := range r.Steps {
					if seen[s.Stage] {
						t.Errorf("two steps of %s", s.Stage)
					}
					seen[s.Stage] = true
				}
			}
			if c.verdict == Correct && !c.all && c.incumbent > 0 {
				b, _ := r.Step(StageBenchmark)
				if len(b.Evidence) < 2 || b.Evidence[0].Check != "first readings" || len(r.Timings) != len(p.Tune) || r.Timings[0].Stopped == "" {
					t.Errorf("the benchmark: %+v", b)
				}
				if first := l.asked - sum(r.Timings); first != c.first {
					t.Errorf("%d first pairs, want %d: %q", first, c.first, l.log)
				}
			}
		})
	}
}

// sum is how many pairs count of timings or were dropped.
func sum(timings []Timing) (n int) {
	for _, t := range timings {
		n += len(t.SamplesNS) + t.Discarded
	}
	return n
}
