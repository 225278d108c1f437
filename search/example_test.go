package search_test

import (
	"fmt"
	"log"
	"math/rand"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/search"
)

// blocks is a space without any kernel: two block sizes and an order.
func blocks() *genome.Space {
	var sizes []genome.Value
	for n := int64(8); n <= 256; n *= 2 {
		sizes = append(sizes, genome.Int(n))
	}
	s, err := genome.NewSpace([]genome.Gene{
		{Name: "BM", Values: sizes, Ordinal: true},
		{Name: "BN", Values: sizes, Ordinal: true},
		{Name: "ORDER", Values: []genome.Value{genome.Str("rows"), genome.Str("columns")}},
	}, []genome.Constraint{{Expr: "BM * BN <= 8192"}})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// cost is an objective of one's own: smaller is better, and it has to be positive.
// Rows of 64 by 128 are best.
func cost(g genome.Genome) float64 {
	m := g.Map()
	c := 1.0
	for name, best := range map[string]float64{"BM": 64, "BN": 128} {
		r := float64(m[name].(int64)) / best
		c *= max(r, 1/r)
	}
	if m["ORDER"] == "columns" {
		c *= 3
	}
	return c
}

// minimize asks a strategy for genomes, one after another, and tells it what they cost.
func minimize(s search.Strategy, evaluations int) (best genome.Genome, least float64) {
	for range evaluations {
		p, ok := s.Ask()
		if !ok {
			break // all were proposed
		}
		c := cost(p.Genome)
		s.Tell(p.Index, search.Outcome{Fitness: c, OK: true})
		if least == 0 || c < least {
			best, least = p.Genome, c
		}
	}
	return best, least
}

// An objective of one's own needs no kernel and no evaluator: ask and tell.
func Example() {
	s, err := search.New("evolution", blocks(), search.Options{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	best, least := minimize(s, 40)
	fmt.Println(best, least)
	// Output: BM=64,BN=128,ORDER=rows 1
}

// A descent is a strategy of one's own: from the best so far to a neighbor of it.
type descent struct {
	space    *genome.Space
	rng      *rand.Rand
	proposed map[genome.Genome]bool
	asked    []genome.Genome
	best     int // index of a proposal, or -1
	fitness  float64
}

func (d *descent) Name() string { return "descent" }

// Ask proposes a neighbor that is new, else any genome that is new.
func (d *descent) Ask() (search.Proposal, bool) {
	p := search.Proposal{Index: len(d.asked), Operator: "random"}
	if d.best >= 0 {
		for _, g := range d.space.Neighbours(d.asked[d.best]) {
			if !d.proposed[g] {
				p.Genome, p.Operator, p.Parents = g, "step", []int{d.best}
				break
			}
		}
	}
	for tries := 0; p.Genome.IsZero() || d.proposed[p.Genome]; tries++ {
		if tries == 1000 {
			return search.Proposal{}, false
		}
		p.Genome = d.space.Random(d.rng)
	}
	d.proposed[p.Genome] = true
	d.asked = append(d.asked, p.Genome)
	return p, true
}

func (d *descent) Tell(index int, o search.Outcome) {
	if o.OK && (d.best < 0 || o.Fitness < d.fitness) {
		d.best, d.fitness = index, o.Fitness
	}
}

// A strategy of one's own is a type with three methods.
func ExampleStrategy() {
	var s search.Strategy = &descent{space: blocks(), rng: rand.New(rand.NewSource(1)), proposed: map[genome.Genome]bool{}, best: -1}
	best, least := minimize(s, 40)
	fmt.Println(best, least)
	// Output: BM=64,BN=128,ORDER=rows 1
}
