package search

import (
	"math"
	"slices"

	"github.com/MaxHalford/eaopt"

	"github.com/evotune/evotune/genome"
)

// Evolution is a steady-state genetic algorithm with local search. A model selects
// among the offspring. eaopt keeps the population, selects parents by tournament, and
// dispatches crossover and mutation. The operators themselves are genome.Space's: they
// keep constraints. The model, the bandit and the loop are evotune's own: each outcome
// goes into the population at once, and each proposal is made from what is there,
// however many outcomes are outstanding.
//
// A campaign begins with a few genomes that are spread over the space. Then each
// proposal takes these steps:
//
//  1. A bandit chooses an operator by the recent reward of each.
//  2. The operator makes many offspring of the population's members. As many
//     random genomes are added, so that the search looks beyond its population.
//  3. The surrogate, a model of what is known, picks the one to propose, unless
//     the operator is the random draw: the model must not keep the search away from
//     where it expects nothing.
//
// Only better genomes replace the best of the population (elitism), and the mutation
// rate grows while the search stalls. If the stall lasts, the epoch ends and the search
// starts anew.
type Evolution struct {
	*ledger
	parts   parts
	pop     eaopt.Population
	seeds   int     // spread genomes still to be proposed
	epoch   int     // the first entry of the epoch
	best    float64 // score, of the epoch; +Inf while nothing is known
	found   int     // the entry of the best; the first while there is none
	stalled int     // proposals since the best was found
	bandit  bandit
	model   *surrogate
	// births holds, for each proposal, the operator that its outcome is credited
	// to: an index in breeding, or -1.
	births []int
	// around holds the genomes one gene away from members, beside holds those
	// one small step away.
	around, beside surroundings
	active         int     // genes with more than one value
	litter         []child // the result of offspring
}

// parts are the settings of evolution. The ablation of docs/evidence/search.md
// changes one at a time.
type parts struct {
	// seeds is how many genomes an epoch begins with; spread says that they are
	// chosen far from each other.
	seeds  int
	spread bool
	// patience is how many outcomes in a row may fail to improve on the best
	// before an epoch ends.
	patience int
	// population is the largest number of members.
	population int
	// broods is how many unspent offspring the surrogate chooses from, draws
	// how many random genomes are added to them.
	broods, draws int
	// pay is the initial estimate of each breeding operator's reward; operators
	// with zero are not used. Without adaptive, the estimate never changes.
	pay      []float64
	adaptive bool
	// ahead says that proposals in flight shape the next ones: seeds, operators
	// and parents.
	ahead bool
	model modelParts
}

// standard has the settings that users get. The numbers were chosen by
// leave-one-kernel-out; docs/evidence/search.md describes how, and the effect of
// others.
var standard = parts{
	seeds: 6, spread: true, patience: 150,
	population: 20,
	broods:     30, draws: 30,
	pay: []float64{0.3, 0.2, 0.2, 0.3, 0.1}, adaptive: true,
	ahead: true,
	model: modelParts{
		memory: 112, cut: 0.5, shared: 0.5, decay: 1, width: 9, learned: true,
	},
}

// localSpread is the deviation of the half-normal rank that local search starts
// from: the best in half of the cases, one of the next few in the others.
const localSpread = 1.5

// expected is the largest number of proposals in flight that may be parents. More would
// cost time and change little, since a population has fewer members.
const expected = 40

func newEvolution(l *ledger) Strategy { return standard.assemble(l) }

func (p parts) assemble(l *ledger) *Evolution {
	e := &Evolution{
		ledger: l, parts: p,
		pop:   eaopt.Population{RNG: l.rng},
		seeds: p.seeds, best: math.Inf(1),
		bandit: newBandit(p.pay), model: newSurrogate(l.space, p.model),
	}
	e.around = newSurroundings(l.space.Neighbours)
	e.beside = newSurroundings(l.space.Adjacent)
	for _, g := range l.space.Genes() {
		if len(g.Values) > 1 {
			e.active++
		}
	}
	for i := range e.entries {
		e.model.add(e.entries[i].genome)
		e.learn(i)
	}
	e.seeds = max(0, e.seeds-len(e.entries))
	e.found = len(e.entries)
	return e
}

// restart begins an epoch. The genomes of earlier epochs stay spent, and what was
// learned about the similarity of each gene's values is kept. Earlier outcomes are
// dropped, those in flight too: compared with the best of them no new start would
// look promising.
func (e *Evolution) restart() {
	e.epoch, e.found = len(e.entries), len(e.entries)
	e.seeds, e.best, e.stalled = e.parts.seeds, math.Inf(1), 0
	e.pop.Individuals = nil
	e.bandit = newBandit(e.parts.pay)
	e.model.clear()
}

// Ask makes the next proposal.
func (e *Evolution) Ask() (Proposal, bool) {
	if g, ok := e.warm(); ok {
		return e.deliver(-1, g, opWarm), true
	}
	e.stalled++
	if e.seeds > 0 || len(e.pop.Individuals) < enoughToBreed {
		e.seeds = max(0, e.seeds-1)
		if g, ok := e.seed(); ok {
			return e.deliver(-1, g, opSeed), true
		}
	} else if c, ok := e.breed(); ok {
		return e.deliver(c.operator, c.genome, breeding[c.operator], c.parents...), true
	}
	// Nearly all genomes nearby, or in the space, are spent.
	g, ok := e.fresh()
	if !ok {
		return Proposal{}, false
	}
	return e.deliver(-1, g, opRandom), true
}

func (e *Evolution) deliver(operator int, g genome.Genome, name string, parents ...int) Proposal {
	e.births = append(e.births, operator)
	e.model.add(g)
	return e.propose(g, name, parents...)
}

// ahead says whether there are proposals in flight to take into account.
func (e *Evolution) ahead() bool { return e.parts.ahead && e.inFlight() > 0 }

// seed draws a genome to begin with. While others are in flight, it picks the one about
// which the model is least certain: so far the model only knows where the others are.
func (e *Evolution) seed() (genome.Genome, bool) {
	if !e.parts.spread {
		return e.fresh()
	}
	if !e.ahead() {
		return e.spread()
	}
	c, ok := e.pick(0, nil)
	return c.genome, ok
}

// A child is an offspring, the operator that made it and the entries of its
// parents.
type child struct {
	genome   genome.Genome
	operator int
	parents  []int
}

// breed makes an offspring by an operator that the bandit chooses; false if there
// is none.
//
// While others are in flight the random draw is not among the operators. Proposals in
// flight are based on less information and kept apart from each other, so they explore
// enough.
func (e *Evolution) breed() (child, bool) {
	operators := e.bandit
	if e.ahead() {
		operators.value = operators.value[:random]
	}
	operator := operators.choose(e.rng)
	if operator == random {
		g, ok := e.fresh()
		return child{genome: g, operator: operator}, ok
	}
	if e.ahead() {
		told := e.pop
		defer func() { e.pop = told }()
		e.expect()
	}
	return e.pick(e.parts.broods, func() []child { return e.offspring(operator) })
}

// expect lets the latest proposals in flight be parents, as if their outcomes were what
// the model expects. Otherwise the next generations would wait for them.
func (e *Evolution) expect() {
	e.pop.Individuals = slices.Clone(e.pop.Individuals)
	first := max(e.epoch, e.known+e.told)
	for i := max(first, len(e.entries)-expected); i < len(e.entries); i++ {
		insert(&e.pop, &member{genome: e.entries[i].genome, fitness: e.model.expected(i - first), entry: i}, e.parts.population)
	}
}

// pick returns the most promising of the requested number of unspent offspring and
// of the random genomes added to them; false if there is none.
func (e *Evolution) pick(broods int, offspring func() []child) (child, bool) {
	var best child
	most, found := math.Inf(-1), 0
	weigh := func(c child) {
		if c.genome.IsZero() || e.isSpent(c.genome) {
			return
		}
		found++
		if p := e.model.promise(c.genome, most); best.genome.IsZero() || p > most {
			best, most = c, p
		}
	}
	// If little is unspent, many tries fail.
	for tries := 0; found < broods && tries < 3*broods; tries++ {
		for _, c := range offspring() {
			weigh(c)
		}
	}
	for range e.parts.draws {
		weigh(child{genome: e.space.Random(e.rng), operator: random})
	}
	return best, !best.genome.IsZero()
}

// offspring applies an operator once, to one candidate or to two. The zero
// Genome means that it has no result. The result is valid until the next
// call.
func (e *Evolution) offspring(operator int) []child {
	e.litter = e.litter[:0]
	bear := func(g genome.Genome, parents ...int) { e.litter = append(e.litter, child{g, operator, parents}) }
	if breeding[operator] == opLocal {
		rank := int(math.Abs(e.rng.NormFloat64()) * localSpread)
		parent := entryOf(e.pop.Individuals[min(rank, len(e.pop.Individuals)-1)])
		bear(e.around.draw(e.ledger, parent), parent)
		return e.litter
	}
	a, b := parents(&e.pop)
	x, y := a.Genome.(*member), b.Genome.(*member)
	x.rate, y.rate = e.mutationRate(), e.mutationRate()
	switch breeding[operator] {
	case opCrossover:
		a.Crossover(b, e.rng)
		for _, both := range []eaopt.Individual{a, b} {
			// The probability that a mutation at this rate changes something.
			if e.rng.Float64() < 1-1/math.E {
				both.Mutate(e.rng)
			}
		}
		bear(x.genome, x.entry, y.entry)
		bear(y.genome, x.entry, y.entry)
	case opMutation:
		a.Mutate(e.rng)
		b.Mutate(e.rng)
		bear(x.genome, x.entry)
		bear(y.genome, y.entry)
	case opStep:
		bear(e.beside.draw(e.ledger, x.entry), x.entry)
		bear(e.beside.draw(e.ledger, y.entry), y.entry)
	}
	return e.litter
}

// mutationRate is the probability that a gene is drawn anew: one gene per genome on
// average, and up to three while the search stalls.
func (e *Evolution) mutationRate() float64 {
	urge := 1 + math.Min(2, float64(e.stalled)/30)
	return math.Min(0.5, urge/float64(max(1, e.active)))
}

// Tell adds the outcome to the population, the surrogate and the bandit.
func (e *Evolution) Tell(index int, o Outcome) {
	i := e.record(index, o)
	if i < e.epoch {
		return
	}
	if operator := e.births[index]; operator >= 0 && e.parts.adaptive {
		e.bandit.reward(operator, e.paid(&e.entries[i]))
	}
	e.learn(i)
	if i-e.found >= e.parts.patience {
		e.restart()
	}
}

// paid is the reward for a candidate: 1 for a new best, falling to 0 at the
// median of the population.
func (e *Evolution) paid(c *entry) float64 {
	members := e.pop.Individuals
	if !c.ok || len(members) == 0 {
		return 0
	}
	rank := 0
	for rank < len(members) && members[rank].Fitness <= c.score {
		rank++
	}
	return math.Max(0, 1-2*float64(rank)/float64(len(members)))
}

// learn adds entry i, which was told, to the population and the surrogate.
func (e *Evolution) learn(i int) {
	c := &e.entries[i]
	if !c.ok {
		e.model.tell(math.Inf(1))
		return
	}
	e.model.tell(c.score)
	if c.score < e.best {
		e.best, e.found, e.stalled = c.score, i, 0
	}
	insert(&e.pop, &member{genome: c.genome, fitness: c.score, entry: i}, e.parts.population)
}
