package genome

import (
	"errors"
	"math/rand"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evotune/evotune/internal/expr"
)

// TestSpaceAgainstBruteForce compares everything a space says about its set of
// genomes with an enumeration that shares no code with it.
func TestSpaceAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genModel(t)
		want := m.all(tb(t))
		s, err := NewSpace(m.genes, m.constraints, m.envs...)
		if err != nil && errors.Is(err, expr.ErrOverflow) {
			return // TestOverflow
		}
		if len(want) == 0 {
			if !errors.Is(err, ErrEmpty) {
				t.Fatalf("space without genomes: %v\n%v", err, m)
			}
			return
		}
		if err != nil {
			t.Fatalf("%v\n%v", err, m)
		}
		if s.Size() != float64(len(want)) || !s.Exact() {
			t.Fatalf("size %v, exact %v, want %d\n%v", s.Size(), s.Exact(), len(want), m)
		}
		rank := uint64(0)
		seen := map[string]bool{}
		for g := range s.All() {
			e := g.String()
			if !want[e] || seen[e] {
				t.Fatalf("All yields %s: valid %v, before %v\n%v", e, want[e], seen[e], m)
			}
			seen[e] = true
			if err := s.Check(g); err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			if h, ok := s.At(rank); !ok || h != g {
				t.Fatalf("At(%d) = %v, want %v", rank, h, g)
			}
			if r, ok := s.Rank(g); !ok || r != rank {
				t.Fatalf("Rank(%v) = %d, want %d", g, r, rank)
			}
			if h, err := s.Parse(e); err != nil || h != g {
				t.Fatalf("Parse(%q) = %v, %v", e, h, err)
			}
			if h, err := s.FromMap(g.Map()); err != nil || h != g {
				t.Fatalf("FromMap(%v) = %v, %v", g.Map(), h, err)
			}
			if h, err := s.FromIndices(s.Indices(g)); err != nil || h != g {
				t.Fatalf("FromIndices(%v) = %v, %v", s.Indices(g), h, err)
			}
			rank++
		}
		if len(seen) != len(want) {
			t.Fatalf("All yields %d of %d", len(seen), len(want))
		}
		if g, ok := s.At(rank); ok {
			t.Fatalf("At(%d) = %v beyond the end", rank, g)
		}
		// What is not listed is refused, whatever it is.
		ix := make([]int, len(m.genes))
		for range 50 {
			var encoding []string
			for i, g := range m.genes {
				ix[i] = rapid.IntRange(-1, len(g.Values)-1).Draw(t, "index")
				if ix[i] >= 0 {
					encoding = append(encoding, g.Name+"="+s.Genes()[i].Values[ix[i]].String())
				}
			}
			g, err := s.FromIndices(ix)
			if valid := want[strings.Join(encoding, ",")]; valid != (err == nil) {
				t.Fatalf("FromIndices(%v) = %v, %v, valid is %v", ix, g, err, valid)
			}
			if err != nil && !errors.Is(err, ErrInvalid) {
				t.Fatalf("FromIndices(%v): %v is not ErrInvalid", ix, err)
			}
		}
	})
}

// tb lets helpers that take a testing.TB fail a rapid test.
func tb(t *rapid.T) testing.TB { return rapidTB{TB: nil, t: t} }

type rapidTB struct {
	testing.TB
	t *rapid.T
}

func (r rapidTB) Fatalf(format string, args ...any) { r.t.Fatalf(format, args...) }

func TestOperatorsGiveValidGenomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s := genSpace(t)
		rng := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		want := m.all(tb(t))
		valid := func(op string, g Genome) {
			if !want[g.String()] || g.Space() != s {
				t.Fatalf("%s gives %v, which is not valid\n%v", op, g, m)
			}
		}
		for range 20 {
			a, b := s.Random(rng), s.Random(rng)
			valid("Random", a)
			mutant := s.Mutate(a, rapid.Float64Range(0, 1).Draw(t, "rate"), rng)
			valid("Mutate", mutant)
			if mutant == a && len(want) > 1 {
				t.Fatalf("Mutate(%v) changes nothing\n%v", a, m)
			}
			valid("Crossover", s.Crossover(a, b, rng))
			if c := s.Crossover(a, a, rng); c != a {
				t.Fatalf("Crossover(a, a) = %v, want %v", c, a)
			}
			ix := make([]int, len(m.genes))
			for i, g := range m.genes {
				ix[i] = rng.Intn(len(g.Values)+2) - 1
			}
			valid("RepairIndices", s.RepairIndices(ix, rng))
			valid("RepairIndices", s.RepairIndices(ix, nil))
			if g := s.RepairIndices(s.Indices(a), rng); g != a {
				t.Fatalf("RepairIndices of the valid %v = %v", a, g)
			}
			hamming := map[Genome]bool{}
			for _, n := range s.Neighbours(a) {
				valid("Neighbours", n)
				if hamming[n] || n == a {
					t.Fatalf("Neighbours(%v) has %v twice or is it", a, n)
				}
				hamming[n] = true
				if d := changes(s, a, n); d != 1 {
					t.Fatalf("neighbour %v of %v differs in %d genes", n, a, d)
				}
			}
			for _, n := range s.Adjacent(a) {
				if !hamming[n] {
					t.Fatalf("Adjacent(%v) has %v, which is not a neighbour", a, n)
				}
			}
			for x, y := range map[Genome]Genome{a: b, b: mutant} {
				if d := s.Distance(x, y); d < 0 || d > 1 || (d == 0) != (x == y) || d != s.Distance(y, x) {
					t.Fatalf("Distance(%v, %v) = %v", x, y, d)
				}
			}
			if s.Distance(a, mutant) > s.Distance(a, b)+s.Distance(b, mutant)+1e-12 {
				t.Fatalf("Distance breaks the triangle inequality")
			}
		}
	})
}

// changes counts the genes that both genomes have with different values.
func changes(s *Space, a, b Genome) int {
	n := 0
	for i := range s.genes {
		x, y := a.index(i), b.index(i)
		if x >= 0 && y >= 0 && x != y {
			n++
		}
	}
	return n
}

// TestNeighboursAreComplete: every valid genome that differs in one gene, all
// of them existing in both, is found.
func TestNeighboursAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, s := genSpace(t)
		rng := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		a := s.Random(rng)
		found := map[Genome]bool{}
		for _, n := range s.Neighbours(a) {
			found[n] = true
		}
		for b := range s.All() {
			differ, existence := 0, false
			for i := range s.genes {
				x, y := a.index(i), b.index(i)
				existence = existence || (x < 0) != (y < 0)
				if x != y {
					differ++
				}
			}
			if differ == 1 && !existence && !found[b] {
				t.Fatalf("%v is a neighbour of %v and not found", b, a)
			}
		}
	})
}
