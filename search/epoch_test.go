package search_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"testing"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/search"
)

var stallsFlag = flag.Int("stalls", 0, "campaigns of 6000 evaluations on each kind of landscape, to measure what epochs buy")

// An epoch ends when Patience outcomes in a row were not better than its best,
// and not before: up to there the path is that of a search without epochs. The
// next begins like a campaign, and nothing is bred from what is older.
func TestEpochs(t *testing.T) {
	defer search.AddEndless()()
	space := ordinalSpace(t, 9, 7, 5, 4, 6, 3)
	for _, window := range []int{1, 32} {
		const n = 700
		ps := drive(t, open(t, "", space, search.Options{Seed: 1}), n, window, made)
		// Proposal k is asked after all up to k-window were told. The epoch began
		// with from; its best so far is found.
		from, found, first := 0, 0, n
		least := math.Inf(1)
		for k, p := range ps {
			if told := k - window; told >= from {
				if o := made(ps[told].Genome); o.OK && o.Fitness < least {
					least, found = o.Fitness, told
				}
				if told-found >= search.Patience {
					from, found, first = k, k, min(first, k)
					least = math.Inf(1)
				}
			}
			if k < from+6 && p.Operator != "seed" {
				t.Errorf("window %d: proposal %d, of the first six of an epoch, is made by %s", window, k, p.Operator)
			}
			for _, parent := range p.Parents {
				if parent < from {
					t.Fatalf("window %d: proposal %d has the parent %d, but its epoch began with %d", window, k, parent, from)
				}
			}
		}
		if first == n {
			t.Fatalf("window %d: %d evaluations and no epoch ended", window, n)
		}
		endless := drive(t, open(t, "endless", space, search.Options{Seed: 1}), first, window, made)
		if path(ps[:first]) != path(endless) {
			t.Errorf("window %d: the first %d proposals are others than without epochs", window, first)
		}
	}
}

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

// A made landscape gives the logarithm of a genome's time.
type landscape func(g genome.Genome) float64

// basins is the lower envelope of funnels around a dozen genomes: the deeper,
// the narrower. Genes differ in what they count for.
func basins(space *genome.Space, rng *rand.Rand) landscape {
	const n = 12
	genes := space.Genes()
	centres, slopes := make([][]int, n), make([][]float64, n)
	for k := range n {
		centres[k] = space.Indices(space.Random(rng))
		sum := 0.0
		for range genes {
			w := math.Exp(1.3 * rng.NormFloat64())
			slopes[k] = append(slopes[k], w)
			sum += w
		}
		for i := range genes {
			slopes[k][i] *= (4.5 - 3.3*float64(k)/(n-1)) / sum
		}
	}
	return func(g genome.Genome) float64 {
		x := space.Indices(g)
		least := math.Inf(1)
		for k := range n {
			y := 0.2 * float64(k) / (n - 1)
			for i, gene := range genes {
				d := math.Abs(float64(x[i] - centres[k][i]))
				if gene.Ordinal {
					d /= float64(len(gene.Values) - 1)
				} else {
					d = math.Min(d, 1)
				}
				y += slopes[k][i] * d
			}
			least = math.Min(least, y)
		}
		return least
	}
}

// rugged is a sum over the genes of a random walk along the values of that gene
// and of a random table of it and two others, where values count in pairs.
func rugged(space *genome.Space, rng *rand.Rand) landscape {
	genes := space.Genes()
	const most = 5 // pairs of values
	type table struct {
		of     [3]int
		values [most * most * most]float64
	}
	walks, tables := make([][]float64, len(genes)), make([]table, len(genes))
	for i := range genes {
		at := 0.0
		for range genes[i].Values {
			walks[i] = append(walks[i], at)
			at += 0.06 * rng.NormFloat64()
		}
		others := rng.Perm(len(genes))
		tables[i].of = [3]int{i, others[0], others[1]}
		for v := range tables[i].values {
			tables[i].values[v] = 0.1 * rng.NormFloat64()
		}
	}
	return func(g genome.Genome) float64 {
		x := space.Indices(g)
		y := 0.0
		for i, t := range tables {
			y += walks[i][x[i]] + t.values[(x[t.of[0]]/2*most+x[t.of[1]]/2)*most+x[t.of[2]]/2]
		}
		return y
	}
}

// TestStall measures what epochs buy in long campaigns with 32 proposals in
// flight: the best found with epochs over that without, paired. The landscapes
// are over a space of twenty million genomes and over that of TestHuge.
// docs/evidence/search.md has the result.
func TestStall(t *testing.T) {
	if *stallsFlag == 0 {
		t.Skip("a measurement of many minutes: ask for it with -stalls N")
	}
	defer search.AddEndless()()
	marks := []int{500, 1000, 3000, 6000}
	fmt.Println("| landscapes | evaluations | time with epochs over that without | shorter, longer |\n|---|---|---|---|")
	for _, kind := range []struct {
		name  string
		space *genome.Space
		make  func(*genome.Space, *rand.Rand) landscape
	}{
		{"basins", ordinalSpace(t, 5, 3, 3, 4, 4, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 2), basins},
		{"rugged", huge(t), rugged},
	} {
		gains := make([][]float64, len(marks)) // of the logarithms, by campaign
		for m := range marks {
			gains[m] = make([]float64, *stallsFlag)
		}
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for seed := range *stallsFlag {
			group.Go(func() error {
				// Another seed than the search's, or its first proposal is the first center.
				scape := kind.make(kind.space, rand.New(rand.NewSource(int64(1000+seed))))
				outcome := func(g genome.Genome) search.Outcome {
					return search.Outcome{OK: true, Fitness: math.Exp(scape(g))}
				}
				for _, name := range []string{"endless", search.Default} {
					s, err := search.New(name, kind.space, search.Options{Seed: int64(seed)})
					if err != nil {
						return err
					}
					ps := drive(failer{t}, s, marks[len(marks)-1], 32, outcome)
					for m, n := range marks {
						least := math.Inf(1)
						for _, p := range ps[:n] {
							least = math.Min(least, scape(p.Genome))
						}
						gains[m][seed] = least - gains[m][seed]
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for m, n := range marks {
			mean, deviation := stat.MeanStdDev(gains[m], nil)
			shorter, longer := 0, 0
			for _, g := range gains[m] {
				if g < 0 {
					shorter++
				} else if g > 0 {
					longer++
				}
			}
			fmt.Printf("| %s | %d | %.3f ± %.3f | %d, %d of %d |\n", kind.name, n, math.Exp(mean),
				math.Exp(mean)*stat.StdErr(deviation, float64(*stallsFlag)), shorter, longer, *stallsFlag)
		}
	}
}
