package tables

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/expr"
)

// A Declaration is a space as it was declared: what [genome.NewSpace], or
// [genome.NewUnion] for several alternatives, was given.
type Declaration struct {
	// Choice is the gene that chooses among the alternatives; empty when there
	// is one only.
	Choice       string
	Alternatives []genome.Alternative
	Envs         []map[string]any
}

// Rules writes the constraints of a declared space as recorded tables have
// them: in Python, over the genes of space alone, constants put in for their
// names. A gene that does not exist in a genome has its first value there,
// which rules of their own say; so every valid genome is one configuration that
// satisfies the rules, and the other way round.
//
// What cannot be said in Python is left out and named in the second result:
// a table without it has configurations that are allowed and not recorded.
func (d Declaration) Rules(space *genome.Space) (rules []string, left []string) {
	w := &ruleWriter{d: d, first: map[string]genome.Value{}, seen: map[string]bool{}}
	for _, g := range space.Genes() {
		w.first[g.Name] = g.Values[0]
		w.order = append(w.order, g)
	}
	for _, a := range d.Alternatives {
		w.alternative(a)
	}
	return w.rules, w.left
}

// Python writes an expression over the genes of the first alternative in Python,
// with the constants of the first Env.
func (d Declaration) Python(src string) (string, error) {
	w := &ruleWriter{d: d}
	genes := map[string]genome.Gene{}
	for _, g := range d.Alternatives[0].Genes {
		genes[g.Name] = g
	}
	text, _, err := w.python(src, w.envs()[0], genes)
	return text, err
}

// The infix operators and functions that both languages have.
var (
	pyInfix         = []string{"or", "and", "**", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/"}
	sharedFunctions = []string{"abs", "int", "float", "min", "max"}
)

type ruleWriter struct {
	d     Declaration
	order []genome.Gene
	first map[string]genome.Value
	rules []string
	left  []string
	seen  map[string]bool
}

// params are the genes.
func (w *ruleWriter) params() []Parameter {
	genes := w.order
	if genes == nil { // of one expression alone
		genes = w.d.Alternatives[0].Genes
	}
	out := make([]Parameter, len(genes))
	for i, g := range genes {
		out[i] = Parameter{g.Name, g.Values, g.Ordinal}
	}
	return out
}

// add takes a rule that holds when any of its parts does. Empty parts are left
// out.
func (w *ruleWriter) add(parts ...string) {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	rule := strings.Join(parts, " or ")
	if w.seen[rule] {
		return
	}
	w.seen[rule] = true
	if _, err := Conditions(w.params(), []string{rule}); err != nil { // a text with quotes in it, or a division by zero
		w.left = append(w.left, fmt.Sprintf("%s: %v", rule, err))
		return
	}
	w.rules = append(w.rules, rule)
}

// alternative writes what holds when an alternative is chosen.
func (w *ruleWriter) alternative(a genome.Alternative) {
	elsewhere := "" // holds when another alternative is chosen
	if w.d.Choice != "" {
		elsewhere = fmt.Sprintf("%s != %s", w.d.Choice, pythonValue(genome.Str(a.Name)))
	}
	genes := map[string]genome.Gene{}
	for _, g := range a.Genes {
		genes[g.Name] = g
	}
	active := map[string]string{} // by gene, where it exists; "" is everywhere
	var where func(name string, depth int) (string, error)
	where = func(name string, depth int) (string, error) {
		if text, ok := active[name]; ok {
			return text, nil
		}
		g := genes[name]
		if g.When == "" || depth > len(genes) {
			return "", nil
		}
		var any []string
		for _, env := range w.envs() {
			text, names, err := w.python(g.When, env, genes)
			if err != nil {
				return "", fmt.Errorf("%s exists when %s: %w", name, g.When, err)
			}
			all := []string{text}
			for _, n := range names {
				outer, err := where(n, depth+1)
				if err != nil {
					return "", err
				}
				if outer != "" {
					all = append(all, outer)
				}
			}
			if text := bracket(all, " and "); !slices.Contains(any, text) {
				any = append(any, text)
			}
		}
		active[name] = bracket(any, " or ")
		return active[name], nil
	}

	for _, g := range w.order {
		mine, ok := genes[g.Name]
		if g.Name == w.d.Choice {
			continue
		}
		first := fmt.Sprintf("%s == %s", g.Name, pythonValue(g.Values[0]))
		if !ok {
			w.add(elsewhere, first)
			continue
		}
		text, err := where(g.Name, 0)
		if err != nil {
			w.left = append(w.left, err.Error())
			continue
		}
		if text != "" {
			w.add(elsewhere, text, first)
		}
		if own := w.own(g, mine); own != "" {
			w.add(elsewhere, negated(text), own)
		}
	}
	for _, c := range a.Constraints {
		for _, env := range w.envs() {
			text, names, err := w.python(c.Expr, env, genes)
			if err != nil {
				w.left = append(w.left, fmt.Sprintf("%s: %v", c.Expr, err))
				break
			}
			if len(names) == 0 || text == "True" {
				continue // by constants alone: it holds, or there would be no genome
			}
			parts := []string{elsewhere}
			for _, n := range names {
				outer, err := where(n, 0)
				if err != nil {
					parts = nil // its gene's condition was reported
					break
				}
				parts = append(parts, negated(outer))
			}
			if parts != nil {
				w.add(append(parts, text)...)
			}
		}
	}
}

// own restricts a gene of a union to the values that one alternative has.
func (w *ruleWriter) own(all, mine genome.Gene) string {
	var values []string
	for _, v := range all.Values {
		if slices.ContainsFunc(mine.Values, func(m genome.Value) bool { return same(m, v) }) {
			values = append(values, pythonValue(v))
		}
	}
	if len(values) == len(all.Values) {
		return ""
	}
	return fmt.Sprintf("%s in [%s]", all.Name, strings.Join(values, ", "))
}

// same compares values across integers and floats.
func same(a, b genome.Value) bool {
	x, okX := a.Number()
	y, okY := b.Number()
	return a == b || okX && okY && x == y
}

func (w *ruleWriter) envs() []map[string]any {
	if len(w.d.Envs) == 0 {
		return []map[string]any{nil}
	}
	return w.d.Envs
}

func bracket(parts []string, operator string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, operator) + ")"
}

func negated(text string) string {
	if text == "" {
		return ""
	}
	return "not (" + text + ")"
}

// errNotPython is the root of what an expression has that Python, as far as
// this package knows it, has not.
var errNotPython = errors.New("cannot be said in Python here")

// python translates an expression of this project, env's constants put in and
// what they decide computed. It gives the genes that the expression names, too.
// In parentheses where needed.
func (w *ruleWriter) python(src string, env map[string]any, genes map[string]genome.Gene) (text string, names []string, err error) {
	sample := maps.Clone(env)
	if sample == nil {
		sample = map[string]any{}
	}
	for name, g := range genes {
		sample[name] = g.Values[0]
		for _, v := range g.Values {
			if v.Kind() == genome.KindFloat { // as a space takes it
				sample[name] = v
			}
		}
	}
	if w.d.Choice != "" {
		sample[w.d.Choice] = ""
	}
	e, err := expr.Compile(src, sample)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNotPython, err)
	}
	out, err := e.Write(pythonWriter{namesOf(w.params())}, env)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNotPython, err)
	}
	names = slices.DeleteFunc(e.Names(), func(name string) bool {
		_, constant := env[name]
		return constant
	})
	return out.Text, names, nil
}

// A pythonWriter is the language of restrictions, as a [expr.Language].
type pythonWriter struct{ names pyNames }

// remainder writes a remainder that has the sign of the dividend, where Python's has the
// sign of the divisor.
func (l pythonWriter) remainder(a, b string) string {
	least := func(text string) sign {
		n, err := parsePython(text)
		if err != nil {
			return anySign
		}
		m, err := l.names.value(n)
		if err != nil {
			return anySign
		}
		return m.least
	}
	switch x, y := least(a), least(b); {
	case x >= notNegative && y == positive:
		return fmt.Sprintf("(%s %% %s)", a, b)
	case y == positive:
		return fmt.Sprintf("(%s %% %s if %[1]s >= 0 else -(-%[1]s %% %[2]s))", a, b)
	}
	return fmt.Sprintf("(abs(%s) %% abs(%s) if %[1]s >= 0 else -(abs(%[1]s) %% abs(%[2]s)))", a, b)
}

// Name writes a gene.
func (pythonWriter) Name(name string) string { return name }

// Value writes a constant.
func (pythonWriter) Value(v genome.Value) string {
	switch x := v.Any().(type) {
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return ""
		}
	case string:
		if strings.ContainsAny(x, notInText) {
			return ""
		}
	}
	return pythonValue(v)
}

// pythonForms are the operations that Python writes in its own way.
var pythonForms = map[string]string{
	"not": "(not %s)", "?:": "(%[2]s if %[1]s else %[3]s)", "floor": "(%s // 1)", "ceil": "(-(-%s // 1))",
	"floordiv": "(%s // %s)", "floormod": "(%s %% %s)", "intpow": "(%s ** %s)",
}

// longestRange is how many integers "x in 1..8" may stand for.
const longestRange = 64

// Operation writes an operation.
func (l pythonWriter) Operation(name string, operands []expr.Written) string {
	var texts []string
	var args []any
	for _, x := range operands {
		texts, args = append(texts, x.Text), append(args, x.Text)
	}
	switch {
	case pythonForms[name] != "":
		return fmt.Sprintf(pythonForms[name], args...)
	case name == "-" && len(texts) == 1:
		return "(-" + texts[0] + ")"
	case name == "%":
		return l.remainder(texts[0], texts[1])
	case name == "**" && operands[0].Kind == genome.KindInt: // Python's power of integers is an integer
		return "(float(" + texts[0] + ") ** " + texts[1] + ")"
	case slices.Contains(pyInfix, name):
		return "(" + texts[0] + " " + name + " " + texts[1] + ")"
	case name == "in":
		return "(" + texts[0] + " in [" + strings.Join(texts[1:], ", ") + "])"
	case name == "..":
		from, ok1 := operands[1].Value.Any().(int64)
		to, ok2 := operands[2].Value.Any().(int64)
		if !ok1 || !ok2 || from <= to && uint64(to-from) >= longestRange {
			return ""
		}
		var list []string
		for i := from; i <= to; i++ {
			list = append(list, pythonValue(genome.Int(i)))
		}
		return "(" + texts[0] + " in [" + strings.Join(list, ", ") + "])"
	case (name == "min" || name == "max") && len(texts) == 1:
		return texts[0]
	case slices.Contains(sharedFunctions, name):
		return name + "(" + strings.Join(texts, ", ") + ")"
	}
	return ""
}

// pythonValue writes a value as Python does.
func pythonValue(v genome.Value) string {
	switch x := v.Any().(type) {
	case bool:
		if x {
			return "True"
		}
		return "False"
	case int64:
		if x < 0 {
			return "(" + strconv.FormatInt(x, 10) + ")"
		}
		return strconv.FormatInt(x, 10)
	case float64:
		s := pythonFloat(x)
		if x < 0 {
			return "(" + s + ")"
		}
		return s
	case string:
		return "'" + x + "'"
	}
	return "None"
}

// pythonFloat writes a float as Python's repr does: with an exponent below 1e-4
// and from 1e16 on.
func pythonFloat(x float64) string {
	s := strconv.FormatFloat(x, 'e', -1, 64)
	exponent, _ := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:])
	if x != 0 && (exponent < -4 || exponent >= 16) {
		return s
	}
	s = strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
