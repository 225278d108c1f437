package importance_test

import (
	"errors"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/importance"
)

func ordinal(name string, n int) genome.Gene {
	g := genome.Gene{Name: name, Ordinal: true}
	for i := range n {
		g.Values = append(g.Values, genome.Int(1<<i))
	}
	return g
}

func enum(name string, values ...string) genome.Gene {
	g := genome.Gene{Name: name}
	for _, v := range values {
		g.Values = append(g.Values, genome.Str(v))
	}
	return g
}

func newSpace(t testing.TB, genes ...genome.Gene) *genome.Space {
	t.Helper()
	s, err := genome.NewSpace(genes, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func number(g genome.Genome, name string) float64 {
	v, _ := g.Get(name)
	x, _ := v.Number()
	return x
}

func word(g genome.Genome, name string) string {
	v, _ := g.Get(name)
	s, _ := v.Any().(string)
	return s
}

// sample evaluates n random genomes by a formula for the logarithm of the time,
// with noise of the standard deviation sigma.
func sample(s *genome.Space, n int, seed int64, sigma float64, f func(genome.Genome) float64) []importance.Evaluation {
	rng := rand.New(rand.NewSource(seed))
	out := make([]importance.Evaluation, n)
	for i := range out {
		g := s.Random(rng)
		out[i] = importance.Evaluation{Genome: g, Time: math.Exp(f(g) + sigma*rng.NormFloat64())}
	}
	return out
}

func analyse(t *testing.T, s *genome.Space, es []importance.Evaluation, o importance.Options) *importance.Analysis {
	t.Helper()
	a, err := importance.Analyse(s, es, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range a.Genes {
		t.Logf("%-8s %.3f ± %.3f  best %s %.3f ± %.3f", g.Name, g.Share.Value, g.Share.Error, g.Values[g.Best].Value, g.Values[g.Best].Ratio.Value, g.Values[g.Best].Ratio.Error)
	}
	for _, p := range a.Pairs[:min(3, len(a.Pairs))] {
		t.Logf("%v %.3f ± %.3f", p.Genes, p.Share.Value, p.Share.Error)
	}
	t.Logf("rest %.3f, R2 %.3f, spread %.3f", a.Rest, a.R2, a.Spread)
	return a
}

func gene(t *testing.T, a *importance.Analysis, name string) importance.Gene {
	t.Helper()
	i := slices.IndexFunc(a.Genes, func(g importance.Gene) bool { return g.Name == name })
	if i < 0 {
		t.Fatalf("no gene %s", name)
	}
	return a.Genes[i]
}

// near fails unless a share is within a tolerance of the truth.
func near(t *testing.T, what string, got importance.Estimate, want, tolerance float64) {
	t.Helper()
	if math.Abs(got.Value-want) > tolerance {
		t.Errorf("%s has the share %.3f ± %.3f, the truth is %.3f", what, got.Value, got.Error, want)
	}
}

func standard(t testing.TB) *genome.Space {
	return newSpace(t, ordinal("A", 8), ordinal("B", 4), enum("C", "x", "y", "z"), enum("D", "p", "q"), ordinal("E", 6), enum("F", "u", "v"))
}

func TestOneGene(t *testing.T) {
	s := standard(t)
	f := func(g genome.Genome) float64 { return math.Abs(math.Log2(number(g, "A")/16)) / 4 } // A=16 is best
	a := analyse(t, s, sample(s, 300, 1, 0.05, f), importance.Options{})
	top := a.Genes[0]
	if top.Name != "A" || !top.Clear {
		t.Fatalf("the gene that matters is not the first: %+v", top)
	}
	near(t, "A", top.Share, 1, 0.05)
	if a.R2 < 0.9 {
		t.Errorf("R² is %.3f", a.R2)
	}
	for _, g := range a.Genes[1:] {
		if g.Clear && g.Share.Value > 0.01 {
			t.Errorf("%s does nothing and has %+v", g.Name, g.Share)
		}
	}
	// log-time is (4 3 2 1 0 1 2 3)/4, with a mean of 1/2.
	best := top.Values[top.Best]
	if best.Value != "16" || math.Abs(best.Ratio.Value-math.Exp(-0.5)) > 0.03 || best.Ratio.Error <= 0 || best.Ratio.Error > 0.03 {
		t.Errorf("best value: %+v, want 16 at %.3f", best, math.Exp(-0.5))
	}
	if worst := top.Values[top.Worst]; worst.Value != "1" || math.Abs(worst.Ratio.Value-math.Exp(0.5)) > 0.1 {
		t.Errorf("worst value: %+v, want 1 at %.3f", worst, math.Exp(0.5))
	}
}

// Two genes add up: three quarters and one quarter of the variance.
func TestTwoGenes(t *testing.T) {
	s := standard(t)
	f := func(g genome.Genome) float64 {
		x := 0.0
		if word(g, "D") == "p" {
			x += math.Sqrt(3)
		}
		if word(g, "F") == "u" {
			x++
		}
		return 0.3 * x
	}
	a := analyse(t, s, sample(s, 400, 2, 0.05, f), importance.Options{})
	near(t, "D", gene(t, a, "D").Share, 0.75, 0.06)
	near(t, "F", gene(t, a, "F").Share, 0.25, 0.06)
}

// A pair without effects of its genes alone: D and F must agree.
func TestPurePair(t *testing.T) {
	s := standard(t)
	f := func(g genome.Genome) float64 {
		if (word(g, "D") == "p") == (word(g, "F") == "u") {
			return 0
		}
		return 0.5
	}
	a := analyse(t, s, sample(s, 400, 3, 0.05, f), importance.Options{})
	p := a.Pairs[0]
	if p.Genes != [2]string{"D", "F"} || !p.Clear {
		t.Fatalf("the pair that matters is not the first: %+v", p)
	}
	near(t, "the pair", p.Share, 1, 0.15)
	for _, g := range a.Genes {
		near(t, g.Name, g.Share, 0, 0.05)
	}
}

// Where nothing matters hardly anything is found, and the fit says so.
func TestNothingMatters(t *testing.T) {
	s := standard(t)
	clear, all := 0, 0
	for seed := range int64(6) {
		a := analyse(t, s, sample(s, 200, 100+seed, 0.1, func(genome.Genome) float64 { return 0 }), importance.Options{})
		if a.R2 > 0.15 {
			t.Errorf("seed %d: R² is %.3f", seed, a.R2)
		}
		for _, g := range a.Genes {
			if all++; g.Clear {
				clear++
			}
		}
		for _, p := range a.Pairs {
			if all++; p.Clear {
				clear++
			}
		}
	}
	if clear > all/20 {
		t.Errorf("%d of %d shares are told from zero", clear, all)
	}

	same := sample(s, 50, 1, 0, func(genome.Genome) float64 { return 1 })
	if a := analyse(t, s, same, importance.Options{}); a.R2 != 0 || a.Spread != 0 || a.Genes[0].Clear || a.Genes[0].Share.Value != 0 {
		t.Errorf("of equal times: %+v", a)
	}
}

// WIDTH exists with MODE=fast alone, where it matters. The share is that over the
// space of both: two in three genomes are fast, so that of the function that is
// 0 for MODE=slow and ±1 by WIDTH for fast 2/3 of the variance is WIDTH's and 1/3 the pair's.
func TestConditionalGene(t *testing.T) {
	width := ordinal("WIDTH", 2)
	width.When = `MODE == "fast"`
	s := newSpace(t, enum("MODE", "fast", "slow"), width, ordinal("E", 6), enum("F", "u", "v"))
	f := func(g genome.Genome) float64 {
		if word(g, "MODE") == "slow" {
			return 0
		}
		return 2*number(g, "WIDTH") - 3 // -1 or 1
	}
	a := analyse(t, s, sample(s, 300, 4, 0.05, f), importance.Options{})
	near(t, "WIDTH", gene(t, a, "WIDTH").Share, 2.0/3, 0.06)
	near(t, "MODE", gene(t, a, "MODE").Share, 0, 0.05)
	if p := a.Pairs[0]; p.Genes != [2]string{"MODE", "WIDTH"} {
		t.Errorf("the first pair is %v", p.Genes)
	} else {
		near(t, "MODE and WIDTH", p.Share, 1.0/3, 0.06)
	}
	n := 0
	for _, v := range gene(t, a, "WIDTH").Values {
		n += v.Correct
	}
	if n < 170 || n > 230 {
		t.Errorf("WIDTH was seen %d times in 300", n)
	}
}

// A search that crowds around one value does not make it weigh more: the share is
// over the space.
func TestCrowded(t *testing.T) {
	s := standard(t)
	f := func(g genome.Genome) float64 {
		x := 0.0
		if word(g, "D") == "p" {
			x = 1
		}
		if word(g, "F") == "u" {
			x++
		}
		return x
	}
	rng := rand.New(rand.NewSource(5))
	crowded := slices.DeleteFunc(sample(s, 1000, 5, 0.05, f), func(e importance.Evaluation) bool {
		return word(e.Genome, "D") == "p" && rng.Intn(8) > 0
	})
	a := analyse(t, s, crowded, importance.Options{})
	near(t, "D", gene(t, a, "D").Share, 0.5, 0.05)
	near(t, "F", gene(t, a, "F").Share, 0.5, 0.05)
}

// Among the best, what only tells bad from worse does not count.
func TestBest(t *testing.T) {
	s := standard(t)
	f := func(g genome.Genome) float64 {
		x := 0.0
		if word(g, "D") == "p" {
			x = 3
			if word(g, "F") == "u" {
				x = 8
			}
		}
		if number(g, "B") >= 4 {
			x++
		}
		return x
	}
	es := sample(s, 500, 6, 0.05, f)
	whole := analyse(t, s, es, importance.Options{})
	best := analyse(t, s, es, importance.Options{Best: 0.3})
	if w, b := gene(t, whole, "B").Share.Value, gene(t, best, "B").Share.Value; w > 0.05 || b < 0.25 {
		t.Errorf("B has %.3f over all, %.3f among the best", w, b)
	}
	if b := gene(t, best, "F").Share; b.Value > 0.02 {
		t.Errorf("F has %.3f among the best, where it makes no difference", b.Value)
	}
}

func TestFailures(t *testing.T) {
	s := standard(t)
	es := sample(s, 400, 7, 0.05, func(g genome.Genome) float64 { return number(g, "A") / 50 })
	failed := 0
	for i := range es {
		if number(es[i].Genome, "A") <= 2 {
			es[i].Time, failed = 0, failed+1
		}
	}
	a := analyse(t, s, es, importance.Options{})
	if a.Evaluations != 400 || a.Correct != 400-failed {
		t.Errorf("%d evaluations, %d correct", a.Evaluations, a.Correct)
	}
	g := gene(t, a, "A")
	for i, v := range g.Values {
		share, least := v.Failing()
		if bad := i < 2; bad != (share == 1) || bad != (least > 0.8) || !bad && v.Failed > 0 {
			t.Errorf("A=%s: %d correct, %d failed, share %.2f, at least %.2f", v.Value, v.Correct, v.Failed, share, least)
		}
	}
	if g.Best != 2 || g.Worst != 7 {
		t.Errorf("the best is value %d and the worst %d, of 2 to 7 that have times", g.Best, g.Worst)
	}
}

// The values of a gene without an order are not split as they happen to be listed.
func TestUnordered(t *testing.T) {
	g := genome.Gene{Name: "C"}
	for i := range 24 {
		g.Values = append(g.Values, genome.Str(string(rune('a'+i))))
	}
	s := newSpace(t, g, enum("F", "u", "v"))
	a := analyse(t, s, sample(s, 150, 10, 0.05, func(g genome.Genome) float64 { return float64((word(g, "C")[0] - 'a') % 2) }), importance.Options{})
	near(t, "C", gene(t, a, "C").Share, 1, 0.1)
	if a.R2 < 0.9 {
		t.Errorf("R² is %.3f", a.R2)
	}
}

// More values than a set holds are taken in pieces.
func TestManyValues(t *testing.T) {
	g := genome.Gene{Name: "N", Ordinal: true}
	for i := range 1000 {
		g.Values = append(g.Values, genome.Int(int64(i)))
	}
	s := newSpace(t, g, enum("F", "u", "v"))
	a := analyse(t, s, sample(s, 300, 8, 0.02, func(g genome.Genome) float64 { return number(g, "N") / 1000 }), importance.Options{})
	n := gene(t, a, "N")
	near(t, "N", n.Share, 1, 0.03)
	if len(n.Values) != 32 || n.Values[0].Value != "0 to 31" || n.Values[31].Value != "969 to 999" || n.Best > 1 {
		t.Errorf("%d values: %+v", len(n.Values), n.Values)
	}
}

func TestSameAgain(t *testing.T) {
	s := standard(t)
	es := sample(s, 100, 9, 0.1, func(g genome.Genome) float64 { return number(g, "A") / 100 })
	a, b := analyse(t, s, es, importance.Options{Seed: 5}), analyse(t, s, es, importance.Options{Seed: 5})
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	if c := analyse(t, s, es, importance.Options{Seed: 6}); c.R2 == a.R2 {
		t.Error("the seed changes nothing")
	}
}

func TestTooFew(t *testing.T) {
	s := standard(t)
	es := sample(s, importance.Least, 1, 0.1, func(genome.Genome) float64 { return 0 })
	es[3].Time = 0
	if _, err := importance.Analyse(s, es, importance.Options{}); !errors.Is(err, importance.ErrTooFew) {
		t.Errorf("err = %v", err)
	}
}

func BenchmarkAnalyse(b *testing.B) {
	genes := []genome.Gene{
		ordinal("A", 8), ordinal("B", 8), ordinal("C", 6), ordinal("D", 6), ordinal("E", 5), ordinal("F", 4), ordinal("G", 4),
		enum("H", "x", "y", "z"), enum("I", "x", "y"), enum("J", "x", "y"), enum("K", "x", "y"), enum("L", "x", "y"),
	}
	s := newSpace(b, genes...)
	for _, n := range []int{1000, 10000} {
		es := sample(s, n, 1, 0.1, func(g genome.Genome) float64 {
			return math.Sqrt(number(g, "A")*number(g, "B"))/20 + number(g, "C")/30 + math.Sin(number(g, "D")*number(g, "E"))/4
		})
		b.Run(map[int]string{1000: "1000", 10000: "10000"}[n], func(b *testing.B) {
			for b.Loop() {
				if _, err := importance.Analyse(s, es, importance.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
