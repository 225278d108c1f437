package search

import (
	"math"
	"slices"

	"github.com/evotune/evotune/genome"
)

// A screen guesses how good a genome is from those that were told, so that of
// several offspring the most promising is proposed. It is a kernel regression
// (Nadaraya and Watson): the mean of the known scores, weighted by nearness.
//
// Scores above the median of what is remembered count as the median, failures
// too: how bad the bad ones are says nothing about where the good ones are, and
// one enormous time would drown its neighbourhood.
//
// Nearness is a product over the genes, of 1 where two genomes agree and less
// the farther apart they are. So it is a table look-up per gene, and a guess
// costs about a microsecond.
type screen struct {
	space *genome.Space
	// near[k][d] is the factor of gene k for values d apart; the last entry is
	// for genes of which one is inactive.
	near [][]float64
	// alleles holds the value indexes of the remembered genomes, one after the
	// other; scores their scores, +Inf for failures.
	alleles []int16
	scores  []float64
	sorted  []float64 // the finite ones of scores, ascending
	oldest  int       // position that is overwritten next, once full
}

const (
	// screenMemory is how many outcomes are remembered: the newest, since the
	// search is where they are.
	screenMemory = 128
	// screenFall is how fast nearness falls with the distance: one gene
	// changed by a step counts e^-2 to e^-4, according to the step.
	screenFall = 4.0
)

func newScreen(space *genome.Space) *screen {
	s := &screen{space: space}
	for _, g := range space.Genes() {
		n := len(g.Values)
		near := make([]float64, n+1)
		for d := range near {
			near[d] = math.Exp(-screenFall * 0.75)
			if g.Ordinal && d < n && n > 1 {
				near[d] = math.Exp(-screenFall * (0.5 + 0.5*float64(d)/float64(n-1)))
			}
		}
		near[0], near[n] = 1, math.Exp(-screenFall)
		s.near = append(s.near, near)
	}
	return s
}

// learn remembers an outcome; score is +Inf for a failure.
func (s *screen) learn(g genome.Genome, score float64) {
	genes := len(s.near)
	at := len(s.scores)
	if at < screenMemory {
		s.scores = append(s.scores, 0)
		s.alleles = append(s.alleles, make([]int16, genes)...)
	} else {
		at = s.oldest
		s.oldest = (s.oldest + 1) % screenMemory
		if old := s.scores[at]; !math.IsInf(old, 1) {
			i, _ := slices.BinarySearch(s.sorted, old)
			s.sorted = slices.Delete(s.sorted, i, i+1)
		}
	}
	for k, v := range s.space.Indices(g) {
		s.alleles[at*genes+k] = int16(v)
	}
	s.scores[at] = score
	if !math.IsInf(score, 1) {
		i, _ := slices.BinarySearch(s.sorted, score)
		s.sorted = slices.Insert(s.sorted, i, score)
	}
}

// guess estimates the score of a genome; the same for all when nothing is
// known.
func (s *screen) guess(g genome.Genome) float64 {
	if len(s.sorted) == 0 {
		return 0
	}
	median := s.sorted[(len(s.sorted)-1)/2]
	genes := len(s.near)
	alleles := s.space.Indices(g)
	sum, weights := 0.0, 0.0
	for i, score := range s.scores {
		weight := 1.0
		for k, other := range s.alleles[i*genes : (i+1)*genes] {
			near := s.near[k]
			d := alleles[k] - int(other)
			switch {
			case d == 0:
				continue
			case alleles[k] < 0 || other < 0:
				d = len(near) - 1
			case d < 0:
				d = -d
			}
			weight *= near[d]
		}
		// The conversions forbid fused multiply-add, which would round
		// differently from one kind of processor to the next.
		sum += float64(weight * math.Min(score, median))
		weights += weight
	}
	if weights == 0 { // hundreds of genes away from everything
		return median
	}
	return sum / weights
}
