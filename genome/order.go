package genome

import "math"

// An ordering is the problem in which order to read the genes. The size of a diagram
// depends on it, since genes between the first and the last one of a constraint must
// carry its state.
type ordering struct {
	slots []int32 // per gene
	// scopes lists the genes of each rule; needs the genes that must come
	// before a gene, those of its condition.
	scopes [][]int
	needs  [][]int
	of     [][]int // per gene: its scopes
}

// solve returns the order with the least estimated size among the declared one and
// greedy ones from several starts: each appends the gene that leaves the smallest
// frontier, the product of the slots of the genes already placed that an unfinished
// rule mentions. The estimate does not know what constraints remember (a product, a
// sum), so it is a guide, not a bound.
func (o *ordering) solve() []int {
	n := len(o.slots)
	o.of = make([][]int, n)
	for s, scope := range o.scopes {
		for _, g := range scope {
			o.of[g] = append(o.of[g], s)
		}
	}
	best, least := o.walk(-1, true)
	maxStarts := 64
	if n > maxStarts {
		maxStarts = 8
	}
	for start := range min(n, maxStarts) {
		if len(o.needs[start]) > 0 {
			continue
		}
		if order, cost := o.walk(start, false); cost < least-1e-9 {
			best, least = order, cost
		}
	}
	return best
}

// walk makes the order that begins with start (-1 for any) and goes on
// greedily, or as declared with conditional genes moved behind what they
// depend on. The cost is the logarithm of the estimated number of edges.
func (o *ordering) walk(start int, declared bool) (order []int, cost float64) {
	n := len(o.slots)
	placed := make([]bool, n)
	unplaced := make([]int, len(o.scopes)) // genes left per scope
	for s, scope := range o.scopes {
		unplaced[s] = len(scope)
	}
	pending := make([]int, n) // unfinished scopes per gene
	for g := range pending {
		pending[g] = len(o.of[g])
	}
	size := func(g int) float64 { return math.Log(float64(o.slots[g])) }
	// after is the frontier if g were placed.
	touched := make([]int, n)
	frontier := 0.0
	after := func(g int) float64 {
		f := frontier
		ends := 0
		for _, s := range o.of[g] {
			if unplaced[s] > 1 {
				continue
			}
			ends++
			for _, h := range o.scopes[s] {
				if h != g {
					if touched[h]++; touched[h] == pending[h] {
						f -= size(h)
					}
				}
			}
		}
		for _, s := range o.of[g] {
			if unplaced[s] <= 1 {
				for _, h := range o.scopes[s] {
					touched[h] = 0
				}
			}
		}
		if ends < len(o.of[g]) {
			f += size(g)
		}
		return f
	}
	cost = math.Inf(-1)
	for len(order) < n {
		next, least := -1, math.Inf(1)
		if len(order) == 0 && start >= 0 {
			next, least = start, after(start)
		}
		for g := 0; g < n && (start < 0 || len(order) > 0); g++ {
			if placed[g] || !o.ready(g, placed) {
				continue
			}
			if f := after(g); next < 0 || f < least-1e-9 {
				next, least = g, f
			}
			if declared {
				break
			}
		}
		edges := frontier + size(next)
		high, low := max(cost, edges), min(cost, edges)
		cost = high + math.Log1p(math.Exp(low-high))
		frontier = least
		placed[next] = true
		order = append(order, next)
		for _, s := range o.of[next] {
			if unplaced[s]--; unplaced[s] == 0 {
				for _, h := range o.scopes[s] {
					pending[h]--
				}
			}
		}
	}
	return order, cost
}

func (o *ordering) ready(gene int, placed []bool) bool {
	for _, d := range o.needs[gene] {
		if !placed[d] {
			return false
		}
	}
	return true
}
