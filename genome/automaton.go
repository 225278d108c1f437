package genome

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/evotune/evotune/internal/expr"
)

// An automaton is the diagram of a single constraint: reading the slots of the
// genes of its scope in the order of the variables, it ends in accept or
// reject. It is reduced: equal nodes are merged, and there is no node whose children
// are all the same. Hence no live node is equivalent to reject, and
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
	// condition says that it decides whether a gene exists.
	condition bool
}

// The two ends of every automaton.
const (
	reject int32 = 0
	accept int32 = 1
)

// errBudget: a diagram would be larger than allowed.
var errBudget = errors.New("the diagram is too large")

// An overflowError says that a term overflows, and under which values of its
// variables; those that do not matter have none.
type overflowError struct{ vals []Value }

func (*overflowError) Error() string { return expr.ErrOverflow.Error() }

// A scoped is a term to be compiled to an automaton.
type scoped struct {
	pool *expr.Pool
	term *expr.Term
	// reads lists the variables in the order of their genes; conditional ones
	// are read even if the term does not depend on them.
	reads []read
	// gene is -1 for a constraint. For the condition of a gene it is that
	// gene's position, which is after all that are read, and slots is the
	// number of its slots, inactive included.
	gene, slots int32
}

// A read is one variable of a term.
type read struct {
	variable    int     // of the term
	level       int32   // the position of its gene in the order
	values      []Value // of its slots
	conditional bool    // whether there is one more slot, for inactive
}

// compileAutomaton explores a term, making at most budget children.
func compileAutomaton(s scoped, budget int) (*automaton, error) {
	b := &automatonBuilder{
		scoped: s,
		a: &automaton{
			levels: []int32{-1, -1},
			first:  []int32{0, 0},
			last:   -1,

			condition: s.gene >= 0,
		},
		budget: budget,
		memo:   map[uint64]int32{},
		unique: map[string]int32{},
		vals:   make([]Value, expr.MaxVariables),
		maybe:  make([]bool, len(s.reads)+1),
	}
	for i := len(s.reads) - 1; i >= 0; i-- {
		b.maybe[i] = b.maybe[i+1] || s.reads[i].conditional
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
	if err == nil && b.overflow != nil {
		err = &overflowError{b.overflow}
	}
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
	maybe  []bool // by position: whether a conditional gene is read from there on
	// overflow has the values of the variables under which the term overflows; nil if
	// it never does.
	overflow []Value
	// What the ends mean: the term is true, false, fails, or a gene that it
	// names is inactive.
	yes, no, bad, absent int32
}

// build returns the node from which the variables read from position at on decide t.
func (b *automatonBuilder) build(t *expr.Term, at int) (int32, error) {
	decided := t.Decided()
	end := b.end(decided)
	if decided != expr.Undecided && (!b.maybe[at] || end == b.absent) {
		return end, nil
	}
	for !b.reads[at].conditional && t.Variables()&(1<<b.reads[at].variable) == 0 {
		at++ // t does not depend on it
	}
	r := &b.reads[at]
	key := uint64(uint32(t.ID()))<<8 | uint64(at)
	if n, ok := b.memo[key]; ok {
		return n, nil
	}
	n := len(r.values)
	if b.budget -= n; b.budget < 0 {
		return 0, errBudget
	}
	kids := make([]int32, n, n+1)
	lastOne := t.Variables() == 1<<r.variable && !b.maybe[at+1]
	for i, value := range r.values {
		b.vals[r.variable] = value
		if lastOne { // avoids making a term
			kids[i] = b.end(t.Outcome(b.vals))
			continue
		}
		kid, err := b.build(b.pool.Subst(t, r.variable, value), at+1)
		if err != nil {
			return 0, err
		}
		kids[i] = kid
	}
	b.vals[r.variable] = Value{}
	if r.conditional {
		kids = append(kids, b.absent)
	}
	node := b.node(r.level, kids)
	b.memo[key] = node
	return node, nil
}

// end returns the end for an outcome, and notes the values under which the term overflows.
func (b *automatonBuilder) end(o expr.Outcome) int32 {
	switch o {
	case expr.True:
		return b.yes
	case expr.False:
		return b.no
	case expr.Overflows:
		if b.overflow == nil {
			b.overflow = slices.Clone(b.vals)
		}
	}
	return b.bad
}

// node returns the unique node with these children.
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
// gene does not change.
func (a *automaton) step(node int32, level int32, slot int) int32 {
	if a.levels[node] != level {
		return node
	}
	return a.kids[int(a.first[node])+slot]
}
