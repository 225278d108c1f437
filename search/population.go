package search

import (
	"fmt"
	"math/rand"
	"slices"
	"sort"

	"github.com/MaxHalford/eaopt"

	"github.com/evotune/evotune/genome"
)

// A member is a told candidate in a population of eaopt: a genome.Individual
// that remembers its entry in the ledger. (eaopt's own IDs are random and new in
// every clone, and the indexes that SelTournament returns are not those of the
// winners.)
type member struct {
	genome.Individual
	entry int
}

var _ eaopt.Genome = (*member)(nil)

// Crossover mates the two genomes.
func (m *member) Crossover(mate eaopt.Genome, rng *rand.Rand) {
	m.Individual.Crossover(&mate.(*member).Individual, rng)
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
	at := sort.Search(len(pop.Individuals), func(i int) bool { return pop.Individuals[i].Fitness > m.Fitness })
	if at >= size {
		return
	}
	indi := eaopt.NewIndividual(m, pop.RNG)
	indi.Fitness, indi.Evaluated = m.Fitness, true
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
