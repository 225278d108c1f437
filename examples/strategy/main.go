// Command strategy is a search strategy of its own, and its score.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/evotune/evotune/search"
	"github.com/evotune/evotune/searchbench"
)

type greedy struct{ search.Base }

// Ask proposes a neighbor of the best genome so far, else a random genome.
func (g greedy) Ask() (search.Proposal, bool) {
	if best, ok := g.Best(); ok {
		if p, ok := g.Propose(g.Space().Neighbours(best.Genome), "greedy", best.Index); ok {
			return p, true
		}
	}
	return g.Fresh()
}

func main() {
	search.Register("greedy", 1, func(b search.Base) search.Strategy { return greedy{b} })
	space, err := searchbench.New("synthetic", searchbench.Synthetic(1000)) // searchbench.Read reads tables of tune sweep
	if err != nil {
		log.Fatal(err)
	}
	runs, err := space.Runs(context.Background(), searchbench.Search{Strategy: "greedy"}, 40, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("P_mean %.3f: 0 is random search, 1 the optimum at once\n", space.Score(runs).PMean.Value)
}
