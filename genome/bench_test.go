package genome

import (
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"testing"
)

// pow2 lists the powers of two from lo to hi.
func pow2(lo, hi int64) []Value {
	var v []Value
	for ; lo <= hi; lo *= 2 {
		v = append(v, Int(lo))
	}
	return v
}

// ints lists lo, lo+1, ... to hi.
func ints(lo, hi int64) []Value {
	var v []Value
	for ; lo <= hi; lo++ {
		v = append(v, Int(lo))
	}
	return v
}

var bools = []Value{Bool(false), Bool(true)}

// spaces are synthetic ones in the manner of real kernels, by the power of ten
// of their size.
func spaces() []struct {
	name        string
	genes       []Gene
	constraints []Constraint
} {
	tile := []Gene{
		{Name: "BM", Values: pow2(8, 256), Ordinal: true},
		{Name: "BN", Values: pow2(8, 256), Ordinal: true},
		{Name: "BK", Values: pow2(4, 64), Ordinal: true},
		{Name: "TM", Values: pow2(1, 16), Ordinal: true},
		{Name: "TN", Values: pow2(1, 16), Ordinal: true},
		{Name: "STAGES", Values: ints(1, 4), Ordinal: true},
		{Name: "PACK", Values: bools},
	}
	limits := []Constraint{
		{"BM % TM == 0 and BN % TN == 0", "tiles divide blocks"},
		{"(BM / TM) * (BN / TN) <= 1024 and (BM / TM) * (BN / TN) >= 32", "threads of a block"},
		{"4 * STAGES * BK * (BM + BN) <= 49152", "shared memory"},
	}
	more := func(n int, values []Value) []Gene {
		genes := append([]Gene(nil), tile...)
		for i := range n {
			genes = append(genes, Gene{Name: fmt.Sprintf("F%d", i), Values: values, Ordinal: true})
		}
		return genes
	}
	denseGenes, denseConstraints := dense(24, 8)
	return []struct {
		name        string
		genes       []Gene
		constraints []Constraint
	}{
		{"1e3", tile[:5], limits[:2]},
		{"1e8", more(4, ints(1, 12)), limits},
		{"1e12", more(8, ints(1, 12)), limits},
		// The same three constraints, one of them over genes that are
		// otherwise free, so that nothing is independent.
		{"1e12joined", more(8, ints(1, 12)), append(limits[:2:2],
			Constraint{"4 * STAGES * BK * (BM + BN) + 64 * (F0 + F1) * (F2 + F3) + F4 * F5 * F6 * F7 <= 65536", "shared memory"})},
		{"1e18", more(14, ints(1, 12)), limits},
		{"1e18joined", more(14, ints(1, 12)), append(limits[:2:2],
			Constraint{"4 * STAGES * BK * (BM + BN) + F0 + F1 + F2 + F3 + F4 + F5 + F6 + F7 + F8 + F9 + F10 + F11 + F12 + F13 <= 49152", "shared memory"},
			Constraint{"F0 * F1 * F2 * F3 <= 5000", ""},
			Constraint{"(F4 + F5 + F6) % 2 == 0", ""})},
		{"1e19dense", denseGenes, denseConstraints},
	}
}

// dense declares a space made to defeat diagrams: n genes of 8 values and n
// constraints over random genes, so that every frontier is wide.
func dense(n int, seed int64) ([]Gene, []Constraint) {
	rng := rand.New(rand.NewSource(seed))
	var genes []Gene
	for i := range n {
		genes = append(genes, Gene{Name: fmt.Sprintf("G%d", i), Values: ints(1, 8), Ordinal: true})
	}
	var constraints []Constraint
	for range n {
		a, b, c := rng.Intn(n), rng.Intn(n), rng.Intn(n)
		constraints = append(constraints, Constraint{Expr: []string{
			fmt.Sprintf("(G%d * %d + G%d * %d + G%d) %% 7 != 3", a, rng.Intn(9)+1, b, rng.Intn(9)+1, c),
			fmt.Sprintf("G%d * G%d * G%d <= 128", a, b, c),
			fmt.Sprintf("G%d %% G%d == 0 or G%d > 3", a, b, c),
			fmt.Sprintf("G%d + G%d != G%d", a, b, c),
		}[rng.Intn(4)]})
	}
	return genes, constraints
}

// TestLargeSpaces bounds what large spaces allocate, all that is freed again
// included, and tries their operators.
func TestLargeSpaces(t *testing.T) {
	for _, c := range spaces() {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s, err := NewSpace(c.genes, c.constraints)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewSource(1))
			g := s.Random(rng)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 200e6 && !strings.Contains(c.name, "dense") {
				t.Errorf("%d bytes allocated, want 200 MB at most", got)
			}
			if deferred := len(s.Deferred()) > 0; deferred != strings.Contains(c.name, "dense") {
				t.Errorf("deferred: %v", s.Deferred())
			}
			for range 50 {
				h := s.Crossover(g, s.Random(rng), rng)
				g = s.Mutate(h, 0.1, rng)
				for _, x := range append(s.Adjacent(g), g, h) {
					if err := s.Check(x); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkNewSpace measures building a space and the first draw from it. The
// metrics: valid genomes, nodes of the diagrams, bytes that stay allocated.
func BenchmarkNewSpace(b *testing.B) {
	for _, c := range spaces() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			rng := rand.New(rand.NewSource(1))
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var s *Space
			for b.Loop() {
				var err error
				if s, err = NewSpace(c.genes, c.constraints); err != nil {
					b.Fatal(err)
				}
				s.Random(rng)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(s.Size(), "genomes")
			b.ReportMetric(float64(s.Nodes()), "nodes")
			b.ReportMetric(float64(len(s.Deferred())), "deferred")
			b.ReportMetric(float64(after.HeapAlloc)-float64(before.HeapAlloc), "retained-B")
			runtime.KeepAlive(s)
		})
	}
}

// BenchmarkOperators measures what a search pays per proposal.
func BenchmarkOperators(b *testing.B) {
	for _, c := range spaces() {
		s, err := NewSpace(c.genes, c.constraints)
		if err != nil {
			b.Fatal(err)
		}
		rng := rand.New(rand.NewSource(1))
		const n = 256
		var pool [n]Genome
		for i := range pool {
			pool[i] = s.Random(rng)
		}
		run := func(name string, f func(i int)) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					f(i)
					i++
				}
			})
		}
		run("Random", func(int) { s.Random(rng) })
		run("Mutate", func(i int) { s.Mutate(pool[i%n], 0.1, rng) })
		run("Crossover", func(i int) { s.Crossover(pool[i%n], pool[(i+1)%n], rng) })
		run("Neighbours", func(i int) { s.Neighbours(pool[i%n]) })
		run("Adjacent", func(i int) { s.Adjacent(pool[i%n]) })
		run("Distance", func(i int) { s.Distance(pool[i%n], pool[(i+1)%n]) })
		run("String", func(i int) { _ = pool[i%n].String() })
		run("Hash", func(i int) { pool[i%n].Hash() })
		run("Check", func(i int) { _ = s.Check(pool[i%n]) })
		text := pool[0].String()
		run("Parse", func(int) { _, _ = s.Parse(text) })
	}
}
