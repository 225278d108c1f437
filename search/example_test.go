package search_test

import (
	"fmt"
	"log"

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

// A descent is a strategy of one's own: steps from the best so far to a neighbor of it,
// and a random genome after eight steps in a row that gained nothing.
type descent struct {
	search.Base
	steps map[int]bool // what Ask proposed as a step, by its index
	idle  int          // steps in a row that gained nothing
}

func (d *descent) Ask() (search.Proposal, bool) {
	if best, ok := d.Best(); ok && d.idle < 8 {
		if p, ok := d.Propose(d.Space().Neighbours(best.Genome), "step", best.Index); ok {
			d.steps[p.Index] = true
			return p, true
		}
	}
	d.idle = 0
	return d.Fresh()
}

// Tell hears of all proposals. Those of Options.Start are none that Ask made.
func (d *descent) Tell(index int, o search.Outcome) {
	d.Base.Tell(index, o)
	if !d.steps[index] {
		return
	}
	delete(d.steps, index)
	if best, ok := d.Best(); ok && best.Index == index {
		d.idle = 0
	} else {
		d.idle++
	}
}

func init() {
	search.Register("descent", 1, func(b search.Base) search.Strategy {
		return &descent{Base: b, steps: map[int]bool{}}
	})
}

// A strategy of one's own is a type around a Base. It is registered in main or init.
func ExampleRegister() {
	s, err := search.New("descent", blocks(), search.Options{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	best, least := minimize(s, 40)
	fmt.Println(best, least)
	// Output: BM=64,BN=128,ORDER=rows 1
}
