package search_test

import (
	"fmt"
	"testing"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/search"
)

// greedy proposes neighbors of the best genome.
type greedy struct{ search.Base }

func (g greedy) Ask() (search.Proposal, bool) {
	if best, ok := g.Best(); ok {
		if p, ok := g.Propose(g.Space().Neighbours(best.Genome), "greedy", best.Index); ok {
			return p, true
		}
	}
	return g.Fresh()
}

func registerGreedy(tb testing.TB) {
	search.Register("greedy", 7, func(b search.Base) search.Strategy { return greedy{b} })
	tb.Cleanup(func() { search.Unregister("greedy") })
}

// TestOwnStrategy holds a registered strategy to the contract of Strategy: known
// results count and are not proposed, genomes to start with come first, nothing
// comes twice, everything comes, and one seed walks one path.
func TestOwnStrategy(t *testing.T) {
	registerGreedy(t)
	if v := search.Version("greedy"); v != 7 {
		t.Errorf("version %d, want 7", v)
	}
	space := conditional(t)
	var all []genome.Genome
	for g := range space.All() {
		all = append(all, g)
	}
	best := search.Known{Genome: all[20], Outcome: search.Outcome{OK: true, Fitness: 0.01}}
	o := search.Options{Seed: 3, Known: []search.Known{best}, Start: []genome.Genome{all[5], all[20], all[9]}}
	for _, window := range []int{1, 4} {
		s := open(t, "greedy", space, o)
		if s.Name() != "greedy" {
			t.Errorf("it is called %q", s.Name())
		}
		proposals := drive(t, s, len(all)+1, window, made)
		if len(proposals) != len(all)-1 {
			t.Errorf("window %d: %d proposals, want all but the known one of %d", window, len(proposals), len(all))
		}
		seen := map[genome.Genome]bool{all[20]: true}
		for _, p := range proposals {
			if seen[p.Genome] {
				t.Errorf("window %d: %s is proposed twice, or known", window, p.Genome)
			}
			seen[p.Genome] = true
		}
		if proposals[0].Genome != all[5] || proposals[0].Operator != "warm" || proposals[1].Genome != all[9] {
			t.Errorf("window %d: it begins with\n%s", window, path(proposals[:2]))
		}
		// The known genome is the best there is: its neighbours come next, and it is not a parent.
		for i, p := range proposals[2:8] {
			if p.Operator != "greedy" || len(p.Parents) != 0 {
				t.Errorf("window %d: proposal %d is %s with the parents %v", window, i+2, p.Operator, p.Parents)
			}
		}
		if again := path(drive(t, open(t, "greedy", space, o), len(all), window, made)); again != path(proposals) {
			t.Errorf("window %d: one seed walked two paths", window)
		}
	}
	// Without known results the best of those told is the parent.
	proposals := drive(t, open(t, "greedy", space, search.Options{Seed: 1}), 30, 1, made)
	parents := 0
	for _, p := range proposals {
		if p.Operator == "greedy" {
			parents += len(p.Parents)
		}
	}
	if parents == 0 {
		t.Errorf("nothing has a parent:\n%s", path(proposals))
	}
}

// TestOwnWarm: a strategy that keeps what it proposed by index is told of proposals that
// it did not make, and of its own by their right indices.
func TestOwnWarm(t *testing.T) {
	space := conditional(t)
	var all []genome.Genome
	for g := range space.All() {
		all = append(all, g)
	}
	for _, window := range []int{1, 4} {
		o := search.Options{Seed: 2, Start: []genome.Genome{all[7], all[3], all[11]}}
		proposals := drive(t, open(t, "descent", space, o), len(all), window, made)
		steps := 0
		for i, p := range proposals {
			if (p.Operator == "warm") != (i < 3) {
				t.Errorf("window %d: proposal %d is %s", window, i, p.Operator)
			}
			if p.Operator == "step" {
				steps++
			}
		}
		if len(proposals) != len(all) || steps == 0 {
			t.Errorf("window %d: %d proposals with %d steps, of %d genomes", window, len(proposals), steps, len(all))
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	registerGreedy(t)
	for _, c := range []struct {
		name    string
		version int
	}{{"", 1}, {"greedy", 1}, {"evolution", 1}, {"new", 0}} {
		t.Run(fmt.Sprintf("%s %d", c.name, c.version), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			search.Register(c.name, c.version, nil)
		})
	}
}

// TestOwnInvalid: a genome of another space is a fault of the strategy.
func TestOwnInvalid(t *testing.T) {
	other := ordinalSpace(t, 3, 3)
	search.Register("stray", 1, func(b search.Base) search.Strategy { return stray{b, other} })
	t.Cleanup(func() { search.Unregister("stray") })
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	open(t, "stray", conditional(t), search.Options{}).Ask()
}

type stray struct {
	search.Base
	other *genome.Space
}

func (s stray) Ask() (search.Proposal, bool) {
	g, _ := s.other.At(0)
	return s.Propose([]genome.Genome{g}, "stray")
}
