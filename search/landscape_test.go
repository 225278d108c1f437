package search_test

import (
	"math"
	"sync"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/tables"
	"github.com/evotune/evotune/search"
)

// The strategies that learn beat random search on a made-up kernel's space and
// on a rugged bowl, with many proposals in flight as well: more than luck, by a
// sign test over paired seeds.
func TestBeatsRandom(t *testing.T) {
	longtest.Short(t, "computes for long")
	table := tables.Synthetic(10_000)
	ev, err := replay.New(table, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	recorded := func(g genome.Genome) search.Outcome {
		r, err := ev.Evaluate(t.Context(), g, 0)
		if err != nil {
			t.Error(err)
		}
		return search.Outcome{OK: r.Verdict == evaluator.Correct, Fitness: r.Fitness, Cost: r.Cost}
	}
	for _, c := range []struct {
		strategy string
		window   int
		scape    string
		n        int
		space    *genome.Space
		outcome  func(genome.Genome) search.Outcome
	}{
		{"evolution", 1, "synthetic kernel", 60, ev.Space(), recorded},
		{"evolution", 8, "synthetic kernel", 150, ev.Space(), recorded},
		{"evolution", 32, "synthetic kernel", 300, ev.Space(), recorded},
		{"evolution", 8, "bowl", 150, ordinalSpace(t, 12, 12, 8, 8, 6, 5), made},
		{"hillclimb", 1, "synthetic kernel", 300, ev.Space(), recorded},
		{"hillclimb", 8, "bowl", 300, ordinalSpace(t, 12, 12, 8, 8, 6, 5), made},
	} {
		const seeds = 24
		var wins, losses int
		var lock sync.Mutex
		var wait sync.WaitGroup
		for seed := range int64(seeds) {
			wait.Go(func() {
				reach := func(strategy string) float64 {
					least := math.Inf(1)
					s, err := search.New(strategy, c.space, search.Options{Seed: seed})
					if err != nil {
						t.Error(err)
						return least
					}
					for _, p := range drive(failer{t}, s, c.n, c.window, c.outcome) {
						if o := c.outcome(p.Genome); o.OK {
							least = math.Min(least, o.Fitness)
						}
					}
					return least
				}
				mine, its := reach(c.strategy), reach("random")
				lock.Lock()
				defer lock.Unlock()
				switch {
				case mine < its:
					wins++
				case mine > its:
					losses++
				}
			})
		}
		wait.Wait()
		// 19 of 24 has a probability of 0.3% under "no better".
		t.Logf("%s, window %d, %d evaluations of the %s: better than random %d times, worse %d times of %d", c.strategy, c.window, c.n, c.scape, wins, losses, seeds)
		if wins < 19 {
			t.Errorf("%s with a window of %d beats random on the %s only %d times of %d", c.strategy, c.window, c.scape, wins, seeds)
		}
	}
}

// A failer reports from a goroutine that must not call Fatalf.
type failer struct{ testing.TB }

func (f failer) Fatalf(format string, args ...any) { f.Errorf(format, args...) }
