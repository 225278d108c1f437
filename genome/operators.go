package genome

import (
	"math"
	"math/rand"
	"slices"
)

// This file has the operators that a search applies to genomes. Every operator makes a
// wish per gene, and settle finds the valid genome that comes nearest to the wishes. So
// every result is valid, and a change of one gene changes others only where the
// constraints force it.

// A wish is the value that an operator wants for a gene.
type wish struct {
	value int     // index among the gene's values, -1 for no wish
	other int     // the second choice, nearly as good, -1 for none
	pull  float64 // the weight of the wish; 0 without a wish
}

// cost says how far a value is from a wish: 0 for the value itself, pull for
// the most distant or, in an enumeration, for any other.
func (w wish) cost(g *Gene, value int) float64 {
	switch {
	case w.value < 0 || value == w.value:
		return 0
	case value == w.other:
		return 0.4 * w.pull
	case !g.Ordinal || len(g.Values) < 3:
		return w.pull
	}
	return w.pull * (0.5 + 0.5*math.Abs(float64(value-w.value))/float64(len(g.Values)-1))
}

const (
	pullWanted  = 1.0  // a value that the caller asked for or a parent has
	pullMutated = 4.0  // a value that a mutation has just chosen
	pullFilled  = 0.01 // a value drawn for a gene that had none
	pullAbsent  = 0.1  // the cost if a wanted gene does not exist
)

// beamWidth is the number of partial paths that settle keeps per level, wideBeam the
// number if deferred constraints may refuse some later.
const (
	beamWidth = 8
	wideBeam  = 16
)

// settle returns the valid genome of a branch that is near to the wishes (one per gene
// of the space): the best of a beam search through each component. The order of the
// diagram decides between equally good genomes. It fails only when deferred constraints
// stay broken.
func (s *Space) settle(b *branch, wishes []wish) (Genome, bool) {
	path := make([]int32, b.length)
	for i := range b.comps {
		c := &b.comps[i]
		mine := path[c.start : c.start+len(c.genes)]
		if s.follow(b, c, wishes, mine) && c.agrees(b, mine) {
			continue
		}
		if !s.beam(b, c, wishes, mine) {
			return Genome{}, false
		}
	}
	return s.genome(b, path), b.admits(path)
}

// agrees checks the deferred pieces of the component on its part of a path.
func (c *component) agrees(b *branch, path []int32) bool {
	if c.checks == nil {
		return true
	}
	slot := func(g int) int32 { return path[slices.Index(c.genes, g)] }
	for _, pieces := range c.checks {
		for _, x := range pieces {
			if !x.satisfied(b, slot) {
				return false
			}
		}
	}
	return true
}

// follow takes every wish if all can be taken.
func (s *Space) follow(b *branch, c *component, wishes []wish, path []int32) bool {
	node := c.d.root
	for l, i := range c.genes {
		g := &b.genes[i]
		slot := int32(-1)
		if w := wishes[g.global]; w.value >= 0 {
			slot = g.slotOf[w.value]
		}
		kids := c.d.children(l, node)
		if slot < 0 || kids[slot] == dead {
			// The gene may still not exist here.
			if slot = int32(len(g.Values)); !g.conditional || kids[slot] == dead {
				return false
			}
		}
		path[l], node = slot, kids[slot]
	}
	return true
}

// A beamed path: the node it has reached, its last slot, its cost, and the path
// of the level before that it continues.
type beamed struct {
	node   int32
	slot   int32
	parent int32
	cost   float64
}

// beam writes the path of least cost that a beam search finds; false when
// deferred constraints refuse all paths that it has kept.
func (s *Space) beam(b *branch, c *component, wishes []wish, path []int32) bool {
	levels := len(c.genes)
	width := beamWidth
	if c.checks != nil {
		width = wideBeam
	}
	all := make([]beamed, 0, levels*width)
	starts := make([]int, levels) // of each level in all
	current := []beamed{{node: c.d.root}}
	// trace writes the slots of a path of a level.
	trace := func(level, at int) {
		for l := level; l >= 0; l-- {
			from := all[starts[l]+at]
			path[l], at = from.slot, int(from.parent)
		}
	}
	slot := func(g int) int32 { return path[slices.Index(c.genes, g)] }
	for l, i := range c.genes {
		g := &b.genes[i]
		w := wishes[g.global]
		gene := &s.genes[g.global]
		starts[l] = len(all)
		for p, from := range current {
			traced := false
			for k, child := range c.d.children(l, from.node) {
				if child == dead {
					continue
				}
				cost := from.cost
				switch {
				case k < len(g.values):
					cost += w.cost(gene, int(g.values[k]))
				case w.value >= 0:
					cost += pullAbsent * w.pull
				}
				if c.checks != nil && c.checks[l] != nil {
					if !traced {
						trace(l-1, p)
						traced = true
					}
					path[l] = int32(k)
					if slices.ContainsFunc(c.checks[l], func(x *piece) bool { return !x.satisfied(b, slot) }) {
						continue
					}
				}
				all = enter(all, starts[l], width, c.checks == nil, beamed{child, int32(k), int32(p), cost})
			}
		}
		if current = all[starts[l]:]; len(current) == 0 {
			return false
		}
	}
	if levels > 0 {
		trace(levels-1, 0)
	}
	return true
}

// enter adds a path to the level that begins at start, which is sorted by cost
// and has at most width paths, one per node if joined: all paths that reach a node
// continue in the same way.
func enter(all []beamed, start, width int, joined bool, x beamed) []beamed {
	level := all[start:]
	if len(level) == width && x.cost >= level[width-1].cost {
		return all
	}
	for i := range level {
		if joined && level[i].node == x.node {
			if x.cost >= level[i].cost {
				return all
			}
			all = slices.Delete(all, start+i, start+i+1)
			level = all[start:]
			break
		}
	}
	at := len(level)
	for at > 0 && level[at-1].cost > x.cost {
		at--
	}
	if len(level) == width {
		all = all[:len(all)-1]
	}
	return slices.Insert(all, start+at, x)
}

// settleOrDraw is settle for deferred constraints: it drops wishes at random until the
// result is valid, in the end all of them.
func (s *Space) settleOrDraw(b *branch, wishes []wish, rng *rand.Rand) Genome {
	g, ok := s.settle(b, wishes)
	if ok {
		return g
	}
	if rng == nil {
		rng = rand.New(rand.NewSource(1))
	}
	loose := slices.Clone(wishes)
	const tries = 64
	for try := range tries {
		copy(loose, wishes)
		keep := 1 - float64(try+1)/tries
		for i := range loose {
			if rng.Float64() >= keep {
				loose[i] = wish{rng.Intn(len(s.genes[i].Values)), -1, pullFilled}
			}
		}
		if g, ok := s.settle(b, loose); ok {
			return g
		}
	}
	return s.Random(rng)
}

// fill gives genes without a wish a weak random one; without rng, a wish for
// their first value.
func (s *Space) fill(wishes []wish, rng *rand.Rand) {
	for i := range wishes {
		if wishes[i].value < 0 {
			k := 0
			if n := len(s.genes[i].Values); rng != nil && n > 1 {
				k = rng.Intn(n)
			}
			wishes[i] = wish{k, -1, pullFilled}
		}
	}
}

// target returns the branch that the wishes choose; if they choose none, a random one
// (without rng the first).
func (s *Space) target(wishes []wish, rng *rand.Rand) *branch {
	switch {
	case !s.union:
		return s.branches[0]
	case wishes[0].value >= 0:
		return s.branches[wishes[0].value]
	case rng == nil:
		return s.branches[0]
	}
	return s.branches[rng.Intn(len(s.branches))]
}

// Repair returns a valid genome near to the wanted values. It has as many of them as a
// beam search can keep; if an ordinal gene cannot have its wanted value, it takes one
// as near as possible. Genes that are not mentioned, and values that a gene does not
// have, are drawn from rng or, if it is nil, are the first that fit. For numbers that
// an ordinal gene does not have, the nearest that it has is wanted. Unknown names are
// ignored. If want is valid and complete, the result is exactly that.
func (s *Space) Repair(want map[string]Value, rng *rand.Rand) Genome {
	ix := s.blank()
	for name, v := range want {
		i, ok := s.byName[name]
		if !ok {
			continue
		}
		if k, ok := s.valueIndex(i, v); ok {
			ix[i] = k
			continue
		}
		wanted, ok := v.Number()
		least := math.Inf(1)
		for k, have := range s.genes[i].Values {
			x, number := have.Number()
			if d := math.Abs(x - wanted); s.genes[i].Ordinal && ok && number && d < least {
				ix[i], least = k, d
			}
		}
	}
	return s.RepairIndices(ix, rng)
}

// RepairIndices is Repair over an index vector (see Indices): -1 for genes
// without a wish. Indices out of range are wishes for the nearest.
func (s *Space) RepairIndices(want []int, rng *rand.Rand) Genome {
	wishes := make([]wish, len(s.genes))
	for i := range wishes {
		wishes[i] = wish{-1, -1, 0}
		if i < len(want) && want[i] >= 0 {
			wishes[i] = wish{min(want[i], len(s.genes[i].Values)-1), -1, pullWanted}
		}
	}
	b := s.target(wishes, rng)
	s.fill(wishes, rng)
	return s.settleOrDraw(b, wishes, rng)
}

// wishesOf returns wishes for g unchanged.
func (s *Space) wishesOf(g Genome) []wish {
	wishes := make([]wish, len(s.genes))
	for i := range wishes {
		wishes[i] = wish{g.index(i), -1, pullWanted}
	}
	return wishes
}

// Mutate changes each gene of g with probability rate, at least one. A changed ordinal
// gene either moves by a small step (one place, with probability one half two or more,
// and so on) or is drawn anew, with equal probability; others are drawn anew. What
// the constraints then forbid is repaired. The result is valid, and differs
// from g whenever the space has another genome. In a union, the choosing gene
// mutates like the others and the rest of the genome follows as far as it can.
func (s *Space) Mutate(g Genome, rate float64, rng *rand.Rand) Genome {
	g = s.own(g)
	const tries = 8
	b := s.branchOf(g)
	var genes []int // that can change
	if s.union && len(s.branches) > 1 {
		genes = append(genes, 0)
	}
	for i := range b.genes {
		if l := &b.genes[i]; len(l.Values) > 1 && g.index(l.global) >= 0 {
			genes = append(genes, l.global)
		}
	}
	for range tries {
		if len(genes) == 0 {
			break
		}
		wishes := s.wishesOf(g)
		changed := false
		for _, i := range genes {
			if rng.Float64() < rate {
				s.mutateGene(b, i, wishes, rng)
				changed = true
			}
		}
		if !changed {
			s.mutateGene(b, genes[rng.Intn(len(genes))], wishes, rng)
		}
		target := s.target(wishes, rng)
		s.fill(wishes, rng)
		if h := s.settleOrDraw(target, wishes, rng); h != g {
			return h
		}
	}
	return s.other(g, rng)
}

// mutateGene wishes for another value of the gene among those of the branch.
func (s *Space) mutateGene(b *branch, i int, wishes []wish, rng *rand.Rand) {
	w := &wishes[i]
	w.pull = pullMutated
	if s.union && i == 0 {
		w.value = another(len(s.branches), w.value, rng)
		return
	}
	g := &b.genes[b.local[i]]
	slot := int(g.slotOf[w.value])
	n := len(g.Values)
	if g.Ordinal && n > 2 && rng.Intn(2) == 0 {
		step := 1
		for step < n && rng.Intn(2) == 0 {
			step++
		}
		if rng.Intn(2) == 0 {
			step = -step
		}
		if slot+step < 0 || slot+step >= n { // at an edge, turn back
			step = -step
		}
		w.value = int(g.values[min(max(slot+step, 0), n-1)])
		return
	}
	w.value = int(g.values[another(n, slot, rng)])
}

// another draws one of n numbers other than k, uniformly; n is at least 2.
func another(n, k int, rng *rand.Rand) int {
	m := rng.Intn(n - 1)
	if m >= k {
		m++
	}
	return m
}

// other draws a genome that is not g: a neighbor if there is one, otherwise any. If g
// is the only genome of the space, it returns g.
func (s *Space) other(g Genome, rng *rand.Rand) Genome {
	if n := s.Neighbours(g); len(n) > 0 {
		return n[rng.Intn(len(n))]
	}
	if rank, ok := s.Rank(g); ok {
		if s.size < 2 {
			return g
		}
		r := uint64(rng.Int63n(int64(s.total() - 1)))
		if r >= rank {
			r++
		}
		h, _ := s.At(r)
		return h
	}
	const tries = 1000
	for range tries {
		if h := s.Random(rng); h != g {
			return h
		}
	}
	return g
}

// total is the number of genomes; the space must be exact.
func (s *Space) total() uint64 {
	n := uint64(0)
	for _, b := range s.branches {
		n += b.total
	}
	return n
}

// Crossover returns a valid genome that takes each gene, by name, from a or from b with
// equal probability. If the constraints forbid the mixture, a gene takes the other
// parent's value if that helps, and otherwise one as near as possible. A gene that only
// one parent has is taken from that parent.
func (s *Space) Crossover(a, b Genome, rng *rand.Rand) Genome {
	a, b = s.own(a), s.own(b)
	wishes := make([]wish, len(s.genes))
	for i := range wishes {
		x, y := a.index(i), b.index(i)
		if x != y && rng.Intn(2) == 0 {
			x, y = y, x
		}
		if x < 0 {
			x, y = y, -1
		}
		wishes[i] = wish{x, y, pullWanted}
	}
	target := s.target(wishes, rng)
	s.fill(wishes, rng)
	return s.settleOrDraw(target, wishes, rng)
}

// Neighbours lists the valid genomes that differ from g in one gene, whatever
// the value (distance 1 in Hamming's sense), gene by gene and value by value in
// a fixed order. Genes that begin or cease to exist with the change do not
// count as differences; those that begin take the first value that fits. A change of a
// union's choosing gene keeps the values that the other alternative accepts.
func (s *Space) Neighbours(g Genome) []Genome { return s.neighbours(g, false) }

// Adjacent lists the neighbors whose changed gene, if it is ordinal,
// has moved to the nearest value in either direction that gives a valid
// genome.
func (s *Space) Adjacent(g Genome) []Genome { return s.neighbours(g, true) }

func (s *Space) neighbours(g Genome, adjacent bool) []Genome {
	g = s.own(g)
	var out []Genome
	b := s.branchOf(g)
	path := s.path(b, g, make([]int32, 0, b.length))
	for i := range b.comps {
		c := &b.comps[i]
		mine := path[c.start : c.start+len(c.genes)]
		was := slices.Clone(mine)
		// try changes one level and keeps the rest, if it can.
		node := c.d.root
		for l, gene := range c.genes {
			kids := c.d.children(l, node)
			n := int32(len(b.genes[gene].Values))
			try := func(slot int32) bool {
				if slot == was[l] || kids[slot] == dead {
					return false
				}
				copy(mine, was)
				mine[l] = slot
				if !b.keep(c, mine, l+1, kids[slot]) || !b.admits(path) {
					return false
				}
				out = append(out, s.genome(b, path))
				return true
			}
			switch {
			case was[l] == n: // does not exist
			case adjacent && b.genes[gene].Ordinal:
				for slot := was[l] - 1; slot >= 0 && !try(slot); slot-- {
				}
				for slot := was[l] + 1; slot < n && !try(slot); slot++ {
				}
			default:
				for slot := range n {
					try(slot)
				}
			}
			node = kids[was[l]]
		}
		copy(mine, was)
	}
	if s.union {
		for k, other := range s.branches {
			if other == b {
				continue
			}
			wishes := s.wishesOf(g)
			wishes[0].value = k
			s.fill(wishes, nil)
			if h, ok := s.settle(other, wishes); ok {
				out = append(out, h)
			}
		}
	}
	return out
}

// keep continues from a node with the slots of path. It only changes whether
// conditional genes exist, and only where it must.
func (b *branch) keep(c *component, path []int32, level int, node int32) bool {
	for ; level < len(c.genes); level++ {
		kids := c.d.children(level, node)
		slot := path[level]
		if kids[slot] != dead {
			node = kids[slot]
			continue
		}
		g := &b.genes[c.genes[level]]
		if !g.conditional {
			return false
		}
		n := int32(len(g.Values))
		if slot < n { // it exists: may it cease to?
			path[level] = n
			return kids[n] != dead && b.keep(c, path, level+1, kids[n])
		}
		rest := slices.Clone(path[level+1:])
		for slot := range n { // it must begin to exist
			if kids[slot] == dead {
				continue
			}
			path[level] = slot
			if b.keep(c, path, level+1, kids[slot]) {
				return true
			}
			copy(path[level+1:], rest)
		}
		return false
	}
	return true
}

// Distance says how different two genomes are, from 0 (equal) to 1: the mean
// over the genes that have a choice of 0 for equal values, 1 for different ones
// of an enumeration and for a gene that only one has, and for ordinal genes
// the number of places between the values over the number between first and
// last. It is a metric.
func (s *Space) Distance(a, b Genome) float64 {
	a, b = s.own(a), s.own(b)
	sum := 0.0
	for i := range s.genes {
		g := &s.genes[i]
		x, y := a.index(i), b.index(i)
		switch {
		case x == y:
		case x < 0 || y < 0 || !g.Ordinal:
			sum++
		default:
			sum += math.Abs(float64(x-y)) / float64(len(g.Values)-1)
		}
	}
	if sum == 0 {
		return 0
	}
	return sum / float64(s.varying)
}
