package search

import (
	"math"

	"github.com/evotune/evotune/genome"
)

// spreadDraws is the number of random genomes among which spread chooses.
const spreadDraws = 10

// spread draws a genome that is far from the given ones: the farthest of a few
// random ones (maximin). It covers the space better than independent draws and,
// unlike a Latin hypercube, needs neither a fixed number of points nor a space
// without constraints. False if no unspent genome turned up.
func (l *ledger) spread(from []genome.Genome) (genome.Genome, bool) {
	var farthest genome.Genome
	most := -1.0
	for range spreadDraws {
		g := l.space.Random(l.rng)
		if l.isSpent(g) {
			continue
		}
		nearest := math.Inf(1)
		for _, other := range from {
			if nearest = math.Min(nearest, l.space.Distance(g, other)); nearest <= most {
				break
			}
		}
		if nearest > most {
			farthest, most = g, nearest
		}
	}
	return farthest, !farthest.IsZero()
}
