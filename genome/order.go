package genome

import (
	"math"
	"slices"
)

// An ordering problem: which gene to read first. The size of a diagram hangs
// on it, since genes between the first and the last one of a constraint must
// carry its state along.
type ordering struct {
	slots []int32 // per gene
	// scopes lists the genes of each rule; needs the genes that must come
	// before a gene, those of its condition.
	scopes [][]int
	needs  [][]int
}

// solve gives the order with the least estimated size among the declared one
// and greedy ones from every start: each appends the gene that leaves the
// smallest frontier, the product of the slots of the genes already placed that
// an unfinished rule mentions. The estimate does not know what constraints
// remember (a product, a sum), so it is a guide, not a bound to rely on.
func (o *ordering) solve() []int {
	n := len(o.slots)
	best := o.declared()
	least := o.cost(best)
	const maxStarts = 64
	for start := range min(n, maxStarts) {
		if len(o.needs[start]) > 0 {
			continue
		}
		order := o.greedy(start)
		if c := o.cost(order); c < least-1e-9 {
			best, least = order, c
		}
	}
	return best
}

// declared is the order of declaration, with conditional genes moved behind
// what they depend on.
func (o *ordering) declared() []int {
	placed := make([]bool, len(o.slots))
	order := make([]int, 0, len(o.slots))
	for len(order) < len(o.slots) {
		for g := range o.slots {
			if !placed[g] && o.ready(g, placed) {
				placed[g] = true
				order = append(order, g)
				break
			}
		}
	}
	return order
}

func (o *ordering) ready(gene int, placed []bool) bool {
	for _, d := range o.needs[gene] {
		if !placed[d] {
			return false
		}
	}
	return true
}

func (o *ordering) greedy(start int) []int {
	placed := make([]bool, len(o.slots))
	order := []int{start}
	placed[start] = true
	for len(order) < len(o.slots) {
		next, least := -1, math.Inf(1)
		for g := range o.slots {
			if placed[g] || !o.ready(g, placed) {
				continue
			}
			placed[g] = true
			if f := o.frontier(placed); f < least-1e-9 {
				next, least = g, f
			}
			placed[g] = false
		}
		placed[next] = true
		order = append(order, next)
	}
	return order
}

// frontier gives the logarithm of the number of states that unfinished rules
// could have to tell apart.
func (o *ordering) frontier(placed []bool) float64 {
	f := 0.0
	for g := range o.slots {
		if placed[g] && o.pending(g, placed) {
			f += math.Log(float64(o.slots[g]))
		}
	}
	return f
}

func (o *ordering) pending(gene int, placed []bool) bool {
	for _, scope := range o.scopes {
		if slices.Contains(scope, gene) && slices.ContainsFunc(scope, func(g int) bool { return !placed[g] }) {
			return true
		}
	}
	return false
}

// cost estimates the edges of the diagram, as a logarithm.
func (o *ordering) cost(order []int) float64 {
	placed := make([]bool, len(o.slots))
	total := math.Inf(-1)
	for _, g := range order {
		c := o.frontier(placed) + math.Log(float64(o.slots[g]))
		high, low := max(total, c), min(total, c)
		total = high + math.Log1p(math.Exp(low-high))
		placed[g] = true
	}
	return total
}
