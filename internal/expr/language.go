package expr

import "fmt"

// A Language says how another language writes expressions, for Expr.Write. An empty
// text means that the language has no equivalent.
type Language interface {
	// Name writes a name that has no value.
	Name(name string) string
	// Value writes a constant.
	Value(v Value) string
	// Operation writes an operation over its operands. Its name is the one in
	// expressions; for operations with two names it is "and", "or", "not" and "**".
	// "?:" has the condition first, "in" the searched value before the elements,
	// and ".." is "x in lo..hi", three operands. "-" has one operand or two.
	Operation(name string, operands []Written) string
}

// A Written is an expression in another language.
type Written struct {
	Text string
	// Kind is the type of its value; KindFloat if it may be an integer or a float.
	Kind Kind
	// Value is the value of a constant, otherwise the zero Value.
	Value Value
}

// Write writes an expression in another language. The names in constants have
// these values. What depends only on them, or on no name, is computed here, and sides
// of "and", "or" and "?:" that they make irrelevant are left out. The
// error says what the language does not have, or what cannot be computed.
func (e *Expr) Write(l Language, constants map[string]any) (Written, error) {
	w := &writer{Language: l, of: e, constants: constants, vars: make([]Value, len(e.names))}
	for i, name := range e.names {
		x, ok := constants[name]
		if !ok {
			continue
		}
		v, err := e.convert(name, x)
		if err != nil {
			return Written{}, err
		}
		w.vars[i] = v
	}
	tree := e.tree
	if e.program != nil {
		r := reader{names: e.names, types: e.types, known: w}
		tree = r.read(e.node)
	}
	return w.write(tree)
}

type writer struct {
	Language
	of        *Expr
	constants map[string]any
	vars      []Value // the zero Value for names without one
}

func untranslated(format string, args ...any) (Written, error) {
	return Written{}, fmt.Errorf(format+" has no translation", args...)
}

// closed says whether a term already has a value.
func (w *writer) closed(t *Term) bool {
	switch t.op {
	case opVar:
		return w.vars[t.val.bits].kind != KindNone
	case opCall:
		return false
	}
	for _, a := range t.args {
		if !w.closed(a) {
			return false
		}
	}
	return true
}

func (w *writer) constant(v Value) (Written, error) {
	if text := w.Value(v); text != "" {
		return Written{text, v.kind, v}, nil
	}
	return untranslated("the %s %v", v.kind, v)
}

func (w *writer) write(t *Term) (Written, error) {
	if w.closed(t) {
		var why fault
		v, ok := t.eval(w.vars, &why)
		if !ok {
			return Written{}, exprError(w.of.src, int(why.at), why.msg)
		}
		return w.constant(v)
	}
	switch t.op {
	case opVar:
		name := w.of.names[t.val.bits]
		if text := w.Name(name); text != "" {
			return Written{Text: text, Kind: t.kind}, nil
		}
		return untranslated("the name %s", name)
	case opCall:
		src := t.call.node.String()
		e, err := Compile(src, w.constants)
		if err != nil { // it has other names
			return untranslated("%s", src)
		}
		x, err := e.Any(w.constants)
		if err != nil {
			return Written{}, err
		}
		v, err := ValueOf(x)
		if err != nil {
			return Written{}, err
		}
		return w.constant(v)
	}
	var operands []Written
	for i, a := range t.args {
		x, err := w.write(a)
		if err != nil {
			return x, err
		}
		if known := x.Value.kind == KindBool; known && i == 0 {
			holds := x.Value == Bool(true)
			switch t.op {
			case opAnd, opOr:
				if holds == (t.op == opOr) {
					return x, nil
				}
				return w.write(t.args[1])
			case opIf:
				if holds {
					return w.write(t.args[1])
				}
				return w.write(t.args[2])
			}
		}
		operands = append(operands, x)
	}
	name := operations[t.op].name
	text := w.Operation(name, operands)
	kind := t.kind
	if kind == kindNumber {
		kind = KindFloat
	}
	switch {
	case text != "":
		return Written{Text: text, Kind: kind}, nil
	case t.op >= opInt:
		return untranslated("the function %s", name)
	}
	return untranslated("the operator %s", name)
}
