package genome

import (
	"encoding/binary"
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
// numbers of slots, making at most budget edges.
func buildDiagram(slots []int32, autos []*automaton, budget int) (*diagram, error) {
	// An automaton is live at a level when it has read something before and
	// still may read. Only then is its state part of a node's identity.
	n := len(slots)
	starts := make([][]int, n+1)
	live := make([][]int, n+1)
	for i, a := range autos {
		if a.root == reject {
			return nil, ErrEmpty
		}
		if a.root == accept {
			continue
		}
		start := int(a.levels[a.root])
		starts[start] = append(starts[start], i)
		for l := start + 1; l <= int(a.last); l++ {
			live[l] = append(live[l], i)
		}
	}

	// Forward: the reachable nodes, level by level. Node ids count within the
	// level here, from 1; 0 is dead.
	raw := make([][]int32, n) // children per level
	states := make([]int32, 0)
	count := 1
	for l := range n {
		here, next := live[l], live[l+1]
		// Every automaton whose state matters now, and where its new state
		// goes in the next level's tuple, -1 if it ends here.
		type move struct {
			a    *automaton
			from int // in this level's tuple, -1 for the root
			to   int
		}
		var moves []move
		where := make(map[int]int, len(next))
		for i, a := range next {
			where[a] = i
		}
		target := func(a int) int {
			if to, ok := where[a]; ok {
				return to
			}
			return -1
		}
		for i, a := range here {
			moves = append(moves, move{autos[a], i, target(a)})
		}
		for _, a := range starts[l] {
			moves = append(moves, move{autos[a], -1, target(a)})
		}
		width, wide := len(here), len(next)
		k := int(slots[l])
		if budget -= count * k; budget < 0 {
			return nil, errBudget
		}
		kids := make([]int32, count*k)
		index := newIndex(wide)
		tuple := make([]int32, wide)
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
		raw[l] = kids
		states = index.states
		count = index.count
	}
	if count == 0 {
		return nil, ErrEmpty
	}

	return reduceDiagram(slots, raw)
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
	var key []byte
	for l := n - 1; l >= 0; l-- {
		k := int(slots[l])
		kids := raw[l]
		raw[l] = nil
		unique := make(map[string]int32)
		ids := make([]int32, len(kids)/k+1)
		var kept []int32
		for node := range len(kids) / k {
			mine := kids[node*k : node*k+k]
			alive := false
			key = key[:0]
			for i, c := range mine {
				mine[i] = id[c]
				alive = alive || mine[i] != dead
				key = binary.LittleEndian.AppendUint32(key, uint32(mine[i]))
			}
			if !alive {
				continue
			}
			u, ok := unique[string(key)]
			if !ok {
				u = int32(len(unique)) + 1
				unique[string(key)] = u
				kept = append(kept, mine...)
			}
			ids[node+1] = u
		}
		if len(unique) == 0 {
			return nil, ErrEmpty
		}
		levels[l], numbers[l], id = kept, int32(len(unique)), ids
	}
	nodes, edges := int32(2), int32(0)
	for l := range n {
		d.first[l], d.edge[l] = nodes, edges
		nodes += numbers[l]
		edges += int32(len(levels[l]))
	}
	d.kids = make([]int32, 0, edges)
	for l := range n {
		below := int32(0) // what turns a number within the level below into an id
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
		panic(err) // there is a row at least
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

// children gives the children of a node of a level.
func (d *diagram) children(level int, node int32) []int32 {
	k := d.slots[level]
	e := d.edge[level] + (node-d.first[level])*k
	return d.kids[e : e+k : e+k]
}

// size gives the number of paths, rounded when it is beyond 2^53.
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
			path[l], node = int32(s), c // the last live child takes what rounding leaves over
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

// has tells whether the slots are a path.
func (d *diagram) has(path []int32) bool {
	node := d.root
	for l := range d.slots {
		if node = d.children(l, node)[path[l]]; node == dead {
			return false
		}
	}
	return true
}

// index numbers the distinct tuples of states of one level, in the order in
// which they are met.
type index struct {
	width  int
	count  int
	states []int32 // the tuples, one after another
	narrow map[uint64]int32
	wide   map[string]int32
	key    []byte
}

func newIndex(width int) *index {
	x := &index{width: width}
	if width <= 2 {
		x.narrow = map[uint64]int32{}
	} else {
		x.wide = map[string]int32{}
	}
	return x
}

func (x *index) find(tuple []int32) int32 {
	if x.width == 0 {
		x.count = 1
		return 0
	}
	if x.width <= 2 {
		key := uint64(uint32(tuple[0]))
		if x.width == 2 {
			key |= uint64(uint32(tuple[1])) << 32
		}
		if n, ok := x.narrow[key]; ok {
			return n
		}
		x.narrow[key] = int32(x.count)
	} else {
		x.key = x.key[:0]
		for _, s := range tuple {
			x.key = binary.LittleEndian.AppendUint32(x.key, uint32(s))
		}
		if n, ok := x.wide[string(x.key)]; ok {
			return n
		}
		x.wide[string(x.key)] = int32(x.count)
	}
	x.states = append(x.states, tuple...)
	x.count++
	return int32(x.count - 1)
}
