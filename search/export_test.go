package search

import (
	"math"
	"slices"
)

// Unregister forgets a strategy that a test registered.
func Unregister(name string) {
	kinds = slices.DeleteFunc(kinds, func(k kind) bool { return k.name == name })
}

// Variants are evolution with one part changed at a time, in the order of
// docs/evidence/search.md.
var Variants = []struct {
	Name   string
	change func(*parts)
}{
	{"nothing", func(*parts) {}},
	{"no model: one offspring", func(p *parts) { p.broods, p.draws = 1, 0 }},
	{"the model's similarities fixed", func(p *parts) { p.model.learned = false }},
	{"no share between a gene's values", func(p *parts) { p.model.shared = 0 }},
	{"expected decay 0.5", func(p *parts) { p.model.decay = 0.5 }},
	{"expected decay 2", func(p *parts) { p.model.decay = 2 }},
	{"scores cut at the best third", func(p *parts) { p.model.cut = 1.0 / 3 }},
	{"scores not cut", func(p *parts) { p.model.cut = 1 }},
	{"memory of 48 outcomes", func(p *parts) { p.model.memory = 48 }},
	{"no random genomes beside the offspring", func(p *parts) { p.draws = 0 }},
	{"100 random genomes", func(p *parts) { p.draws = 100 }},
	{"no genetics: 60 random genomes", func(p *parts) { p.broods, p.draws = 0, 60 }},
	{"10 offspring, 10 random genomes", func(p *parts) { p.broods, p.draws = 10, 10 }},
	{"3 seeds", func(p *parts) { p.seeds = 3 }},
	{"12 seeds", func(p *parts) { p.seeds = 12 }},
	{"20 seeds", func(p *parts) { p.seeds = 20 }},
	{"seeds drawn uniformly", func(p *parts) { p.spread = false }},
	{"operators at fixed shares", func(p *parts) { p.adaptive = false }},
	{"population of 10", func(p *parts) { p.population = 10 }},
	{"population of 40", func(p *parts) { p.population = 40 }},
}

// AddVariants makes the variants strategies that New knows, for one test.
func AddVariants() (remove func()) {
	was := kinds
	for _, v := range Variants {
		add(v.Name, v.change)
	}
	return func() { kinds = was }
}

// AddEndless makes "endless", which is evolution whose first epoch never ends, a
// strategy that New knows, for one test.
func AddEndless() (remove func()) {
	was := kinds
	add("endless", func(p *parts) { p.patience = math.MaxInt })
	return func() { kinds = was }
}

// AddBlind makes "blind", which is evolution that chooses seeds, operators and parents
// as if nothing was in flight, a strategy that New knows, for one test.
func AddBlind() (remove func()) {
	was := kinds
	add("blind", func(p *parts) { p.ahead = false })
	return func() { kinds = was }
}

func add(name string, change func(*parts)) {
	p := standard
	change(&p)
	kinds = append(kinds[:len(kinds):len(kinds)], kind{name, 1, func(l *ledger) Strategy { return p.assemble(l) }})
}

// Patience is how many outcomes in a row may be no better before an epoch ends.
var Patience = standard.patience
