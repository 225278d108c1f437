package genome

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/naming"
)

// A branch is the space of one alternative; a space that is not a union has one.
// Genes have local numbers in a branch, in the order of declaration.
type branch struct {
	limits
	name  string
	genes []localGene
	// local has the local number of each gene of the space, or -1.
	local []int
	rules []*rule // constraints in order of declaration, then conditions
	whens []*rule // per gene, nil without a condition
	comps []component
	// deferred lists the pieces that the diagrams leave out.
	deferred []*piece
	length   int // of a path: the levels of all components
	count    float64
	total    uint64 // count, when exact
	exact    bool   // whether the diagrams' counts are
}

type localGene struct {
	Gene
	global int
	kind   Kind
	values []int32 // by slot: the index among the space's values of the gene
	slotOf []int32 // the inverse, -1 for values that the branch lacks
	// conditional says whether the gene can be inactive.
	conditional bool
}

// slots counts the slots: the values, and inactive for a conditional gene.
func (g *localGene) slots() int32 {
	n := int32(len(g.Values))
	if g.conditional {
		n++
	}
	return n
}

// A component is a set of genes that no rule connects to others, with the
// diagram over them.
type component struct {
	genes []int // per level: the local number
	start int   // of its slots in a path of the branch
	d     *diagram
	total uint64
	// checks lists, per level, the deferred pieces whose last gene is read
	// there; nil when the component has none.
	checks [][]*piece
}

// checkCycles refuses conditions that depend on each other.
func (b *branch) checkCycles() error {
	all := make([]int, len(b.genes))
	for g := range all {
		all[g] = g
	}
	trail := naming.Cycle(all, func(g int) []int {
		if b.whens[g] == nil {
			return nil
		}
		return b.whens[g].names
	})
	if trail == nil {
		return nil
	}
	names := make([]string, len(trail))
	for i, g := range trail {
		names[i] = b.genes[g].Name
	}
	return fmt.Errorf("space: conditions depend on each other: %s", strings.Join(names, " needs "))
}

// inactive says whether a slot of a gene means that it does not exist.
func (b *branch) inactive(gene int, slot int32) bool {
	return int(slot) == len(b.genes[gene].Values)
}

// build makes the components and their diagrams.
func (b *branch) build() error {
	var active []*piece
	for _, r := range b.rules {
		for _, p := range r.pieces(b) {
			switch {
			case p.silent:
				b.postpone(p)
				active = append(active, p)
			case r.gene < 0 && p.term.Decided() == expr.True:
			case r.gene < 0 && len(p.scope) == 0 && p.term.Decided() == expr.Overflows:
				return r.overflow(b, make([]Value, len(r.names)))
			case r.gene < 0 && len(p.scope) == 0: // false or failing
				return b.emptied([]*rule{r})
			default:
				active = append(active, p)
			}
		}
	}
	all := make([]int, len(b.genes))
	for i := range all {
		all[i] = i
	}
	failures := 0
	for work := b.split(all, active); len(work) > 0; {
		p := work[0]
		work = work[1:]
		// Every failure costs its budget; later ones must cost less.
		c, left, err := b.buildComponent(p, max(b.automaton>>(2*failures), min(b.automaton, 1<<12)), b.diagram)
		switch {
		case errors.Is(err, errBudget):
			failures++
			left[0].silent = true
			b.postpone(left[0])
			work = append([]part{p}, work...)
			continue
		case errors.Is(err, ErrEmpty):
			return b.emptied(b.culprits(p))
		case err != nil:
			return err
		}
		for _, x := range left {
			b.postpone(x)
		}
		b.comps = append(b.comps, c)
	}
	b.sum()
	for i := range b.comps {
		b.comps[i].watch(b)
	}
	return nil
}

// watch fills in checks.
func (c *component) watch(b *branch) {
	for _, x := range b.deferred {
		last := -1
		for _, g := range x.joined() {
			last = max(last, slices.Index(c.genes, g))
		}
		if last < 0 {
			continue // it belongs to another component
		}
		if c.checks == nil {
			c.checks = make([][]*piece, len(c.genes))
		}
		c.checks[last] = append(c.checks[last], x)
	}
}

// sum assigns the components their places in a path and counts the branch's paths.
func (b *branch) sum() {
	b.count, b.total, b.exact = 1, 1, true
	for i := range b.comps {
		c := &b.comps[i]
		c.start = b.length
		b.length += len(c.genes)
		b.count *= c.d.size()
		if c.d.counts == nil {
			b.exact = false
			continue
		}
		c.total = c.d.counts[c.d.root]
		if b.exact = b.exact && c.total <= math.MaxInt64/b.total; b.exact {
			b.total *= c.total
		}
	}
}

// postpone defers a piece: it is checked on draws.
func (b *branch) postpone(p *piece) {
	b.deferred = append(b.deferred, p)
}

// A part is a set of genes and the pieces over them, not yet a diagram.
type part struct {
	genes  []int
	pieces []*piece
}

// split groups genes that pieces connect, in the order of the first gene of each group.
func (b *branch) split(genes []int, pieces []*piece) []part {
	parent := make(map[int]int, len(genes))
	for _, g := range genes {
		parent[g] = g
	}
	var find func(g int) int
	find = func(g int) int {
		if parent[g] != g {
			parent[g] = find(parent[g])
		}
		return parent[g]
	}
	for _, p := range pieces {
		joined := p.joined()
		for _, g := range joined[1:] {
			x, y := find(joined[0]), find(g)
			parent[max(x, y)] = min(x, y)
		}
	}
	var parts []part
	at := map[int]int{}
	for _, g := range genes {
		root := find(g)
		i, ok := at[root]
		if !ok {
			i = len(parts)
			at[root] = i
			parts = append(parts, part{})
		}
		parts[i].genes = append(parts[i].genes, g)
	}
	for _, p := range pieces {
		i := at[find(p.joined()[0])]
		parts[i].pieces = append(parts[i].pieces, p)
	}
	return parts
}

// buildComponent makes the diagram of a part, and returns the pieces that had to
// be left out of it. On errBudget that is the one that is too large itself, and
// there is no diagram.
func (b *branch) buildComponent(p part, budgetAutomaton, budgetDiagram int) (component, []*piece, error) {
	o := ordering{needs: make([][]int, len(p.genes))}
	number := make(map[int]int, len(p.genes)) // within the part
	for i, g := range p.genes {
		number[g] = i
		o.slots = append(o.slots, b.genes[g].slots())
	}
	var pieces []*piece // those that are not silent
	for _, x := range p.pieces {
		var scope []int
		for _, g := range x.scope {
			scope = append(scope, number[g])
		}
		if x.gene >= 0 {
			o.needs[number[x.gene]] = scope
			scope = append(slices.Clone(scope), number[x.gene])
		}
		if !x.silent {
			pieces = append(pieces, x)
			o.scopes = append(o.scopes, scope)
		}
	}
	c := component{}
	position := make([]int32, len(b.genes))
	slots := make([]int32, len(p.genes))
	for level, i := range o.solve() {
		c.genes = append(c.genes, p.genes[i])
		position[p.genes[i]] = int32(level)
		slots[level] = o.slots[i]
	}
	autos := make([]*automaton, len(pieces))
	for i, x := range pieces {
		s := scoped{pool: x.pool, term: x.term, gene: -1}
		for i, g := range x.scope {
			s.reads = append(s.reads, read{x.vars[i], position[g], b.genes[g].Values, b.genes[g].conditional})
		}
		slices.SortFunc(s.reads, func(x, y read) int { return int(x.level - y.level) })
		if x.gene >= 0 {
			s.gene, s.slots = position[x.gene], b.genes[x.gene].slots()
		}
		a, err := compileAutomaton(s, budgetAutomaton)
		if o := (*overflowError)(nil); errors.As(err, &o) {
			err = x.overflow(b, o.vals)
		}
		if err != nil {
			return c, []*piece{x}, err
		}
		autos[i] = a
	}
	d, givenUp, err := buildDiagram(slots, autos, budgetDiagram, b.width)
	c.d = d
	var left []*piece
	for _, i := range givenUp {
		left = append(left, pieces[i])
	}
	return c, left, err
}

// culprits returns a smallest (by inclusion) set of constraints of a part that leaves
// no genome, or all constraints when finding one would take long.
func (b *branch) culprits(p part) []*rule {
	var suspects []*rule
	for _, x := range p.pieces {
		if x.gene < 0 && !slices.Contains(suspects, x.rule) {
			suspects = append(suspects, x.rule)
		}
	}
	empty := func(rules []*rule) bool {
		var pieces []*piece
		for _, x := range p.pieces {
			if x.gene >= 0 || slices.Contains(rules, x.rule) {
				pieces = append(pieces, x)
			}
		}
		_, _, err := b.buildComponent(part{p.genes, pieces}, b.automaton, b.diagram/16)
		return errors.Is(err, ErrEmpty)
	}
	for _, r := range suspects { // a single rule is the clearest answer
		if empty([]*rule{r}) {
			return []*rule{r}
		}
	}
	const many = 40
	for i := 0; i < len(suspects) && len(suspects) <= many; {
		if without := slices.Delete(slices.Clone(suspects), i, i+1); empty(without) {
			suspects = without
			continue
		}
		i++
	}
	return suspects
}

// emptied makes the error about rules that leave no genome.
func (b *branch) emptied(rules []*rule) error {
	quote := func(r *rule) string {
		if r.Why == "" {
			return fmt.Sprintf("%q", r.Expr)
		}
		return fmt.Sprintf("%q (%s)", r.Expr, r.Why)
	}
	switch len(rules) {
	case 0:
		return fmt.Errorf("space: %w: the conditions of its genes cannot be evaluated", ErrEmpty)
	case 1:
		r := rules[0]
		// Does it fail wherever it is evaluated? The first values very likely show it,
		// and the message is then much clearer.
		first := func(int) int32 { return 0 }
		if r.judge(b, first) == fails {
			return fmt.Errorf("space: %w: the constraint %s excludes every genome; with the first value of each gene it fails: %s",
				ErrEmpty, quote(r), r.failure(b, first))
		}
		return fmt.Errorf("space: %w: the constraint %s excludes every genome", ErrEmpty, quote(r))
	}
	quoted := make([]string, len(rules))
	for i, r := range rules {
		quoted[i] = quote(r)
	}
	return fmt.Errorf("space: %w: no genome satisfies these constraints together: %s", ErrEmpty, strings.Join(quoted, " and "))
}

// admits checks the deferred rules on a path of the diagrams.
func (b *branch) admits(path []int32) bool {
	if len(b.deferred) == 0 {
		return true
	}
	slots := make([]int32, len(b.genes))
	for i := range b.comps {
		c := &b.comps[i]
		for l, g := range c.genes {
			slots[g] = path[c.start+l]
		}
	}
	slot := func(g int) int32 { return slots[g] }
	for _, x := range b.deferred {
		if !x.satisfied(b, slot) {
			return false
		}
	}
	return true
}

// slot returns the slot of a value of the space's gene, or of inactive (-1).
func (g *localGene) slot(value int) int32 {
	if value < 0 {
		return int32(len(g.Values))
	}
	return g.slotOf[value]
}

// all walks the components from comp on; false when yield asked to stop.
func (b *branch) all(comp int, path []int32, yield func() bool) bool {
	if comp == len(b.comps) {
		return yield()
	}
	c := &b.comps[comp]
	mine := path[c.start : c.start+len(c.genes)]
	var walk func(level int, node int32) bool
	walk = func(level int, node int32) bool {
		if level == len(c.genes) {
			return b.all(comp+1, path, yield)
		}
		for s, child := range c.d.children(level, node) {
			if child == dead {
				continue
			}
			if mine[level] = int32(s); !walk(level+1, child) {
				return false
			}
		}
		return true
	}
	return walk(0, c.d.root)
}
