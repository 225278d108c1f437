// Package expr is the language of expressions: constraints and conditions of genes, sizes, launches, counts of
// operations. Expr describes it.
//
// # Model
//
// Compile reads an expression over names of known types, once, into a tree of terms. The tree is evaluated
// (Expr.Int, Float, Bool, Any), folded while only some names have values (Pool), and written in other languages
// (Expr.Write). What the tree does not cover is evaluated by expr-lang's virtual machine, whose semantics all of it has.
//
// # Caveats
//
// Integers have 64 bits, and a result beyond them is an error: no expression wraps.
package expr

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	exprlang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/evotune/evotune/internal/naming"
)

// maxExpr bounds the length of an expression in bytes. Since the nesting of loops is
// bounded too, evaluation always ends soon.
const maxExpr = 4096

// maxLoops bounds how deep any, all, none, one, count and sum nest.
const maxLoops = 2

// functions are the built-in functions of expr-lang that expressions may call:
// those that are pure, cheap and deterministic.
var functions = []string{
	"abs", "ceil", "floor", "round", "int", "float", "min", "max",
	"bitand", "bitor", "bitxor", "bitnand", "bitnot", "bitshl", "bitshr", "bitushr",
	"all", "any", "none", "one", "count", "sum", "len",
	"hasPrefix", "hasSuffix", "upper", "lower", "trim", "string",
}

// exact are the functions that expr-lang does not have. On integers they compute what
// division and powers of floats lose beyond 2^53.
var exact = map[string]opcode{"floordiv": opFloorDiv, "floormod": opFloorMod, "intpow": opIntPow}

// words are the names that expr-lang reserves.
var words = []string{
	"true", "false", "nil", "in", "not", "and", "or", "let", "if", "else",
	"matches", "contains", "startsWith", "endsWith",
}

// reserved says whether a name has a meaning in every expression.
func reserved(name string) bool {
	_, own := exact[name]
	return own || slices.Contains(functions, name) || slices.Contains(words, name)
}

// callable lists the functions.
func callable() []string { return append(slices.Sorted(maps.Keys(exact)), functions...) }

// An Error says what is wrong with an expression, and where.
type Error struct {
	Expr   string // the whole expression
	Offset int    // of the error, in bytes, from 0
	Line   int    // from 1
	Column int    // in characters, from 1
	Msg    string

	overflow bool // an integer that 64 bits do not hold
}

// Unwrap returns ErrOverflow if that is the cause.
func (e *Error) Unwrap() error {
	if e.overflow {
		return ErrOverflow
	}
	return nil
}

// Error returns one line: column, error, expression.
func (e *Error) Error() string {
	where := fmt.Sprintf("column %d", e.Column)
	if e.Line > 1 {
		where = fmt.Sprintf("line %d, column %d", e.Line, e.Column)
	}
	return fmt.Sprintf("%s of %q: %s", where, e.Expr, e.Msg)
}

// An Expr is a compiled expression of expr-lang. It is safe for concurrent
// use. Write translates it to another language.
//
// Integers have 64 bits; a result beyond them is an error. "/" always gives a float
// (int(a/b) gives an integer again), "%" needs integers and has the sign of the
// dividend, "**" gives a float. The functions are abs, ceil, floor, round, int, float,
// min, max, bitand, bitor, bitxor, bitnand, bitnot, bitshl, bitshr, bitushr, all, any,
// none, one, count, sum, len, hasPrefix, hasSuffix, upper, lower, trim and string, and
// three that are exact on integers: floordiv(a, b) rounds down, floormod(a, b) is its
// remainder with the sign of b (both take floats too), and intpow(a, b) is a power of
// integers. A range (1..8) may only follow "in"; there are no variables and no comments.
type Expr struct {
	src   string
	names []string // sorted
	types map[string]Kind
	kind  Kind // of the result; KindNone if only known at run time
	tree  *Term
	// program is nil if the tree covers the expression.
	program *vm.Program
	node    ast.Node // as it was parsed; the only field of a part of an expression
}

// Compile compiles an expression over the names of env, whose values only give the
// types: an integer, a float, a boolean or a string. The error is an *Error if the
// expression is wrong: syntax, an unknown name (with the nearest known ones), a type.
func Compile(src string, env map[string]any) (*Expr, error) {
	types := make(map[string]Kind, len(env))
	sample := make(map[string]any, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if err := CheckName(name); err != nil {
			return nil, err
		}
		v, err := ValueOf(env[name])
		if err != nil {
			return nil, fmt.Errorf("name %s: %w", name, err)
		}
		types[name] = v.kind
		sample[name] = v.operand()
	}
	return compile(src, types, sample)
}

// Condition is Compile for an expression that has to give true or false.
func Condition(src string, env map[string]any) (*Expr, error) {
	e, err := Compile(src, env)
	if err != nil {
		return nil, err
	}
	if e.kind != KindBool && e.kind != KindNone {
		return nil, exprError(src, 0, fmt.Sprintf("it gives a value of type %s, expected a condition (true or false)", e.kind))
	}
	if e.kind == KindNone { // the type is known only from what it gives
		if x, err := e.run(env); err == nil && x != true && x != false {
			return nil, exprError(src, 0, fmt.Sprintf("it gives %s, expected a condition (true or false)", describe(x)))
		}
	}
	return e, nil
}

// CheckName says whether a name can be used in an expression.
func CheckName(name string) error {
	switch {
	case !IsName(name):
		return fmt.Errorf("name %q is not usable in expressions: use letters, digits and _, not a digit first", name)
	case reserved(name):
		return fmt.Errorf("name %q is taken: it is a word or function of the expression language; choose another", name)
	}
	return nil
}

// IsName says whether a text has the form of a name: letters, digits and _, no digit first, at most 255 bytes.
func IsName(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		if !letter && (i == 0 || !digit) {
			return false
		}
	}
	return true
}

// operand returns the value as expressions see it.
func (v Value) operand() any {
	if v.kind == KindInt {
		return int(int64(v.bits))
	}
	return v.Any()
}

func compile(src string, types map[string]Kind, sample map[string]any) (e *Expr, err error) {
	defer func() {
		if r := recover(); r != nil { // a bug of expr-lang must not end a campaign
			e, err = nil, exprError(src, 0, fmt.Sprintf("the expression cannot be compiled: %v", r))
		}
	}()
	if len(src) > maxExpr {
		return nil, exprError(src[:60]+"...", 0, fmt.Sprintf("the expression has %d bytes, at most %d", len(src), maxExpr))
	}
	if strings.TrimSpace(src) == "" {
		return nil, exprError(src, 0, "the expression is empty")
	}
	if at := comment(src); at >= 0 {
		return nil, exprError(src, utf8.RuneCountInString(src[:at]), `comments are not available, and "//" begins one; an integer division is int(a / b)`)
	}
	program, err := machine(src, sample)
	if err != nil {
		return nil, compileError(src, err, types)
	}
	node := program.Node()
	e = &Expr{src: src, types: types, kind: kindOf(node), node: node}
	c := &census{names: map[string]bool{}}
	c.walk(node, 0)
	if c.fault != "" {
		return nil, exprError(src, c.at, c.fault)
	}
	for name := range types {
		if c.names[name] {
			e.names = append(e.names, name)
		}
	}
	slices.Sort(e.names)
	r := reader{names: e.names, types: types, whole: true}
	if e.tree = r.read(node); !r.whole {
		if e.program, err = machine(src, sample, checkedOptions()...); err != nil {
			return nil, compileError(src, err, types)
		}
	}
	return e, nil
}

// language is the part of expr-lang's configuration that all expressions have.
var language = sync.OnceValue(func() conf.Config {
	c := conf.CreateNew()
	c.Optimize = false
	for name := range c.Builtins {
		if !slices.Contains(functions, name) {
			c.Disabled[name] = true
			delete(c.Builtins, name)
		}
	}
	for name, op := range exact {
		operationOption(name, op)(c)
	}
	return *c
})

// machine compiles for expr-lang's virtual machine. It does what Compile of expr-lang does, which makes the
// configuration anew each time: to read a kernel took a third longer.
func machine(src string, sample map[string]any, more ...exprlang.Option) (*vm.Program, error) {
	config := language() // its maps are shared
	config.WithEnv(sample)
	if len(more) > 0 {
		config.Functions = maps.Clone(config.Functions)
	}
	for _, option := range more {
		option(&config)
	}
	config.Check()
	tree, err := checker.ParseCheck(src, &config)
	if err != nil {
		return nil, err
	}
	return compiler.Compile(tree, &config)
}

// kindOf returns the type of a node's value as expr-lang found it.
func kindOf(n ast.Node) Kind {
	switch n.Type().Kind() {
	case reflect.Bool:
		return KindBool
	case reflect.Int:
		return KindInt
	case reflect.Float64:
		return KindFloat
	case reflect.String:
		return KindString
	}
	return KindNone
}

// comment finds where a comment begins, outside of strings; -1 for none. expr-lang
// reads "A == B // C" as "A == B", which is hardly what the author means.
func comment(src string) int {
	quote := byte(0)
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case quote == 0 && (c == '"' || c == '\'' || c == '`'):
			quote = c
		case quote == 0 && c == '/' && i+1 < len(src) && (src[i+1] == '/' || src[i+1] == '*'):
			return i
		case c == quote:
			quote = 0
		case quote != 0 && quote != '`' && c == '\\':
			i++
		}
	}
	return -1
}

// exprError makes an Error at a character.
func exprError(src string, at int, msg string) *Error {
	e := &Error{Expr: src, Line: 1, Column: 1, Offset: len(src), Msg: msg}
	n := 0
	for i, r := range src {
		if n == at {
			e.Offset = i
			break
		}
		n++
		e.Column++
		if r == '\n' {
			e.Line++
			e.Column = 1
		}
	}
	return e
}

// compileError rewords an error of expr-lang.
func compileError(src string, err error, types map[string]Kind) error {
	var f *file.Error
	if !errors.As(err, &f) {
		return exprError(src, 0, strings.TrimSpace(err.Error()))
	}
	msg := f.Message
	if name, ok := strings.CutPrefix(msg, "unknown name "); ok {
		msg = naming.Unknown("name", name, append(slices.Sorted(maps.Keys(types)), callable()...), slices.Sorted(maps.Keys(types)))
	}
	return exprError(src, f.From, msg)
}

// census walks a tree for its names and for what is not allowed.
type census struct {
	names map[string]bool
	fault string
	at    int
}

func (c *census) refuse(n ast.Node, msg string) {
	if c.fault == "" {
		c.fault, c.at = msg, n.Location().From
	}
}

func (c *census) walk(n ast.Node, loops int) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			c.refuse(n, "$env is not available; write the names themselves")
		}
		c.names[n.Value] = true
	case *ast.UnaryNode:
		c.walk(n.Node, loops)
	case *ast.BinaryNode:
		if n.Operator == ".." {
			c.refuse(n, `a range (1..8) may stand only after "in"`)
		}
		c.walk(n.Left, loops)
		if r, ok := n.Right.(*ast.BinaryNode); ok && r.Operator == ".." && (n.Operator == "in" || n.Operator == "not in") {
			c.walk(r.Left, loops)
			c.walk(r.Right, loops)
			return
		}
		c.walk(n.Right, loops)
	case *ast.ConditionalNode:
		c.walk(n.Cond, loops)
		c.walk(n.Exp1, loops)
		c.walk(n.Exp2, loops)
	case *ast.ArrayNode:
		for _, m := range n.Nodes {
			c.walk(m, loops)
		}
	case *ast.BuiltinNode:
		for _, m := range n.Arguments {
			c.walk(m, loops)
		}
	case *ast.PredicateNode:
		if loops == maxLoops {
			c.refuse(n, fmt.Sprintf("any, all, none, one, count and sum nest at most %d deep", maxLoops))
			return
		}
		c.walk(n.Node, loops+1)
	case *ast.MemberNode:
		c.walk(n.Node, loops)
		c.walk(n.Property, loops)
	case *ast.CallNode:
		id, ok := n.Callee.(*ast.IdentifierNode)
		if ok {
			_, ok = exact[id.Value]
			ok = ok || slices.Contains(functions, id.Value)
		}
		if !ok {
			c.refuse(n, "only the built-in functions can be called: "+strings.Join(callable(), ", "))
			return
		}
		for _, m := range n.Arguments {
			c.walk(m, loops)
		}
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.PointerNode, *ast.ConstantNode:
	default:
		c.refuse(n, "this construct is not available: expressions compute one value, without variables, maps, slices or bytes")
	}
}

// String returns the source.
func (e *Expr) String() string { return e.src }

// Names lists the names that the expression mentions, sorted.
func (e *Expr) Names() []string { return slices.Clone(e.names) }

// Value evaluates the expression to an int, a float64, a bool, a string or, for some that only Any refuses, a list; vars
// has the values of its names, in the order of Names, which have exactly the types of the compilation.
func (e *Expr) Value(vars []Value) (any, error) {
	if e.program == nil {
		var why fault
		v, ok := e.tree.eval(vars, &why)
		if !ok {
			err := exprError(e.src, int(why.at), why.msg)
			err.overflow = v == overflowed
			return nil, err
		}
		return v.operand(), nil
	}
	env := make(map[string]any, len(vars))
	for i, name := range e.names {
		env[name] = vars[i].operand()
	}
	out, err := vm.Run(e.program, env)
	if err == nil {
		return out, nil
	}
	var f *file.Error
	if errors.As(err, &f) {
		at := exprError(e.src, f.From, strings.TrimPrefix(f.Message, "runtime error: "))
		at.overflow = at.Msg == ErrOverflow.Error()
		return nil, at
	}
	return nil, exprError(e.src, 0, err.Error())
}

// Outcome is that of a condition whose names have these values; see Value.
func (e *Expr) Outcome(vars []Value) Outcome { return outcome(e.condition(vars)) }

// condition evaluates to a boolean; false as the second result means that it
// failed.
func (e *Expr) condition(vars []Value) (Value, bool) {
	x, err := e.Value(vars)
	var at *Error
	if errors.As(err, &at) && at.overflow {
		return overflowed, false
	}
	b, ok := x.(bool)
	return Bool(b), ok && err == nil
}

// run evaluates over the caller's environment after checking its types.
func (e *Expr) run(env map[string]any) (any, error) {
	vars := make([]Value, len(e.names))
	for i, name := range e.names {
		x, ok := env[name]
		if !ok {
			return nil, fmt.Errorf("expression %q: no value for %s", e.src, name)
		}
		v, err := e.convert(name, x)
		if err != nil {
			return nil, err
		}
		vars[i] = v
	}
	return e.Value(vars)
}

// convert converts the caller's value of a name to the type of the compilation.
func (e *Expr) convert(name string, x any) (Value, error) {
	v, err := ValueOf(x)
	if err != nil {
		return v, fmt.Errorf("expression %q: %s: %w", e.src, name, err)
	}
	w, ok := v.As(e.types[name])
	if !ok {
		return w, fmt.Errorf("expression %q: %s is %s %s, expected %s", e.src, name, v.kind, v, e.types[name])
	}
	return w, nil
}

// Int evaluates to an integer; a float without a fraction counts as one.
func (e *Expr) Int(env map[string]any) (int64, error) {
	x, err := e.run(env)
	if err != nil {
		return 0, err
	}
	switch x := x.(type) {
	case int:
		return int64(x), nil
	case float64:
		if v, ok := Float(x).As(KindInt); ok {
			return int64(v.bits), nil
		}
		return 0, fmt.Errorf("expression %q gives %v, which is not an integer; round with int(...), floor(...) or ceil(...)", e.src, x)
	}
	return 0, fmt.Errorf("expression %q gives %s, expected an integer", e.src, describe(x))
}

// Float evaluates to a float; an integer counts as one. NaN and the infinities
// (a division by zero) are errors.
func (e *Expr) Float(env map[string]any) (float64, error) {
	x, err := e.run(env)
	if err != nil {
		return 0, err
	}
	switch x := x.(type) {
	case int:
		return float64(x), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return 0, fmt.Errorf("expression %q gives %v: a division by zero or an overflow", e.src, x)
		}
		return x, nil
	}
	return 0, fmt.Errorf("expression %q gives %s, expected a number", e.src, describe(x))
}

// Bool evaluates to a boolean.
func (e *Expr) Bool(env map[string]any) (bool, error) {
	x, err := e.run(env)
	if err != nil {
		return false, err
	}
	if b, ok := x.(bool); ok {
		return b, nil
	}
	return false, fmt.Errorf("expression %q gives %s, expected true or false", e.src, describe(x))
}

// Any evaluates to an int, a float64, a bool or a string.
func (e *Expr) Any(env map[string]any) (any, error) {
	x, err := e.run(env)
	if err != nil {
		return nil, err
	}
	if _, err := ValueOf(x); err != nil {
		return nil, fmt.Errorf("expression %q gives %s, expected one number, boolean or string", e.src, describe(x))
	}
	return x, nil
}

// describe names a result in error messages.
func describe(x any) string {
	switch x := x.(type) {
	case string:
		return fmt.Sprintf("the string %q", x)
	case int, float64, bool:
		return fmt.Sprintf("%v", x)
	}
	return typeOf(x)
}
