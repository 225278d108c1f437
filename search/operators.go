package search

import (
	"math"
	"math/rand"
	"slices"
)

// The operators that proposals name.
const (
	opWarm      = "warm"      // named by Options.Start
	opSeed      = "seed"      // spread over the space, far from what is known
	opCrossover = "crossover" // genes of two parents, often also mutated
	opMutation  = "mutation"  // some genes of one parent drawn anew
	opStep      = "step"      // one gene of one parent moved to the next value
	opLocal     = "local"     // one gene of one of the best drawn anew
	opRandom    = "random"    // drawn from the whole space
)

// breeding lists the operators among which a bandit chooses.
var breeding = []string{opCrossover, opMutation, opStep, opLocal, opRandom}

// random is the index of the random draw in breeding.
var random = slices.Index(breeding, opRandom)

// A bandit chooses operators in proportion to their recent rewards.
type bandit struct {
	value []float64 // running mean reward
}

const (
	// banditRate is the weight of the newest reward: the memory is some ten
	// uses of an operator, since the rewards change as the search narrows.
	banditRate = 0.1
	// banditFloor keeps every operator in use, so that it can come back.
	banditFloor = 0.05
)

// newBandit starts from the average rewards of the operators, so that short campaigns
// do not spend their budget on learning them.
func newBandit(pay []float64) bandit { return bandit{slices.Clone(pay)} }

// choose draws an operator.
func (b *bandit) choose(rng *rand.Rand) int {
	total := 0.0
	for _, v := range b.value {
		total += v
	}
	u := rng.Float64() * total
	for i, v := range b.value {
		if u < v {
			return i
		}
		u -= v
	}
	return len(b.value) - 1
}

// reward records the reward of a use of operator i, between 0 and 1.
func (b *bandit) reward(i int, paid float64) {
	b.value[i] = math.Max(banditFloor, b.value[i]+float64(banditRate*(paid-b.value[i])))
}
