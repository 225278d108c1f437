package search

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/MaxHalford/eaopt"
	"pgregory.net/rapid"

	"github.com/evotune/evotune/genome"
)

// grid is a space of two ordinal genes, an enumeration, and a gene that exists
// only for one of its values.
func grid(tb testing.TB) *genome.Space {
	tb.Helper()
	var axis []genome.Value
	for v := range 11 {
		axis = append(axis, genome.Int(int64(v)))
	}
	s, err := genome.NewSpace([]genome.Gene{
		{Name: "x", Values: axis, Ordinal: true},
		{Name: "y", Values: axis, Ordinal: true},
		{Name: "order", Values: []genome.Value{genome.Str("a"), genome.Str("b"), genome.Str("c")}},
		{Name: "extra", Values: axis, Ordinal: true, When: "order == 'c'"},
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func at(tb testing.TB, s *genome.Space, encoding string) genome.Genome {
	tb.Helper()
	g, err := s.Parse(encoding)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// A population stays sorted, bounded and keeps its best; equals stay in the
// order in which they came.
func TestInsert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pop := eaopt.Population{RNG: rand.New(rand.NewSource(1))}
		const size = 5
		var model []member
		for i, f := range rapid.SliceOf(rapid.IntRange(0, 6)).Draw(t, "fitness") {
			m := member{Individual: genome.Individual{Fitness: float64(f), Told: true}, entry: i}
			insert(&pop, &m, size)
			model = append(model, m)
			slices.SortStableFunc(model, func(a, b member) int { return int(a.Fitness - b.Fitness) })
			model = model[:min(size, len(model))]
			for k := range model {
				if got := entryOf(pop.Individuals[k]); got != model[k].entry {
					t.Fatalf("place %d is held by %d, want %d", k, got, model[k].entry)
				}
			}
			if len(pop.Individuals) != len(model) {
				t.Fatalf("%d members, want %d", len(pop.Individuals), len(model))
			}
		}
	})
}

// Migration moves members and loses none; islands that are not full stay as
// they are.
func TestMigrate(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	fill := func(sizes ...int) eaopt.Populations {
		var pops eaopt.Populations
		entry := 0
		for _, n := range sizes {
			pop := eaopt.Population{RNG: rng}
			for range n {
				insert(&pop, &member{Individual: genome.Individual{Fitness: rng.Float64(), Told: true}, entry: entry}, n)
				entry++
			}
			pops = append(pops, pop)
		}
		return pops
	}
	entries := func(pops eaopt.Populations) (out [][]int) {
		for _, p := range pops {
			var one []int
			for _, indi := range p.Individuals {
				one = append(one, entryOf(indi))
			}
			out = append(out, one)
		}
		return out
	}
	for _, sizes := range [][]int{{4}, {4, 3}, {2, 4, 4}} {
		pops := fill(sizes...)
		before := fmt.Sprint(entries(pops))
		migrate(pops, 4, rng)
		if after := fmt.Sprint(entries(pops)); after != before {
			t.Errorf("sizes %v: %s became %s", sizes, before, after)
		}
	}
	pops := fill(4, 4, 4)
	before := entries(pops)
	migrate(pops, 4, rng)
	after := entries(pops)
	if fmt.Sprint(before) == fmt.Sprint(after) {
		t.Error("nobody migrated between full islands")
	}
	for _, p := range pops {
		if !p.Individuals.IsSortedByFitness() {
			t.Errorf("an island is no longer sorted: %v", p.Individuals)
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(after...)))
	for i, entry := range all {
		if i != entry {
			t.Fatalf("members after migration: %v", all)
		}
	}
}

// Parents are two different members, better than average, and clones.
func TestParents(t *testing.T) {
	pop := eaopt.Population{RNG: rand.New(rand.NewSource(1))}
	const size = 10
	for i := range size {
		insert(&pop, &member{Individual: genome.Individual{Fitness: float64(i), Told: true}, entry: i}, size)
	}
	sum := 0
	const n = 2000
	for range n {
		a, b := parents(&pop)
		if entryOf(a) == entryOf(b) {
			t.Fatal("a member mates with itself")
		}
		sum += entryOf(a) + entryOf(b)
		a.Genome.(*member).entry = -1
	}
	// The mean of the lesser of two out of 0..9 is 2.7, of one draw 4.5.
	if mean := float64(sum) / (2 * n); mean < 2.5 || mean > 3.2 {
		t.Errorf("the mean rank of a parent is %.2f", mean)
	}
	for i, indi := range pop.Individuals {
		if entryOf(indi) != i {
			t.Fatal("a parent was not a clone")
		}
	}
}

// The bandit comes to prefer what pays, gives nothing up, and starts anywhere
// near its prior.
func TestBandit(t *testing.T) {
	b := newBandit()
	rng := rand.New(rand.NewSource(1))
	used := make([]int, len(breeding))
	for range 3000 {
		o := b.choose(rng)
		used[o]++
		paid := 0.0
		if breeding[o] == opStep {
			paid = 0.8
		}
		b.reward(o, paid)
	}
	for o, n := range used {
		if n < 50 {
			t.Errorf("%s was used %d times of 3000", breeding[o], n)
		}
	}
	if step := slices.Index(breeding, opStep); used[step] < 1800 {
		t.Errorf("the operator that pays was used %d times of 3000", used[step])
	}
}

// spread covers a space better than uniform draws do.
func TestSpread(t *testing.T) {
	space := grid(t)
	closest := func(next func(*ledger) genome.Genome) (sum float64) {
		for seed := range int64(20) {
			l, err := newLedger("test", space, Options{Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			least := math.Inf(1)
			for i := range 20 {
				g := next(l)
				for _, e := range l.entries[:i] {
					least = math.Min(least, space.Distance(g, e.genome))
				}
				l.spend(g)
			}
			sum += least
		}
		return sum
	}
	spread := closest(func(l *ledger) genome.Genome {
		var from []genome.Genome
		for _, e := range l.entries {
			from = append(from, e.genome)
		}
		g, ok := l.spread(from)
		if !ok {
			t.Fatal("nothing unspent in a large space")
		}
		return g
	})
	uniform := closest(func(l *ledger) genome.Genome {
		g, _ := l.fresh()
		return g
	})
	if spread < 1.5*uniform {
		t.Errorf("the closest pair of 20 is %.3f apart on average, of uniform draws %.3f", spread/20, uniform/20)
	}
}

// The screen ranks what lies near the good above what lies near the bad, and
// counts failures as bad.
func TestScreen(t *testing.T) {
	space := grid(t)
	s := newScreen(space)
	if s.guess(at(t, space, "x=0,y=0,order=a")) != 0 {
		t.Error("a guess out of nothing")
	}
	s.learn(at(t, space, "x=5,y=5,order=a"), math.Inf(1))
	if g := s.guess(at(t, space, "x=0,y=0,order=a")); g != 0 {
		t.Errorf("a guess out of failures alone: %g", g)
	}
	good := "x=1,y=1,order=a"
	s.learn(at(t, space, good), -1)
	s.learn(at(t, space, "x=0,y=5,order=a"), 0)
	s.learn(at(t, space, "x=9,y=9,order=c,extra=3"), 2)
	s.learn(at(t, space, "x=9,y=2,order=b"), 1)
	s.learn(at(t, space, "x=8,y=2,order=b"), 3)
	near := s.guess(at(t, space, "x=2,y=1,order=a"))
	for _, far := range []string{"x=9,y=8,order=c,extra=3", "x=9,y=9,order=c,extra=9", "x=9,y=3,order=b", "x=5,y=6,order=a"} {
		if g := s.guess(at(t, space, far)); !(near < g) || math.IsNaN(g) {
			t.Errorf("near the best %.3f, at %s %.3f", near, far, g)
		}
	}
	if exact := s.guess(at(t, space, good)); math.Abs(exact+1) > 0.1 {
		t.Errorf("at the best itself %.3f, told -1", exact)
	}
}

// What the screen remembers is bounded, and old outcomes are forgotten.
func TestScreenForgets(t *testing.T) {
	space := grid(t)
	s := newScreen(space)
	rng := rand.New(rand.NewSource(1))
	for i := range 5 * screenMemory {
		score := float64(i % 7)
		if i%5 == 0 {
			score = math.Inf(1)
		}
		s.learn(space.Random(rng), score)
		finite := 0
		for _, x := range s.scores {
			if !math.IsInf(x, 1) {
				finite++
			}
		}
		if len(s.scores) > screenMemory || len(s.sorted) != finite || !slices.IsSorted(s.sorted) {
			t.Fatalf("after %d: %d outcomes, %d finite, %d sorted", i+1, len(s.scores), finite, len(s.sorted))
		}
	}
}

// The tables of the screen stay small however many values a gene has, and fall
// with the distance.
func TestFactors(t *testing.T) {
	for _, n := range []int{1, 2, 50, 89, 90, 91, 5000} {
		var values []genome.Value
		for v := range n {
			values = append(values, genome.Int(int64(v)))
		}
		f := newFactors(genome.Gene{Name: "g", Values: values, Ordinal: true, When: "h"})
		if len(f.table) > maxAlleles*maxAlleles {
			t.Errorf("%d values: a table of %d", n, len(f.table))
		}
		last := math.Inf(1)
		for v := range n {
			a := f.allele(v)
			if a < 1 || a >= f.n {
				t.Fatalf("%d values: value %d has allele %d of %d", n, v, a, f.n)
			}
			w := f.row(f.allele(0))[a]
			if w > last || w <= 0 || w > 1 {
				t.Fatalf("%d values: factor %g at distance %d, %g one step nearer", n, w, v, last)
			}
			last = w
		}
		if f.allele(-1) != 0 || f.row(0)[0] != 1 {
			t.Errorf("%d values: two inactive genes do not agree", n)
		}
	}
	if f := newFactors(genome.Gene{Name: "g", Values: []genome.Value{genome.Int(1)}}); f.n != 0 {
		t.Error("a table for a gene that never differs")
	}
}

// Outposts are founded when the newest island stalls, and their number stays
// bounded.
func TestOutposts(t *testing.T) {
	l, err := newLedger("evolution", grid(t), Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := newEvolution(l).(*Evolution)
	most := 0
	for i := range 600 {
		if _, ok := e.Ask(); !ok {
			t.Fatal("exhausted")
		}
		e.Tell(i, Outcome{OK: true, Fitness: 1}) // nothing ever gets better
		most = max(most, len(e.islands))
		if len(e.islands) != len(e.pops) {
			t.Fatalf("%d islands, %d populations", len(e.islands), len(e.pops))
		}
	}
	if most != maxIslands || e.founded <= maxIslands {
		t.Errorf("at most %d islands at once, %d founded", most, e.founded)
	}
}
