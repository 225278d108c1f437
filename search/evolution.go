package search

import (
	"math"
	"slices"

	"github.com/MaxHalford/eaopt"

	"github.com/evotune/evotune/genome"
)

// Evolution is a steady-state genetic algorithm with local search, on the parts
// of eaopt: its populations, tournament selection and ring migration. The loop
// is ours: each outcome goes into a population at once, and each question is
// answered from what is there, however many outcomes are outstanding.
//
// A campaign begins with genomes that are spread over the space. Then each
// proposal takes these steps:
//
//  1. An island is chosen. There is one at first. When the newest has not
//     improved for a while another is founded, far from all that is known, and
//     shares the proposals with the best; islands exchange members; when there
//     are too many, the worst is given up. That is the guard against a basin
//     that holds no optimum.
//  2. A bandit chooses the operator by what each has paid lately.
//  3. The operator makes several offspring of the island's members, and the
//     screen, a cheap model of what is known, picks the one to propose. Random
//     draws are not screened, so that the model cannot keep the search from
//     looking elsewhere.
//
// The best of an island are never lost but to better ones (elitism), and the
// mutation rate grows while an island stalls.
type Evolution struct {
	*ledger
	pops    eaopt.Populations
	islands []island // state of pops[i]
	founded int      // islands founded so far
	bandit  bandit
	screen  *screen
	// births says for each proposal how it was made, from index known on.
	births []birth
	// around holds the genomes one gene away from members, beside those one
	// small step away.
	around, beside surroundings
	active         int     // genes with more than one value
	litter         []child // what offspring returns
}

// A birth is what Tell needs to know about a proposal.
type birth struct {
	island   int // id
	operator int // index in breeding, or -1
}

const (
	// popSize is the size of a population, and the number of spread genomes
	// that the first one starts with.
	popSize = 20
	// outpostSeeds is how many spread genomes a later island starts with.
	outpostSeeds = 8
	// patience is how many proposals the newest island may make without
	// getting better before another is founded.
	patience = 60
	// maxIslands bounds the number of islands.
	maxIslands = 3
	// outpostShare is the share of the proposals that the newest island gets
	// while it is not the best.
	outpostShare = 0.5
	// migrationEvery is how many outcomes lie between two migrations.
	migrationEvery = 40
	// broods is how many unspent offspring the screen chooses from.
	broods = 6
	// maxVain bounds the attempts to find one that is unspent.
	maxVain = 5 * broods
	// localSpread is the deviation of the half-normal rank that local search
	// starts from: the best in half of the cases, the next few in the others.
	localSpread = 1.5
)

func newEvolution(l *ledger) Strategy {
	e := &Evolution{ledger: l, bandit: newBandit(), screen: newScreen(l.space)}
	e.around = newSurroundings(l.space.Neighbours)
	e.beside = newSurroundings(l.space.Adjacent)
	for _, g := range l.space.Genes() {
		if len(g.Values) > 1 {
			e.active++
		}
	}
	e.found(popSize)
	for i := range e.entries {
		e.learn(i, 0)
		e.islands[0].unseeded = max(0, e.islands[0].unseeded-1)
	}
	return e
}

// found opens an island.
func (e *Evolution) found(seeds int) {
	e.pops = append(e.pops, eaopt.Population{RNG: e.rng})
	e.islands = append(e.islands, island{id: e.founded, unseeded: seeds, best: math.Inf(1)})
	e.founded++
}

// Ask makes the next proposal.
func (e *Evolution) Ask() (Proposal, bool) {
	k := e.chooseIsland()
	e.islands[k].stalled++
	if e.islands[k].unseeded > 0 || len(e.pops[k].Individuals) < enoughToBreed {
		e.islands[k].unseeded = max(0, e.islands[k].unseeded-1)
		if g, ok := e.spread(e.landmarks()); ok {
			return e.deliver(k, -1, g, opSeed), true
		}
		return e.anything(k)
	}
	o := e.bandit.choose(e.rng)
	if c, ok := e.breed(k, breeding[o]); ok {
		return e.deliver(k, o, c.genome, breeding[o], c.parents...), true
	}
	return e.anything(k)
}

// anything proposes a random genome, for want of a better one: the island, or
// the space, is nearly grazed.
func (e *Evolution) anything(k int) (Proposal, bool) {
	g, ok := e.fresh()
	if !ok {
		return Proposal{}, false
	}
	return e.deliver(k, -1, g, opRandom), true
}

func (e *Evolution) deliver(k, operator int, g genome.Genome, name string, parents ...int) Proposal {
	e.births = append(e.births, birth{e.islands[k].id, operator})
	return e.propose(g, name, parents...)
}

// chooseIsland gives the position of the island that proposes next, and founds
// another when the newest has stalled.
func (e *Evolution) chooseIsland() int {
	newest := len(e.islands) - 1
	if e.islands[newest].stalled > patience && e.islands[newest].unseeded == 0 {
		if len(e.islands) == maxIslands {
			worst := 0
			for i := range e.islands {
				if e.islands[i].best > e.islands[worst].best {
					worst = i
				}
			}
			e.islands = slices.Delete(e.islands, worst, worst+1)
			e.pops = slices.Delete(e.pops, worst, worst+1)
		}
		e.found(outpostSeeds)
		return len(e.islands) - 1
	}
	if newest > 0 && e.rng.Float64() < outpostShare {
		return newest
	}
	return e.bestIsland()
}

func (e *Evolution) bestIsland() int {
	best := 0
	for i := range e.islands {
		if e.islands[i].best < e.islands[best].best {
			best = i
		}
	}
	return best
}

// landmarks are what spread genomes keep away from: the members of all islands
// and the latest proposals.
func (e *Evolution) landmarks() []genome.Genome {
	var out []genome.Genome
	for _, pop := range e.pops {
		for _, indi := range pop.Individuals {
			out = append(out, indi.Genome.(*member).Genome)
		}
	}
	for i := max(0, len(e.entries)-2*popSize); i < len(e.entries); i++ {
		out = append(out, e.entries[i].genome)
	}
	return out
}

// A child is an offspring and the entries of its parents.
type child struct {
	genome  genome.Genome
	parents []int
}

// breed makes offspring by an operator and gives the most promising one that is
// unspent; false if none turned up.
func (e *Evolution) breed(k int, operator string) (child, bool) {
	var best child
	promise := math.Inf(1)
	enough := broods
	if operator == opRandom {
		enough = 1
	}
	for found, tries := 0, 0; found < enough && tries < maxVain; tries++ {
		for _, c := range e.offspring(k, operator) {
			if c.genome.IsZero() || e.isSpent(c.genome) {
				continue
			}
			found++
			if p := e.screen.guess(c.genome); best.genome.IsZero() || p < promise {
				best, promise = c, p
			}
		}
	}
	return best, !best.genome.IsZero()
}

// offspring applies an operator once, to one candidate or to two. The zero
// Genome means that it has nothing to offer. The result is valid until the next
// call.
func (e *Evolution) offspring(k int, operator string) []child {
	e.litter = e.litter[:0]
	bear := func(g genome.Genome, parents ...int) { e.litter = append(e.litter, child{g, parents}) }
	pop := &e.pops[k]
	switch operator {
	case opRandom:
		bear(e.space.Random(e.rng))
		return e.litter
	case opLocal:
		rank := int(math.Abs(e.rng.NormFloat64()) * localSpread)
		parent := entryOf(pop.Individuals[min(rank, len(pop.Individuals)-1)])
		bear(e.around.draw(e.ledger, parent), parent)
		return e.litter
	}
	a, b := parents(pop)
	x, y := a.Genome.(*member), b.Genome.(*member)
	x.Rate, y.Rate = e.mutationRate(k), e.mutationRate(k)
	switch operator {
	case opCrossover:
		a.Crossover(b, e.rng)
		for _, both := range []eaopt.Individual{a, b} {
			// As often as a mutation at this rate would change something.
			if e.rng.Float64() < 1-1/math.E {
				both.Mutate(e.rng)
			}
		}
		bear(x.Genome, x.entry, y.entry)
		bear(y.Genome, x.entry, y.entry)
	case opMutation:
		a.Mutate(e.rng)
		b.Mutate(e.rng)
		bear(x.Genome, x.entry)
		bear(y.Genome, y.entry)
	case opStep:
		bear(e.beside.draw(e.ledger, x.entry), x.entry)
		bear(e.beside.draw(e.ledger, y.entry), y.entry)
	}
	return e.litter
}

// mutationRate is the chance of a gene to be drawn anew: one gene per genome on
// average, and up to three while the island stalls.
func (e *Evolution) mutationRate(k int) float64 {
	urge := 1 + math.Min(2, float64(e.islands[k].stalled)/30)
	return math.Min(0.5, urge/float64(max(1, e.active)))
}

// Tell takes the outcome into the island that asked for it, the screen and the
// bandit.
func (e *Evolution) Tell(index int, o Outcome) {
	i := e.record(index, o)
	b := e.births[index]
	k := slices.IndexFunc(e.islands, func(l island) bool { return l.id == b.island })
	if k < 0 { // given up in the meantime
		k = e.bestIsland()
	}
	if b.operator >= 0 {
		e.bandit.reward(b.operator, e.paid(k, &e.entries[i]))
	}
	e.learn(i, k)
	if e.told%migrationEvery == 0 {
		migrate(e.pops, popSize, e.rng)
		for i := range e.islands {
			if members := e.pops[i].Individuals; len(members) > 0 {
				e.islands[i].best = members[0].Fitness
			}
		}
	}
}

// paid is the reward for a candidate: 1 for a new best of its island, falling
// to 0 at the median of the population.
func (e *Evolution) paid(k int, c *entry) float64 {
	members := e.pops[k].Individuals
	if !c.ok || len(members) == 0 {
		return 0
	}
	rank := 0
	for rank < len(members) && members[rank].Fitness <= c.score {
		rank++
	}
	return math.Max(0, 1-2*float64(rank)/float64(len(members)))
}

// learn takes entry i, which was told, into island k and the screen.
func (e *Evolution) learn(i, k int) {
	c := &e.entries[i]
	if !c.ok {
		e.screen.learn(c.genome, math.Inf(1))
		return
	}
	e.screen.learn(c.genome, c.score)
	if c.score < e.islands[k].best {
		e.islands[k].best, e.islands[k].stalled = c.score, 0
	}
	insert(&e.pops[k], &member{
		Individual: genome.Individual{Genome: c.genome, Fitness: c.score, Told: true},
		entry:      i,
	}, popSize)
}
