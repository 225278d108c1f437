// Package search holds the strategies that decide which genome to evaluate
// next.
//
// A strategy is asked for proposals and told their outcomes; it never
// evaluates anything itself. It may be asked again before the outcomes of earlier
// proposals are told: the caller keeps a window of W proposals in flight and asks for
// proposal k after telling exactly the outcomes 0..k-W, in that order.
//
// # Determinism
//
// The proposals depend only on the space, on Options, on the window, and on the
// outcomes told. A strategy draws from one seeded generator, reads no clock, starts no
// goroutine and does no I/O. Hence one seed gives one path, whatever the number of
// workers, and a campaign is resumed by asking and telling again what its log holds.
// [Version] identifies the path: it changes whenever the same seed would give another
// one.
//
// # What is eaopt's
//
// [Evolution] keeps its population in eaopt, which also selects parents by tournament and
// dispatches crossover and mutation. The operators are those of package genome, which
// keep constraints; the model that selects among offspring is in this package.
//
// # Caveats
//
// A strategy remembers every genome that it proposed, some 200 bytes each, and
// is not safe for concurrent use. Fitness is compared, and its logarithm is
// averaged, so it must be positive to be useful: ratios to a baseline are.
package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/genome"
)

// A Proposal is a genome to be evaluated.
type Proposal struct {
	// Index counts the proposals of the strategy: 0, 1, 2, ...
	Index  int
	Genome genome.Genome
	// Operator says how the genome was made: "warm", "seed", "crossover",
	// "mutation", "step", "local", "random".
	Operator string
	// Parents are the indexes of the proposals that the genome was made from,
	// all smaller than Index. Known results have no index and are left out.
	Parents []int
}

// An Outcome is the result of evaluating a proposal.
type Outcome struct {
	// Fitness is the candidate's time over the baseline's; smaller is better.
	// It is only read when OK.
	Fitness float64
	// OK is false for a candidate that failed. It is true for any that has a time, also for one that
	// is too slow to be checked. A fitness that is not a positive finite
	// number counts as a failure, too.
	OK bool
	// Cost is how long the evaluation took.
	Cost time.Duration
}

// Known is a result that the search starts with. Its genome is never proposed.
type Known struct {
	Genome genome.Genome
	Outcome
}

// A Strategy proposes genomes and learns from their outcomes.
type Strategy interface {
	// Name is the name that New was given.
	Name() string
	// Ask returns the next proposal. It never blocks and never repeats a
	// genome. It returns false when the space is exhausted: every valid genome
	// was proposed or known.
	Ask() (Proposal, bool)
	// Tell reports the outcome of proposal index. Outcomes come in the order
	// of the proposals, each once; anything else is an error of the caller, and
	// panics.
	Tell(index int, o Outcome)
}

// Options configure a strategy.
type Options struct {
	// Seed selects the path. Zero is a seed like any other.
	Seed int64
	// Known are results from elsewhere, of genomes of the same space. The
	// order matters to the path.
	Known []Known
	// Start are genomes that the strategy proposes first, in this order and
	// with the operator "warm", such as the winners of other shapes or devices. Known
	// genomes and repetitions are skipped.
	Start []genome.Genome
}

// Default is the name of the strategy that New makes for an empty name.
const Default = "evolution"

// A kind is one entry of the registry.
type kind struct {
	name    string
	version int // changes whenever the same seed would give another path
	make    func(*ledger) Strategy
}

// kinds is the registry, the default first.
var kinds = []kind{
	{Default, 4, newEvolution},
	{"hillclimb", 1, newHillclimb},
	{"random", 1, newRandom},
}

// Names lists the strategies, the default first.
func Names() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// Version is the version of the named strategy's path, from 1 on; 0 if there is no such
// strategy. The empty name means the default.
func Version(name string) int {
	k, ok := lookup(name)
	if !ok {
		return 0
	}
	return k.version
}

func lookup(name string) (kind, bool) {
	if name == "" {
		name = Default
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// New makes the named strategy; the empty name means the default. An unknown
// name gives an error that lists the known ones. A known result or a start genome that
// is not valid in the space is an error, too.
func New(name string, space *genome.Space, o Options) (Strategy, error) {
	k, ok := lookup(name)
	if !ok {
		return nil, fmt.Errorf("search: unknown strategy %q: there are %s", name, strings.Join(Names(), ", "))
	}
	l, err := newLedger(k.name, space, o)
	if err != nil {
		return nil, err
	}
	return k.make(l), nil
}
