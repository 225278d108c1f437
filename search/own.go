package search

import (
	"fmt"
	"math/rand"

	"github.com/evotune/evotune/genome"
)

// Register adds a strategy of your own under a name, which [New], [Names] and
// [Version] then know. newStrategy makes one search of it, around a Base that
// holds the space and the options; version is as in [Version]. The genomes of
// Options.Start are proposed before the strategy's Ask is called at all, but its Tell is
// called for them as for its own proposals, and they have the first indices. Call Register
// from main or an init function, before any search begins: it is not safe for
// concurrent use. A name that is empty or taken, and a version below 1, panic.
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
// embeds it and writes its own Ask; one that learns more than the best genome
// writes Tell as well, and calls the Base's in it. Tell then hears of the proposals of
// [Options.Start] too, which Ask did not make: what a strategy keeps by index has none
// of these.
type Base struct{ *ledger }

// Space is the space that is searched.
func (b Base) Space() *genome.Space { return b.space }

// Rand is the one source of randomness that a strategy may draw from.
func (b Base) Rand() *rand.Rand { return b.rng }

// Best is the valid genome with the smallest fitness that was told or known,
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

// Propose makes a proposal of the first of some genomes that is neither proposed
// nor known; false if there is none. operator says how they were made, parents
// from which proposals; negative ones are left out. A genome that is not valid in
// the space panics.
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

// Tell notes the outcome of a proposal.
func (b Base) Tell(index int, o Outcome) { b.record(index, o) }
