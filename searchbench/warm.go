package searchbench

import (
	"cmp"
	"context"
	"math"
	"math/rand"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// A WarmStart says how much a search gains from beginning with the best of other spaces
// of the same kernel.
type WarmStart struct {
	Strategy string `json:"strategy"`
	Window   int    `json:"window"`
	Best     int    `json:"best"` // how many
	Pairs    []Pair `json:"pairs"`
	// The means over the pairs. Ratios and their terms are geometric
	// means over the pairs that have a ratio.
	PIso        Contrast `json:"p_iso"`
	PMean       Contrast `json:"p_mean"`
	Evaluations [2]Ratio `json:"evaluations"` // to within 5% and 1%
	Seconds     [2]Ratio `json:"seconds"`
}

// A Pair is a space and the one that its searches' first genomes come from.
type Pair struct {
	From  string `json:"from"`
	Space string `json:"space"`
	// Started is the mean number of genomes that a run was given: fewer than
	// wanted if the best of the other space are not valid.
	Started     float64  `json:"started"`
	PIso        Contrast `json:"p_iso"`
	PMean       Contrast `json:"p_mean"`
	Evaluations [2]Ratio `json:"evaluations"` // to within 5% and 1%
	Seconds     [2]Ratio `json:"seconds"`
}

// A Contrast is a score without and with the start.
type Contrast struct {
	Without Estimate `json:"without"`
	With    Estimate `json:"with"`
}

// A Ratio is between the medians of what runs with and without the start took.
// A run that never got that far counts with all that it used. If half of the runs or
// more did not, the median is late: only a lower bound.
type Ratio struct {
	Without     float64 `json:"without"`
	LateWithout bool    `json:"late_without"`
	With        float64 `json:"with"`
	LateWith    bool    `json:"late_with"`
	// Ratio is With over Without, its error by a bootstrap over the runs; nil if
	// both are late.
	Ratio *Estimate `json:"ratio"`
}

// shares are the distances from the optimum at which warm starts are timed.
var shares = [2]float64{0.05, 0.01}

// pairs are all pairs of spaces whose parameters have the same names.
func (p *Plan) pairs() [][2]*Space {
	var out [][2]*Space
	for _, to := range p.Spaces {
		for _, from := range p.Spaces {
			if from != to && slices.Equal(from.parameters(), to.parameters()) {
				out = append(out, [2]*Space{from, to})
			}
		}
	}
	return out
}

func (s *Space) parameters() []string {
	var names []string
	for _, g := range s.space.Genes() {
		names = append(names, g.Name)
	}
	slices.Sort(names)
	return names
}

// best are the n best genomes of a run that are valid in another space, the
// best first.
func (s *Space) best(r Run, n int, in *Space) []genome.Genome {
	found := slices.DeleteFunc(slices.Clone(r.Genomes), func(g genome.Genome) bool { return !s.outcome(g).OK })
	slices.SortStableFunc(found, func(a, b genome.Genome) int {
		return cmp.Compare(s.outcome(a).Fitness, s.outcome(b).Fitness)
	})
	var out []genome.Genome
	for _, g := range found {
		if len(out) == n {
			break
		}
		if same, err := in.space.FromMap(g.Map()); err == nil {
			out = append(out, same)
		}
	}
	return out
}

// warmStart runs the first strategy on every space again for each other
// space of the same kernel. Run i starts with what run i found there.
func (p *Plan) warmStart(ctx context.Context, cold map[*Space][]Run) (*WarmStart, error) {
	w := &WarmStart{Strategy: p.Strategies[0], Window: p.Windows[0], Best: p.Warm}
	var tests []contrast
	for _, pair := range p.pairs() {
		from, to := pair[0], pair[1]
		starts := make([][]genome.Genome, p.Repeats)
		started := 0
		for i := range starts {
			starts[i] = from.best(cold[from][i], p.Warm, to)
			started += len(starts[i])
		}
		warm, err := to.Runs(ctx, Search{
			Strategy: w.Strategy, Seed: p.Seed, Window: w.Window, Overhead: p.Overhead,
			Start: func(i int) []genome.Genome { return starts[i] },
		}, p.Repeats, p.Done)
		if err != nil {
			return nil, err
		}
		without, with := to.Score(cold[to]), to.Score(warm)
		t := to.contrast(cold[to], warm)
		w.Pairs = append(w.Pairs, Pair{
			From: from.name, Space: to.name, Started: float64(started) / float64(p.Repeats),
			PIso: Contrast{without.PIso, with.PIso}, PMean: Contrast{without.PMean, with.PMean},
			Evaluations: t.ratios(evaluationsKind), Seconds: t.ratios(secondsKind),
		})
		tests = append(tests, t)
	}
	w.average(tests)
	return w, nil
}

// What a contrast counts.
const (
	evaluationsKind = iota
	secondsKind
	kinds
)

// A contrast has for each kind, share and run what it took without and with the
// start, and whether the run never got that far.
type contrast [kinds][len(shares)][2][]reached

type reached struct {
	value float64
	late  bool
}

func (s *Space) contrast(without, with []Run) contrast {
	var c contrast
	for side, runs := range [2][]Run{without, with} {
		for _, r := range runs {
			steps := s.steps(r)
			for k, share := range shares {
				e, t := s.within(steps, share)
				late := math.IsInf(e, 1)
				if late {
					e, t = float64(len(steps)), s.Budget()
				}
				t = max(t, 1e-9) // a ratio needs a positive number
				c[evaluationsKind][k][side] = append(c[evaluationsKind][k][side], reached{e, late})
				c[secondsKind][k][side] = append(c[secondsKind][k][side], reached{t, late})
			}
		}
	}
	return c
}

// ratios compares medians.
func (c *contrast) ratios(kind int) [2]Ratio {
	var out [2]Ratio
	for k := range shares {
		out[k] = ratio([]contrast{*c}, kind, k)
	}
	return out
}

// ratio compares the geometric means of medians. Pairs that are late on both
// sides are left out. Pairs share runs, so the error comes from drawing the same
// runs anew in all of them.
func ratio(pairs []contrast, kind, k int) Ratio {
	r := Ratio{}
	var use []contrast
	for _, c := range pairs {
		without, with := late(c[kind][k][0]), late(c[kind][k][1])
		if without && with && len(pairs) > 1 {
			continue
		}
		use = append(use, c)
		r.LateWithout, r.LateWith = r.LateWithout || without, r.LateWith || with
	}
	if len(use) == 0 {
		return Ratio{LateWithout: true, LateWith: true}
	}
	mean := func(side int, sample []int) float64 {
		if len(use) == 1 {
			return medianReached(use[0][kind][k][side], sample)
		}
		logs := 0.0
		for _, c := range use {
			logs += math.Log(medianReached(c[kind][k][side], sample))
		}
		return math.Exp(logs / float64(len(use)))
	}
	r.Without, r.With = mean(0, nil), mean(1, nil)
	if len(pairs) == 1 && r.LateWithout && r.LateWith {
		return r
	}
	r.Ratio = &Estimate{Value: r.With / r.Without}
	r.Ratio.Err = bootstrap(len(use[0][kind][k][0]), func(sample []int) float64 {
		return mean(1, sample) / mean(0, sample)
	})
	return r
}

// medianReached is the median over the runs of a sample; of all without one.
func medianReached(runs []reached, sample []int) float64 {
	values := make([]float64, len(runs))
	for i := range values {
		k := i
		if sample != nil {
			k = sample[i]
		}
		values[i] = runs[k].value
	}
	return evaluator.Median(values)
}

// late says whether half of the runs or more never got that far.
func late(runs []reached) bool {
	n := 0
	for _, r := range runs {
		if r.late {
			n++
		}
	}
	return 2*n >= len(runs)
}

// bootstrap is the standard error of a statistic of n runs, which are drawn anew
// with replacement. The generator has a fixed seed.
func bootstrap(n int, statistic func(sample []int) float64) float64 {
	if n < 2 {
		return 0
	}
	rng := rand.New(rand.NewSource(1))
	sample, values := make([]int, n), make([]float64, resamples)
	for k := range values {
		for i := range sample {
			sample[i] = rng.Intn(n)
		}
		values[k] = statistic(sample)
	}
	return stat.StdDev(values, nil)
}

// average makes the means over the pairs. Pairs share runs: the errors of the
// mean scores are sums, which are upper bounds.
func (w *WarmStart) average(pairs []contrast) {
	n := float64(len(pairs))
	if n == 0 {
		return
	}
	sum := func(into *Estimate, e Estimate) {
		into.Value += e.Value / n
		into.Err += e.Err / n
	}
	for _, p := range w.Pairs {
		sum(&w.PIso.Without, p.PIso.Without)
		sum(&w.PIso.With, p.PIso.With)
		sum(&w.PMean.Without, p.PMean.Without)
		sum(&w.PMean.With, p.PMean.With)
	}
	for k := range shares {
		w.Evaluations[k] = ratio(pairs, evaluationsKind, k)
		w.Seconds[k] = ratio(pairs, secondsKind, k)
	}
}
