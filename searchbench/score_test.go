package searchbench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/tables"
)

var tracesFlag = flag.String("traces", "", "write the runs of TestScores and their spaces to this folder, for another scorer")

// synthetic is a space of a thousand configurations.
func synthetic(tb testing.TB) *Space {
	tb.Helper()
	return open(tb, "synthetic", syntheticText(tb, nil))
}

// syntheticText is tables.SyntheticFile with costs of four digits, as recorders
// write them. edit may change times (in ms) and costs (in seconds).
func syntheticText(tb testing.TB, edit func(i int, ms, cost *float64)) []byte {
	tb.Helper()
	var file struct {
		Name        string               `json:"name"`
		Device      string               `json:"device"`
		Params      json.RawMessage      `json:"params"`
		Constraints json.RawMessage      `json:"constraints"`
		Configs     [][3]json.RawMessage `json:"configs"`
	}
	if err := json.Unmarshal(tables.SyntheticFile(1000), &file); err != nil {
		tb.Fatal(err)
	}
	number := func(text json.RawMessage) float64 {
		x, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			tb.Fatal(err)
		}
		return x
	}
	for i := range file.Configs {
		c := &file.Configs[i]
		ms, cost := 0.0, number(c[2])
		valid := string(c[1]) != "null"
		if valid {
			ms = number(c[1])
		}
		if edit != nil {
			edit(i, &ms, &cost)
		}
		if valid {
			c[1] = fmt.Appendf(nil, "%g", ms)
		}
		c[2] = fmt.Appendf(nil, "%.4g", cost)
	}
	text, err := json.Marshal(file)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func open(tb testing.TB, name string, text []byte) *Space {
	tb.Helper()
	s, err := load(name, text)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func load(name string, text []byte) (*Space, error) {
	t, err := tables.Read(bytes.NewReader(text), name)
	if err != nil {
		return nil, err
	}
	return New(name, t)
}

// A walk makes runs that depend on nothing but its number.
type walk uint64

func (w *walk) next(n int) int {
	*w = *w*6364136223846793005 + 1442695040888963407
	return int(uint64(*w) >> 33 % uint64(n))
}

// genomes are the recorded ones in the order of the table's ranks.
func genomes(s *Space) []genome.Genome {
	var all []genome.Genome
	for g := range s.space.All() {
		if _, ok := s.index[g]; ok {
			all = append(all, g)
		}
	}
	return all
}

// wander evaluates n genomes, half of the steps near the last good one.
func wander(s *Space, seed, n int) Run {
	w := walk(seed)
	all := genomes(s)
	var r Run
	at := w.next(len(all))
	for range n {
		k := w.next(len(all))
		if w.next(2) == 0 {
			k = (at + w.next(30)) % len(all)
		}
		if o := s.outcome(all[k]); o.OK && o.Fitness < 0.9 {
			at = k
		}
		r.Genomes = append(r.Genomes, all[k])
	}
	return r
}

// failures evaluates n genomes that fail.
func failures(s *Space, n int) Run {
	var r Run
	for _, g := range genomes(s) {
		if len(r.Genomes) < n && !s.outcome(g).OK {
			r.Genomes = append(r.Genomes, g)
		}
	}
	return r
}

// small is a space in which a few draws make the whole time axis.
const small = `{"name": "small", "device": "none", "params": [["x", [1, 2, 4, 8]], ["y", [0.5, 1.0, 1e20]], ["fast", [false, true]]], "configs": [
[[0,0,0], 4.0, 0.5], [[0,0,1], 1.51, 0.75], [[0,1,0], null, 0.125], [[0,1,1], 1.5, 1], [[0,2,0], 1.56, 1], [[0,2,1], 3.25, 1.5],
[[1,0,0], 5.0, 0.5], [[1,0,1], 1.52, 0.75], [[1,1,0], null, 0.125], [[1,1,1], 1.53, 1], [[1,2,0], 3.5, 1], [[1,2,1], 4.25, 1.5],
[[2,0,0], 6.0, 0.5], [[2,0,1], 3.75, 0.75], [[2,1,0], null, 0.125], [[2,1,1], 1.54, 1], [[2,2,0], 4.5, 1], [[2,2,1], 5.25, 1.5],
[[3,0,0], 7.0, 0.5], [[3,0,1], 4.75, 0.75], [[3,1,0], 9, 0.125], [[3,1,1], 1.55, 1], [[3,2,0], 5.5, 1], [[3,2,1], 6.25, 1.5]]}`

// TestScores holds the scores to constants that were obtained from the
// reference implementation of the package comment's formulas, with numpy 1.24
// and scipy 1.10, from the runs that
//
//	go test ./searchbench -run TestScores -trace FILE
//
// writes, on the spaces tables.SyntheticFile(1000) and small.
func TestScores(t *testing.T) {
	big, little := synthetic(t), open(t, "small", []byte(small))
	mixed := func(s *Space, runs, n int) []Run {
		var out []Run
		for i := range runs {
			out = append(out, wander(s, i+1, n-7*i))
		}
		return out
	}
	slow := mixed(big, 9, 400)
	for i := range slow {
		slow[i].Own, slow[i].Counted = time.Duration(i)*17*time.Second, true
	}
	odd := append(mixed(big, 6, 300), failures(big, 20), Run{Genomes: wander(big, 3, 5).Genomes}, failures(big, 0))
	odd[1].Genomes = append(odd[1].Genomes, odd[2].Genomes...)
	var unknown genome.Genome
	odd[2].Genomes = slices.Insert(odd[2].Genomes, 10, unknown, unknown)
	odd[2].Own, odd[2].Counted = 60*time.Second, true
	type want struct{ iso, mean, se, evals, within5, within1, hit5, hit1 float64 }
	inf := math.Inf(1)
	cases := []struct {
		name  string
		space *Space
		runs  []Run
		want
	}{
		{"many", big, mixed(big, 20, 600), want{0.04602268664950342, 0.023550231304457946, 0.06855527083880274, 420.5, 62.0, inf, 1.0, 0.5}},
		{"one", big, mixed(big, 1, 500), want{0.15920993744271764, 0.026841020545585445, 0, 408.0, 90.0, 393.0, 1.0, 1.0}},
		{"stopped early", big, mixed(big, 5, 60), want{-0.4138657352290545, -0.7360193809583998, 0.3810373107987377, 44.0, inf, inf, 0.4, 0.0}},
		{"own time", big, slow, want{-0.10435679636595645, -0.151568773332451, 0.08399603294176906, 318.0, 66.0, inf, 1.0, 0.3333333333333333}},
		{"odd", big, odd, want{-0.062221092840235935, -5.131928996947636, 2.7494569461917284, 243.0, 90.0, inf, 0.6666666666666666, 0.0}},
		{"nothing", big, []Run{failures(big, 10), failures(big, 0)}, want{-10.178096440423682, -19.178928592733836, 0.0, 5.0, inf, inf, 0.0, 0.0}},
		{"small", little, mixed(little, 8, 60), want{-21.303666666666654, -0.8524440366915084, 0.3329150537680127, 19.5, 3.5, 8.0, 1.0, 0.875}},
	}
	var traces bytes.Buffer
	for _, c := range cases {
		got := c.space.Score(c.runs)
		near := func(what string, got, want float64) {
			t.Helper()
			if got != want && !(math.Abs(got-want) <= 1e-9) {
				t.Errorf("%s: %s is %.16g, want %.16g", c.name, what, got, want)
			}
		}
		near("P_iso", got.PIso.Value, c.iso)
		near("P_mean", got.PMean.Value, c.mean)
		near("error of P_mean", got.PMean.Err, c.se)
		near("evaluations", float64(got.Evaluations), c.evals)
		near("evaluations to 5%", float64(got.Within5.Evaluations), c.within5)
		near("evaluations to 1%", float64(got.Within1.Evaluations), c.within1)
		near("hits of 5%", got.Within5.Hit, c.hit5)
		near("hits of 1%", got.Within1.Hit, c.hit1)
		if err := json.NewEncoder(&traces).Encode(c.space.Trace(c.space.Name()+".json", c.name, c.runs)); err != nil {
			t.Fatal(err)
		}
	}
	if *tracesFlag == "" {
		return
	}
	for name, text := range map[string][]byte{
		"traces.json": traces.Bytes(), "synthetic.json": syntheticText(t, nil), "small.json": []byte(small),
	} {
		if err := os.WriteFile(filepath.Join(*tracesFlag, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExpectedBest goes through all draws.
func TestExpectedBest(t *testing.T) {
	sorted := []float64{1, 1.5, 1.5, 2, 4, 8, 9}
	for m := 1; m <= len(sorted); m++ {
		sum, draws := 0.0, 0
		for set := range 1 << len(sorted) {
			if bits.OnesCount(uint(set)) == m {
				sum += sorted[bits.TrailingZeros(uint(set))]
				draws++
			}
		}
		if got, want := expectedBest(sorted, float64(m)), sum/float64(draws); math.Abs(got-want) > 1e-12 {
			t.Errorf("the best of %d is expected to be %v, want %v", m, got, want)
		}
	}
	if x := expectedBest(sorted, 2.5); !(x < expectedBest(sorted, 2) && x > expectedBest(sorted, 3)) {
		t.Errorf("the best of 2.5 is expected to be %v", x)
	}
}

// TestIsotonicFit compares with the definition: the fit at i is the smallest,
// over the stretches that begin at i or before, of the largest mean of those
// that end at i or after.
func TestIsotonicFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "points")
		weights := rapid.SliceOfN(rapid.IntRange(0, 3), 4, 4).Draw(t, "weights")
		var points []point
		ws := make([]float64, len(weights))
		for i, w := range weights {
			ws[i] = float64(w)
		}
		sums, counts := map[float64]float64{}, map[float64]float64{}
		for range n {
			p := point{
				at:   float64(rapid.IntRange(0, 12).Draw(t, "time")),
				rank: float64(rapid.IntRange(0, 9).Draw(t, "rank")), run: rapid.IntRange(0, 3).Draw(t, "run"),
			}
			points = append(points, p)
			sums[p.at] += ws[p.run] * p.rank
			counts[p.at] += ws[p.run]
		}
		slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
		var fit isotonicFit
		fit.decreasing(points, ws)
		xs := slices.Sorted(maps.Keys(counts))
		xs = slices.DeleteFunc(xs, func(x float64) bool { return counts[x] == 0 })
		if len(xs) == 0 {
			if fit.points != 0 {
				t.Fatalf("%v points where all weigh nothing", fit.points)
			}
			return
		}
		average := func(from, to int) float64 {
			sum, count := 0.0, 0.0
			for _, x := range xs[from : to+1] {
				sum, count = sum+sums[x], count+counts[x]
			}
			return sum / count
		}
		want := make([]float64, len(xs))
		for i := range xs {
			want[i] = math.Inf(1)
			for from := 0; from <= i; from++ {
				largest := math.Inf(-1)
				for to := i; to < len(xs); to++ {
					largest = max(largest, average(from, to))
				}
				want[i] = min(want[i], largest)
			}
		}
		near := func(x, want float64) {
			if got := fit.at(x); math.Abs(got-want) > 1e-9 {
				t.Fatalf("the fit at %v is %v, want %v", x, got, want)
			}
		}
		near(xs[0]-1, want[0])
		for i, x := range xs {
			near(x, want[i])
			if i+1 < len(xs) {
				near((x+xs[i+1])/2, (want[i]+want[i+1])/2)
			}
		}
		near(xs[len(xs)-1]+1, want[len(xs)-1])
	})
}

// TestRandomIsZero: the scale's zero is random search, by either estimator.
func TestRandomIsZero(t *testing.T) {
	s := synthetic(t)
	runs, err := s.Runs(t.Context(), Search{Strategy: "random", Seed: 1}, 400, nil)
	if err != nil {
		t.Fatal(err)
	}
	score := s.Score(runs)
	if e := score.PMean; math.Abs(e.Value) > 4*e.Err || e.Err > 0.05 {
		t.Errorf("P_mean of random search is %.3f ± %.3f", e.Value, e.Err)
	}
	// The methodology's expectation is not exact.
	if e := score.PIso; math.Abs(e.Value) > 4*e.Err+0.05 {
		t.Errorf("P_iso of random search is %.3f ± %.3f", e.Value, e.Err)
	}
}

// TestErrors: the standard errors are what scores of independent batches of runs
// differ by.
func TestErrors(t *testing.T) {
	s := synthetic(t)
	const batches, size = 40, 25
	runs, err := s.Runs(t.Context(), Search{Strategy: "random", Seed: 1000}, batches*size, nil)
	if err != nil {
		t.Fatal(err)
	}
	var iso, mean, isoErr, meanErr []float64
	for i := range batches {
		score := s.Score(runs[i*size : (i+1)*size])
		iso, mean = append(iso, score.PIso.Value), append(mean, score.PMean.Value)
		isoErr, meanErr = append(isoErr, score.PIso.Err), append(meanErr, score.PMean.Err)
	}
	for _, c := range []struct {
		name         string
		values, errs []float64
	}{{"P_iso", iso, isoErr}, {"P_mean", mean, meanErr}} {
		if ratio := stat.Mean(c.errs, nil) / stat.StdDev(c.values, nil); ratio < 0.7 || ratio > 1.4 {
			t.Errorf("%s: the error is %.2f times the deviation of independent batches", c.name, ratio)
		}
	}
}

// With a worker for each proposal in flight, a proposal starts when the outcomes
// that it waits for are told.
func TestParallel(t *testing.T) {
	s := synthetic(t)
	all := genomes(s)
	cost := func(g genome.Genome) float64 { return inSeconds(s.outcome(g).Cost) }
	slices.SortFunc(all, func(a, b genome.Genome) int { return cmp.Compare(cost(b), cost(a)) })
	best := slices.IndexFunc(all, func(g genome.Genome) bool { o := s.outcome(g); return o.OK && o.Fitness == s.sorted[0] })
	far := slices.DeleteFunc(slices.Clone(all), func(g genome.Genome) bool { return s.outcome(g).Fitness <= 1.2*s.sorted[0] })
	long, short, third := far[0], far[len(far)-1], all[best]
	if cost(long) <= cost(short) {
		t.Fatal("all costs are equal")
	}
	for _, c := range []struct {
		window int
		order  []genome.Genome
		want   float64
	}{
		{1, []genome.Genome{long, short, third}, cost(long) + cost(short) + cost(third)},
		{2, []genome.Genome{long, short, third}, cost(long) + cost(third)},
		{2, []genome.Genome{short, long, third}, cost(short) + cost(third)},
		{3, []genome.Genome{long, short, third}, cost(third)},
		{3, []genome.Genome{long, short}, math.Inf(1)},
	} {
		runs := []Run{{Genomes: c.order, Window: c.window}}
		if got := float64(s.Score(runs).Within5.Parallel); got != c.want && !(math.Abs(got-c.want) < 1e-9) {
			t.Errorf("window %d, %d evaluations: %g s, want %g", c.window, len(c.order), got, c.want)
		}
	}
}
