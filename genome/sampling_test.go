package genome

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/evotune/evotune/internal/expr"
)

// uniform draws from a space and tests with chi-squared that every genome is
// as likely as any other. One in 10^9 uniform samplers would fail.
func uniform(t testing.TB, s *Space, rng *rand.Rand) {
	all := map[Genome]int{}
	for g := range s.All() {
		all[g] = 0
	}
	const each = 40
	n := each * len(all)
	for range n {
		g := s.Random(rng)
		if _, ok := all[g]; !ok {
			t.Fatalf("Random gives %v, which All does not", g)
		}
		all[g]++
	}
	if len(all) == 1 {
		return
	}
	chi2 := 0.0
	for _, seen := range all {
		chi2 += (float64(seen) - each) * (float64(seen) - each) / each
	}
	if p := (distuv.ChiSquared{K: float64(len(all) - 1)}).Survival(chi2); p < 1e-9 {
		t.Fatalf("chi-squared %.1f over %d genomes: p = %g", chi2, len(all), p)
	}
}

func TestRandomIsUniform(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, s := genSpace(t)
		uniform(tb(t), s, rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))))
	})
}

// TestRandomIsUniformBiased shows that the test above can fail: drawing value
// by value among those that are still possible is not uniform.
func TestRandomIsUniformBiased(t *testing.T) {
	s, err := NewSpace([]Gene{{Name: "A", Values: ints(1, 2)}, {Name: "B", Values: ints(1, 9)}}, []Constraint{{Expr: "A == 1 or B == 1"}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(1))
	seen := 0 // of the one genome with A=2, a tenth of all
	const n = 10000
	for range n {
		if v, _ := s.Random(rng).Get("A"); v == Int(2) {
			seen++
		}
	}
	if seen < n/12 || seen > n/8 {
		t.Errorf("A=2 in %d of %d draws, want a tenth", seen, n)
	}
}

func twoWays(t testing.TB) *Space {
	s, err := NewUnion("implementation", []Alternative{
		{"blocked", []Gene{
			{Name: "BM", Values: pow2(16, 64), Ordinal: true},
			{Name: "BN", Values: pow2(16, 64), Ordinal: true},
			{Name: "PACK", Values: bools},
			{Name: "AHEAD", Values: ints(0, 2), Ordinal: true, When: "PACK"},
		}, []Constraint{{"BM * BN <= M", "fits"}}},
		{"simple", []Gene{
			{Name: "BM", Values: []Value{Int(8), Int(32), Int(128)}, Ordinal: true},
			{Name: "UNROLL", Values: ints(1, 4), Ordinal: true},
			{Name: "PACK", Values: []Value{Str("no"), Str("yes")}},
		}, []Constraint{{"BM % UNROLL == 0 and implementation == 'simple'", "whole turns"}}},
	}, map[string]any{"M": 2048})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUnion(t *testing.T) {
	s := twoWays(t)
	// blocked: 8 of the 9 pairs without 64*64 obey 2048, times 1+3; simple: 3 * 3 * 2.
	if want := 8*4.0 + 3*3*2; s.Size() != want || !s.Exact() {
		t.Errorf("size %v, want %v", s.Size(), want)
	}
	genes := s.Genes()
	if genes[0].Name != "implementation" || genes[1].Name != "BM" || fmt.Sprint(genes[1].Values) != "[8 16 32 64 128]" || !genes[1].Ordinal {
		t.Errorf("genes %v", genes)
	}
	n := 0
	for g := range s.All() {
		if err := s.Check(g); err != nil {
			t.Errorf("%v: %v", g, err)
		}
		if h, err := s.Parse(g.String()); err != nil || h != g {
			t.Errorf("Parse(%v) = %v, %v", g, h, err)
		}
		if r, ok := s.Rank(g); !ok || r != uint64(n) {
			t.Errorf("Rank(%v) = %d, want %d", g, r, n)
		}
		if h, ok := s.At(uint64(n)); !ok || h != g {
			t.Errorf("At(%d) = %v, want %v", n, h, g)
		}
		n++
	}
	if float64(n) != s.Size() {
		t.Errorf("All yields %d", n)
	}
	rng := rand.New(rand.NewSource(2))
	uniform(t, s, rng)
	changed, kept := 0, 0
	for range 2000 {
		a, b := s.Random(rng), s.Random(rng)
		for op, g := range map[string]Genome{"Mutate": s.Mutate(a, 0.3, rng), "Crossover": s.Crossover(a, b, rng)} {
			if err := s.Check(g); err != nil {
				t.Fatalf("%s of %v and %v: %v", op, a, b, err)
			}
		}
		m := s.Mutate(a, 0.01, rng)
		if x, _ := a.Get("implementation"); m != a {
			if y, _ := m.Get("implementation"); x != y {
				changed++
				was, _ := a.Get("BM")
				if is, _ := m.Get("BM"); was == is {
					kept++
				} else if was == Int(32) {
					t.Errorf("%v became %v: both alternatives have BM=32", a, m)
				}
			}
		}
		for _, g := range s.Neighbours(a) {
			if err := s.Check(g); err != nil || g == a {
				t.Fatalf("neighbour %v of %v: %v", g, a, err)
			}
		}
	}
	if changed < 100 || kept < 20 {
		t.Errorf("of 2000 mutants %d changed the implementation, %d with BM kept", changed, kept)
	}
	for m, want := range map[string]string{
		"implementation=blocked,BM=8,BN=16,PACK=false":           "gene BM has no value 8 in blocked; it has 16, 32, 64",
		"implementation=simple,BM=8,UNROLL=1,BN=16,PACK=no":      "gene BN does not exist in simple",
		"implementation=smple,BM=8":                              "did you mean simple?",
		"BM=8":                                                   "gene implementation is missing",
		"implementation=blocked,BM=64,BN=64,PACK=false":          "fits",
		"implementation=simple,BM=8,UNROLL=3,PACK=no":            "whole turns",
		"implementation=blocked,BM=16,BN=16,PACK=no":             "gene PACK has no value no in blocked",
		"implementation=blocked,BM=16,BN=16,PACK=false,AHEAD=1":  "gene AHEAD must not be given",
		"implementation=blocked,BM=16,BN=16,PACK=true":           "gene AHEAD is missing",
		"implementation=simple,BM=8,UNROLL=4,PACK=yes,AHEAD=1":   "gene AHEAD does not exist in simple",
		"implementation=simple,BM=8,UNROLL=4,PACK=yes,TILES=128": "unknown gene TILES",
	} {
		if _, err := s.Parse(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", m, err, want)
		}
	}
}

func TestUnionErrors(t *testing.T) {
	one := []Gene{{Name: "A", Values: bools}}
	for _, c := range []struct {
		gene string
		alts []Alternative
		want string
	}{
		{"way", nil, "needs an alternative"},
		{"A", []Alternative{{"x", one, nil}}, "x: gene A has the name of the choosing gene"},
		{"way", []Alternative{{"x", one, nil}, {"x", one, nil}}, "x is listed twice"},
		{"way", []Alternative{{"x", one, nil}, {"y", one, []Constraint{{"A and not A", ""}}}}, "y: space: the space is empty"},
		{"way", []Alternative{{"x", one, nil}, {"y", one, []Constraint{{"B", ""}}}}, "y: space: constraint: column 1"},
	} {
		if _, err := NewUnion(c.gene, c.alts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// scrambled has a constraint that no diagram of allowed size holds: a hash.
func scrambled(t testing.TB, test string) *Space {
	t.Helper()
	var genes []Gene
	var sum []string
	for i, p := range []int{7919, 104729, 1299709, 15485863, 32452843, 49979687, 67867967, 86028121} {
		name := fmt.Sprintf("G%d", i)
		genes = append(genes, Gene{Name: name, Values: ints(1, 16), Ordinal: true})
		sum = append(sum, fmt.Sprintf("%s * %d", name, p))
	}
	genes = append(genes, Gene{Name: "H", Values: ints(1, 10)})
	s, err := NewSpace(genes, []Constraint{
		{"(" + strings.Join(sum, " + ") + ") " + test, "a hash"},
		{"G0 + G1 > H", ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDeferred(t *testing.T) {
	s := scrambled(t, "% 101 < 20")
	if d := s.Deferred(); len(d) != 1 || d[0].Why != "a hash" {
		t.Fatalf("deferred %v", d)
	}
	if s.Exact() {
		t.Error("a space with a deferred constraint says it is exact")
	}
	// G0 + G1 > H holds for 2347 of 2560 choices, by enumeration below.
	n := 0
	for a := 1; a <= 16; a++ {
		for b := 1; b <= 16; b++ {
			n += min(10, a+b-1)
		}
	}
	if want := float64(n) * math.Pow(16, 6) * 20 / 101; math.Abs(s.Size()/want-1) > 0.1 {
		t.Errorf("size %g, want about %g", s.Size(), want)
	}
	rng := rand.New(rand.NewSource(3))
	for range 300 {
		a, b := s.Random(rng), s.Random(rng)
		for op, g := range map[string]Genome{
			"Random": a, "Mutate": s.Mutate(a, 0.1, rng), "Crossover": s.Crossover(a, b, rng),
			"RepairIndices": s.RepairIndices([]int{rng.Intn(16), rng.Intn(16), rng.Intn(16)}, rng), "without rng": s.RepairIndices([]int{rng.Intn(16)}, nil),
		} {
			if err := s.Check(g); err != nil {
				t.Fatalf("%s: %v", op, err)
			}
		}
		for _, g := range s.Neighbours(a) {
			if err := s.Check(g); err != nil {
				t.Fatalf("neighbour: %v", err)
			}
		}
	}
	if _, ok := s.At(0); ok {
		t.Error("At answers without exact counts")
	}
	if _, ok := s.Rank(s.Random(rng)); ok {
		t.Error("Rank answers without exact counts")
	}
	n = 0
	for g := range s.All() {
		if err := s.Check(g); err != nil {
			t.Fatal(err)
		}
		if n++; n == 1000 {
			break
		}
	}
	// The same genes with a hash that nothing satisfies within the draws.
	_, err := NewSpace(s.Genes(), []Constraint{{strings.Replace(s.Deferred()[0].Expr, "% 101 < 20", "% 1000000007 == 77", 1), ""}})
	if err == nil || !strings.Contains(err.Error(), "too large to be compiled") {
		t.Errorf("a hopeless constraint: %v", err)
	}
}

// TestDeferredRare has a deferred constraint that repairs seldom meet, so that
// wishes have to be given up.
func TestDeferredRare(t *testing.T) {
	s := scrambled(t, "% 1009 < 2")
	rng := rand.New(rand.NewSource(9))
	for range 30 {
		a, b := s.Random(rng), s.Random(rng)
		mutant := s.Mutate(a, 0.1, rng)
		if mutant == a {
			t.Fatalf("Mutate(%v) changes nothing", a)
		}
		for op, g := range map[string]Genome{
			"Random": a, "Mutate": mutant, "Crossover": s.Crossover(a, b, rng), "without rng": s.RepairIndices([]int{rng.Intn(16)}, nil),
		} {
			if err := s.Check(g); err != nil {
				t.Fatalf("%s: %v", op, err)
			}
		}
	}
}

// TestForeignGenomes: operators take genomes of another space of the same
// declaration, and refuse others loudly.
func TestForeignGenomes(t *testing.T) {
	one, two := twoWays(t), twoWays(t)
	rng := rand.New(rand.NewSource(10))
	for range 50 {
		a, b := one.Random(rng), two.Random(rng)
		c := one.Crossover(a, b, rng)
		if err := one.Check(c); err != nil || c.Space() != one {
			t.Fatalf("%v: %v", c, err)
		}
		if d := one.Distance(a, two.Crossover(a, a, rng)); d != 0 {
			t.Fatalf("the same genome in another space is at a distance of %v", d)
		}
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "another space") {
			t.Errorf("a genome that is not of the space: %v", r)
		}
	}()
	one.Mutate(small(t).Random(rng), 0.1, rng)
}

// TestDeferredAgainstBruteForce makes diagrams so narrow that constraints and
// conditions have to be given up, and expects the same genomes all the same.
func TestDeferredAgainstBruteForce(t *testing.T) {
	deferred := 0
	rapid.Check(t, func(t *rapid.T) {
		m := genModel(t)
		want := m.all(tb(t))
		lim := limits{
			automaton: rapid.SampledFrom([]int{1, 4, 12, 1 << 19}).Draw(t, "automaton"),
			width:     rapid.IntRange(1, 4).Draw(t, "width"),
			draws:     20000,
		}
		s, err := newSpace(lim, m.genes, m.constraints, m.envs)
		if err != nil {
			if errors.Is(err, expr.ErrOverflow) {
				return // TestOverflow
			}
			if errors.Is(err, ErrEmpty) && len(want) > 0 || !errors.Is(err, ErrEmpty) && !strings.Contains(err.Error(), "too large to be compiled") {
				t.Fatalf("%v\n%v", err, m)
			}
			return
		}
		if len(s.Deferred()) == 0 {
			return // counted below
		}
		deferred++
		n := 0
		for g := range s.All() {
			if !want[g.String()] {
				t.Fatalf("All yields %v\n%v", g, m)
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("All yields %d of %d\n%v", n, len(want), m)
		}
		accepted := min(estimateAccepted, s.Size()/s.relaxed*float64(lim.draws))
		if s.Exact() || math.Abs(s.Size()/float64(n)-1) > 6/math.Sqrt(accepted) {
			t.Fatalf("size %v of %d, exact %v", s.Size(), n, s.Exact())
		}
		rng := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		uniform(tb(t), s, rng)
		for range 20 {
			a, b := s.Random(rng), s.Random(rng)
			mutant := s.Mutate(a, 0.3, rng)
			if mutant == a && n > 1 {
				t.Fatalf("Mutate(%v) changes nothing", a)
			}
			for op, g := range map[string]Genome{"Mutate": mutant, "Crossover": s.Crossover(a, b, rng), "RepairIndices": s.RepairIndices(nil, rng)} {
				if !want[g.String()] {
					t.Fatalf("%s gives %v\n%v", op, g, m)
				}
			}
			if g := s.RepairIndices(s.Indices(a), rng); g != a {
				t.Fatalf("RepairIndices of the valid %v = %v", a, g)
			}
			for _, g := range s.Neighbours(a) {
				if !want[g.String()] {
					t.Fatalf("neighbour %v\n%v", g, m)
				}
			}
		}
	})
	// Some one space in six defers; -short draws too few to ask for one.
	if deferred == 0 && !t.Failed() && !testing.Short() {
		t.Error("no space deferred anything: the test showed nothing")
	}
}

// TestManyGenes: more genes in one constraint than terms can have variables.
func TestManyGenes(t *testing.T) {
	var genes []Gene
	var names []string
	for i := range 70 {
		name := fmt.Sprintf("G%d", i)
		genes = append(genes, Gene{Name: name, Values: bools})
		names = append(names, name)
	}
	s, err := NewSpace(genes, []Constraint{{strings.Join(names, " or "), ""}, {"G0 != G1", ""}})
	if err != nil {
		t.Fatal(err)
	}
	if want := math.Pow(2, 69); math.Abs(s.Size()/want-1) > 1e-6 || s.Exact() {
		t.Errorf("size %g, exact %v, want about %g", s.Size(), s.Exact(), want)
	}
	rng := rand.New(rand.NewSource(4))
	for range 100 {
		if err := s.Check(s.Mutate(s.Random(rng), 0.1, rng)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHugeSpace draws where counts no longer fit into 64 bits, from one
// component that a constraint over all genes makes.
func TestHugeSpace(t *testing.T) {
	var genes []Gene
	var names []string
	for i := range 40 {
		name := fmt.Sprintf("G%d", i)
		genes = append(genes, Gene{Name: name, Values: ints(0, 9), Ordinal: true})
		names = append(names, name)
	}
	s, err := NewSpace(genes, []Constraint{{"(" + strings.Join(names, " + ") + ") % 2 == 0", ""}})
	if err != nil {
		t.Fatal(err)
	}
	if want := 5e39; math.Abs(s.Size()/want-1) > 1e-9 || s.Exact() || len(s.Deferred()) != 0 {
		t.Errorf("size %g, exact %v, deferred %v, want %g", s.Size(), s.Exact(), s.Deferred(), want)
	}
	rng := rand.New(rand.NewSource(5))
	counts := make([]int, 10)
	const n = 20000
	for range n {
		g := s.Random(rng)
		if err := s.Check(g); err != nil {
			t.Fatal(err)
		}
		for _, k := range s.Indices(g)[:1] {
			counts[k]++
		}
	}
	for k, c := range counts {
		if math.Abs(float64(c)-n/10) > 6*math.Sqrt(n*0.09) {
			t.Errorf("G0=%d in %d of %d draws", k, c, n)
		}
	}
}

func TestListed(t *testing.T) {
	genes := []Gene{
		{Name: "A", Values: ints(1, 3), Ordinal: true},
		{Name: "B", Values: bools},
		{Name: "C", Values: ints(1, 5), Ordinal: true},
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []int {
			return []int{rapid.IntRange(0, 2).Draw(t, "A"), rapid.IntRange(-1, 1).Draw(t, "B"), rapid.IntRange(0, 4).Draw(t, "C")}
		}), 1, 40).Draw(t, "rows")
		s, err := NewListed(genes, rows)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, row := range rows {
			want[fmt.Sprint(row)] = true
			if _, err := s.FromIndices(row); err != nil {
				t.Fatal(err)
			}
		}
		if s.Size() != float64(len(want)) {
			t.Fatalf("size %v, want %d", s.Size(), len(want))
		}
		n := 0
		for g := range s.All() {
			if !want[fmt.Sprint(s.Indices(g))] {
				t.Fatalf("%v is not listed", g)
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("All yields %d of %d", n, len(want))
		}
		rng := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for range 20 {
			a := s.Random(rng)
			ops := append(s.Neighbours(a), s.Mutate(a, 0.3, rng), s.Crossover(a, s.Random(rng), rng))
			for _, g := range ops {
				if !want[fmt.Sprint(s.Indices(g))] {
					t.Fatalf("an operator gives %v, which is not listed", g)
				}
			}
		}
		for a := range 3 {
			for b := -1; b < 2; b++ {
				row := []int{a, b, 0}
				if _, err := s.FromIndices(row); (err == nil) != want[fmt.Sprint(row)] {
					t.Fatalf("FromIndices(%v): %v", row, err)
				} else if err != nil && !errors.Is(err, ErrInvalid) {
					t.Fatalf("%v is not ErrInvalid", err)
				}
			}
		}
	})
	for want, rows := range map[string][][]int{
		"no genome is listed":                          nil,
		"listed genome 1 has 2 indices for 3 genes":    {{0, 0, 0}, {0, 0}},
		"listed genome 0: gene C has no value with":    {{0, 0, 5}},
		"gene A has no value with index -2, only 0 to": {{-2, 0, 5}},
	} {
		if _, err := NewListed(genes, rows); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestOperatorsAreDeterministic: the same seed gives the same genomes, in two
// spaces made of the same declaration.
func TestOperatorsAreDeterministic(t *testing.T) {
	walk := func(s *Space) string {
		rng := rand.New(rand.NewSource(6))
		var b strings.Builder
		g, h := s.Random(rng), s.Random(rng)
		for range 200 {
			g, h = s.Crossover(g, h, rng), s.Mutate(g, 0.2, rng)
			fmt.Fprintln(&b, g, h, s.Neighbours(g), s.Adjacent(h), s.Distance(g, h), s.Repair(map[string]Value{"BM": Int(48), "BN": Int(20)}, rng))
		}
		return b.String()
	}
	if first, second := walk(twoWays(t)), walk(twoWays(t)); first != second {
		t.Error("two walks with one seed differ")
	}
}

// TestMutateTakesSmallSteps: ordinal genes move to a neighboring value far
// more often than to any other.
func TestMutateTakesSmallSteps(t *testing.T) {
	s, err := NewSpace([]Gene{{Name: "A", Values: ints(0, 20), Ordinal: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(7))
	g, _ := s.FromMap(map[string]any{"A": 10})
	counts := map[int64]int{}
	const n = 20000
	for range n {
		v, _ := s.Mutate(g, 0.5, rng).Get("A")
		counts[v.Any().(int64)]++
	}
	// One half steps, of which one half are of one place, to either side; the
	// other half hits each of 20 values.
	want := n * (0.5*0.5/2 + 0.5/20)
	for _, k := range []int64{9, 11} {
		if math.Abs(float64(counts[k])-want) > 6*math.Sqrt(want) {
			t.Errorf("A=%d %d times, want about %.0f", k, counts[k], want)
		}
	}
	if counts[10] != 0 || counts[0] == 0 || counts[20] == 0 {
		t.Errorf("counts %v", counts)
	}
}

// TestCrossoverKeepsParents: where nothing forbids it, every gene comes from a
// parent, and from each about as often.
func TestCrossoverKeepsParents(t *testing.T) {
	s, err := NewSpace(spaces()[2].genes, spaces()[2].constraints)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(8))
	foreign, total, fromA, differing := 0, 0, 0, 0
	for range 2000 {
		a, b := s.Random(rng), s.Random(rng)
		c := s.Crossover(a, b, rng)
		for i := range s.genes {
			total++
			switch k := c.index(i); {
			case k != a.index(i) && k != b.index(i):
				foreign++
			case a.index(i) != b.index(i):
				differing++
				if k == a.index(i) {
					fromA++
				}
			}
		}
	}
	if foreign > total/50 {
		t.Errorf("%d of %d genes come from no parent", foreign, total)
	}
	if share := float64(fromA) / float64(differing); share < 0.48 || share > 0.52 {
		t.Errorf("a share of %.3f comes from the first parent", share)
	}
}

func TestRepairIsNear(t *testing.T) {
	s, err := NewSpace([]Gene{
		{Name: "A", Values: pow2(1, 64), Ordinal: true},
		{Name: "B", Values: pow2(1, 64), Ordinal: true},
		{Name: "C", Values: []Value{Str("x"), Str("y")}},
	}, []Constraint{{Expr: "A * B <= 256"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want map[string]Value
		got  string
	}{
		{map[string]Value{"A": Int(64), "B": Int(4), "C": Str("y")}, "A=64,B=4,C=y"},
		{map[string]Value{"A": Int(50), "B": Float(4.5), "C": Str("y")}, "A=64,B=4,C=y"},
		{map[string]Value{"A": Int(64), "B": Int(8), "C": Str("y")}, "A=32,B=8,C=y|A=64,B=4,C=y"},
		{map[string]Value{"A": Int(1000), "B": Int(-5), "NEW": Int(3)}, "A=64,B=1,C=x"},
	} {
		if got := s.Repair(c.want, nil).String(); !strings.Contains("|"+c.got+"|", "|"+got+"|") {
			t.Errorf("Repair(%v) = %s, want %s", c.want, got, c.got)
		}
	}
}
