package search

import (
	"fmt"
	"math"
	"math/rand"
	"slices"

	"github.com/evotune/evotune/genome"
)

// A ledger is the state that every strategy keeps: the spent genomes, the told
// outcomes, and the one source of randomness.
type ledger struct {
	name  string
	space *genome.Space
	rng   *rand.Rand

	// entries holds the known results first, then one per proposal.
	entries []entry
	known   int // entries that are not proposals
	told    int // proposals told
	spent   map[genome.Genome]int32
	start   []genome.Genome // what is left of Options.Start
	// rest, once made, lists in random order the genomes that were unspent then;
	// genomes spent since are skipped.
	rest   []genome.Genome
	listed bool
}

// An entry is one genome and what is known about it.
type entry struct {
	genome genome.Genome
	told   bool
	ok     bool
	// score is the logarithm of the fitness when ok: ratios matter, and a sum
	// of scores never overflows. Smaller is better.
	score float64
}

func newLedger(name string, space *genome.Space, o Options) (*ledger, error) {
	l := &ledger{
		name: name, space: space,
		rng:   rand.New(rand.NewSource(o.Seed)),
		spent: map[genome.Genome]int32{},
	}
	for i, k := range o.Known {
		if err := space.Check(k.Genome); err != nil {
			return nil, fmt.Errorf("search: known result %d (%s): %w", i, k.Genome, err)
		}
		if _, twice := l.spent[k.Genome]; twice {
			continue // the first result counts
		}
		l.spend(k.Genome)
		l.entries[len(l.entries)-1].tell(k.Outcome)
	}
	l.known = len(l.entries)
	for i, g := range o.Start {
		if err := space.Check(g); err != nil {
			return nil, fmt.Errorf("search: genome %d to start with (%s): %w", i, g, err)
		}
	}
	l.start = slices.Clone(o.Start)
	return l, nil
}

// tell enters an outcome.
func (e *entry) tell(o Outcome) {
	e.told = true
	if o.OK && o.Fitness > 0 && !math.IsInf(o.Fitness, 1) {
		e.ok, e.score = true, math.Log(o.Fitness)
	}
}

// better says whether a is told, ok and smaller than b, or b is not ok.
func (e *entry) better(than *entry) bool {
	return e.ok && (!than.ok || e.score < than.score)
}

func (l *ledger) Name() string { return l.name }

// spend marks a genome as never to be proposed again, and returns the index
// of its entry.
func (l *ledger) spend(g genome.Genome) int {
	l.entries = append(l.entries, entry{genome: g})
	l.spent[g] = int32(len(l.entries) - 1)
	return len(l.entries) - 1
}

// inFlight is how many proposals have no outcome yet.
func (l *ledger) inFlight() int { return len(l.entries) - l.known - l.told }

// isSpent says whether the genome was proposed or known.
func (l *ledger) isSpent(g genome.Genome) bool {
	_, ok := l.spent[g]
	return ok
}

// propose spends a genome. parents are entries; entries that are not proposals are
// left out.
func (l *ledger) propose(g genome.Genome, operator string, parents ...int) Proposal {
	i := l.spend(g)
	p := Proposal{Index: i - l.known, Genome: g, Operator: operator}
	for _, parent := range parents {
		if parent >= l.known {
			p.Parents = append(p.Parents, parent-l.known)
		}
	}
	slices.Sort(p.Parents)
	p.Parents = slices.Compact(p.Parents)
	return p
}

// record enters the outcome of a proposal and returns its entry.
func (l *ledger) record(index int, o Outcome) int {
	i := l.known + index
	if index != l.told || i >= len(l.entries) {
		panic(fmt.Sprintf("search: told the outcome of proposal %d when that of %d of %d was due", index, l.told, len(l.entries)-l.known))
	}
	l.told++
	l.entries[i].tell(o)
	return i
}

// warm returns the next genome of Options.Start; false if none is left.
func (l *ledger) warm() (genome.Genome, bool) {
	for len(l.start) > 0 {
		g := l.start[0]
		l.start = l.start[1:]
		if !l.isSpent(g) {
			return g, true
		}
	}
	return genome.Genome{}, false
}

// fresh draws uniformly among the unspent genomes; false if there is none.
//
// While less than half of the space is spent, drawing until an unspent genome
// turns up takes two draws on average. Beyond that, the rest is listed, which costs no
// more than has been spent already.
func (l *ledger) fresh() (genome.Genome, bool) {
	if !l.listed {
		if tries := l.draws(); tries > 0 {
			for range tries {
				if g := l.space.Random(l.rng); !l.isSpent(g) {
					return g, true
				}
			}
		}
		l.list()
	}
	for len(l.rest) > 0 {
		g := l.rest[len(l.rest)-1]
		l.rest = l.rest[:len(l.rest)-1]
		if !l.isSpent(g) {
			return g, true
		}
	}
	return genome.Genome{}, false
}

// draws is how many draws to make before the remaining genomes are listed. If half of
// the space is unspent, sixty failed draws in a row are practically impossible; in a
// space whose size is not exact they are the sign that it is nearly spent.
func (l *ledger) draws() int {
	if l.space.Exact() && float64(len(l.spent)) >= l.space.Size()/2 {
		return 0
	}
	return 60
}

func (l *ledger) list() {
	l.listed = true
	for g := range l.space.All() {
		if !l.isSpent(g) {
			l.rest = append(l.rest, g)
		}
	}
	l.rng.Shuffle(len(l.rest), func(i, j int) { l.rest[i], l.rest[j] = l.rest[j], l.rest[i] })
}
