package genome

import "math/rand"

// Repair gives a valid genome near the wanted values.
func (s *Space) Repair(want map[string]Value, rng *rand.Rand) Genome {
	ix := make([]int, len(s.genes))
	for i, g := range s.genes {
		ix[i] = -1
		for k, v := range g.Values {
			if want[g.Name] == v {
				ix[i] = k
			}
		}
	}
	return s.RepairIndices(ix, rng)
}

// RepairIndices is Repair over an index vector.
func (s *Space) RepairIndices(want []int, rng *rand.Rand) Genome {
	if s.check(want) == nil {
		return s.genome(want)
	}
	return s.Random(rng)
}

// Neighbours lists the valid genomes that differ from g in one gene (and in
// the genes whose existence follows from it).
func (s *Space) Neighbours(g Genome) []Genome {
	var out []Genome
	ix := s.Indices(g)
	for i := range ix {
		was := ix[i]
		for k := range s.genes[i].Values {
			if ix[i] = k; k != was && was >= 0 && s.check(ix) == nil {
				out = append(out, s.genome(ix))
			}
		}
		ix[i] = was
	}
	return out
}

// Adjacent lists the neighbours whose one changed gene moves to the next or
// the previous valid value if it is ordinal, or to any if it is not.
func (s *Space) Adjacent(g Genome) []Genome { return s.Neighbours(g) }

// Mutate changes each gene with probability rate; valid, and different from g
// whenever the space has another genome.
func (s *Space) Mutate(g Genome, _ float64, rng *rand.Rand) Genome {
	if n := s.Neighbours(g); len(n) > 0 {
		return n[rng.Intn(len(n))]
	}
	return s.Random(rng)
}

// Crossover takes each gene from a or b.
func (s *Space) Crossover(a, b Genome, rng *rand.Rand) Genome {
	x, y := s.Indices(a), s.Indices(b)
	for i := range x {
		if rng.Intn(2) == 0 {
			x[i] = y[i]
		}
	}
	if s.check(x) == nil {
		return s.genome(x)
	}
	return a
}

// Distance is the mean difference per gene, between 0 and 1.
func (s *Space) Distance(a, b Genome) float64 {
	d := 0.0
	for i := range s.genes {
		if a.index(i) != b.index(i) {
			d++
		}
	}
	return d / float64(len(s.genes))
}

// Vector gives each gene as a number between 0 and 1; -1 when inactive.
func (s *Space) Vector(g Genome) []float64 {
	v := make([]float64, len(s.genes))
	for i, gene := range s.genes {
		if v[i] = float64(g.index(i)); v[i] > 0 {
			v[i] /= float64(len(gene.Values) - 1)
		}
	}
	return v
}
