package search_test

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/search"
)

// made is an outcome made of the genome alone: a rugged bowl over the value
// indexes with a valley across two genes, and a tenth of the space that fails
// in patches.
func made(g genome.Genome) search.Outcome {
	x := g.Space().Indices(g)
	sum, mix := 0.0, uint64(0)
	for i, v := range x {
		d := float64(v - (i*7)%5)
		sum += d * d
		mix = (mix ^ uint64(v+1)) * 0x9e3779b97f4a7c15
	}
	if len(x) > 1 {
		d := float64(x[0] - x[1])
		sum += 3 * d * d
	}
	ripple := float64(mix>>40) / (1 << 24)
	if mix>>60 == 0 || x[0]%7 == 6 {
		return search.Outcome{}
	}
	return search.Outcome{OK: true, Fitness: 1 + 0.1*sum + 0.05*ripple}
}

func ordinalSpace(tb testing.TB, sizes ...int) *genome.Space {
	tb.Helper()
	var genes []genome.Gene
	for i, n := range sizes {
		g := genome.Gene{Name: fmt.Sprintf("g%d", i), Ordinal: i%3 != 2}
		for v := range n {
			g.Values = append(g.Values, genome.Int(int64(v)))
		}
		genes = append(genes, g)
	}
	s, err := genome.NewSpace(genes, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// conditional is a space with constraints, an enumeration and a gene that
// exists only at times: 5 + 4*3 times 6, less what breaks the constraint.
func conditional(tb testing.TB) *genome.Space {
	tb.Helper()
	ints := func(vs ...int64) (out []genome.Value) {
		for _, v := range vs {
			out = append(out, genome.Int(v))
		}
		return out
	}
	s, err := genome.NewSpace([]genome.Gene{
		{Name: "tile", Values: ints(1, 2, 4, 8, 16, 32), Ordinal: true},
		{Name: "pack", Values: []genome.Value{genome.Bool(false), genome.Bool(true)}},
		{Name: "depth", Values: ints(1, 2, 3, 4), Ordinal: true, When: "pack"},
		{Name: "order", Values: []genome.Value{genome.Str("ijk"), genome.Str("ikj"), genome.Str("kij")}},
	}, []genome.Constraint{{Expr: "tile * depth <= 64", Why: "the packed tile must fit"}})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// drive asks n proposals with the given window and tells what outcome says.
func drive(tb interface{ Fatalf(string, ...any) }, s search.Strategy, n, window int, outcome func(genome.Genome) search.Outcome) []search.Proposal {
	var out []search.Proposal
	for told := 0; len(out) < n; {
		p, ok := s.Ask()
		if !ok {
			break
		}
		if p.Index != len(out) {
			tb.Fatalf("proposal %d has index %d", len(out), p.Index)
		}
		if p.Operator == "" {
			tb.Fatalf("proposal %d names no operator", p.Index)
		}
		for _, parent := range p.Parents {
			if parent < 0 || parent >= p.Index {
				tb.Fatalf("proposal %d has the parent %d", p.Index, parent)
			}
		}
		out = append(out, p)
		for len(out)-told >= window {
			s.Tell(told, outcome(out[told].Genome))
			told++
		}
	}
	return out
}

func open(tb testing.TB, name string, space *genome.Space, o search.Options) search.Strategy {
	tb.Helper()
	s, err := search.New(name, space, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func path(ps []search.Proposal) string {
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintf(&b, "%d %s %s %v\n", p.Index, p.Operator, p.Genome, p.Parents)
	}
	return b.String()
}

func TestNames(t *testing.T) {
	if got := search.Names(); got[0] != search.Default || !slices.Contains(got, "random") || !slices.Contains(got, "hillclimb") {
		t.Errorf("Names() = %v", got)
	}
	space := ordinalSpace(t, 2)
	for _, name := range search.Names() {
		if search.Version(name) < 1 {
			t.Errorf("Version(%s) = %d", name, search.Version(name))
		}
		if s := open(t, name, space, search.Options{}); s.Name() != name {
			t.Errorf("New(%s).Name() = %s", name, s.Name())
		}
	}
	if s := open(t, "", space, search.Options{}); s.Name() != search.Default {
		t.Errorf("New(\"\").Name() = %s, want the default", s.Name())
	}
	if search.Version("") != search.Version(search.Default) || search.Version("annealing") != 0 {
		t.Error("Version of the empty or an unknown name")
	}
	_, err := search.New("annealing", space, search.Options{})
	if err == nil || !strings.Contains(err.Error(), `"annealing"`) || !strings.Contains(err.Error(), "evolution, hillclimb, random") {
		t.Errorf("unknown strategy: %v", err)
	}
}

// One seed, one path; another seed, another.
func TestDeterminism(t *testing.T) {
	space := ordinalSpace(t, 9, 7, 5, 4, 6, 3)
	for _, name := range search.Names() {
		for _, window := range []int{1, 8} {
			walk := func(seed int64) string {
				return path(drive(t, open(t, name, space, search.Options{Seed: seed}), 600, window, made))
			}
			first := walk(1)
			for range 3 {
				rand.Int() // other users of the global generator change nothing
				if walk(1) != first {
					t.Fatalf("%s, window %d: the same seed walked two paths", name, window)
				}
			}
			if walk(2) == first {
				t.Errorf("%s, window %d: two seeds walked one path", name, window)
			}
		}
	}
}

// Every strategy proposes every genome of a space exactly once, however many
// outcomes are outstanding, and however many fail.
func TestExhaustion(t *testing.T) {
	spaces := map[string]*genome.Space{
		"one genome":  ordinalSpace(t, 1),
		"two genomes": ordinalSpace(t, 1, 2, 1),
		"210 genomes": ordinalSpace(t, 7, 5, 3, 2),
		"conditional": conditional(t),
	}
	outcomes := map[string]func(genome.Genome) search.Outcome{
		"made":         made,
		"all fail":     func(genome.Genome) search.Outcome { return search.Outcome{} },
		"all the same": func(genome.Genome) search.Outcome { return search.Outcome{OK: true, Fitness: 1} },
		"not numbers":  func(genome.Genome) search.Outcome { return search.Outcome{OK: true, Fitness: math.NaN()} },
		"infinite":     func(genome.Genome) search.Outcome { return search.Outcome{OK: true, Fitness: math.Inf(1)} },
	}
	for spaceName, space := range spaces {
		for outcomeName, outcome := range outcomes {
			for _, name := range search.Names() {
				for _, window := range []int{1, 8, 32} {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", spaceName, outcomeName, name, window), func(t *testing.T) {
						s := open(t, name, space, search.Options{Seed: 3})
						complete(t, space, drive(t, s, 1<<20, window, outcome), nil)
						if _, again := s.Ask(); again {
							t.Error("a proposal after the space was exhausted")
						}
					})
				}
			}
		}
	}
}

// complete checks that the proposals and the known genomes are the space.
func complete(tb interface {
	Fatalf(string, ...any)
	Errorf(string, ...any)
}, space *genome.Space, ps []search.Proposal, known []search.Known,
) {
	seen := map[string]bool{}
	for _, k := range known {
		seen[k.Genome.String()] = true
	}
	for _, p := range ps {
		if err := space.Check(p.Genome); err != nil {
			tb.Fatalf("proposal %d: %v", p.Index, err)
		}
		if seen[p.Genome.String()] {
			tb.Fatalf("proposal %d repeats %s", p.Index, p.Genome)
		}
		seen[p.Genome.String()] = true
	}
	n := 0
	for g := range space.All() {
		n++
		if !seen[g.String()] {
			tb.Errorf("%s was never proposed", g)
		}
	}
	if n != len(seen) {
		tb.Errorf("%d genomes were proposed or known, the space has %d", len(seen), n)
	}
}

// TestRandomSpaces drives every strategy over random spaces with random
// outcomes, windows and known results.
func TestRandomSpaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var genes []genome.Gene
		for i := range rapid.IntRange(1, 4).Draw(t, "genes") {
			g := genome.Gene{Name: fmt.Sprintf("g%d", i), Ordinal: rapid.Bool().Draw(t, "ordinal")}
			for v := range rapid.IntRange(1, 5).Draw(t, "values") {
				g.Values = append(g.Values, genome.Int(int64(v)))
			}
			genes = append(genes, g)
		}
		var constraints []genome.Constraint
		if len(genes) > 1 && rapid.Bool().Draw(t, "constrained") {
			constraints = []genome.Constraint{{Expr: fmt.Sprintf("g0 + g1 <= %d", rapid.IntRange(0, 6).Draw(t, "bound"))}}
		}
		space, err := genome.NewSpace(genes, constraints)
		if err != nil {
			t.Fatalf("NewSpace: %v", err)
		}
		name := rapid.SampledFrom(search.Names()).Draw(t, "strategy")
		window := rapid.SampledFrom([]int{1, 2, 8, 32}).Draw(t, "window")
		salt := rapid.Uint64().Draw(t, "salt")
		outcome := func(g genome.Genome) search.Outcome {
			x := salt
			for _, v := range space.Indices(g) {
				x = (x ^ uint64(v+1)) * 0xbf58476d1ce4e5b9
				x ^= x >> 29
			}
			return search.Outcome{OK: x%3 > 0, Fitness: float64(1 + x%5)}
		}
		var known []search.Known
		rng := rand.New(rand.NewSource(int64(salt)))
		for range rapid.IntRange(0, 5).Draw(t, "known") {
			g := space.Random(rng)
			known = append(known, search.Known{Genome: g, Outcome: outcome(g)})
		}
		o := search.Options{Seed: rapid.Int64().Draw(t, "seed"), Known: known}
		var paths []string
		for range 2 {
			s, err := search.New(name, space, o)
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			ps := drive(t, s, 1<<20, window, outcome)
			complete(t, space, ps, known)
			paths = append(paths, path(ps))
		}
		if paths[0] != paths[1] {
			t.Errorf("the same seed walked two paths")
		}
	})
}

// Known results are where the search starts, and are never proposed.
func TestKnown(t *testing.T) {
	space := ordinalSpace(t, 9, 7, 5, 4, 6, 3)
	rng := rand.New(rand.NewSource(5))
	var known []search.Known
	for range 300 {
		g := space.Random(rng)
		known = append(known, search.Known{Genome: g, Outcome: made(g)})
	}
	for _, name := range []string{"evolution", "hillclimb"} {
		warm, cold := 0.0, 0.0
		for seed := range int64(10) {
			ps := drive(t, open(t, name, space, search.Options{Seed: seed, Known: known}), 25, 4, made)
			for _, p := range ps {
				for _, k := range known {
					if p.Genome == k.Genome {
						t.Fatalf("%s proposed %s, which is known", name, p.Genome)
					}
				}
			}
			warm += best(ps)
			cold += best(drive(t, open(t, name, space, search.Options{Seed: seed}), 25, 4, made))
		}
		if warm >= cold {
			t.Errorf("%s: 25 proposals after 300 known results find %.3f, without them %.3f", name, warm/10, cold/10)
		}
	}

	other := ordinalSpace(t, 2, 2)
	_, err := search.New("random", space, search.Options{Known: []search.Known{{Genome: other.Random(rng)}}})
	if err == nil || !strings.Contains(err.Error(), "known result 0") {
		t.Errorf("a known result of another space: %v", err)
	}
}

// Genomes to start with come first, in their order, each once and never again.
func TestStart(t *testing.T) {
	space := ordinalSpace(t, 4, 3, 3)
	rng := rand.New(rand.NewSource(7))
	var first []genome.Genome
	for len(first) < 6 {
		if g := space.Random(rng); !slices.Contains(first, g) {
			first = append(first, g)
		}
	}
	known := []search.Known{{Genome: first[2], Outcome: made(first[2])}}
	o := search.Options{Seed: 1, Known: known, Start: append(slices.Clone(first), first[0])}
	want := slices.Delete(slices.Clone(first), 2, 3)
	for _, name := range search.Names() {
		ps := drive(t, open(t, name, space, o), 36, 3, made)
		seen := map[genome.Genome]bool{}
		for i, p := range ps {
			if warm := i < len(want); warm != (p.Operator == "warm") || warm && p.Genome != want[i] {
				t.Errorf("%s: proposal %d is %s by %s", name, i, p.Genome, p.Operator)
			}
			seen[p.Genome] = true
		}
		if len(ps) != 35 || len(seen) != 35 || seen[first[2]] {
			t.Errorf("%s: %d proposals, %d genomes of 35 that are not known", name, len(ps), len(seen))
		}
	}

	o = search.Options{Start: []genome.Genome{first[0], ordinalSpace(t, 2, 2).Random(rng)}}
	if _, err := search.New("random", space, o); err == nil || !strings.Contains(err.Error(), "genome 1 to start with") {
		t.Errorf("a genome of another space to start with: %v", err)
	}
}

func best(ps []search.Proposal) float64 {
	least := math.Inf(1)
	for _, p := range ps {
		if o := made(p.Genome); o.OK {
			least = math.Min(least, o.Fitness)
		}
	}
	return least
}

// What is told out of turn is a fault of the caller.
func TestTellOutOfTurn(t *testing.T) {
	for name, told := range map[string][]int{"too early": {0}, "not the first": {-1, -1, 1}, "twice": {-1, 0, 0}} {
		for _, strategy := range search.Names() {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				s := open(t, strategy, ordinalSpace(t, 5, 5), search.Options{})
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				for _, i := range told {
					if i < 0 {
						s.Ask()
					} else {
						s.Tell(i, search.Outcome{OK: true, Fitness: 1})
					}
				}
			})
		}
	}
}

// Failures steer the search away: where a whole half of the space fails, less
// than half of the proposals go there.
func TestFailuresAreAvoided(t *testing.T) {
	space := ordinalSpace(t, 10, 8, 6, 5, 4)
	half := func(g genome.Genome) search.Outcome {
		if x := space.Indices(g); x[0] >= 5 {
			return search.Outcome{}
		}
		o := made(g)
		return search.Outcome{OK: true, Fitness: math.Max(o.Fitness, 1)}
	}
	failed := 0
	const runs, n = 10, 200
	for seed := range int64(runs) {
		for _, p := range drive(t, open(t, "evolution", space, search.Options{Seed: seed}), n, 8, half) {
			if !half(p.Genome).OK {
				failed++
			}
		}
	}
	if share := float64(failed) / (runs * n); share > 0.25 {
		t.Errorf("%.0f%% of the proposals failed; half of the space does", 100*share)
	}
}
