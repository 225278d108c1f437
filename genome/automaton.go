package genome

import (
	"encoding/binary"
	"errors"
)

// An automaton is the diagram of a single constraint: reading the slots of the
// genes of its scope in the order of the variables, it ends in accept or
// reject. It is reduced: equal nodes are one, and a node whose children are
// all the same does not exist. Hence no live node is equivalent to reject, and
// every prefix that decides the constraint is in accept or reject at once.
//
// A slot is a choice at a gene: the index of a value or, for a conditional
// gene, one more for inactive.
type automaton struct {
	levels []int32 // per node: the position (in the order) of the gene it reads
	first  []int32 // per node: where its children start
	kids   []int32
	root   int32
	// last is the last position that any node reads, -1 if none does.
	last int32
	// failed and refused count the leaves where the evaluation failed and
	// where it gave false.
	failed, refused int
}

// The two ends of every automaton.
const (
	reject int32 = 0
	accept int32 = 1
)

// errBudget: a diagram would be larger than allowed.
var errBudget = errors.New("the diagram is too large")

// A scoped is a term ready to become an automaton: its variables, in order.
type scoped struct {
	pool *pool
	term *term
	// at gives per variable of the term the position of its gene in the
	// order; increasing.
	at []int32
	// values gives per variable the values of its slots; conditional tells
	// whether there is one more, for inactive.
	values      [][]Value
	conditional []bool
	// gene is -1 for a constraint. For the condition of a gene it is that
	// gene's position, which lies after all of at, and slots is the number of
	// its slots, inactive included.
	gene, slots int32
}

// compileAutomaton explores a term, making at most budget children.
func compileAutomaton(s scoped, budget int) (*automaton, error) {
	b := &automatonBuilder{
		scoped: s,
		a: &automaton{
			levels: []int32{-1, -1},
			first:  []int32{0, 0},
			last:   -1,
		},
		budget: budget,
		memo:   map[uint64]int32{},
		unique: map[string]int32{},
		vals:   make([]Value, len(s.at)),
	}
	for i := len(s.at) - 1; i >= 0; i-- {
		b.later |= 1 << i
		if s.conditional[i] {
			b.maybe |= 1 << i
		}
	}
	b.yes, b.no, b.bad, b.absent = accept, reject, reject, accept
	if s.gene >= 0 {
		on, off := make([]int32, s.slots), make([]int32, s.slots)
		for i := range on {
			on[i] = accept
		}
		on[s.slots-1], off[s.slots-1] = reject, accept
		b.yes, b.no = b.node(s.gene, on), b.node(s.gene, off)
		b.absent = b.no
	}
	root, err := b.build(s.term, 0)
	if err != nil {
		return nil, err
	}
	b.a.root = root
	for _, l := range b.a.levels {
		b.a.last = max(b.a.last, l)
	}
	return b.a, nil
}

type automatonBuilder struct {
	scoped
	a      *automaton
	budget int
	memo   map[uint64]int32 // by term and position: the node
	unique map[string]int32 // by level and children: the node
	key    []byte
	vals   []Value
	later  uint64 // every variable
	maybe  uint64 // the conditional ones
	// What the ends mean: the term is true, false, fails, or a gene that it
	// names is inactive.
	yes, no, bad, absent int32
}

// build gives the node from which t is decided by the variables from position
// v on.
func (b *automatonBuilder) build(t *term, v int) (int32, error) {
	rest := b.later &^ (1<<v - 1)
	end := int32(-1)
	switch {
	case t.op == opErr:
		end = b.bad
	case t.op == opConst && t.val.bits != 0:
		end = b.yes
	case t.op == opConst:
		end = b.no
	}
	if end >= 0 && (b.maybe&rest == 0 || end == b.absent) {
		switch {
		case t.op == opErr:
			b.a.failed++
		case end == b.no:
			b.a.refused++
		}
		return end, nil
	}
	// The next variable that matters.
	for ; (t.vars|b.maybe)&(1<<v) == 0; v++ {
	}
	key := uint64(uint32(t.id))<<8 | uint64(v)
	if n, ok := b.memo[key]; ok {
		return n, nil
	}
	n := len(b.values[v])
	if b.budget -= n; b.budget < 0 {
		return 0, errBudget
	}
	kids := make([]int32, n, n+1)
	lastOne := t.vars&^(1<<v) == 0 && b.maybe&rest&^(1<<v) == 0
	for i, value := range b.values[v] {
		if lastOne && t.vars != 0 { // spares making a term
			b.vals[v] = value
			x, ok := t.eval(b.vals)
			switch {
			case !ok:
				kids[i] = b.bad
				b.a.failed++
			case x.bits != 0:
				kids[i] = b.yes
			default:
				kids[i] = b.no
				b.a.refused++
			}
			continue
		}
		kid, err := b.build(b.pool.subst(t, v, value), v+1)
		if err != nil {
			return 0, err
		}
		kids[i] = kid
	}
	if b.conditional[v] {
		kids = append(kids, b.absent)
	}
	node := b.node(b.at[v], kids)
	b.memo[key] = node
	return node, nil
}

// node gives the one node with these children.
func (b *automatonBuilder) node(level int32, kids []int32) int32 {
	same := true
	for _, k := range kids {
		same = same && k == kids[0]
	}
	if same {
		return kids[0]
	}
	b.key = binary.LittleEndian.AppendUint32(b.key[:0], uint32(level))
	for _, k := range kids {
		b.key = binary.LittleEndian.AppendUint32(b.key, uint32(k))
	}
	if n, ok := b.unique[string(b.key)]; ok {
		return n
	}
	n := int32(len(b.a.levels))
	b.a.levels = append(b.a.levels, level)
	b.a.first = append(b.a.first, int32(len(b.a.kids)))
	b.a.kids = append(b.a.kids, kids...)
	b.unique[string(b.key)] = n
	return n
}

// step reads one slot of the gene at a position; a node that reads a later
// gene stays.
func (a *automaton) step(node int32, level int32, slot int) int32 {
	if a.levels[node] != level {
		return node
	}
	return a.kids[int(a.first[node])+slot]
}
