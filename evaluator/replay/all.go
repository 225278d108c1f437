package replay

import (
	"iter"

	"github.com/evotune/evotune/genome"
)

// All gives the recorded configurations that the space has, in the order of the
// file, each with its time in milliseconds, 0 for one that failed. The space is
// that of [Table.Space], without which there are none.
func (t *Table) All() iter.Seq2[genome.Genome, float64] {
	return func(yield func(genome.Genome, float64) bool) {
		space, err := t.Space()
		if err != nil {
			return
		}
		for _, r := range t.rows {
			g, err := space.FromIndices(t.digits(r.rank))
			if err == nil && !yield(g, r.timeMS) {
				return
			}
		}
	}
}
