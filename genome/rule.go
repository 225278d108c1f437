package genome

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
// constraint: the smaller the pieces, the more genes stay independent.
type piece struct {
	*rule
	term  *term
	scope []int // the local genes that it depends on
	vars  []int // their variables in the term
	// silent: it is deferred and not in the diagram. It still joins its genes in one
	// component, where repairs can respect it.
	silent bool
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
		for _, name := range slices.Sorted(maps.Keys(env)) {
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
			if k := e.kind; k != KindBool && k != KindNone {
				return exprError(r.Expr, 0, fmt.Sprintf("it gives a value of type %s, expected a condition (true or false)", k))
			}
			if e.kind == KindNone { // the type is known only from what it gives
				if x, err := e.run(sample); err == nil && x != true && x != false {
					return exprError(r.Expr, 0, fmt.Sprintf("it gives %s, expected a condition (true or false)", describe(x)))
				}
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

// pieces splits the rule.
func (r *rule) pieces(b *branch) []*piece {
	if r.term == nil {
		return []*piece{{rule: r, scope: r.names, silent: true}}
	}
	var out []*piece
	var split func(t *term)
	split = func(t *term) {
		if t.op == opAnd && r.gene < 0 && !t.args[1].beyond { // the left side may keep the right one from an overflow
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
	v, ok := t.eval(vars, nil)
	switch {
	case !ok:
		return fails
	case v.bits != 0:
		return holds
	}
	return broken
}

// operands returns the values of the names of the i-th expression.
func (r *rule) operands(b *branch, i int, slot func(gene int) int32) []Value {
	vars := make([]Value, len(r.exprs[i].names))
	for j, name := range r.exprs[i].names {
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

// overflow makes the error of a rule that overflows under values of the variables of
// its term, of which those that do not matter have none. It is an error of the space: a
// genome that is lost by an overflow would be missed by nobody.
func (r *rule) overflow(b *branch, vals []Value) error {
	var at []string
	first := func(int) int32 { return 0 }
	for i, g := range r.names {
		if v := vals[i]; v.kind != KindNone {
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
	out := exprError(r.Expr, 0, "")
	for i, e := range r.exprs {
		var found *ExprError
		if _, err := e.value(r.operands(b, i, first)); errors.As(err, &found) && found.overflow {
			out = found
			break
		}
	}
	out.Msg = overflowMessage
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
	var buf [maxScope]Value
	for i, g := range p.scope {
		k := slot(g)
		if b.inactive(g, k) {
			return idle
		}
		buf[p.vars[i]] = b.genes[g].Values[k]
	}
	return p.term.verdict(buf[:])
}
