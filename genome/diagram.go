package genome

import (
	"math"
	"math/bits"
	"math/rand"
	"slices"
)

// A diagram is a multi-valued decision diagram: every path from the root to
// the end reads one slot per level and is one valid choice for the genes of a
// component, and every valid choice is one path. It is the product of the
// automata of the component's constraints, built level by level: two prefixes
// meet in one node when every constraint that is still pending is in the same
// state (a frontier). Nodes from which no path leads to the end are removed,
// equal ones joined, and each knows the number of its paths.
type diagram struct {
	slots []int32 // per level: the number of children of its nodes
	// Nodes 0 (dead) and 1 (the end) aside, the nodes of a level are
	// consecutive from first[level], their children from edge[level].
	first, edge []int32
	kids        []int32
	root        int32
	// counts holds the number of paths per node when the root's fits into 63
	// bits; otherwise it is nil and weights holds them rounded.
	counts  []uint64
	weights []float64
}

const (
	dead int32 = 0
	end  int32 = 1
)

// buildDiagram makes the product of the automata over levels with the given
// numbers of slots, with about budget edges at most. Where a level becomes too
// wide, the automaton with the most states there is dropped (those of conditions last):
// from that level on its state is forgotten, which joins nodes. The diagram then holds
// more than the automata accept; buildDiagram returns the indices of the dropped ones.
// A level may take a quarter of the remaining budget, and least nodes in any case.
func buildDiagram(slots []int32, autos []*automaton, budget, least int) (*diagram, []int, error) {
	// An automaton is live at a level when it has read something before and
	// still may read. Only then is its state part of a node's identity.
	n := len(slots)
	starts := make([][]int, n+1)
	for i, a := range autos {
		switch a.root {
		case reject:
			return nil, nil, ErrEmpty
		case accept:
		default:
			start := a.levels[a.root]
			starts[start] = append(starts[start], i)
		}
	}
	raw := make([][]int32, n) // children per level: numbers from 1 within the next, 0 dead
	var givenUp []int
	live := []int(nil) // the automata whose states the tuples hold
	var states []int32
	count := 1
	for l := range n {
		k := int(slots[l])
		limit := max(budget/(4*k), least)
		for count > limit && len(live) > 0 {
			// Nodes that differ only in the state of this automaton are merged.
			at := widest(autos, live, states)
			givenUp = append(givenUp, live[at])
			width := len(live)
			live = slices.Delete(live, at, at+1)
			merged := newIndex(len(live))
			rename := make([]int32, count+1)
			for node := range count {
				state := states[node*width : node*width+width]
				rename[node+1] = merged.find(slices.Delete(slices.Clone(state), at, at+1)) + 1
			}
			for i, kid := range raw[l-1] {
				raw[l-1][i] = rename[kid]
			}
			states, count = merged.states, merged.count
		}
		budget -= count * k

		// Every automaton whose state matters now, and the position of its new state in
		// the next level's tuple, -1 if it ends here.
		type move struct {
			a        *automaton
			from, to int // from is -1 for the root
		}
		var moves []move
		var next []int
		enter := func(i, from int) {
			to := -1
			if int(autos[i].last) > l {
				to = len(next)
				next = append(next, i)
			}
			moves = append(moves, move{autos[i], from, to})
		}
		for from, i := range live {
			enter(i, from)
		}
		for _, i := range starts[l] {
			enter(i, -1)
		}
		width := len(live)
		kids := make([]int32, count*k)
		index := newIndex(len(next))
		tuple := make([]int32, len(next))
		for node := range count {
			state := states[node*width : node*width+width]
			for s := range k {
				alive := true
				for _, m := range moves {
					from := m.a.root
					if m.from >= 0 {
						from = state[m.from]
					}
					to := m.a.step(from, int32(l), s)
					if to == reject {
						alive = false
						break
					}
					if m.to >= 0 {
						tuple[m.to] = to
					}
				}
				if alive {
					kids[node*k+s] = index.find(tuple) + 1
				}
			}
		}
		raw[l], live = kids, next
		states, count = index.states, index.count
	}
	if count == 0 {
		return nil, nil, ErrEmpty
	}
	d, err := reduceDiagram(slots, raw)
	return d, givenUp, err
}

// widest returns the position in live of the automaton with the most states
// among the tuples, constraints before conditions.
func widest(autos []*automaton, live []int, states []int32) int {
	best, most := -1, 0
	for _, conditions := range []bool{false, true} {
		for at, i := range live {
			if autos[i].condition != conditions {
				continue
			}
			seen := make([]bool, len(autos[i].levels))
			n := 0
			for p := at; p < len(states); p += len(live) {
				if !seen[states[p]] {
					seen[states[p]] = true
					n++
				}
			}
			if n > most {
				best, most = at, n
			}
		}
		if best >= 0 {
			break
		}
	}
	return best
}

// reduceDiagram makes a diagram of raw levels: the children of every node, as
// numbers from 1 within the next level, or 1 for the end; 0 is dead. It drops
// dead nodes, joins equal ones and counts paths. raw is used up.
func reduceDiagram(slots []int32, raw [][]int32) (*diagram, error) {
	n := len(slots)
	d := &diagram{slots: slots, first: make([]int32, n), edge: make([]int32, n)}
	id := []int32{dead, end} // of the level below: from its raw number
	levels := make([][]int32, n)
	numbers := make([]int32, n) // nodes per level
	for l := n - 1; l >= 0; l-- {
		k := int(slots[l])
		kids := raw[l]
		raw[l] = nil
		unique := newIndex(k)
		ids := make([]int32, len(kids)/k+1)
		for node := range len(kids) / k {
			mine := kids[node*k : node*k+k]
			alive := false
			for i, c := range mine {
				mine[i] = id[c]
				alive = alive || mine[i] != dead
			}
			if alive {
				ids[node+1] = unique.find(mine) + 1
			}
		}
		if unique.count == 0 {
			return nil, ErrEmpty
		}
		levels[l], numbers[l], id = unique.states, int32(unique.count), ids
	}
	nodes, edges := int32(2), int32(0)
	for l := range n {
		d.first[l], d.edge[l] = nodes, edges
		nodes += numbers[l]
		edges += int32(len(levels[l]))
	}
	d.kids = make([]int32, 0, edges)
	for l := range n {
		below := int32(0) // the offset from a number within the level below to an id
		if l+1 < n {
			below = d.first[l+1] - 1
		}
		for _, c := range levels[l] {
			if c != dead && l+1 < n {
				c += below
			}
			d.kids = append(d.kids, c)
		}
	}
	d.root = end
	if n > 0 {
		d.root = d.first[0]
	}
	d.count(int(nodes))
	return d, nil
}

// listDiagram makes the diagram of listed paths, one after another in rows.
func listDiagram(slots, rows []int32) *diagram {
	n := len(slots)
	sorted := make([][]int32, 0, len(rows)/n)
	for i := 0; i < len(rows); i += n {
		sorted = append(sorted, rows[i:i+n])
	}
	slices.SortFunc(sorted, slices.Compare)
	sorted = slices.CompactFunc(sorted, slices.Equal)
	// The trie of the paths; node numbers as reduceDiagram wants them.
	raw := make([][]int32, n)
	counts := make([]int32, n+1)
	for i, row := range sorted {
		same := 0
		if i > 0 {
			for same < n && row[same] == sorted[i-1][same] {
				same++
			}
		}
		for l := range n {
			if l > same || i == 0 { // a new node at this level
				raw[l] = append(raw[l], make([]int32, slots[l])...)
				counts[l]++
			}
			if l >= same {
				next := counts[l+1] + 1
				if l == n-1 {
					next = end
				}
				raw[l][(counts[l]-1)*slots[l]+row[l]] = next
			}
		}
	}
	d, err := reduceDiagram(slots, raw)
	if err != nil {
		panic(err) // there is at least one row
	}
	return d
}

// count fills in the numbers of paths, exactly if they fit.
func (d *diagram) count(nodes int) {
	counts := make([]uint64, nodes)
	counts[end] = 1
	fits := true
	d.upward(func(node int32, kids []int32) {
		sum := uint64(0)
		for _, c := range kids {
			var carry uint64
			sum, carry = bits.Add64(sum, counts[c], 0)
			fits = fits && carry == 0
		}
		counts[node] = sum
	})
	if fits && counts[d.root] <= math.MaxInt64 {
		d.counts = counts
		return
	}
	d.weights = make([]float64, nodes)
	d.weights[end] = 1
	d.upward(func(node int32, kids []int32) {
		for _, c := range kids {
			d.weights[node] += d.weights[c]
		}
	})
}

// upward visits every node after its children.
func (d *diagram) upward(visit func(node int32, kids []int32)) {
	stop := int32(len(d.kids))
	for l := len(d.slots) - 1; l >= 0; l-- {
		node, k := d.first[l], d.slots[l]
		for e := d.edge[l]; e < stop; e += k {
			visit(node, d.kids[e:e+k])
			node++
		}
		stop = d.edge[l]
	}
}

// children returns the children of a node of a level.
func (d *diagram) children(level int, node int32) []int32 {
	k := d.slots[level]
	e := d.edge[level] + (node-d.first[level])*k
	return d.kids[e : e+k : e+k]
}

// size returns the number of paths, rounded when it is beyond 2^53.
func (d *diagram) size() float64 {
	if d.counts != nil {
		return float64(d.counts[d.root])
	}
	return d.weights[d.root]
}

// sample draws a path uniformly (to within rounding where the counts are
// rounded) and writes its slots.
func (d *diagram) sample(rng *rand.Rand, path []int32) {
	if d.counts != nil {
		d.at(uint64(rng.Int63n(int64(d.counts[d.root]))), path)
		return
	}
	node := d.root
	for l := range d.slots {
		kids := d.children(l, node)
		r := rng.Float64() * d.weights[node]
		for s, c := range kids {
			if c == dead {
				continue
			}
			path[l], node = int32(s), c // the last live child gets the remainder from rounding
			if r -= d.weights[c]; r < 0 {
				break
			}
		}
	}
}

// at writes the slots of the path with a rank; counts must be exact.
func (d *diagram) at(rank uint64, path []int32) {
	node := d.root
	for l := range d.slots {
		for s, c := range d.children(l, node) {
			if n := d.counts[c]; rank >= n {
				rank -= n
				continue
			}
			path[l], node = int32(s), c
			break
		}
	}
}

// rank is the inverse of at; path must be valid.
func (d *diagram) rank(path []int32) uint64 {
	rank := uint64(0)
	node := d.root
	for l := range d.slots {
		kids := d.children(l, node)
		for _, c := range kids[:path[l]] {
			rank += d.counts[c]
		}
		node = kids[path[l]]
	}
	return rank
}

// has says whether the slots are a path.
func (d *diagram) has(path []int32) bool {
	node := d.root
	for l := range d.slots {
		if node = d.children(l, node)[path[l]]; node == dead {
			return false
		}
	}
	return true
}

// index numbers distinct tuples of one width in the order of their first use. It is a
// hash table over one flat list, which is far cheaper than a map with strings as keys.
type index struct {
	width  int
	count  int
	states []int32 // the tuples, one after another
	table  []int32 // number + 1 of a tuple, 0 for free; a power of two long
}

func newIndex(width int) *index {
	return &index{width: width, table: make([]int32, 64)}
}

func (x *index) find(tuple []int32) int32 {
	mask := uint64(len(x.table) - 1)
	for at := hash(tuple) & mask; ; at = (at + 1) & mask {
		n := int(x.table[at]) - 1
		if n < 0 {
			x.table[at] = int32(x.count + 1)
			break
		}
		if slices.Equal(x.states[n*x.width:n*x.width+x.width], tuple) {
			return int32(n)
		}
	}
	x.states = append(x.states, tuple...)
	x.count++
	if 2*x.count > len(x.table) {
		x.grow()
	}
	return int32(x.count - 1)
}

func (x *index) grow() {
	x.table = make([]int32, 2*len(x.table))
	mask := uint64(len(x.table) - 1)
	for n := range x.count {
		at := hash(x.states[n*x.width:n*x.width+x.width]) & mask
		for x.table[at] != 0 {
			at = (at + 1) & mask
		}
		x.table[at] = int32(n + 1)
	}
}

// hash mixes a tuple as FNV-1a does, word by word, with a final stir.
func hash(tuple []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range tuple {
		h = (h ^ uint64(uint32(s))) * 1099511628211
		h ^= h >> 29
	}
	return h ^ h>>32
}
