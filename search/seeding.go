package search

import (
	"math"

	"github.com/evotune/evotune/genome"
)

const (
	// spreadDraws is the number of random genomes among which spread chooses.
	spreadDraws = 10
	// landmarks is how many of the latest genomes spread keeps away from.
	landmarks = 40
)

// spread draws a genome that is far from the latest ones: the farthest of a few
// random ones (maximin). It covers the space better than independent draws and,
// unlike a Latin hypercube, needs neither a fixed number of points nor a space
// without constraints. False if no unspent genome turned up.
func (l *ledger) spread() (genome.Genome, bool) {
	var farthest genome.Genome
	most := -1.0
	for range spreadDraws {
		g := l.space.Random(l.rng)
		if l.isSpent(g) {
			continue
		}
		nearest := math.Inf(1)
		for i := max(0, len(l.entries)-landmarks); i < len(l.entries) && nearest > most; i++ {
			nearest = math.Min(nearest, l.space.Distance(g, l.entries[i].genome))
		}
		if nearest > most {
			farthest, most = g, nearest
		}
	}
	return farthest, !farthest.IsZero()
}
