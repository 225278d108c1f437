package search_test

import (
	"fmt"
	"testing"

	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/search"
)

// BenchmarkAskTell is the cost of one proposal and its outcome, averaged over a
// campaign of n evaluations with eight in flight, in a space of a million
// genomes. ns/op is per evaluation; the campaign's start is part of it.
func BenchmarkAskTell(b *testing.B) {
	table := tables.Synthetic(1_000_000)
	ev, err := replay.New(table, replay.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range search.Names() {
		for _, n := range []int{1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for done := 0; done < b.N; {
					s, err := search.New(name, ev.Space(), search.Options{Seed: int64(done)})
					if err != nil {
						b.Fatal(err)
					}
					const window = 8
					outcomes := make([]search.Outcome, 0, n)
					for k := range min(n, b.N-done) {
						p, ok := s.Ask()
						if !ok {
							b.Fatal("exhausted")
						}
						// Looking the outcome up is part of the time, and small.
						outcomes = append(outcomes, made(p.Genome))
						if k >= window {
							s.Tell(k-window, outcomes[k-window])
						}
						done++
					}
				}
			})
		}
	}
}
