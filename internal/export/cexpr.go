package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/evotune/evotune/genome"
)

// A translator turns expressions of a definition into C. Names of dims stay,
// as int64_t; names of constants are replaced by their values, and whatever
// depends on them alone is evaluated here, by the evaluator that tuning used.
type translator struct {
	dims      []string
	constants map[string]any
	// saturating makes sums and products of integers stop at the largest, by the
	// functions of dispatch.h, for dimensions that may be any.
	saturating bool
}

// A cType is the type of a C expression.
type cType int

const (
	cInt    cType = iota // int64_t
	cFloat               // double
	cBool                // int, 0 or 1
	cString              // never in C: it must be folded away
)

// A cExpr is a C expression, parenthesised where it must be, or a constant.
type cExpr struct {
	text     string
	kind     cType
	constant any // nil when the expression depends on a dimension
}

// integer translates an expression whose value is a whole number; in C it is -1 where
// the value is none.
func (t *translator) integer(src string) (string, error) {
	e, err := t.parse(src)
	if err != nil {
		return "", err
	}
	switch e.kind {
	case cInt:
		return e.text, nil
	case cFloat:
		return fmt.Sprintf("(%[1]s == floor(%[1]s) && fabs(%[1]s) < 0x1p62 ? (int64_t)%[1]s : -1)", e.text), nil
	}
	return "", fmt.Errorf("%q is not a number", src)
}

// float translates an expression whose value is a number.
func (t *translator) float(src string) (string, error) {
	e, err := t.parse(src)
	if err != nil {
		return "", err
	}
	if e.kind != cInt && e.kind != cFloat {
		return "", fmt.Errorf("%q is not a number", src)
	}
	return asFloat(e), nil
}

// condition translates an expression that holds or does not.
func (t *translator) condition(src string) (string, error) {
	e, err := t.parse(src)
	if err != nil {
		return "", err
	}
	if e.kind != cBool {
		return "", fmt.Errorf("%q is no condition", src)
	}
	return e.text, nil
}

// names lists what a source mentions.
func names(src string) ([]string, error) {
	tree, err := parser.Parse(src)
	if err != nil {
		return nil, err
	}
	var found identifiers
	ast.Walk(&tree.Node, &found)
	return found, nil
}

type identifiers []string

func (v *identifiers) Visit(n *ast.Node) {
	if id, ok := (*n).(*ast.IdentifierNode); ok {
		*v = append(*v, id.Value)
	}
}

func (t *translator) parse(src string) (cExpr, error) {
	tree, err := parser.Parse(src)
	if err != nil {
		return cExpr{}, err
	}
	e, err := t.node(tree.Node)
	if err != nil {
		return cExpr{}, fmt.Errorf("%q cannot be written in C: %w", src, err)
	}
	return e, nil
}

// fold evaluates a node that no dimension is in; ok is false for others.
func (t *translator) fold(n ast.Node) (e cExpr, ok bool, err error) {
	var found identifiers
	ast.Walk(&n, &found)
	for _, name := range found {
		if slices.Contains(t.dims, name) {
			return e, false, nil
		}
		if _, known := t.constants[name]; !known {
			return e, false, fmt.Errorf("%s has no value", name)
		}
	}
	x, err := genome.CompileExpr(n.String(), t.constants)
	if err != nil {
		return e, false, nil //nolint:nilerr // a range or a list has no value of its own
	}
	v, err := x.Any(t.constants)
	if err != nil {
		return e, false, err
	}
	switch v := v.(type) {
	case bool:
		return cExpr{map[bool]string{false: "0", true: "1"}[v], cBool, v}, true, nil
	case int:
		return cExpr{"INT64_C(" + strconv.Itoa(v) + ")", cInt, int64(v)}, true, nil
	case int64:
		return cExpr{"INT64_C(" + strconv.FormatInt(v, 10) + ")", cInt, v}, true, nil
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		if v < 0 {
			s = "(" + s + ")"
		}
		return cExpr{s, cFloat, v}, true, nil
	case string:
		return cExpr{strconv.Quote(v), cString, v}, true, nil
	}
	return e, false, nil
}

func (t *translator) node(n ast.Node) (cExpr, error) {
	if e, ok, err := t.fold(n); ok || err != nil {
		return e, err
	}
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return cExpr{text: n.Value, kind: cInt}, nil
	case *ast.UnaryNode:
		return t.unary(n)
	case *ast.BinaryNode:
		return t.binary(n)
	case *ast.ConditionalNode:
		return t.conditional(n)
	case *ast.BuiltinNode:
		return t.call(n.Name, n.Arguments)
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			return t.call(id.Value, n.Arguments)
		}
	}
	return cExpr{}, fmt.Errorf("%s depends on the shape in a way that has no translation", n)
}

func (t *translator) unary(n *ast.UnaryNode) (cExpr, error) {
	x, err := t.node(n.Node)
	if err != nil {
		return x, err
	}
	switch n.Operator {
	case "not", "!":
		return cExpr{text: "!" + x.text, kind: cBool}, nil
	case "-":
		return cExpr{text: "(-" + x.text + ")", kind: x.kind}, nil
	}
	return x, nil
}

// truth is the value of a constant condition.
func (e cExpr) truth() (value, known bool) {
	value, known = e.constant.(bool)
	return value, known
}

func (t *translator) binary(n *ast.BinaryNode) (cExpr, error) {
	if n.Operator == "in" {
		return t.in(n)
	}
	a, err := t.node(n.Left)
	if err != nil {
		return a, err
	}
	and, or := n.Operator == "&&" || n.Operator == "and", n.Operator == "||" || n.Operator == "or"
	if v, known := a.truth(); known && (and || or) {
		if v == or {
			return a, nil
		}
		return t.node(n.Right)
	}
	b, err := t.node(n.Right)
	if err != nil {
		return b, err
	}
	op := n.Operator
	switch {
	case and:
		return cExpr{text: "(" + a.text + " && " + b.text + ")", kind: cBool}, nil
	case or:
		return cExpr{text: "(" + a.text + " || " + b.text + ")", kind: cBool}, nil
	case a.kind == cBool && b.kind == cBool && (op == "==" || op == "!="):
		return cExpr{text: "(" + a.text + " " + op + " " + b.text + ")", kind: cBool}, nil
	case a.kind > cFloat || b.kind > cFloat:
		return a, fmt.Errorf("%s compares values that are not numbers", n)
	}
	switch op {
	case "==", "!=", "<", "<=", ">", ">=":
		return cExpr{text: "(" + a.text + " " + op + " " + b.text + ")", kind: cBool}, nil
	case "+", "-", "*":
		kind := cInt
		if a.kind == cFloat || b.kind == cFloat {
			kind = cFloat
		}
		if t.saturating && kind == cInt {
			return cExpr{text: map[string]string{"+": "evo_add(", "-": "evo_sub(", "*": "evo_mul("}[op] + a.text + ", " + b.text + ")", kind: kind}, nil
		}
		return cExpr{text: "(" + a.text + " " + op + " " + b.text + ")", kind: kind}, nil
	case "/":
		return cExpr{text: "(" + asFloat(a) + " / " + asFloat(b) + ")", kind: cFloat}, nil
	case "%":
		if a.kind == cInt && b.kind == cInt {
			text := "(" + a.text + " % " + b.text + ")"
			if n, known := b.constant.(int64); !known || n == 0 || n == -1 { // which end a program
				text = "(" + b.text + " > 0 || " + b.text + " < -1 ? " + a.text + " % " + b.text + " : " + b.text + " ? 0 : -1)"
			}
			return cExpr{text: text, kind: cInt}, nil
		}
	case "**", "^":
		return cExpr{text: "pow(" + asFloat(a) + ", " + asFloat(b) + ")", kind: cFloat}, nil
	}
	return a, fmt.Errorf("the operator %s has no translation", op)
}

// in translates membership in a list or a range of numbers.
func (t *translator) in(n *ast.BinaryNode) (cExpr, error) {
	x, err := t.node(n.Left)
	if err != nil {
		return x, err
	}
	var items []ast.Node
	switch r := n.Right.(type) {
	case *ast.BinaryNode:
		if r.Operator != ".." {
			return x, fmt.Errorf("%s is neither a list nor a range", r)
		}
		lo, err := t.node(r.Left)
		if err != nil {
			return x, err
		}
		hi, err := t.node(r.Right)
		if err != nil {
			return x, err
		}
		text := fmt.Sprintf("(%s >= %s && %s <= %s)", x.text, lo.text, x.text, hi.text)
		if x.kind == cFloat { // a range has whole numbers alone
			text = "(" + text + " && " + x.text + " == floor(" + x.text + "))"
		}
		return cExpr{text: text, kind: cBool}, nil
	case *ast.ArrayNode:
		items = r.Nodes
	default:
		return x, fmt.Errorf("%s is neither a list nor a range", n.Right)
	}
	var any []string
	for _, item := range items {
		e, err := t.node(item)
		if err != nil {
			return x, err
		}
		if e.kind > cFloat {
			return x, fmt.Errorf("%s is not a number", item)
		}
		any = append(any, x.text+" == "+e.text)
	}
	if len(any) == 0 {
		return cExpr{text: "0", kind: cBool, constant: false}, nil
	}
	return cExpr{text: "(" + strings.Join(any, " || ") + ")", kind: cBool}, nil
}

func (t *translator) conditional(n *ast.ConditionalNode) (cExpr, error) {
	c, err := t.node(n.Cond)
	if err != nil {
		return c, err
	}
	if v, known := c.truth(); known {
		if v {
			return t.node(n.Exp1)
		}
		return t.node(n.Exp2)
	}
	a, err := t.node(n.Exp1)
	if err != nil {
		return a, err
	}
	b, err := t.node(n.Exp2)
	if err != nil {
		return b, err
	}
	kind := max(a.kind, b.kind)
	if a.kind == cString || b.kind == cString || (a.kind == cBool) != (b.kind == cBool) {
		return a, fmt.Errorf("%s has branches of different kinds", n)
	}
	return cExpr{text: "(" + c.text + " ? " + a.text + " : " + b.text + ")", kind: kind}, nil
}

// call translates the functions of numbers.
func (t *translator) call(name string, args []ast.Node) (cExpr, error) {
	var xs []cExpr
	float := false
	for _, a := range args {
		x, err := t.node(a)
		if err != nil {
			return x, err
		}
		if x.kind > cFloat {
			return x, fmt.Errorf("%s of what is not a number", name)
		}
		float = float || x.kind == cFloat
		xs = append(xs, x)
	}
	if len(xs) == 0 {
		return cExpr{}, fmt.Errorf("%s of nothing", name)
	}
	x := xs[0]
	switch name {
	case "int":
		return cExpr{text: "((int64_t)" + x.text + ")", kind: cInt}, nil
	case "float":
		return cExpr{text: asFloat(x), kind: cFloat}, nil
	case "ceil", "floor", "round":
		return cExpr{text: name + "(" + asFloat(x) + ")", kind: cFloat}, nil
	case "abs":
		if float {
			return cExpr{text: "fabs(" + x.text + ")", kind: cFloat}, nil
		}
		return cExpr{text: "(" + x.text + " < 0 ? -" + x.text + " : " + x.text + ")", kind: cInt}, nil
	case "bitnot":
		return cExpr{text: "(~" + x.text + ")", kind: cInt}, nil
	case "bitand", "bitor", "bitxor", "bitnand":
		op := map[string]string{"bitand": "&", "bitor": "|", "bitxor": "^", "bitnand": "& ~"}[name]
		return cExpr{text: "(" + x.text + " " + op + xs[1].text + ")", kind: cInt}, nil
	case "bitshl", "bitshr", "bitushr": // by 64 and more as in Go
		n := xs[1].text
		text := map[string]string{
			"bitshl":  "(%[2]s >= 0 && %[2]s < 64 ? (int64_t)((uint64_t)%[1]s << %[2]s) : 0)",
			"bitshr":  "(%[1]s >> (%[2]s >= 0 && %[2]s < 64 ? %[2]s : 63))",
			"bitushr": "(%[2]s >= 0 && %[2]s < 64 ? (int64_t)((uint64_t)%[1]s >> %[2]s) : 0)",
		}[name]
		return cExpr{text: fmt.Sprintf(text, x.text, n), kind: cInt}, nil
	case "min", "max":
		op := map[string]string{"min": "<", "max": ">"}[name]
		for _, y := range xs[1:] {
			a, b, kind := x.text, y.text, cInt
			if float {
				a, b, kind = asFloat(x), asFloat(y), cFloat
			}
			x = cExpr{text: fmt.Sprintf("(%s %s %s ? %s : %s)", a, op, b, a, b), kind: kind}
		}
		return x, nil
	}
	return x, fmt.Errorf("the function %s has no translation", name)
}

func asFloat(e cExpr) string {
	if e.kind == cFloat {
		return e.text
	}
	return "(double)" + e.text
}
