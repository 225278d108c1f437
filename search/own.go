package search

import (
	"fmt"
	"math/rand"

	"github.com/evotune/evotune/genome"
)

// Register adds your own strategy under a name, for [New], [Names] and [Version].
// newStrategy makes one search with it, around a Base that holds the space and the
// options; version is as in [Version]. The genomes of Options.Start are proposed before
// the strategy's Ask is first called. They have the first indices, and the strategy's Tell
// is called for them as for its own proposals. Call Register from main or an init
// function, before any search begins: it is not safe for concurrent use. A name that is
// empty or taken, and a version below 1, panic.
func Register(name string, version int, newStrategy func(Base) Strategy) {
	if _, taken := lookup(name); name == "" || taken || version < 1 {
		panic(fmt.Sprintf("search: cannot register strategy %q version %d: the name must be new and not empty, the version at least 1", name, version))
	}
	kinds = append(kinds, kind{name, version, func(l *ledger) Strategy { return warmed{newStrategy(Base{l}), l} }})
}

// A warmed strategy begins with the genomes of Options.Start.
type warmed struct {
	Strategy
	ledger *ledger
}

func (w warmed) Ask() (Proposal, bool) {
	if g, ok := w.ledger.warm(); ok {
		return w.ledger.propose(g, opWarm), true
	}
	return w.Strategy.Ask()
}

// A Base does what every strategy has to do: it counts proposals, remembers
// what is spent and told, and begins with the genomes of [Options]. A strategy
// embeds it and implements its own Ask. One that learns more than the best genome
// implements Tell as well, and calls the Base's in it. Its Tell is also called for the
// proposals of [Options.Start], which its Ask did not make: state that the strategy
// keeps by index has no entries for them.
type Base struct{ *ledger }

// Space is the space that is searched.
func (b Base) Space() *genome.Space { return b.space }

// Rand is the one source of randomness that a strategy may draw from.
func (b Base) Rand() *rand.Rand { return b.rng }

// Best returns the valid genome with the smallest fitness that was told or known,
// the earliest of equals; false if there is none. Its index is negative if it
// was known.
func (b Base) Best() (Proposal, bool) {
	best := -1
	for i := range b.entries {
		if b.entries[i].ok && (best < 0 || b.entries[i].better(&b.entries[best])) {
			best = i
		}
	}
	if best < 0 {
		return Proposal{}, false
	}
	return Proposal{Index: best - b.known, Genome: b.entries[best].genome}, true
}

// Propose proposes the first of some genomes that is neither proposed nor known; false
// if there is none. operator says how they were made, parents from which proposals;
// negative parents are left out. It panics if a genome is not valid in the space.
func (b Base) Propose(genomes []genome.Genome, operator string, parents ...int) (Proposal, bool) {
	for _, g := range genomes {
		if err := b.space.Check(g); err != nil {
			panic(fmt.Sprintf("search: %s proposes %s: %v", b.name, g, err))
		}
		if b.isSpent(g) {
			continue
		}
		entries := make([]int, len(parents))
		for i, p := range parents {
			entries[i] = b.known + p
		}
		return b.propose(g, operator, entries...), true
	}
	return Proposal{}, false
}

// Fresh proposes a genome drawn uniformly from those that are neither proposed
// nor known; false if there is none.
func (b Base) Fresh() (Proposal, bool) { return (&Random{b.ledger}).Ask() }

// Tell records the outcome of a proposal.
func (b Base) Tell(index int, o Outcome) { b.record(index, o) }
