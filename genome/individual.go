package genome

import (
	"errors"
	"math/rand"

	"github.com/MaxHalford/eaopt"
)

// ErrNotEvaluated means that an Individual has not been told its fitness.
var ErrNotEvaluated = errors.New("the individual has no fitness yet")

// An Individual is a genome in a population of eaopt.
type Individual struct {
	Genome
	// Rate is the mutation rate per gene; see Space.Mutate.
	Rate    float64
	Fitness float64 // smaller is better
	Told    bool    // whether Fitness holds
}

var _ eaopt.Genome = (*Individual)(nil)

// Evaluate returns the fitness that was told, or ErrNotEvaluated.
func (i *Individual) Evaluate() (float64, error) {
	if !i.Told {
		return 0, ErrNotEvaluated
	}
	return i.Fitness, nil
}

// Mutate replaces the genome by a mutant.
func (i *Individual) Mutate(rng *rand.Rand) {
	i.Genome = i.space.Mutate(i.Genome, i.Rate, rng)
	i.Fitness, i.Told = 0, false
}

// Crossover replaces both genomes by offspring. mate must be an *Individual of
// the same space.
func (i *Individual) Crossover(mate eaopt.Genome, rng *rand.Rand) {
	m := mate.(*Individual)
	a, b := i.Genome, m.Genome
	i.Genome, m.Genome = i.space.Crossover(a, b, rng), i.space.Crossover(b, a, rng)
	i.Fitness, i.Told = 0, false
	m.Fitness, m.Told = 0, false
}

// Clone copies the individual.
func (i *Individual) Clone() eaopt.Genome {
	c := *i
	return &c
}
