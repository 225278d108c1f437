package searchbench

import (
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/search"
)

func TestFacts(t *testing.T) {
	s := open(t, "small", []byte(small))
	want := Facts{
		Space: "small", Device: "none", Configurations: 24, Failed: 3, OptimumMS: 1.5, MedianMS: 4,
		FirstS: 0.875, LastS: 1.75, BudgetS: 1.9250000000000003,
	}
	if d := cmp.Diff(want, s.Facts()); d != "" {
		t.Error(d)
	}
}

// TestDraws counts by hand: 10 is the median of 1, 2, ..., 19, the optimum 1.
func TestDraws(t *testing.T) {
	s := &Space{median: 10}
	for v := 1.0; v < 20; v++ {
		s.sorted = append(s.sorted, v)
	}
	for _, c := range []struct{ way, want float64 }{
		{0, 1},      // 9 are worse than 10: 9/11
		{1. / 9, 1}, // 10 are worse than 9: 10/10
		{2. / 9, 2}, // 11/9
		{0.5, 3},    // 14 are worse than 5.5: 14/6
		{0.95, 9},   // 18 are worse than 1.45: 18/2
		{8. / 9, 6}, // 17 are worse than 2: 17/3
		{1, 9},      // 18 are worse than 1
		{0.01, 1},   // 10 are worse than 9.91
		{0.1112, 2}, // 11 are worse than 8.9992
	} {
		if got := s.draws(c.way); got != c.want {
			t.Errorf("%v draws for a share of %v, want %v", got, c.way, c.want)
		}
	}
}

func TestUnscorable(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing valid": {`{"params": [["x", [1, 2]]], "configs": [[[0], null, 1], [[1], null, 1]]}`, "no two different times"},
		"one time":      {`{"params": [["x", [1, 2]]], "configs": [[[0], 5, 1], [[1], 5, 1]]}`, "no two different times"},
		"free":          {`{"params": [["x", [1, 2, 3]]], "configs": [[[0], 5, 0], [[1], 6, 0], [[2], 7, 0]]}`, "no time to score by"},
		"tiny":          {`{"params": [["x", [1, 2, 3]]], "configs": [[[0], 5, 1], [[1], 6, 1], [[2], 7, 1]]}`, "so small"},
		"mostly unrecorded": {
			`{"params": [` + strings.TrimSuffix(strings.Repeat(`["P", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]],`, 7), ",") +
				`], "configs": [[[0, 0, 0, 0, 0, 0, 0], 1, 1], [[0, 0, 0, 0, 0, 0, 1], 2, 1]]}`, "it records 2 of about 1e+07",
		},
	} {
		for i := 'a'; strings.Contains(c.text, `"P"`); i++ {
			c.text = strings.Replace(c.text, `"P"`, `"`+string(i)+`"`, 1)
		}
		_, err := load("file", []byte(c.text))
		if !errors.Is(err, ErrUnscorable) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "file: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnrecorded: what a table does not record costs nothing and has no part in
// the yardstick.
func TestUnrecorded(t *testing.T) {
	s := open(t, "small", []byte(small))
	wider := open(t, "small", []byte(strings.Replace(small, "[1, 2, 4, 8]", "[1, 2, 4, 8, 16, 32]", 1)))
	if s.space.Size() != 24 || wider.space.Size() != 36 {
		t.Fatal("the second space is not wider")
	}
	if d := cmp.Diff(s.Facts(), wider.Facts()); d != "" {
		t.Error(d)
	}
	runs, err := wider.Runs(t.Context(), Search{Strategy: "random", Seed: 3, Budget: 1e6}, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if len(r.Genomes) != 36 || len(wider.steps(r)) != 24 {
			t.Errorf("%d genomes, %d of them count", len(r.Genomes), len(wider.steps(r)))
		}
	}
}

// TestRuns walks the path that asking and telling by hand does, whatever the
// number of processors.
func TestRuns(t *testing.T) {
	s := synthetic(t)
	for _, how := range []Search{
		{Strategy: search.Default, Seed: 5},
		{Strategy: search.Default, Seed: 5, Window: 1, Budget: 100},
		{Strategy: "hillclimb", Seed: 9, Window: 8},
		{Strategy: "random", Seed: -1, Window: 32, Budget: 1e9},
	} {
		var paths [2][]Run
		for i, procs := range []int{1, 5} {
			before := runtime.GOMAXPROCS(procs)
			runs, err := s.Runs(t.Context(), how, 3, nil)
			runtime.GOMAXPROCS(before)
			if err != nil {
				t.Fatal(err)
			}
			for k := range runs {
				if runs[k].Own <= 0 {
					t.Errorf("run %d took no time of its own", k)
				}
				runs[k].Own = 0
			}
			paths[i] = runs
		}
		if !reflect.DeepEqual(paths[0], paths[1]) {
			t.Errorf("%+v: another path with more processors", how)
		}
		for i, r := range paths[0] {
			if got, want := r.Genomes, byHand(t, s, how, i); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: run %d has %d genomes that are not the %d asked for by hand", how, i, len(got), len(want))
			}
		}
	}
}

func byHand(t *testing.T, s *Space, how Search, i int) []genome.Genome {
	t.Helper()
	strategy, err := search.New(how.Strategy, s.space, search.Options{Seed: how.Seed + int64(i)})
	if err != nil {
		t.Fatal(err)
	}
	budget, window := how.Budget, how.Window
	if budget == 0 {
		budget = s.Budget()
	}
	if window == 0 {
		window = 1
	}
	var out []genome.Genome
	spent := 0.0
	for k := 0; spent < budget; k++ {
		if k-window >= 0 {
			strategy.Tell(k-window, s.outcome(out[k-window]))
		}
		p, ok := strategy.Ask()
		if !ok {
			break
		}
		out = append(out, p.Genome)
		spent += s.outcome(p.Genome).Cost.Seconds()
	}
	return out
}

func TestInterrupted(t *testing.T) {
	s := synthetic(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Runs(ctx, Search{Strategy: "random", Seed: 1}, 1000, cancel)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted runs give %v", err)
	}
}

// TestOverhead: the search's own time is part of the budget and of the score.
func TestOverhead(t *testing.T) {
	s := synthetic(t)
	how := Search{Strategy: "random", Seed: 1, Overhead: true}
	r, err := s.run(t.Context(), how, 0)
	if err != nil {
		t.Fatal(err)
	}
	last := s.steps(r)[len(r.Genomes)-1].at
	r.Own += 1000 * time.Second
	if d := s.steps(r)[len(r.Genomes)-1].at - last; math.Abs(d-1000) > 1e-6 {
		t.Errorf("1000 s of its own make the run %v s longer", d)
	}
	if got := s.Trace("x", "random", []Run{r}).Runs[0].OverheadS; got != r.Own.Seconds() {
		t.Errorf("the trace says %v s", got)
	}
	// Where evaluations cost nearly nothing, own time is what ends a run.
	cheap := open(t, "cheap", syntheticText(t, func(_ int, _, cost *float64) { *cost = 1e-9 }))
	for _, overhead := range []bool{false, true} {
		r, err := cheap.run(t.Context(), Search{Strategy: "random", Budget: 20e-6, Overhead: overhead}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if all := len(r.Genomes) == len(cheap.outcomes); all == overhead {
			t.Errorf("overhead %t: %d of %d configurations in 20 us", overhead, len(r.Genomes), len(cheap.outcomes))
		}
	}
	r.Counted = false
	if got := s.Trace("x", "random", []Run{r}).Runs[0].OverheadS; got != 0 {
		t.Errorf("the trace says %v s of time that does not count", got)
	}
}

func TestPythonText(t *testing.T) {
	for _, c := range []struct {
		v    genome.Value
		want string
	}{
		{genome.Int(-16), "-16"},
		{genome.Bool(true), "True"},
		{genome.Bool(false), "False"},
		{genome.Str("a b"), "a b"},
		{genome.Str("true"), "true"},
		{genome.Float(0), "0.0"},
		{genome.Float(1), "1.0"},
		{genome.Float(-0.5), "-0.5"},
		{genome.Float(1e6), "1000000.0"},
		{genome.Float(123456789012345678), "1.2345678901234568e+17"},
		{genome.Float(1e15), "1000000000000000.0"},
		{genome.Float(1e16), "1e+16"},
		{genome.Float(0.0001), "0.0001"},
		{genome.Float(0.00001), "1e-05"},
		{genome.Float(1.5e300), "1.5e+300"},
	} {
		if got := pythonText(c.v); got != c.want {
			t.Errorf("%v is %q, want %q", c.v, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	longtest.Short(t, "computes for long")
	// The same kernel elsewhere: a third of the times are others.
	elsewhere := open(t, "elsewhere", syntheticText(t, func(i int, ms, _ *float64) {
		if i%3 == 0 {
			*ms *= 1.5
		}
	}))
	traced, done := 0, make(chan struct{}, 1000)
	p := Plan{
		Spaces:     []*Space{synthetic(t), open(t, "small", []byte(small)), elsewhere},
		Strategies: []string{"evolution", "random"}, Windows: []int{1, 32}, Repeats: 5, Seed: 1, Warm: 4,
		Runs: func(_ *Space, _ Search, runs []Run) error { traced += len(runs); return nil },
		Done: func() { done <- struct{}{} },
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := p.Compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if traced != 60 || len(done) != 70 || p.Size() != 70 {
		t.Errorf("%d runs traced, %d done of %d", traced, len(done), p.Size())
	}
	if len(c.Spaces) != 3 || len(c.Scores) != 12 || len(c.Means) != 4 {
		t.Fatalf("%d spaces, %d scores, %d means", len(c.Spaces), len(c.Scores), len(c.Means))
	}
	evolution, wide := c.Means[0], c.Means[1]
	if evolution.Strategy != "evolution" || evolution.Window != 1 || evolution.LossIso != nil || wide.Window != 32 || wide.LossMean == nil {
		t.Fatalf("means %+v", c.Means)
	}
	sum, squares, lowest := 0.0, 0.0, math.Inf(1)
	for _, s := range c.Scores {
		if s.Strategy == "evolution" && s.Window == 1 {
			sum += s.PMean.Value / 3
			squares += s.PMean.Err * s.PMean.Err / 9
			lowest = min(lowest, s.PMean.Value)
		}
	}
	if math.Abs(sum-evolution.PMean.Value) > 1e-12 || math.Abs(math.Sqrt(squares)-evolution.PMean.Err) > 1e-12 || lowest != evolution.WorstMean.Value {
		t.Errorf("the mean is %+v, worst %v; want %v ± %v, worst %v", evolution.PMean, evolution.WorstMean, sum, math.Sqrt(squares), lowest)
	}
	if d := evolution.PMean.Value - wide.PMean.Value; math.Abs(wide.LossMean.Value-d) > 1e-12 {
		t.Errorf("the loss is %v, want %v", wide.LossMean.Value, d)
	}
	if d := evolution.PIso.Value - wide.PIso.Value; math.Abs(wide.LossIso.Value-d) > 1e-12 {
		t.Errorf("the loss of P_iso is %v, want %v", wide.LossIso.Value, d)
	}
	if again, err := p.Compare(t.Context()); err != nil || cmp.Diff(c, again, cmp.Comparer(func(_, _ time.Duration) bool { return true }),
		cmp.FilterPath(func(p cmp.Path) bool { return strings.HasSuffix(p.Last().String(), "NS") }, cmp.Ignore())) != "" {
		t.Errorf("the same plan gives another comparison, or %v", err)
	}

	w := c.Warm
	if len(w.Pairs) != 2 || w.Pairs[0].From != "elsewhere" || w.Pairs[0].Space != "synthetic" || w.Pairs[0].Started != 4 {
		t.Fatalf("pairs %+v", w.Pairs)
	}
	for _, p := range w.Pairs {
		e := p.Evaluations[0]
		if p.PMean.With.Value < p.PMean.Without.Value || e.Ratio == nil || e.Ratio.Value != e.With/e.Without {
			t.Errorf("from %s: %+v", p.From, p)
		}
	}
}

// TestWarmStartFromItself finds the optimum of a copy at once.
func TestWarmStartFromItself(t *testing.T) {
	p := Plan{
		Spaces:     []*Space{synthetic(t), open(t, "copy", syntheticText(t, nil))},
		Strategies: []string{"evolution"}, Windows: []int{1}, Repeats: 6, Seed: 1, Warm: 3,
	}
	c, err := p.Compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := c.Warm.Pairs[1].Evaluations[0]
	if e.With != 1 || e.LateWith || e.Without != float64(c.Scores[0].Within5.Evaluations) {
		t.Errorf("to within 5%%: %+v; without: %v", e, c.Scores[0].Within5)
	}
	if s := c.Warm.Seconds[0]; s.Ratio == nil || s.Ratio.Value >= 1 || s.Ratio.Err <= 0 {
		t.Errorf("the mean ratio of seconds is %+v", s)
	}
}

// TestLate: where neither side comes near the optimum there is no ratio.
func TestLate(t *testing.T) {
	never := []reached{{10, true}, {12, true}, {11, true}}
	soon := []reached{{4, false}, {2, false}, {9, true}}
	if half := append(slices.Clone(soon), reached{7, true}); !late(half) || late(soon) {
		t.Error("a median is late if half of the runs are, and not before")
	}
	pair := func(without, with []reached) contrast {
		var c contrast
		c[evaluationsKind][0] = [2][]reached{without, with}
		return c
	}
	if r := ratio([]contrast{pair(never, never)}, evaluationsKind, 0); r.Ratio != nil || !r.LateWith || !r.LateWithout || r.Without != 11 {
		t.Errorf("never and never: %+v", r)
	}
	one := ratio([]contrast{pair(never, soon)}, evaluationsKind, 0)
	if one.Ratio == nil || one.Ratio.Value != 4.0/11 || !one.LateWithout || one.LateWith {
		t.Errorf("never and soon: %+v", one)
	}
	both := ratio([]contrast{pair(never, never), pair(never, soon)}, evaluationsKind, 0)
	if both.Ratio == nil || math.Abs(both.Ratio.Value-4.0/11) > 1e-12 {
		t.Errorf("the mean has the pair without a ratio: %+v", both)
	}
}

func TestLeague(t *testing.T) {
	peers, err := ReadPeers(strings.NewReader(`{
		"good": {"a": {"repeats": 20, "P_iso": 0.9, "P_mean": 0.8, "P_se": 0.3, "more": null}, "b": {"P_iso": 0.5, "P_mean": 0.6, "P_se": 0.4}},
		"part": {"b": {"P_iso": 0.1, "P_mean": 0.2, "P_se": 0.1}},
		"else": {"c": {"P_iso": 1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	cell := func(space string, window int, iso float64) Cell {
		return Cell{space, "ours", window, Score{PIso: Estimate{Value: iso}, Runs: 7}}
	}
	c := &Comparison{
		Spaces: []Facts{{Space: "a"}, {Space: "b"}},
		Scores: []Cell{cell("a", 1, 0.2), cell("a", 8, 0.1), cell("b", 1, 0.6), cell("b", 8, 0.1)},
	}
	c.Means = means(c.Scores)
	got := c.League(peers)
	var names []string
	for _, r := range got {
		names = append(names, r.Strategy)
	}
	if strings.Join(names, " ") != "good ours part" {
		t.Fatalf("the league is %v", names)
	}
	if g := got[0]; g.Ours || g.Spaces != 2 || g.Repeats != 20 || g.PIso.Value != 0.7 || math.Abs(g.PMean.Err-0.25) > 1e-12 || g.WorstIso != (Worst{"b", 0.5}) {
		t.Errorf("the first is %+v", g)
	}
	if o := got[1]; !o.Ours || o.PIso.Value != 0.4 || o.Repeats != 7 || o.WorstIso != (Worst{"a", 0.2}) {
		t.Errorf("ours is %+v", o)
	}
	if got[2].Spaces != 1 {
		t.Errorf("the last is %+v", got[2])
	}
	for _, bad := range []string{"", "[]", `{"a": 1}`, `{"a": {"b": {"P_iso": "x"}}}`, `{"a": {"b": {"P_iso": 1, "P_iso": 2}}}`, `{"a": {"b": {"p_iso": 1}}}`} {
		if _, err := ReadPeers(strings.NewReader(bad)); err == nil {
			t.Errorf("peers %q are read", bad)
		}
	}
}

func BenchmarkScore(b *testing.B) {
	s := synthetic(b)
	runs, err := s.Runs(b.Context(), Search{Strategy: "random", Seed: 1}, 100, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s.Score(runs)
	}
}
