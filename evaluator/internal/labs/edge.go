package labs

import (
	"math/rand/v2"
	"slices"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// Parity has edge-case inputs at small shapes alone, and makes few launches. A candidate could tell
// its launches by either, and be wrong and fast everywhere else. So launches on edge-case inputs
// come among the timed ones, too.

const (
	// EdgeBudget bounds what is kept of edge-case inputs of a shape, in bytes, and what is made
	// of them in one set of processes of the finals.
	EdgeBudget = 256 << 20
	// Gross is by how many tolerances an output must be off to be wrong here: the rounding of an
	// honest sum grows with the shape, and what this looks for is as large as the answer.
	Gross = 8
	// edgeShare is the part of the edge-case inputs that one set of processes meets, one of so many.
	edgeShare = 3
	// hidden names the edge-case inputs whose rows are declared data but for one: of all others a few
	// elements tell that they are unusual, and whoever looks at these is right then.
	hidden = "somewhere"
	// hiddenEach is how many of these there are at a shape: a row may be harmless by chance.
	hiddenEach = 3
)

// An EdgeCase is edge-case inputs for a launch among timed ones, drawn from a secret seed.
type EdgeCase struct {
	kernels.Further
	Seed uint64
}

// EdgeCases lists those of a problem in random order, with the declared scalars: a candidate would know them by
// others.
func EdgeCases(p *kernels.Problem) (list []EdgeCase) {
	all := p.Further()
	for i := range all {
		times := 1
		if all[i].Name == hidden {
			times = hiddenEach
		}
		for range times {
			list = append(list, EdgeCase{all[i].Declared(), rand.Uint64()})
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// Hidden says that most rows do not show that they belong to an edge case.
func (e EdgeCase) Hidden() bool { return e.Name == hidden }

// AnyEdge draws one of the edge cases, if there are any: half of the time a hidden one.
func AnyEdge[E interface{ Hidden() bool }](list []E, rng *rand.Rand) []E {
	if rng.IntN(2) == 0 {
		few := slices.DeleteFunc(slices.Clone(list), func(e E) bool { return !e.Hidden() })
		if len(few) > 0 {
			list = few
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[rng.IntN(len(list)):][:1]
}

// EdgesOf gives those that a set of processes of the finals meets, where one takes so many bytes.
func EdgesOf[E any](list []E, set, bytes int) []E {
	n := min((len(list)+edgeShare-1)/edgeShare, max(EdgeBudget/max(bytes, 1), 1))
	var out []E
	for i := range n {
		out = append(out, list[(set*n+i)%len(list)])
	}
	return out
}

// Far says which output is further off than [Gross] times its limit; empty for none.
func Far(outputs []evaluator.Output, limit func(name string) float64) string {
	for _, o := range outputs {
		if why := evaluator.WrongOutput(o, Gross*limit(o.Name)); why != "" {
			return why
		}
	}
	return ""
}
