package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"sort"

	"github.com/MaxHalford/eaopt"

	"github.com/evotune/evotune/genome"
)

// A member is a told candidate as eaopt's populations hold it: a genome that
// remembers its entry in the ledger. (eaopt's own IDs are random and new in every
// clone, and the indexes that SelTournament returns are not those of the winners.)
//
// eaopt holds, selects and clones members, and calls Crossover and Mutate. The operators
// behind these two are genome.Space's, which keep constraints. The fitness is told by
// [Evolution]: eaopt never evaluates.
type member struct {
	genome  genome.Genome
	rate    float64 // of mutation, per gene
	fitness float64 // smaller is better; NaN after Crossover and Mutate
	entry   int
}

var _ eaopt.Genome = (*member)(nil)

// Evaluate returns the fitness that was told.
func (m *member) Evaluate() (float64, error) {
	if math.IsNaN(m.fitness) {
		return 0, errors.New("search: the fitness of offspring is not known yet")
	}
	return m.fitness, nil
}

// Mutate replaces the genome by a mutant.
func (m *member) Mutate(rng *rand.Rand) {
	m.genome, m.fitness = m.genome.Space().Mutate(m.genome, m.rate, rng), math.NaN()
}

// Crossover replaces both genomes by offspring. mate is a *member of the same space.
func (m *member) Crossover(mate eaopt.Genome, rng *rand.Rand) {
	o, a := mate.(*member), m.genome
	b, space := o.genome, a.Space()
	m.genome, m.fitness = space.Crossover(a, b, rng), math.NaN()
	o.genome, o.fitness = space.Crossover(b, a, rng), math.NaN()
}

// Clone copies the member.
func (m *member) Clone() eaopt.Genome {
	c := *m
	return &c
}

func entryOf(indi eaopt.Individual) int { return indi.Genome.(*member).entry }

// tournament is the number of contestants per parent: the mildest pressure,
// because the population is small.
const tournament = 2

// enoughToBreed is how many members SelTournament needs to give two parents.
const enoughToBreed = tournament + 1

// insert adds a told candidate to a population that is sorted by fitness and drops the
// worst beyond size. Equals keep the order in which they came
// (eaopt's sort is not stable).
func insert(pop *eaopt.Population, m *member, size int) {
	at := sort.Search(len(pop.Individuals), func(i int) bool { return pop.Individuals[i].Fitness > m.fitness })
	if at >= size {
		return
	}
	indi := eaopt.NewIndividual(m, pop.RNG)
	indi.Fitness, indi.Evaluated = m.fitness, true
	pop.Individuals = slices.Insert(pop.Individuals, at, indi)
	if len(pop.Individuals) > size {
		pop.Individuals = pop.Individuals[:size]
	}
}

// parents selects two different members by tournament; they are clones.
func parents(pop *eaopt.Population) (a, b eaopt.Individual) {
	selected, _, err := eaopt.SelTournament{NContestants: tournament}.Apply(2, pop.Individuals, pop.RNG)
	if err != nil {
		panic(fmt.Sprintf("search: selection in a population of %d: %v", len(pop.Individuals), err)) // callers ask for enoughToBreed
	}
	return selected[0], selected[1]
}
