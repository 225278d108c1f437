package genome

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand"
	"slices"
	"strings"
)

// A Space is the set of valid genomes over some genes. It is immutable and
// safe for concurrent use.
type Space struct {
	genes    []Gene
	text     [][]string      // per gene and value: the canonical form
	lookup   []map[Value]int // per gene: the index of a value
	byName   map[string]int
	union    bool // whether gene 0 chooses the branch
	branches []*branch
	limits   limits
	listed   bool // whether the valid genomes were listed, not described
	// relaxed is the number of genomes that the diagrams hold; size is the
	// number of valid ones, estimated when there are deferred rules.
	relaxed, size float64
	exact         bool
	varying       int // genes that are not the same in every genome by declaration
}

// A branch is the space of one alternative; a space that is no union has one.
// Genes have local numbers in a branch, in the order of declaration.
type branch struct {
	limits
	name  string
	genes []localGene
	// local gives the local number of a gene of the space, or -1.
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
	// conditional tells whether the gene can be inactive.
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

// A component is a set of genes that no rule joins to others, with the
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

// A rule is a constraint or the condition of a gene.
type rule struct {
	Constraint
	gene  int                // local gene whose condition it is, -1 for a constraint
	exprs []*Expr            // per set of constants
	envs  []map[string]Value // the sets
	names []int              // the local genes that it names
	// term has the i-th of names as variable i; nil when there are too many.
	term *term
	pool *pool // of the term, until the diagrams are built
}

// A piece is a condition, or one of the parts that "and" joins in a
// constraint: the less a piece says, the more genes stay independent.
type piece struct {
	*rule
	term  *term
	scope []int // the local genes that it depends on
	vars  []int // their variables in the term
	// silent: it is deferred and has no part in the diagram. It still joins
	// its genes in one component, where repairs can heed it.
	silent bool
}

// Limits bound what NewSpace spends on diagrams.
type limits struct {
	automaton int // children per constraint
	diagram   int // edges per component, about
	width     int // nodes that every level may have, whatever was spent before
}

// standard keeps NewSpace within a second or two and some 150 MB even for
// spaces made to defeat it; see docs/spaces.md.
var standard = limits{automaton: 1 << 19, diagram: 1 << 21, width: 1024}

const (
	maxGenes  = 1000
	maxValues = 1<<16 - 2

	estimateDraws    = 200000 // at most, to estimate the size
	estimateAccepted = 2000   // accepted draws that are enough
	leastAccepted    = 10     // fewer make a space that nobody can search
	maxRejectedDraws = 1 << 26
)

// NewSpace compiles genes and constraints, once. Each env is a set of
// constants (a shape's dimensions, a device's limits) that expressions can
// name; all sets have the same names. A constraint must hold under every set;
// no set at all is one empty set.
//
// An error about an expression is an *ExprError, with its position. errors.Is
// reports ErrEmpty when no genome is valid; the message names a constraint, or
// a smallest set of them, that leaves none.
func NewSpace(genes []Gene, constraints []Constraint, envs ...map[string]any) (*Space, error) {
	return newSpace(standard, genes, constraints, envs)
}

func newSpace(lim limits, genes []Gene, constraints []Constraint, envs []map[string]any) (*Space, error) {
	s := &Space{limits: lim}
	if len(genes) == 0 {
		return nil, errors.New("space: there are no genes; declare one at least")
	}
	if err := s.declare(genes); err != nil {
		return nil, err
	}
	s.seal()
	b, err := s.newBranch("", genes, constraints, envs, nil)
	if err != nil {
		return nil, err
	}
	s.branches = []*branch{b}
	return s, s.measure()
}

// NewUnion makes the space whose first gene, named gene, chooses among
// alternatives, each a space of its own. Genes of the same name in several
// alternatives are one gene, so that an offspring keeps their values when the
// choice changes; the gene has the values of all, and each alternative accepts
// its own only. In expressions the choosing gene is a constant string.
func NewUnion(gene string, alts []Alternative, envs ...map[string]any) (*Space, error) {
	if len(alts) == 0 {
		return nil, errors.New("space: a union needs an alternative at least")
	}
	s := &Space{limits: standard, union: true}
	choice := Gene{Name: gene}
	for _, a := range alts {
		choice.Values = append(choice.Values, Str(a.Name))
	}
	if err := s.declare([]Gene{choice}); err != nil {
		return nil, err
	}
	for _, a := range alts {
		if slices.ContainsFunc(a.Genes, func(g Gene) bool { return g.Name == gene }) {
			return nil, fmt.Errorf("space: %s: gene %s has the name of the choosing gene", a.Name, gene)
		}
		if err := s.declare(a.Genes); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	s.seal()
	for _, a := range alts {
		b, err := s.newBranch(a.Name, a.Genes, a.Constraints, envs, map[string]Value{gene: Str(a.Name)})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		s.branches = append(s.branches, b)
	}
	return s, s.measure()
}

// NewListed makes the space of the listed genomes, each an index vector over
// the genes as Space.Indices gives it: -1 where a gene is inactive. It serves
// recorded spaces whose constraints are not known. Repeats count once; When of
// the genes is not used.
func NewListed(genes []Gene, rows [][]int) (*Space, error) {
	s := &Space{limits: standard, listed: true}
	if len(genes) == 0 {
		return nil, errors.New("space: there are no genes; declare one at least")
	}
	genes = slices.Clone(genes)
	for i := range genes {
		genes[i].When = ""
	}
	if err := s.declare(genes); err != nil {
		return nil, err
	}
	s.seal()
	if len(rows) == 0 {
		return nil, fmt.Errorf("space: %w: no genome is listed", ErrEmpty)
	}
	b, err := s.newBranch("", genes, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	flat := make([]int32, 0, len(rows)*len(genes))
	for n, row := range rows {
		if len(row) != len(genes) {
			return nil, fmt.Errorf("space: listed genome %d has %d indices for %d genes", n, len(row), len(genes))
		}
		for i, k := range row {
			g := &b.genes[i]
			if k < -1 || k >= len(g.Values) {
				return nil, fmt.Errorf("space: listed genome %d: gene %s has no value with index %d, only 0 to %d", n, g.Name, k, len(g.Values)-1)
			}
			g.conditional = g.conditional || k < 0
			flat = append(flat, g.slot(k))
		}
	}
	c := component{}
	slots := make([]int32, len(genes))
	for i := range genes {
		c.genes = append(c.genes, i)
		slots[i] = b.genes[i].slots()
	}
	c.d = listDiagram(slots, flat)
	b.comps = []component{c}
	b.length = 0
	b.sum()
	s.branches = []*branch{b}
	return s, s.measure()
}

// declare checks genes and adds them to the space's; values of genes of the
// same name are joined.
func (s *Space) declare(genes []Gene) error {
	if s.byName == nil {
		s.byName = map[string]int{}
	}
	seen := map[string]bool{}
	for _, g := range genes {
		if err := checkName(g.Name); err != nil {
			return fmt.Errorf("space: gene: %w", err)
		}
		if seen[g.Name] {
			return fmt.Errorf("space: gene %s is declared twice", g.Name)
		}
		seen[g.Name] = true
		values, _, err := normalise(g)
		if err != nil {
			return fmt.Errorf("space: gene %s: %w", g.Name, err)
		}
		i, ok := s.byName[g.Name]
		if !ok {
			s.byName[g.Name] = len(s.genes)
			g.Values = values
			s.genes = append(s.genes, g)
			continue
		}
		old := &s.genes[i]
		old.Ordinal = old.Ordinal && g.Ordinal
		if old.When != g.When {
			old.When = "" // differs between alternatives
		}
		rising := ascending(old.Values) && ascending(values)
		for _, v := range values {
			if !slices.Contains(old.Values, v) {
				old.Values = append(old.Values, v)
			}
		}
		if rising {
			slices.SortStableFunc(old.Values, func(a, b Value) int {
				x, _ := a.Number()
				y, _ := b.Number()
				if x != y {
					return int(math.Copysign(1, x-y))
				}
				return int(a.kind) - int(b.kind)
			})
		}
	}
	if len(s.genes) > maxGenes {
		return fmt.Errorf("space: %d genes are too many, at most %d", len(s.genes), maxGenes)
	}
	return nil
}

func ascending(values []Value) bool {
	for i, v := range values {
		x, ok := v.Number()
		if !ok || v.kind == KindBool {
			return false
		}
		if i > 0 {
			if y, _ := values[i-1].Number(); y >= x {
				return false
			}
		}
	}
	return true
}

// normalise gives the values of a gene in one kind, and that kind.
func normalise(g Gene) ([]Value, Kind, error) {
	if len(g.Values) == 0 {
		return nil, 0, errors.New("it has no values")
	}
	if len(g.Values) > maxValues {
		return nil, 0, fmt.Errorf("%d values are too many, at most %d", len(g.Values), maxValues)
	}
	kind := g.Values[0].kind
	for _, v := range g.Values {
		if kind == KindInt && v.kind == KindFloat {
			kind = KindFloat
		}
	}
	values := make([]Value, len(g.Values))
	seen := make(map[Value]bool, len(g.Values))
	for i, v := range g.Values {
		w, ok := v.convert(kind)
		if !ok || v.kind == KindNone {
			return nil, 0, fmt.Errorf("value %s is a %s among values of type %s; use one type", v, v.kind, kind)
		}
		if f := w.float(); kind == KindFloat && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return nil, 0, fmt.Errorf("value %s is not finite", w)
		}
		if seen[w] {
			return nil, 0, fmt.Errorf("value %s is listed twice", w)
		}
		seen[w] = true
		values[i] = w
	}
	return values, kind, nil
}

// seal prepares the lookups once every gene is declared.
func (s *Space) seal() {
	for _, g := range s.genes {
		text := make([]string, len(g.Values))
		lookup := make(map[Value]int, len(g.Values))
		for i, v := range g.Values {
			text[i] = v.String()
			lookup[v] = i
		}
		s.text = append(s.text, text)
		s.lookup = append(s.lookup, lookup)
	}
}

// newBranch compiles one alternative.
func (s *Space) newBranch(name string, genes []Gene, constraints []Constraint, envs []map[string]any, extra map[string]Value) (*branch, error) {
	b := &branch{limits: s.limits, name: name, local: make([]int, len(s.genes)), whens: make([]*rule, len(genes))}
	for i := range b.local {
		b.local[i] = -1
	}
	names := make(map[string]int, len(genes)) // of genes: the local number
	types := map[string]Kind{}
	for i, g := range genes {
		values, kind, err := normalise(g)
		if err != nil {
			return nil, fmt.Errorf("space: gene %s: %w", g.Name, err)
		}
		l := localGene{Gene: g, global: s.byName[g.Name], kind: kind, conditional: g.When != ""}
		l.Values = values
		l.slotOf = make([]int32, len(s.genes[l.global].Values))
		for k := range l.slotOf {
			l.slotOf[k] = -1
		}
		for slot, v := range values {
			k := s.lookup[l.global][v]
			l.values = append(l.values, int32(k))
			l.slotOf[k] = int32(slot)
		}
		b.genes = append(b.genes, l)
		b.local[l.global] = i
		names[g.Name] = i
		types[g.Name] = kind
	}
	constants, err := readConstants(envs, extra, types)
	if err != nil {
		return nil, err
	}
	for _, c := range constraints {
		r := &rule{Constraint: c, gene: -1}
		if err := b.compileRule(r, names, types, constants); err != nil {
			return nil, fmt.Errorf("space: constraint: %w", err)
		}
		b.rules = append(b.rules, r)
	}
	for i := range b.genes {
		if when := b.genes[i].When; when != "" {
			r := &rule{Constraint: Constraint{Expr: when}, gene: i}
			if err := b.compileRule(r, names, types, constants); err != nil {
				return nil, fmt.Errorf("space: gene %s: when: %w", b.genes[i].Name, err)
			}
			b.rules = append(b.rules, r)
			b.whens[i] = r
		}
	}
	if err := b.checkCycles(); err != nil {
		return nil, err
	}
	for _, r := range b.rules {
		slices.Sort(r.names)
		r.compileTerm(b)
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	for _, r := range b.rules {
		r.pool = nil
	}
	return b, nil
}

// readConstants checks the sets of constants.
func readConstants(envs []map[string]any, extra map[string]Value, genes map[string]Kind) ([]map[string]Value, error) {
	if len(envs) == 0 {
		envs = []map[string]any{nil}
	}
	out := make([]map[string]Value, len(envs))
	for i, env := range envs {
		m := make(map[string]Value, len(env)+len(extra))
		for _, name := range sortedKeys(env) {
			if err := checkName(name); err != nil {
				return nil, fmt.Errorf("space: constant: %w", err)
			}
			v, err := ValueOf(env[name])
			if err != nil {
				return nil, fmt.Errorf("space: constant %s: %w", name, err)
			}
			if _, clash := genes[name]; clash {
				return nil, fmt.Errorf("space: %s is both a gene and a constant; rename one", name)
			}
			if _, clash := extra[name]; clash {
				return nil, fmt.Errorf("space: %s is both the choosing gene and a constant; rename one", name)
			}
			m[name] = v
		}
		for name, v := range extra {
			m[name] = v
		}
		for name := range m {
			if _, ok := out[0][name]; i > 0 && !ok {
				return nil, fmt.Errorf("space: constant %s is missing in the first of %d sets of constants", name, len(envs))
			}
		}
		if i > 0 && len(m) != len(out[0]) {
			for _, name := range sortedKeys(out[0]) {
				if _, ok := m[name]; !ok {
					return nil, fmt.Errorf("space: constant %s is missing in set %d of %d", name, i+1, len(envs))
				}
			}
		}
		out[i] = m
	}
	return out, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// compileRule compiles the expression under every set of constants.
func (b *branch) compileRule(r *rule, genes map[string]int, types map[string]Kind, constants []map[string]Value) error {
	compiled := map[string]*Expr{} // by the kinds of the constants
	for _, env := range constants {
		kinds := make(map[string]Kind, len(types)+len(env))
		sample := make(map[string]any, len(types)+len(env))
		for name, i := range genes {
			kinds[name] = types[name]
			sample[name] = b.genes[i].Values[0].operand()
		}
		signature := ""
		for _, name := range sortedKeys(env) {
			kinds[name] = env[name].kind
			sample[name] = env[name].operand()
			signature += string(rune('0' + env[name].kind))
		}
		e, ok := compiled[signature]
		if !ok {
			var err error
			if e, err = compileExpr(r.Expr, kinds, sample); err != nil {
				return err
			}
			if k := e.kind(); k != KindBool && k != KindNone {
				return exprError(r.Expr, 0, fmt.Sprintf("it gives a value of type %s, expected a condition (true or false)", k))
			}
			compiled[signature] = e
		}
		r.exprs = append(r.exprs, e)
		r.envs = append(r.envs, env)
		for _, name := range e.names {
			if g, ok := genes[name]; ok && !slices.Contains(r.names, g) {
				r.names = append(r.names, g)
			}
		}
	}
	if r.gene >= 0 && slices.Contains(r.names, r.gene) {
		return fmt.Errorf("the condition %q names the gene itself", r.Expr)
	}
	return nil
}

// checkCycles refuses conditions that depend on each other.
func (b *branch) checkCycles() error {
	state := make([]int, len(b.genes)) // 0 new, 1 on the way, 2 done
	var visit func(g int, trail []string) error
	visit = func(g int, trail []string) error {
		trail = append(trail, b.genes[g].Name)
		switch {
		case state[g] == 1:
			return fmt.Errorf("space: conditions depend on each other: %s", strings.Join(trail, " needs "))
		case state[g] == 2 || b.whens[g] == nil:
			return nil
		}
		state[g] = 1
		for _, d := range b.whens[g].names {
			if err := visit(d, trail); err != nil {
				return err
			}
		}
		state[g] = 2
		return nil
	}
	for g := range b.genes {
		if err := visit(g, nil); err != nil {
			return err
		}
	}
	return nil
}

// compileTerm makes the rule's term: true under every set of constants for a
// constraint, under any for a condition.
func (r *rule) compileTerm(b *branch) {
	if len(r.names) > maxScope {
		return
	}
	values := make([][]Value, len(r.names))
	variable := make(map[string]int, len(r.names))
	for i, g := range r.names {
		values[i] = b.genes[g].Values
		variable[b.genes[g].Name] = i
	}
	r.pool = newPool(values)
	for i, e := range r.exprs {
		t := r.pool.compile(e, func(name string) *term {
			if v, ok := r.envs[i][name]; ok {
				return r.pool.constant(v)
			}
			if at, ok := variable[name]; ok {
				return r.pool.variable(at, b.genes[r.names[at]].kind)
			}
			return nil
		})
		switch {
		case r.term == nil:
			r.term = t
		case r.gene >= 0:
			r.term = r.pool.logic(opOr, r.term, t)
		default:
			r.term = r.pool.logic(opAnd, r.term, t)
		}
	}
}

// pieces takes the rule apart.
func (r *rule) pieces(b *branch) []*piece {
	if r.term == nil {
		return []*piece{{rule: r, scope: r.names, silent: true}}
	}
	var out []*piece
	var split func(t *term)
	split = func(t *term) {
		if t.op == opAnd && r.gene < 0 {
			split(t.args[0])
			split(t.args[1])
			return
		}
		p := &piece{rule: r, term: t}
		for i, g := range r.names {
			if t.vars&(1<<i) != 0 || b.genes[g].conditional {
				p.scope = append(p.scope, g)
				p.vars = append(p.vars, i)
			}
		}
		out = append(out, p)
	}
	split(r.term)
	return out
}

// verdict is what a rule says of a choice of slots by local gene.
type verdict uint8

const (
	holds verdict = iota
	broken
	fails // the evaluation failed
	idle  // a gene that it names is inactive
)

// judge evaluates the rule; slot gives the slot of a local gene, inactive
// included.
func (r *rule) judge(b *branch, slot func(gene int) int32) verdict {
	for _, g := range r.names {
		if b.inactive(g, slot(g)) {
			return idle
		}
	}
	if r.term == nil {
		for i, e := range r.exprs {
			x, err := e.value(r.operands(b, i, slot))
			ok, _ := x.(bool)
			switch {
			case err != nil:
				return fails
			case ok && r.gene >= 0:
				return holds
			case !ok && r.gene < 0:
				return broken
			}
		}
		if r.gene >= 0 {
			return broken
		}
		return holds
	}
	var buf [maxScope]Value
	for i, g := range r.names {
		buf[i] = b.genes[g].Values[slot(g)]
	}
	return r.term.verdict(buf[:])
}

// verdict evaluates a condition.
func (t *term) verdict(vars []Value) verdict {
	v, ok := t.eval(vars)
	switch {
	case !ok:
		return fails
	case v.bits != 0:
		return holds
	}
	return broken
}

// operands gives the environment of the i-th set of constants for the virtual
// machine.
func (r *rule) operands(b *branch, i int, slot func(gene int) int32) map[string]any {
	env := make(map[string]any, len(r.names)+len(r.envs[i]))
	for name, v := range r.envs[i] {
		env[name] = v.operand()
	}
	for _, g := range r.names {
		env[b.genes[g].Name] = b.genes[g].Values[slot(g)].operand()
	}
	return env
}

// failure describes why the rule cannot be evaluated.
func (r *rule) failure(b *branch, slot func(gene int) int32) string {
	for i, e := range r.exprs {
		if _, err := e.value(r.operands(b, i, slot)); err != nil {
			var at *ExprError
			if errors.As(err, &at) {
				return fmt.Sprintf("column %d: %s", at.Column, at.Msg)
			}
			return err.Error()
		}
	}
	return "it does not give true or false"
}

// inactive tells whether a slot of a gene means that it does not exist.
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
			case r.gene < 0 && p.term.is(Bool(true)):
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
			continue // it is another component's
		}
		if c.checks == nil {
			c.checks = make([][]*piece, len(c.genes))
		}
		c.checks[last] = append(c.checks[last], x)
	}
}

// sum lays the components out in paths and counts the branch's.
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

// postpone leaves a piece to be checked on draws.
func (b *branch) postpone(p *piece) {
	b.deferred = append(b.deferred, p)
}

// A part is a set of genes and the pieces over them, not yet a diagram.
type part struct {
	genes  []int
	pieces []*piece
}

// joined lists the genes that a piece joins.
func (p *piece) joined() []int {
	if p.gene < 0 {
		return p.scope
	}
	return append(slices.Clone(p.scope), p.gene)
}

// split groups genes that pieces join, in the order of the first gene of each.
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

// buildComponent makes the diagram of a part, and gives the pieces that had to
// be left out of it. On errBudget that is the one that is too large itself, and
// there is no diagram.
func (b *branch) buildComponent(p part, budgetAutomaton, budgetDiagram int) (component, []*piece, error) {
	o := ordering{needs: make([][]int, len(p.genes))}
	number := make(map[int]int, len(p.genes)) // within the part
	for i, g := range p.genes {
		number[g] = i
		o.slots = append(o.slots, b.genes[g].slots())
	}
	var pieces []*piece // that speak
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

// culprits gives a smallest (by inclusion) set of constraints of a part that
// leaves no genome, or all when finding one would take long.
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
	for _, r := range suspects { // one alone is the clearest answer
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

// emptied words the error about rules that leave no genome.
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
		// Does it fail wherever it is evaluated? Looking at the first values
		// tells in all likelihood, and the message is then much clearer.
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

// measure sums the branches up, and estimates the size where rules are
// deferred.
func (s *Space) measure() error {
	for i, g := range s.genes {
		if len(g.Values) > 1 || slices.ContainsFunc(s.branches, func(b *branch) bool {
			l := b.local[i]
			return !(s.union && i == 0) && (l < 0 || b.genes[l].conditional)
		}) {
			s.varying++
		}
	}
	deferred := 0
	s.exact = true
	total := uint64(0)
	for _, b := range s.branches {
		s.relaxed += b.count
		deferred += len(b.deferred)
		s.exact = s.exact && b.exact
		total += b.total // each below 2^63
		s.exact = s.exact && total <= math.MaxInt64
		if !s.exact {
			total = 0
		}
	}
	s.size = s.relaxed
	if s.exact {
		s.size = float64(total)
	}
	if deferred == 0 {
		return nil
	}
	s.exact = false
	rng := rand.New(rand.NewSource(1)) // fixed, so that Size is
	accepted, draws := 0, 0
	buf := make([]int32, s.longest())
	for ; draws < estimateDraws && accepted < estimateAccepted; draws++ {
		if b, path := s.draw(rng, buf); b.admits(path) {
			accepted++
		}
	}
	if accepted < leastAccepted {
		var which []string
		for _, c := range s.Deferred() {
			which = append(which, fmt.Sprintf("%q", c.Expr))
		}
		return fmt.Errorf("space: %d of %d draws satisfy the constraints that are too large to be compiled: %s; "+
			"split them into smaller ones or shorten the lists of values", accepted, draws, strings.Join(which, " and "))
	}
	s.size = s.relaxed * float64(accepted) / float64(draws)
	return nil
}

func (s *Space) longest() int {
	n := 0
	for _, b := range s.branches {
		n = max(n, b.length)
	}
	return n
}

// draw picks uniformly from the diagrams: a branch and a path of it, written
// into buf.
func (s *Space) draw(rng *rand.Rand, buf []int32) (*branch, []int32) {
	b := s.branches[0]
	if len(s.branches) > 1 {
		r := rng.Float64() * s.relaxed
		for _, c := range s.branches {
			b = c
			if r -= c.count; r < 0 {
				break
			}
		}
	}
	path := buf[:b.length]
	for i := range b.comps {
		c := &b.comps[i]
		c.d.sample(rng, path[c.start:c.start+len(c.genes)])
	}
	return b, path
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

// satisfied tells whether a piece allows the slots of the genes that it joins.
func (x *piece) satisfied(b *branch, slot func(int) int32) bool {
	v := x.judge(b, slot)
	if x.gene < 0 {
		return v == holds || v == idle
	}
	return v != fails && (v == holds) == !b.inactive(x.gene, slot(x.gene))
}

// judge is rule.judge for the piece alone.
func (x *piece) judge(b *branch, slot func(int) int32) verdict {
	if x.term == nil {
		return x.rule.judge(b, slot)
	}
	var buf [maxScope]Value
	for i, g := range x.scope {
		k := slot(g)
		if b.inactive(g, k) {
			return idle
		}
		buf[x.vars[i]] = b.genes[g].Values[k]
	}
	return x.term.verdict(buf[:])
}

// genome makes the genome of a path.
func (s *Space) genome(b *branch, path []int32) Genome {
	code := make([]byte, 2*len(s.genes))
	if s.union {
		k := slices.Index(s.branches, b) + 1
		code[0], code[1] = byte(k>>8), byte(k)
	}
	for i := range b.comps {
		c := &b.comps[i]
		for l, g := range c.genes {
			lg := &b.genes[g]
			if slot := path[c.start+l]; int(slot) < len(lg.values) {
				k := lg.values[slot] + 1
				code[2*lg.global], code[2*lg.global+1] = byte(k>>8), byte(k)
			}
		}
	}
	return Genome{s, string(code)}
}

// branchOf gives the branch of a genome of this space.
func (s *Space) branchOf(g Genome) *branch {
	if s.union {
		return s.branches[g.index(0)]
	}
	return s.branches[0]
}

// path gives the slots of a genome of this space, level by level.
func (s *Space) path(b *branch, g Genome, buf []int32) []int32 {
	path := buf[:0]
	for i := range b.comps {
		for _, l := range b.comps[i].genes {
			path = append(path, b.genes[l].slot(g.index(b.genes[l].global)))
		}
	}
	return path
}

// slot gives the slot of a value of the space's gene, or of inactive (-1).
func (g *localGene) slot(value int) int32 {
	if value < 0 {
		return int32(len(g.Values))
	}
	return g.slotOf[value]
}

// Genes lists the genes in the order of encodings. In a union, the values of a
// gene are those of all alternatives, and When is kept only where they agree.
func (s *Space) Genes() []Gene {
	genes := slices.Clone(s.genes)
	for i := range genes {
		genes[i].Values = slices.Clone(genes[i].Values)
	}
	return genes
}

// Size is the number of valid genomes: exact up to 2^53 and rounded beyond
// when Exact is true or the space is merely larger than 2^63; estimated from
// a fixed random sample of 2000 genomes (within some 5 percent; less well where
// fewer than one draw in 100 is valid) when constraints were too large to be
// compiled (see Deferred).
func (s *Space) Size() float64 { return s.size }

// Exact tells whether every valid genome has a rank: no constraint is deferred
// and there are at most 2^63 - 1 genomes.
func (s *Space) Exact() bool { return s.exact }

// Deferred lists the constraints, and conditions of genes, that are too large
// to be compiled into diagrams. Random draws until they hold, so it stays
// uniform but takes longer; Size is an estimate; ranks are not available.
func (s *Space) Deferred() []Constraint {
	var out []Constraint
	for _, b := range s.branches {
		for _, r := range b.rules {
			if slices.ContainsFunc(b.deferred, func(x *piece) bool { return x.rule == r }) {
				out = append(out, r.Constraint)
			}
		}
	}
	return out
}

// Nodes counts the nodes of the diagrams, a measure of the memory they take:
// 8 bytes for each, and 4 for each value of its gene.
func (s *Space) Nodes() int {
	n := 0
	for _, b := range s.branches {
		for i := range b.comps {
			d := b.comps[i].d
			n += max(len(d.counts), len(d.weights)) - 2
		}
	}
	return n
}

// Random draws a valid genome, uniformly over all.
func (s *Space) Random(rng *rand.Rand) Genome {
	buf := make([]int32, 64)
	if n := s.longest(); n > len(buf) {
		buf = make([]int32, n)
	}
	for range maxRejectedDraws {
		if b, path := s.draw(rng, buf); b.admits(path) {
			return s.genome(b, path)
		}
	}
	// NewSpace has seen one draw in 20000 accepted, so this is a fault of ours.
	panic("genome: no valid genome found by drawing")
}

// At gives the genome of a rank below Size, in the order of All; false when
// there is none or the space is not Exact.
func (s *Space) At(rank uint64) (Genome, bool) {
	if !s.exact {
		return Genome{}, false
	}
	for _, b := range s.branches {
		if rank >= b.total {
			rank -= b.total
			continue
		}
		path := make([]int32, b.length)
		for i := len(b.comps) - 1; i >= 0; i-- {
			c := &b.comps[i]
			c.d.at(rank%c.total, path[c.start:c.start+len(c.genes)])
			rank /= c.total
		}
		return s.genome(b, path), true
	}
	return Genome{}, false
}

// Rank is the inverse of At: the number of valid genomes before g in the order
// of All; false when the space is not Exact or g is not of it.
func (s *Space) Rank(g Genome) (uint64, bool) {
	if !s.exact || g.space != s {
		return 0, false
	}
	b := s.branchOf(g)
	path := s.path(b, g, nil)
	rank := uint64(0)
	for i := range b.comps {
		c := &b.comps[i]
		rank = rank*c.total + c.d.rank(path[c.start:c.start+len(c.genes)])
	}
	for _, other := range s.branches {
		if other == b {
			return rank, true
		}
		rank += other.total
	}
	return 0, false
}

// All yields every valid genome once, in a fixed order: that of the diagrams,
// not of the encodings. It does not hold the genomes in memory.
func (s *Space) All() iter.Seq[Genome] {
	return func(yield func(Genome) bool) {
		for _, b := range s.branches {
			path := make([]int32, b.length)
			if !b.all(0, path, func() bool { return !b.admits(path) || yield(s.genome(b, path)) }) {
				return
			}
		}
	}
}

// all walks the components from one on; false when yield asked to stop.
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
