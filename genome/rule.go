package genome

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/expr"
)

// A rule is a constraint or the condition of a gene.
type rule struct {
	Constraint
	gene  int                // local gene whose condition it is, -1 for a constraint
	exprs []*expr.Expr       // per set of constants
	envs  []map[string]Value // the sets
	names []int              // the local genes that it names
	// term has the i-th of names as variable i; nil when there are too many.
	term *expr.Term
	pool *expr.Pool // of the term, until the diagrams are built
}

// A piece is a condition, or one of the parts that "and" joins in a
// constraint: the smaller the pieces, the more genes stay independent.
type piece struct {
	*rule
	term  *expr.Term
	scope []int // the local genes that it depends on
	vars  []int // their variables in the term
	// silent: it is deferred and not in the diagram. It still joins its genes in one
	// component, where repairs can respect it.
	silent bool
}

// compileRule compiles the expression under every set of constants.
func (b *branch) compileRule(r *rule, genes map[string]int, constants []map[string]Value) error {
	compiled := map[string]*expr.Expr{} // by the kinds of the constants
	for _, env := range constants {
		sample := make(map[string]any, len(genes)+len(env))
		for name, i := range genes {
			sample[name] = b.genes[i].Values[0]
		}
		signature := ""
		for _, name := range slices.Sorted(maps.Keys(env)) {
			sample[name] = env[name]
			signature += string(rune('0' + env[name].Kind()))
		}
		e, ok := compiled[signature]
		if !ok {
			var err error
			if e, err = expr.Condition(r.Expr, sample); err != nil {
				return err
			}
			compiled[signature] = e
		}
		r.exprs = append(r.exprs, e)
		r.envs = append(r.envs, env)
		for _, name := range e.Names() {
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

// compileTerm makes the rule's term: true under every set of constants for a
// constraint, under any for a condition.
func (r *rule) compileTerm(b *branch) {
	if len(r.names) > expr.MaxVariables {
		return
	}
	values := make([][]Value, len(r.names))
	variable := make(map[string]int, len(r.names))
	for i, g := range r.names {
		values[i] = b.genes[g].Values
		variable[b.genes[g].Name] = i
	}
	r.pool = expr.NewPool(values)
	for i, e := range r.exprs {
		t := r.pool.Compile(e, func(name string) *expr.Term {
			if v, ok := r.envs[i][name]; ok {
				return r.pool.Constant(v)
			}
			if at, ok := variable[name]; ok {
				return r.pool.Variable(at, b.genes[r.names[at]].kind)
			}
			return nil
		})
		switch {
		case r.term == nil:
			r.term = t
		case r.gene >= 0:
			r.term = r.pool.Or(r.term, t)
		default:
			r.term = r.pool.And(r.term, t)
		}
	}
}

// pieces splits the rule.
func (r *rule) pieces(b *branch) []*piece {
	if r.term == nil {
		return []*piece{{rule: r, scope: r.names, silent: true}}
	}
	var out []*piece
	var split func(t *expr.Term)
	split = func(t *expr.Term) {
		if left, right, ok := t.Parts(); ok && r.gene < 0 {
			split(left)
			split(right)
			return
		}
		p := &piece{rule: r, term: t}
		for i, g := range r.names {
			if t.Variables()&(1<<i) != 0 || b.genes[g].conditional {
				p.scope = append(p.scope, g)
				p.vars = append(p.vars, i)
			}
		}
		out = append(out, p)
	}
	split(r.term)
	return out
}

// verdict is the result of a rule for a choice of slots by local gene.
type verdict uint8

const (
	holds verdict = iota
	broken
	fails // the evaluation failed
	idle  // a gene that it names is inactive
)

// judge evaluates the rule; slot returns the slot of a local gene, inactive
// included.
func (r *rule) judge(b *branch, slot func(gene int) int32) verdict {
	for _, g := range r.names {
		if b.inactive(g, slot(g)) {
			return idle
		}
	}
	if r.term == nil {
		for i, e := range r.exprs {
			switch v := verdictOf(e.Outcome(r.operands(b, i, slot))); {
			case v == fails, v == holds && r.gene >= 0, v == broken && r.gene < 0:
				return v
			}
		}
		if r.gene >= 0 {
			return broken
		}
		return holds
	}
	var buf [expr.MaxVariables]Value
	for i, g := range r.names {
		buf[i] = b.genes[g].Values[slot(g)]
	}
	return verdictOf(r.term.Outcome(buf[:]))
}

// verdictOf is the verdict of a rule whose expression gives an outcome.
func verdictOf(o expr.Outcome) verdict {
	switch o {
	case expr.True:
		return holds
	case expr.False:
		return broken
	}
	return fails
}

// operands returns the values of the names of the i-th expression.
func (r *rule) operands(b *branch, i int, slot func(gene int) int32) []Value {
	names := r.exprs[i].Names()
	vars := make([]Value, len(names))
	for j, name := range names {
		v, constant := r.envs[i][name]
		if !constant {
			g := r.names[slices.IndexFunc(r.names, func(g int) bool { return b.genes[g].Name == name })]
			v = b.genes[g].Values[slot(g)]
		}
		vars[j] = v
	}
	return vars
}

// failure describes why the rule cannot be evaluated.
func (r *rule) failure(b *branch, slot func(gene int) int32) string {
	for i, e := range r.exprs {
		if _, err := e.Value(r.operands(b, i, slot)); err != nil {
			var at *ExprError
			if errors.As(err, &at) {
				return fmt.Sprintf("column %d: %s", at.Column, at.Msg)
			}
			return err.Error()
		}
	}
	return "it does not give true or false"
}

// overflow makes the error of a rule that overflows under values of the variables of
// its term, of which those that do not matter have none. It is an error of the space: a
// genome that is lost by an overflow would be missed by nobody.
func (r *rule) overflow(b *branch, vals []Value) error {
	var at []string
	first := func(int) int32 { return 0 }
	for i, g := range r.names {
		if v := vals[i]; v.Kind() != KindNone {
			at = append(at, fmt.Sprintf("%s = %s", b.genes[g].Name, v))
			k, rest := int32(slices.Index(b.genes[g].Values, v)), first
			first = func(other int) int32 {
				if other == g {
					return k
				}
				return rest(other)
			}
		}
	}
	out := expr.Overflow(r.Expr)
	for i, e := range r.exprs {
		var found *ExprError
		if _, err := e.Value(r.operands(b, i, first)); errors.As(err, &found) && errors.Is(err, expr.ErrOverflow) {
			out = found
			break
		}
	}
	out.Msg = expr.ErrOverflow.Error()
	if len(at) > 0 {
		out.Msg += " where " + strings.Join(at, ", ")
	}
	out.Msg += "; float(...) computes without a limit"
	return out
}

// joined lists the genes that a piece joins.
func (p *piece) joined() []int {
	if p.gene < 0 {
		return p.scope
	}
	return append(slices.Clone(p.scope), p.gene)
}

// satisfied says whether a piece allows the slots of the genes that it joins.
func (p *piece) satisfied(b *branch, slot func(int) int32) bool {
	v := p.judge(b, slot)
	if p.gene < 0 {
		return v == holds || v == idle
	}
	return v != fails && (v == holds) == !b.inactive(p.gene, slot(p.gene))
}

// judge is rule.judge for the piece alone.
func (p *piece) judge(b *branch, slot func(int) int32) verdict {
	if p.term == nil {
		return p.rule.judge(b, slot)
	}
	var buf [expr.MaxVariables]Value
	for i, g := range p.scope {
		k := slot(g)
		if b.inactive(g, k) {
			return idle
		}
		buf[p.vars[i]] = b.genes[g].Values[k]
	}
	return verdictOf(p.term.Outcome(buf[:]))
}
