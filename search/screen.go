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
// Scores beyond the best third of what is remembered count as the last of that
// third, failures too: how bad the bad ones are says nothing about where the
// good ones are, and one enormous time would drown its neighbourhood.
//
// Nearness is a product over the genes, of 1 where two genomes agree and less
// the farther apart they are. So it is a table look-up per gene, and a guess
// costs about a microsecond.
type screen struct {
	space *genome.Space
	// near[k] is the table of gene k: the factor for every two alleles. Genes
	// with one value and no condition have no table.
	near []factors
	// alleles[k] holds the alleles of gene k of the remembered genomes;
	// scores their scores, +Inf for failures.
	alleles [][]uint16
	scores  []float64
	sorted  []float64 // the finite ones of scores, ascending
	oldest  int       // position that is overwritten next, once full
	weights []float64 // of the remembered genomes, for guess
}

// factors is a square table; row a of it are the factors of allele a. Allele 0
// stands for an inactive gene, the others for the values in order, several of
// them sharing one where a gene has many.
type factors struct {
	n      int // alleles
	values int // of the gene
	table  []float64
}

// allele gives the allele of a value index.
func (f factors) allele(v int) int {
	if v < 0 || f.values < maxAlleles {
		return v + 1
	}
	return 1 + v*(maxAlleles-1)/f.values
}

func (f factors) row(a int) []float64 { return f.table[a*f.n : (a+1)*f.n] }

const (
	// screenMemory is how many outcomes are remembered: the newest, since the
	// search is where they are.
	screenMemory = 128
	// screenFall is how fast nearness falls with the distance: a gene that
	// differs counts e^-2 if by a small step, e^-4 if from end to end.
	screenFall = 4.0
	// maxAlleles bounds the tables: 64 KiB for a gene.
	maxAlleles = 90
)

func newScreen(space *genome.Space) *screen {
	s := &screen{space: space, weights: make([]float64, screenMemory)}
	for _, g := range space.Genes() {
		s.near = append(s.near, newFactors(g))
		s.alleles = append(s.alleles, make([]uint16, 0, screenMemory))
	}
	return s
}

func newFactors(g genome.Gene) factors {
	values := len(g.Values)
	if values == 1 && g.When == "" {
		return factors{}
	}
	n := min(values+1, maxAlleles)
	f := factors{n: n, values: values, table: make([]float64, n*n)}
	for a := range f.n {
		for b, row := 0, f.row(a); b < f.n; b++ {
			distance := 0.75 // of an enumeration's values: neither near nor far
			switch {
			case a == b:
				distance = 0
			case a == 0 || b == 0:
				distance = 1
			case g.Ordinal:
				distance = 0.5 + 0.5*math.Abs(float64(a-b))/float64(max(1, n-2))
			}
			row[b] = math.Exp(-screenFall * distance)
		}
	}
	return f
}

// learn remembers an outcome; score is +Inf for a failure.
func (s *screen) learn(g genome.Genome, score float64) {
	at := len(s.scores)
	if at < screenMemory {
		s.scores = append(s.scores, 0)
		for k := range s.alleles {
			s.alleles[k] = append(s.alleles[k], 0)
		}
	} else {
		at = s.oldest
		s.oldest = (s.oldest + 1) % screenMemory
		if old := s.scores[at]; !math.IsInf(old, 1) {
			i, _ := slices.BinarySearch(s.sorted, old)
			s.sorted = slices.Delete(s.sorted, i, i+1)
		}
	}
	for k, v := range s.space.Indices(g) {
		s.alleles[k][at] = uint16(s.near[k].allele(v))
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
	weights := s.weights[:len(s.scores)]
	for i := range weights {
		weights[i] = 1
	}
	for k, v := range s.space.Indices(g) {
		if s.near[k].n == 0 {
			continue
		}
		row := s.near[k].row(s.near[k].allele(v))
		for i, other := range s.alleles[k][:len(weights)] {
			weights[i] *= row[other]
		}
	}
	bad := s.sorted[(len(s.sorted)-1)/3]
	sum, total := 0.0, 0.0
	for i, weight := range weights {
		// The conversion forbids fused multiply-add, which would round
		// differently from one kind of processor to the next.
		sum += float64(weight * math.Min(s.scores[i], bad))
		total += weight
	}
	if total == 0 { // hundreds of genes away from everything
		return bad
	}
	return sum / total
}
