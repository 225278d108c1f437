package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/naming"
)

// This file says what Python's expressions mean, in the expressions of this project. The
// two differ in more than words: Python takes numbers and strings for conditions,
// computes with booleans, rounds down where it divides, compares anything for equality,
// and raises an exception where a division by zero gives infinity here. So a translation
// depends on the types of the parameters. What is not translated exactly is refused.

// pyFunctions are the functions that are known.
var pyFunctions = []string{"abs", "bool", "int", "float", "min", "max", "ceil", "floor", "pow", "len", "range", "list", "tuple", "set", "sorted"}

// mixed is the kind of a number that is an integer or a float.
const mixed = genome.Kind(100)

// A meaning is an expression of Python in this project's language.
type meaning struct {
	text string
	kind genome.Kind // KindNone for None
	// least says how small a number can be: above zero, not below zero, or unknown.
	least  sign
	traps  []trap
	filled bool // a number that is not zero
	other  bool // a name that is not a parameter
}

type sign int

const (
	anySign sign = iota
	notNegative
	positive
)

// A trap is where Python raises an exception.
type trap struct {
	when string // a condition
	why  string
}

// pyNames has the names of expressions, as what they mean.
type pyNames map[string]meaning

// namesOf has the parameters of a space.
func namesOf(params []Parameter) pyNames {
	names := pyNames{}
	for _, p := range params {
		m := meaning{text: p.Name, least: positive, filled: true}
		for _, v := range p.Values {
			if m.kind == genome.KindNone || v.Kind() == genome.KindFloat {
				m.kind = v.Kind() // a space makes all of them floats if one is
			}
			x, _ := v.Number()
			m.filled = m.filled && x != 0
			switch {
			case x < 0:
				m.least = anySign
			case x == 0 && m.least == positive:
				m.least = notNegative
			}
		}
		names[p.Name] = m
	}
	return names
}

// open adds the names that are not known: they stand for positive integers. It returns
// whether there are any.
func (names pyNames) open(n *pyNode) (added bool) {
	bound := map[string]bool{} // by comprehensions
	n.walk(func(n *pyNode) {
		for _, l := range n.loops {
			bound[l.name] = true
		}
	})
	n.walk(func(n *pyNode) {
		if n.op != "name" || bound[n.name] {
			return
		}
		m, known := names[n.name]
		if !known {
			m = meaning{text: n.name, kind: genome.KindInt, least: positive, filled: true, other: true}
			names[n.name] = m
		}
		added = added || m.other
	})
	return added
}

// Conditions translates restrictions of Python over parameters, and over other names,
// which stand for positive integers. A configuration satisfies one when Python takes its
// value for true. Where Python raises an exception for a configuration that the others
// allow, there is no answer, and that is an error.
func Conditions(params []Parameter, sources []string) ([]string, error) {
	rules := make([]rule, len(sources))
	for i, source := range sources {
		var err error
		if rules[i], err = newRule(source); err != nil {
			return nil, fmt.Errorf("the restriction %q: %w", oneLine(source), err)
		}
	}
	names := namesOf(params)
	open := make([]bool, len(rules))
	for i, r := range rules {
		open[i] = names.open(r.tree)
	}
	return names.conditions(params, rules, open)
}

// conditions translates rules. Those that are open have names that are not parameters: they
// exclude no configuration for sure.
func (names pyNames) conditions(params []Parameter, rules []rule, open []bool) ([]string, error) {
	out := make([]string, len(rules))
	traps := make([][]trap, len(rules))
	for i, r := range rules {
		m, err := names.condition(r.tree)
		if err != nil {
			return nil, fmt.Errorf("the restriction %q: %w", oneLine(r.source), err)
		}
		out[i], traps[i] = m.text, m.traps
	}
	if !slices.ContainsFunc(traps, func(t []trap) bool { return len(t) > 0 }) {
		return out, nil
	}
	for i, r := range rules {
		for _, t := range traps[i] {
			others := make([]genome.Constraint, len(out), len(out)+1)
			for j, text := range out {
				if others[j].Expr = text; open[j] {
					others[j].Expr = "true"
				}
			}
			others[i].Expr = t.when
			s, err := genome.NewSpace(genes(params), others)
			if errors.Is(err, genome.ErrEmpty) {
				continue
			}
			if err != nil && open[i] {
				return nil, fmt.Errorf("the restriction %q: %s may be where Python raises an exception: say what it gives there, as in \"... if ... else ...\"", oneLine(r.source), t.why)
			}
			if err != nil {
				return nil, fmt.Errorf("the restriction %q: %w", oneLine(r.source), err)
			}
			for g := range s.All() {
				return nil, fmt.Errorf("the restriction %q: %s for %s, where Python raises an exception: say what it gives there, as in \"... if ... else ...\"",
					oneLine(r.source), t.why, oneLine(g.String()))
			}
		}
	}
	return out, nil
}

// genes are the parameters as a space has them.
func genes(params []Parameter) []genome.Gene {
	out := make([]genome.Gene, len(params))
	for i, p := range params {
		out[i] = genome.Gene{Name: p.Name, Values: p.Values, Ordinal: p.Ordinal}
	}
	return out
}

// Expression translates an expression of Python over parameters, and over other names,
// which stand for positive integers.
func Expression(params []Parameter, source string) (string, error) {
	n, err := parsePython(source)
	if err != nil {
		return "", err
	}
	names := namesOf(params)
	names.open(n)
	m, err := names.value(n)
	return m.text, err
}

// walk visits a node and all below it.
func (n *pyNode) walk(visit func(*pyNode)) {
	visit(n)
	for _, a := range n.args {
		a.walk(visit)
	}
	for _, l := range n.loops {
		l.list.walk(visit)
		for _, c := range l.conditions {
			c.walk(visit)
		}
	}
}

func (n *pyNode) fail(format string, args ...any) error {
	return fmt.Errorf("column %d: %s", n.at+1, fmt.Sprintf(format, args...))
}

// constant is a value as a meaning.
func constant(v genome.Value) meaning {
	m := meaning{kind: v.Kind()}
	switch x := v.Any().(type) {
	case string:
		m.text = `"` + x + `"`
	case bool:
		m.text = "false"
		if x {
			m.text = "true"
		}
	default:
		m.text = pythonValue(v)
		switch n, _ := v.Number(); {
		case n > 0:
			m.least, m.filled = positive, true
		case n == 0:
			m.least = notNegative
		default:
			m.filled = true
		}
	}
	return m
}

// under gives the traps that are sprung only where a condition holds.
func under(condition string, traps []trap) []trap {
	var out []trap
	for _, t := range traps {
		out = append(out, trap{"(" + condition + " and " + t.when + ")", t.why})
	}
	return out
}

// condition is whether Python takes the value of a node for true.
func (names pyNames) condition(n *pyNode) (meaning, error) {
	switch n.op {
	case "and", "or":
		a, err := names.condition(n.args[0])
		if err != nil {
			return a, err
		}
		b, err := names.condition(n.args[1])
		return joined(n.op, a, b), err
	case "not":
		a, err := names.condition(n.args[0])
		return meaning{text: "(not " + a.text + ")", kind: genome.KindBool, traps: a.traps}, err
	case "list":
		if _, err := names.list(n); err != nil {
			return meaning{}, err
		}
		return constant(genome.Bool(len(n.args) > 0)), nil
	}
	m, err := names.value(n)
	return m.truth(), err
}

// joined is "a and b" or "a or b" of two conditions.
func joined(op string, a, b meaning) meaning {
	evaluated := a.text // whether b is evaluated
	if op == "or" {
		evaluated = "(not " + a.text + ")"
	}
	return meaning{text: "(" + a.text + " " + op + " " + b.text + ")", kind: genome.KindBool, traps: slices.Concat(a.traps, under(evaluated, b.traps))}
}

// truth is whether Python takes a value for true.
func (m meaning) truth() meaning {
	out := meaning{kind: genome.KindBool, traps: m.traps}
	switch m.kind {
	case genome.KindBool:
		out.text = m.text
	case genome.KindString:
		out.text = "(" + m.text + ` != "")`
	case genome.KindNone:
		out.text = "false"
	default:
		out.text = "(" + m.text + " != 0)"
	}
	return out
}

// number is a value as a number: Python computes with True as 1.
func (m meaning) number() (meaning, bool) {
	switch m.kind {
	case genome.KindBool:
		return meaning{text: "(" + m.text + " ? 1 : 0)", kind: genome.KindInt, least: notNegative, traps: m.traps}, true
	case genome.KindString, genome.KindNone:
		return m, false
	}
	return m, true
}

// value translates a node that stands for one value.
func (names pyNames) value(n *pyNode) (meaning, error) {
	switch n.op {
	case "value":
		return constant(n.value), nil
	case "None":
		return meaning{}, nil
	case "name":
		m, ok := names[n.name]
		if !ok {
			known := make([]string, 0, len(names))
			for name := range names {
				known = append(known, name)
			}
			slices.Sort(known)
			if near := naming.Nearest(n.name, known); near != "" {
				return m, n.fail("unknown name %s; did you mean %s?", n.name, near)
			}
			return m, n.fail("unknown name %s", n.name)
		}
		return m, nil
	case "not":
		return names.condition(n)
	case "and", "or":
		return names.choice(n)
	case "if":
		c, err := names.condition(n.args[1])
		if err != nil {
			return c, err
		}
		a, err := names.value(n.args[0])
		if err != nil {
			return a, err
		}
		b, err := names.value(n.args[2])
		if err != nil {
			return b, err
		}
		return n.either(c, a, b)
	case "compare":
		return names.comparison(n)
	case "call":
		return names.call(n)
	case "list", "comprehension":
		return meaning{}, n.fail("a list stands only after \"in\"")
	}
	operands, err := names.numbers(n, n.args)
	if err != nil {
		return meaning{}, err
	}
	return n.arithmetic(operands)
}

// choice is "a or b" as a value: a where Python takes it for true, otherwise b.
func (names pyNames) choice(n *pyNode) (meaning, error) {
	a, err := names.value(n.args[0])
	if err != nil {
		return a, err
	}
	b, err := names.value(n.args[1])
	if err != nil {
		return b, err
	}
	switch {
	case a.kind == genome.KindBool && b.kind == genome.KindBool:
		return joined(n.op, a, b), nil
	case n.op == "or":
		return n.either(a.truth(), a, b)
	}
	return n.either(a.truth(), b, a)
}

// either is "a if c else b".
func (n *pyNode) either(c, a, b meaning) (meaning, error) {
	traps := slices.Concat(c.traps, under(c.text, a.traps), under("(not "+c.text+")", b.traps))
	if a.kind != b.kind {
		x, ok1 := a.number()
		y, ok2 := b.number()
		if !ok1 || !ok2 {
			return a, n.fail("both values must have one type")
		}
		a, b = x, y
	}
	m := meaning{text: "(" + c.text + " ? " + a.text + " : " + b.text + ")", kind: a.kind, least: min(a.least, b.least), filled: a.filled && b.filled, traps: traps}
	if a.kind != b.kind {
		m.kind = mixed
	}
	return m, nil
}

// numbers translates operands of arithmetic.
func (names pyNames) numbers(n *pyNode, nodes []*pyNode) ([]meaning, error) {
	out := make([]meaning, len(nodes))
	for i, a := range nodes {
		m, err := names.value(a)
		if err != nil {
			return nil, err
		}
		bitwise := strings.Contains("& | ^", n.op) && m.kind == genome.KindBool
		if x, ok := m.number(); !ok {
			return nil, a.fail("a number is needed here")
		} else if !bitwise {
			m = x
		}
		out[i] = m
	}
	return out, nil
}

// arithmetic translates an operator over numbers.
func (n *pyNode) arithmetic(operands []meaning) (meaning, error) {
	a, b := operands[0], operands[len(operands)-1]
	m := meaning{kind: genome.KindInt}
	whole := true
	for _, x := range operands {
		m.traps = append(m.traps, x.traps...)
		whole = whole && x.kind == genome.KindInt
		switch {
		case x.kind == genome.KindFloat:
			m.kind = genome.KindFloat
		case x.kind == mixed && m.kind != genome.KindFloat:
			m.kind = mixed
		}
	}
	raises := func(when, why string) { m.traps = append(m.traps, trap{when, why}) }
	infix := func(op string) { m.text = "(" + a.text + " " + op + " " + b.text + ")" }
	call := func(f string) { m.text = f + "(" + a.text + ", " + b.text + ")" }
	both := min(a.least, b.least)
	switch n.op {
	case "pos":
		return a, nil
	case "neg":
		m.text, m.filled = "(-"+a.text+")", a.filled
	case "+":
		infix("+")
		m.least = both
		if both >= notNegative {
			m.least = max(a.least, b.least)
		}
	case "-":
		infix("-")
	case "*":
		infix("*")
		m.least = both
		if m.kind != genome.KindInt {
			m.least = min(both, notNegative) // it can be too small for a float
		}
	case "/", "//", "%":
		if !b.filled && b.least != positive {
			raises("("+b.text+" == 0)", "division by zero")
		}
		switch {
		case n.op == "/":
			infix("/")
			if m.kind, m.least = genome.KindFloat, both; !whole {
				m.least = min(both, notNegative)
			}
		case n.op == "//":
			call("floordiv")
			m.least = min(both, notNegative)
		case whole && a.least >= notNegative && b.least == positive:
			infix("%")
			m.least = notNegative
		default:
			call("floormod")
			m.least = min(b.least, notNegative)
		}
	case "**":
		return n.power(a, b, m, whole)
	case "~":
		m.text = "bitnot(" + a.text + ")"
	case "<<", ">>":
		call(map[string]string{"<<": "bitshl", ">>": "bitshr"}[n.op])
		m.least = min(a.least, notNegative)
		if b.least == anySign {
			raises("("+b.text+" < 0)", "a negative shift")
		}
	case "&", "|", "^":
		if a.kind == genome.KindBool && b.kind == genome.KindBool {
			m.kind = genome.KindBool
			infix(map[string]string{"&": "and", "|": "or", "^": "!="}[n.op])
			return m, nil
		}
		x, _ := a.number()
		y, _ := b.number()
		if whole = x.kind == genome.KindInt && y.kind == genome.KindInt; whole {
			a, b = x, y
			m.kind = genome.KindInt
			call(map[string]string{"&": "bitand", "|": "bitor", "^": "bitxor"}[n.op])
			m.least = min(both, notNegative)
		}
	default:
		return m, n.fail("%q is not known here", n.op)
	}
	if !whole && strings.Contains("~ << >> & | ^", n.op) {
		return m, n.fail("%s needs integers", n.op)
	}
	m.filled = m.filled || m.least == positive
	return m, nil
}

// power translates a ** b; m has the traps of both.
func (n *pyNode) power(a, b, m meaning, whole bool) (meaning, error) {
	raises := func(when, why string) { m.traps = append(m.traps, trap{when, why}) }
	m.least = min(a.least, positive)
	m.filled = m.least == positive
	if whole && !strings.HasPrefix(b.text, "(-") {
		m.kind, m.text = genome.KindInt, "intpow("+a.text+", "+b.text+")"
		if b.least == anySign {
			raises("("+b.text+" < 0)", "a negative exponent (a float is not known here)")
		}
		return m, nil
	}
	if a.kind == mixed || b.kind == mixed {
		return m, n.fail("the base and the exponent must each have one type")
	}
	m.kind, m.text = genome.KindFloat, "("+a.text+" ** "+b.text+")"
	m.filled = false // it can be too small for a float
	m.least = min(m.least, notNegative)
	if a.least != positive {
		if b.least == anySign {
			raises("("+a.text+" == 0 and "+b.text+" < 0)", "zero with a negative exponent")
		}
		if b.kind == genome.KindFloat {
			raises("("+a.text+" < 0 and "+b.text+" != floor("+b.text+"))", "a root of a negative number")
		}
	}
	raises("(abs("+m.text+") > 1.7976931348623157e+308)", "a float that is too large")
	return m, nil
}

// comparison translates a < b < c.
func (names pyNames) comparison(n *pyNode) (meaning, error) {
	left, err := names.value(n.args[0])
	if err != nil {
		return left, err
	}
	var all meaning
	for i, op := range n.comparisons {
		at := n.args[i+1]
		var one, right meaning
		switch op {
		case "in", "not in":
			if len(n.comparisons) > i+1 {
				return all, at.fail("a list cannot be compared here")
			}
			one, err = names.membership(left, at)
			if op == "not in" {
				one.text = "(not " + one.text + ")"
			}
		default:
			if right, err = names.value(at); err == nil {
				one, err = at.compare(op, left, right)
			}
		}
		if err != nil {
			return all, err
		}
		if all.text == "" {
			one.traps = append(slices.Clip(left.traps), one.traps...)
			all = one
		} else {
			all = joined("and", all, one)
		}
		left = right
	}
	return all, nil
}

// compare translates one comparison; the traps are those of the right side.
func (n *pyNode) compare(op string, a, b meaning) (meaning, error) {
	m := meaning{kind: genome.KindBool, traps: b.traps}
	sure := func(equal bool) (meaning, error) {
		m.text = constant(genome.Bool(equal == (op == "==" || op == "is"))).text
		return m, nil
	}
	none := func(m meaning) bool { return m.kind == genome.KindNone }
	if op == "is" || op == "is not" {
		if !none(b) {
			return m, n.fail("%q stands only before None here", op)
		}
		return sure(none(a))
	}
	equality := op == "==" || op == "!="
	if a.kind != b.kind || a.kind == genome.KindBool && !equality {
		x, ok1 := a.number()
		y, ok2 := b.number()
		switch {
		case ok1 && ok2:
			a, b = x, y
		case equality: // a number and a string are never equal
			return sure(false)
		}
	}
	x, y := a.kind == genome.KindString || none(a), b.kind == genome.KindString || none(b)
	switch {
	case none(a) && none(b) && equality:
		return sure(true)
	case none(a) || none(b) || x != y:
		return m, n.fail("Python raises an exception where %s compares different types", op)
	}
	m.text = "(" + a.text + " " + op + " " + b.text + ")"
	return m, nil
}

// membership translates "x in list".
func (names pyNames) membership(x meaning, list *pyNode) (meaning, error) {
	m := meaning{kind: genome.KindBool}
	var items []meaning
	switch {
	case list.op == "list":
		for _, n := range list.args {
			item, err := names.value(n)
			if err != nil {
				return m, err
			}
			m.traps = append(m.traps, item.traps...)
			items = append(items, item)
		}
	case list.op == "call" && list.name == "range":
		v, ok := x.number()
		if !ok {
			return constant(genome.Bool(false)), nil
		}
		from, to, step, err := names.bounds(list)
		if err != nil {
			return m, err
		}
		low, high := pythonValue(genome.Int(from)), pythonValue(genome.Int(to))
		m.text = fmt.Sprintf("(%s <= %s and %s < %s and floormod(%s - %s, %d) == 0)", low, v.text, v.text, high, v.text, low, step)
		if step < 0 {
			m.text = fmt.Sprintf("(%s < %s and %s <= %s and floormod(%s - %s, %d) == 0)", high, v.text, v.text, low, low, v.text, -step)
		}
		return m, nil
	case !list.many():
		return m, list.fail("a list is needed here, such as [1, 2]")
	default:
		values, err := names.list(list)
		if err != nil {
			return m, err
		}
		for _, v := range values {
			items = append(items, constant(v))
		}
	}
	// Python compares with each; numbers and strings are never equal.
	var texts []string
	v, number := x.number()
	for _, item := range items {
		w, ok := item.number()
		switch {
		case number && ok:
			texts = append(texts, w.text)
		case x.kind == genome.KindString && item.kind == genome.KindString:
			texts = append(texts, item.text)
		case x.kind == genome.KindNone && item.kind == genome.KindNone:
			return constant(genome.Bool(true)), nil
		}
	}
	if m.text = "(" + v.text + " in [" + strings.Join(texts, ", ") + "])"; len(texts) == 0 {
		m.text = "false"
	}
	return m, nil
}

// call translates a function.
func (names pyNames) call(n *pyNode) (meaning, error) {
	args := n.args
	if n.many() {
		return meaning{}, n.fail("a list stands only after \"in\"")
	}
	if len(args) == 1 && args[0].many() {
		switch n.name {
		case "min", "max":
			if args[0].op != "list" {
				break
			}
			args = args[0].args
		case "len":
			values, err := names.list(args[0])
			return constant(genome.Int(int64(len(values)))), err
		}
	}
	least, most := 1, 1
	switch n.name {
	case "pow":
		least, most = 2, 2
	case "min", "max":
		most = len(args)
		if len(n.args) == 1 && !n.args[0].many() {
			least = 2
		}
	}
	if len(args) < least || len(args) > most {
		return meaning{}, n.fail("%s with %d arguments is not known here", n.name, len(args))
	}
	switch n.name {
	case "bool":
		return names.condition(args[0])
	case "len":
		m, err := names.value(args[0])
		if err == nil && m.kind != genome.KindString {
			err = args[0].fail("a string or a list is needed here")
		}
		return meaning{text: "len(" + m.text + ")", kind: genome.KindInt, least: notNegative, traps: m.traps}, err
	}
	xs, err := names.numbers(n, args)
	if err != nil {
		return meaning{}, err
	}
	if n.name == "pow" {
		return (&pyNode{op: "**", at: n.at}).arithmetic(xs)
	}
	m := xs[0]
	texts := []string{m.text}
	for _, x := range xs[1:] {
		texts = append(texts, x.text)
		m.traps = append(slices.Clip(m.traps), x.traps...)
		m.filled = m.filled && x.filled
		if n.name == "max" {
			m.least = max(m.least, x.least)
		} else {
			m.least = min(m.least, x.least)
		}
		if x.kind != m.kind {
			m.kind = mixed
		}
	}
	if len(xs) > 1 {
		m.text = n.name + "(" + strings.Join(texts, ", ") + ")"
		return m, nil
	}
	integer := m.kind == genome.KindInt
	switch n.name {
	case "abs":
		m.text = "abs(" + m.text + ")"
		m.least = max(m.least, notNegative)
		if m.filled {
			m.least = positive
		}
	case "float":
		m.text, m.kind = "float("+m.text+")", genome.KindFloat
	case "int", "ceil", "floor":
		if integer {
			break
		}
		if n.name == "int" {
			m.text = "int(" + m.text + ")"
		} else {
			m.text = "int(" + n.name + "(" + m.text + "))"
		}
		m.kind, m.filled, m.least = genome.KindInt, false, min(m.least, notNegative)
	}
	return m, nil
}

// many says whether a node stands for a list.
func (n *pyNode) many() bool {
	switch n.op {
	case "list", "comprehension":
		return true
	case "call":
		return slices.Contains([]string{"range", "list", "tuple", "set", "sorted"}, n.name)
	case "+":
		return n.args[0].many() && n.args[1].many()
	case "*":
		return n.args[0].many() != n.args[1].many()
	}
	return false
}

// maxList bounds the values of a list.
const maxList = 1 << 16

// list computes a list of constants.
func (names pyNames) list(n *pyNode) ([]genome.Value, error) {
	var out []genome.Value
	add := func(values ...genome.Value) error {
		if out = append(out, values...); len(out) > maxList {
			return n.fail("a list has at most %d values", maxList)
		}
		return nil
	}
	switch {
	case n.op == "list":
		for _, a := range n.args {
			v, err := names.compute(a)
			if err == nil {
				err = add(v)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	case n.op == "comprehension":
		return out, names.comprehend(n, n.loops, add)
	case n.op == "call" && n.name == "range":
		from, to, step, err := names.bounds(n)
		for i := from; err == nil && (step > 0 && i < to || step < 0 && i > to); i += step {
			if err = add(genome.Int(i)); i > 1<<62 || i < -1<<62 {
				break
			}
		}
		return out, err
	case n.op == "call" && n.many():
		if len(n.args) == 0 {
			return nil, nil
		}
		if len(n.args) > 1 || !n.args[0].many() {
			return nil, n.fail("%s needs one list", n.name)
		}
		values, err := names.list(n.args[0])
		if n.name == "sorted" {
			numbers := !slices.ContainsFunc(values, func(v genome.Value) bool { return v.Kind() != genome.KindInt })
			if !numbers {
				return nil, n.fail("sorted takes integers here")
			}
			slices.SortStableFunc(values, func(a, b genome.Value) int {
				x, y := a.Any().(int64), b.Any().(int64)
				switch {
				case x < y:
					return -1
				case x > y:
					return 1
				}
				return 0
			})
		}
		return values, err
	case n.op == "+" && n.many():
		for _, a := range n.args {
			values, err := names.list(a)
			if err == nil {
				err = add(values...)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	case n.op == "*" && n.many():
		list, times := n.args[0], n.args[1]
		if times.many() {
			list, times = times, list
		}
		values, err := names.list(list)
		if err != nil {
			return nil, err
		}
		v, err := names.compute(times)
		if err != nil {
			return nil, err
		}
		count, ok := v.Any().(int64)
		if !ok {
			return nil, times.fail("an integer is needed here")
		}
		for i := int64(0); i < count && len(values) > 0; i++ {
			if err := add(values...); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, n.fail("a list is needed here, such as [1, 2]")
}

// comprehend computes the elements of a comprehension.
func (names pyNames) comprehend(n *pyNode, loops []pyLoop, add func(...genome.Value) error) error {
	if len(loops) == 0 {
		v, err := names.compute(n.args[0])
		if err != nil {
			return err
		}
		return add(v)
	}
	loop := loops[0]
	values, err := names.list(loop.list)
	if err != nil {
		return err
	}
next:
	for _, v := range values {
		inner := pyNames{}
		for name, m := range names {
			inner[name] = m
		}
		inner[loop.name] = constant(v)
		for _, c := range loop.conditions {
			m, err := inner.condition(c)
			if err != nil {
				return err
			}
			holds, err := c.evaluate(m)
			if err != nil {
				return err
			}
			if holds != genome.Bool(true) {
				continue next
			}
		}
		if err := inner.comprehend(n, loops[1:], add); err != nil {
			return err
		}
	}
	return nil
}

// bounds computes the arguments of range.
func (names pyNames) bounds(n *pyNode) (from, to, step int64, err error) {
	args := []int64{0, 0, 1}
	place := 0
	switch len(n.args) {
	case 1:
		place = 1
	case 2, 3:
	default:
		return 0, 0, 0, n.fail("range has one to three arguments")
	}
	for i, a := range n.args {
		v, err := names.compute(a)
		if err != nil {
			return 0, 0, 0, err
		}
		x, ok := v.Any().(int64)
		if !ok {
			return 0, 0, 0, a.fail("range needs integers")
		}
		args[place+i] = x
	}
	if args[2] == 0 {
		return 0, 0, 0, n.fail("the step of range is 0")
	}
	return args[0], args[1], args[2], nil
}

// compute gives the value of a node without parameters.
func (names pyNames) compute(n *pyNode) (genome.Value, error) {
	if n.op == "value" {
		return n.value, nil
	}
	m, err := names.value(n)
	if err != nil {
		return genome.Value{}, err
	}
	return n.evaluate(m)
}

// evaluate gives the value of a translated node without parameters.
func (n *pyNode) evaluate(m meaning) (genome.Value, error) {
	run := func(text string) (genome.Value, error) {
		e, err := expr.Compile(text, nil)
		if err != nil {
			return genome.Value{}, n.fail("constants are needed here")
		}
		x, err := e.Any(nil)
		if err != nil {
			var at *expr.Error
			if errors.As(err, &at) {
				return genome.Value{}, n.fail("%s", at.Msg)
			}
			return genome.Value{}, n.fail("%v", err)
		}
		return genome.ValueOf(x)
	}
	for _, t := range m.traps {
		sprung, err := run(t.when)
		if err == nil && sprung == genome.Bool(true) {
			err = n.fail("%s", t.why)
		}
		if err != nil {
			return genome.Value{}, err
		}
	}
	if m.kind == genome.KindNone {
		return genome.Value{}, n.fail("None is not a value here")
	}
	return run(m.text)
}
