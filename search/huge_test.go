package search_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/search"
)

// huge is a space of 10^12 genomes before its three constraints, which tie
// genes together that are far apart.
func huge(tb testing.TB) *genome.Space {
	tb.Helper()
	var genes []genome.Gene
	for i := range 12 {
		g := genome.Gene{Name: fmt.Sprintf("g%d", i), Ordinal: true}
		for v := range 10 {
			g.Values = append(g.Values, genome.Int(int64(v+1)))
		}
		genes = append(genes, g)
	}
	s, err := genome.NewSpace(genes, []genome.Constraint{
		{Expr: "g0 * g5 <= 40"}, {Expr: "(g1 + g6) % 2 == 0"}, {Expr: "g2 * g7 * g11 >= 27"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// A space of 10^12 genomes is searched from the first second on, in little
// memory.
func TestHuge(t *testing.T) {
	begin := time.Now()
	space := huge(t)
	s, err := search.New("", space, search.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	first, ok := s.Ask()
	took := time.Since(begin)
	if !ok || took > time.Second {
		t.Errorf("the first proposal of %.3g genomes came after %v", space.Size(), took)
	}
	if space.Size() < 1e11 {
		t.Errorf("a space of %.3g genomes is not huge", space.Size())
	}
	s.Tell(0, made(first.Genome))
	ps := []search.Proposal{first}
	for k := 1; k < 500; k++ {
		p, ok := s.Ask()
		if !ok {
			t.Fatal("exhausted")
		}
		s.Tell(k, made(p.Genome))
		ps = append(ps, p)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.Sys > 200<<20 {
		t.Errorf("%d MB of memory", m.Sys>>20)
	}
	t.Logf("%.3g genomes: first proposal after %v, %d MB of memory; best of 500 %.3g", space.Size(), took, m.Sys>>20, best(ps))
	if early, late := best(ps[:50]), best(ps); late > 0.7*early {
		t.Errorf("the best of 50 is %.3g, of 500 %.3g", early, late)
	}
}
