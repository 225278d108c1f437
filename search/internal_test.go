package search

import (
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

// eaopt's calls reach the operators that keep constraints; clones are independent.
func TestMember(t *testing.T) {
	s := grid(t)
	rng := rand.New(rand.NewSource(1))
	m := &member{genome: s.Random(rng), rate: 0.5, fitness: 0.7, entry: 3}
	if f, err := m.Evaluate(); f != 0.7 || err != nil {
		t.Errorf("fitness %v, %v", f, err)
	}
	c := m.Clone().(*member)
	was := m.genome
	c.Mutate(rng)
	if m.genome != was || c.genome == was || c.entry != 3 || m.fitness != 0.7 {
		t.Errorf("after mutation of a clone: %+v, and the clone is %+v", m, c)
	}
	other := c.genome
	m.Crossover(c, rng)
	for _, x := range []*member{m, c} {
		if err := s.Check(x.genome); err != nil {
			t.Errorf("offspring %v: %v", x.genome, err)
		}
		if f, err := x.Evaluate(); err == nil {
			t.Errorf("offspring that nothing evaluated has the fitness %v", f)
		}
	}
	if s.Distance(m.genome, was)+s.Distance(m.genome, other) > 2 {
		t.Error("distance beyond 1")
	}
}

// eaopt itself can run a population of members.
func TestMemberInEaopt(t *testing.T) {
	s := grid(t)
	rng := rand.New(rand.NewSource(2))
	fitness := func(g genome.Genome) float64 { v, _ := g.Get("x"); n, _ := v.Number(); return -n }
	pop := eaopt.Population{Individuals: make(eaopt.Individuals, 12), RNG: rng}
	for k := range pop.Individuals {
		pop.Individuals[k] = eaopt.NewIndividual(&member{genome: s.Random(rng), rate: 0.2}, rng)
	}
	model := eaopt.ModGenerational{Selector: eaopt.SelTournament{NContestants: 3}, MutRate: 0.5, CrossRate: 0.7}
	for range 10 {
		for k := range pop.Individuals {
			x := pop.Individuals[k].Genome.(*member)
			if err := s.Check(x.genome); err != nil {
				t.Fatal(err)
			}
			x.fitness = fitness(x.genome)
			if err := pop.Individuals[k].Evaluate(); err != nil {
				t.Fatal(err)
			}
		}
		pop.Individuals.SortByFitness()
		if err := model.Apply(&pop); err != nil {
			t.Fatal(err)
		}
	}
	best := math.Inf(1)
	for k := range pop.Individuals {
		best = min(best, fitness(pop.Individuals[k].Genome.(*member).genome))
	}
	if best != -10 {
		t.Errorf("best %v, want -10", best)
	}
}

// A population stays sorted, bounded and keeps its best; equals stay in the
// order in which they came.
func TestInsert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pop := eaopt.Population{RNG: rand.New(rand.NewSource(1))}
		const size = 5
		var model []member
		for i, f := range rapid.SliceOf(rapid.IntRange(0, 6)).Draw(t, "fitness") {
			m := member{fitness: float64(f), entry: i}
			insert(&pop, &m, size)
			model = append(model, m)
			slices.SortStableFunc(model, func(a, b member) int { return int(a.fitness - b.fitness) })
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

// Parents are two different members, better than average, and clones.
func TestParents(t *testing.T) {
	pop := eaopt.Population{RNG: rand.New(rand.NewSource(1))}
	const size = 10
	for i := range size {
		insert(&pop, &member{fitness: float64(i), entry: i}, size)
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
	b := newBandit(standard.pay)
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
		g, ok := l.spread()
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
