package expr

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// This file defines the meaning of expressions: the operations, their types, and what
// they compute. An expression is read once, into a tree of terms. The tree is evaluated
// (eval), folded as names get values (pool.go), bounded (interval.go) and written in
// other languages (language.go).
//
// The semantics are those of expr-lang's virtual machine, which the tests
// compare operation by operation. The tree covers numbers, booleans and
// comparisons of strings. An expression with anything else in it (lists, loops,
// regular expressions, functions of strings, values whose type is only known at
// run time) is one call of the machine.

// An opcode is an operation of the language, or a leaf.
type opcode uint8

const (
	opConst opcode = iota
	opErr          // the evaluation failed
	opVar
	opCall // what the tree does not cover

	opNeg
	opNot
	opAdd
	opSub
	opMul
	opDiv
	opMod
	opPow
	opEq
	opNe
	opLt
	opLe
	opGt
	opGe
	opAnd
	opOr
	opIf
	opIn
	opRange // x in lo..hi
	opContains
	opHasPrefix
	opHasSuffix
	opInt
	opFloat
	opCeil
	opFloor
	opRound
	opAbs
	opMin
	opMax
	opBitAnd
	opBitOr
	opBitXor
	opBitNand
	opBitNot
	opBitShl
	opBitShr
	opBitUshr
	opFloorDiv
	opFloorMod
	opIntPow

	// Sums and products of integers that are known not to overflow, in pools only: flat,
	// of any number of terms in any order.
	opSum
	opProduct
)

// kindNumber is an integer or a float; which one is only known at run time.
const kindNumber = KindString + 1

// A signature is a type rule: the types of an operation's operands and result.
type signature uint8

const (
	arithmetic signature = 1 + iota // numbers; an integer if all are, otherwise a float
	selecting                       // numbers; one of them
	floating                        // numbers; a float
	truncating                      // numbers; an integer
	bitwise                         // integers; an integer
	comparing                       // numbers or strings; a boolean
	equating                        // numbers, strings or booleans; a boolean
	logical                         // booleans; a boolean
	textual                         // strings; a boolean
	choosing                        // a boolean and two of a type; that type
	ranging                         // a number and two integers; a boolean
)

// many is the limit of an operation that takes any number of operands.
const many = math.MaxInt

// operations has the operations of the tree, by the names that expressions use.
var operations = [...]struct {
	name        string
	takes       signature
	least, most int // operands
}{
	opNeg:       {"-", arithmetic, 1, 1},
	opNot:       {"not", logical, 1, 1},
	opAdd:       {"+", arithmetic, 2, 2},
	opSub:       {"-", arithmetic, 2, 2},
	opMul:       {"*", arithmetic, 2, 2},
	opDiv:       {"/", floating, 2, 2},
	opMod:       {"%", bitwise, 2, 2},
	opPow:       {"**", floating, 2, 2},
	opEq:        {"==", equating, 2, 2},
	opNe:        {"!=", equating, 2, 2},
	opLt:        {"<", comparing, 2, 2},
	opLe:        {"<=", comparing, 2, 2},
	opGt:        {">", comparing, 2, 2},
	opGe:        {">=", comparing, 2, 2},
	opAnd:       {"and", logical, 2, 2},
	opOr:        {"or", logical, 2, 2},
	opIf:        {"?:", choosing, 3, 3},
	opIn:        {"in", equating, 1, many},
	opRange:     {"..", ranging, 3, 3},
	opContains:  {"contains", textual, 2, 2},
	opHasPrefix: {"startsWith", textual, 2, 2},
	opHasSuffix: {"endsWith", textual, 2, 2},
	opInt:       {"int", truncating, 1, 1},
	opFloat:     {"float", floating, 1, 1},
	opCeil:      {"ceil", floating, 1, 1},
	opFloor:     {"floor", floating, 1, 1},
	opRound:     {"round", floating, 1, 1},
	opAbs:       {"abs", arithmetic, 1, 1},
	opMin:       {"min", selecting, 1, many},
	opMax:       {"max", selecting, 1, many},
	opBitAnd:    {"bitand", bitwise, 2, 2},
	opBitOr:     {"bitor", bitwise, 2, 2},
	opBitXor:    {"bitxor", bitwise, 2, 2},
	opBitNand:   {"bitnand", bitwise, 2, 2},
	opBitNot:    {"bitnot", bitwise, 1, 1},
	opBitShl:    {"bitshl", bitwise, 2, 2},
	opBitShr:    {"bitshr", bitwise, 2, 2},
	opBitUshr:   {"bitushr", bitwise, 2, 2},
	opFloorDiv:  {"floordiv", arithmetic, 2, 2},
	opFloorMod:  {"floormod", arithmetic, 2, 2},
	opIntPow:    {"intpow", bitwise, 2, 2},
}

// synonyms are second names of operations.
var synonyms = map[string]string{"!": "not", "&&": "and", "||": "or", "^": "**"}

// gives returns the type of an operation's result; KindNone when it does not take
// these operands.
func (op opcode) gives(args []*Term) Kind {
	o := operations[op]
	if len(args) < o.least || len(args) > o.most {
		return KindNone
	}
	all := func(args []*Term, kinds ...Kind) bool {
		return !slices.ContainsFunc(args, func(t *Term) bool { return !slices.Contains(kinds, t.kind) })
	}
	numbers := all(args, KindInt, KindFloat, kindNumber)
	switch o.takes {
	case arithmetic:
		switch {
		case all(args, KindInt):
			return KindInt
		case numbers && slices.ContainsFunc(args, func(t *Term) bool { return t.kind == KindFloat }):
			return KindFloat
		case numbers:
			return kindNumber
		}
	case selecting:
		switch {
		case numbers && all(args, args[0].kind):
			return args[0].kind
		case numbers:
			return kindNumber
		}
	case floating:
		if numbers {
			return KindFloat
		}
	case truncating:
		if numbers {
			return KindInt
		}
	case bitwise:
		if all(args, KindInt) {
			return KindInt
		}
	case comparing:
		if numbers || all(args, KindString) {
			return KindBool
		}
	case equating:
		if numbers || all(args, KindString) || all(args, KindBool) {
			return KindBool
		}
	case logical:
		if all(args, KindBool) {
			return KindBool
		}
	case textual:
		if all(args, KindString) {
			return KindBool
		}
	case choosing:
		switch {
		case args[0].kind != KindBool:
		case args[1].kind == args[2].kind:
			return args[1].kind
		case all(args[1:], KindInt, KindFloat, kindNumber):
			return kindNumber
		}
	case ranging:
		if numbers && all(args[1:], KindInt) {
			return KindBool
		}
	}
	return KindNone
}

// A Term is a node of an expression's tree; in a pool, a folded one.
type Term struct {
	op   opcode
	kind Kind // of the value; kindNumber and KindNone in trees only
	errs bool // whether evaluation can fail; in a pool
	// beyond says whether it can fail by an overflow; in a pool.
	beyond bool
	id     int32  // unique in the pool, in order of making
	at     int32  // its position in the source, in characters; in a tree
	vars   uint64 // positions of the variables it depends on; in a pool
	val    Value  // of opConst; the position of opVar as an integer
	args   []*Term
	call   *Expr // of opCall; in a pool, args are in the order of its names
	in     interval
}

// A reader makes the tree of an expression whose names have the given types.
type reader struct {
	names []string
	types map[string]Kind
	whole bool // whether the tree covers the expression
	// known, unless nil, has values for names. With them, parts that the tree does not
	// cover are computed, and what deciding operands make irrelevant is left out.
	known *writer
}

// value computes a part of an expression that needs only the known names.
func (r *reader) value(n ast.Node) (v Value, ok bool) {
	e, err := Compile(n.String(), r.known.constants)
	if err != nil {
		return v, false // it has other names
	}
	x, err := e.Any(r.known.constants)
	if err != nil {
		return v, false
	}
	v, err = ValueOf(x)
	return v, err == nil
}

func (r *reader) read(n ast.Node) *Term {
	t := &Term{at: int32(n.Location().From)}
	leaf := func(v Value) *Term {
		t.op, t.kind, t.val, t.args = opConst, v.kind, v, nil
		return t
	}
	var name string
	var operands []ast.Node
	switch n := n.(type) {
	case *ast.IntegerNode:
		return leaf(Int(int64(n.Value)))
	case *ast.FloatNode:
		return leaf(rawFloat(n.Value))
	case *ast.BoolNode:
		return leaf(Bool(n.Value))
	case *ast.StringNode:
		return leaf(Str(n.Value))
	case *ast.IdentifierNode:
		if at, ok := slices.BinarySearch(r.names, n.Value); ok {
			if r.known != nil && r.known.vars[at].kind != KindNone {
				return leaf(r.known.vars[at])
			}
			t.op, t.kind, t.val = opVar, r.types[n.Value], Int(int64(at))
			return t
		}
	case *ast.UnaryNode:
		name, operands = n.Operator, []ast.Node{n.Node}
	case *ast.ConditionalNode:
		name, operands = "?:", []ast.Node{n.Cond, n.Exp1, n.Exp2}
	case *ast.BuiltinNode:
		name, operands = n.Name, n.Arguments
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			name, operands = id.Value, n.Arguments
		}
	case *ast.BinaryNode:
		name, operands = n.Operator, []ast.Node{n.Left, n.Right}
		if name == "in" {
			switch set := n.Right.(type) {
			case *ast.ArrayNode:
				operands = append(operands[:1], set.Nodes...)
			case *ast.BinaryNode: // a range
				name, operands = set.Operator, append(operands[:1], set.Left, set.Right)
				t.at = int32(set.Location().From)
			default:
				name = ""
			}
		}
	}
	if s, ok := synonyms[name]; ok {
		name = s
	}
	for _, m := range operands {
		t.args = append(t.args, r.read(m))
	}
	if r.known != nil && len(t.args) > 0 && t.args[0].op == opConst && t.args[0].kind == KindBool {
		switch holds := t.args[0].val == Bool(true); name {
		case "and", "or":
			if holds == (name == "or") {
				return t.args[0]
			}
			return t.args[1]
		case "?:":
			if holds {
				return t.args[1]
			}
			return t.args[2]
		}
	}
	if name == "+" && len(t.args) == 1 && opNeg.gives(t.args) != KindNone {
		return t.args[0]
	}
	for op, o := range operations {
		if name != "" && o.name == name {
			if k := opcode(op).gives(t.args); k != KindNone {
				t.op, t.kind = opcode(op), k
				if r.known != nil && !slices.ContainsFunc(t.args, func(a *Term) bool { return a.op != opConst }) {
					if v, ok := t.eval(nil, nil); ok {
						return leaf(v)
					}
				}
				return t
			}
		}
	}
	if r.known != nil {
		if v, ok := r.value(n); ok {
			return leaf(v)
		}
	}
	r.whole = false
	return &Term{op: opCall, call: &Expr{node: n}}
}

// A fault is why an evaluation failed, and where in the source.
type fault struct {
	at  int32
	msg string
}

// An Outcome is what a condition gives.
type Outcome uint8

// The outcomes.
const (
	Undecided Outcome = iota // it depends on variables
	True
	False
	Fails     // its evaluation fails
	Overflows // its evaluation fails by an integer beyond 64 bits
)

// outcome reads the result of an evaluation; see eval.
func outcome(v Value, ok bool) Outcome {
	switch {
	case ok && v.bits != 0:
		return True
	case ok:
		return False
	case v == overflowed:
		return Overflows
	}
	return Fails
}

// Outcome is that of a condition whose variables have these values.
func (t *Term) Outcome(vars []Value) Outcome { return outcome(t.eval(vars, nil)) }

// Decided is the outcome of a condition of a pool that depends on no variable, otherwise Undecided.
func (t *Term) Decided() Outcome {
	switch t.op {
	case opConst, opErr:
		return outcome(t.val, t.op == opConst)
	}
	return Undecided
}

// Variables has a bit for each variable that a term of a pool depends on.
func (t *Term) Variables() uint64 { return t.vars }

// ID tells the terms of a pool apart.
func (t *Term) ID() int32 { return t.id }

// Parts returns the sides of a term of a pool that is true where both are, whichever is evaluated first; ok is
// false for other terms.
func (t *Term) Parts() (left, right *Term, ok bool) {
	if t.op != opAnd || t.args[1].beyond { // the left side may keep the right one from an overflow
		return nil, nil, false
	}
	return t.args[0], t.args[1], true
}

// eval computes a term under values for all its variables; false means that
// the evaluation failed, the Value then says whether by an overflow. Why, unless nil, is
// then set to the reason, for terms of a tree.
func (t *Term) eval(vars []Value, why *fault) (Value, bool) {
	switch t.op {
	case opConst:
		return t.val, true
	case opErr:
		return t.val, false
	case opVar:
		return vars[t.val.bits], true
	case opAnd, opOr:
		a, ok := t.args[0].eval(vars, why)
		if !ok || (a.bits != 0) == (t.op == opOr) {
			return a, ok
		}
		return t.args[1].eval(vars, why)
	case opIf:
		c, ok := t.args[0].eval(vars, why)
		switch {
		case !ok:
			return c, false
		case c.bits != 0:
			return t.args[1].eval(vars, why)
		}
		return t.args[2].eval(vars, why)
	case opSum, opProduct:
		a, ok := t.args[0].eval(vars, why)
		for _, b := range t.args[1:] {
			if !ok {
				break
			}
			v, fine := b.eval(vars, why)
			switch {
			case !fine:
				return v, false
			case t.op == opSum:
				a.bits += v.bits
			default:
				a.bits *= v.bits
			}
		}
		return a, ok
	}
	var buf [4]Value
	vals := buf[:0]
	for _, a := range t.args {
		v, ok := a.eval(vars, why)
		if !ok {
			return v, false
		}
		vals = append(vals, v)
	}
	if t.op == opCall {
		return t.call.condition(vals)
	}
	v, ok := apply(t.op, vals)
	if !ok && why != nil {
		*why = fault{t.at, failure(t.op, vals, v)}
	}
	return v, ok
}

func (v Value) int() int64     { return int64(v.bits) }
func (v Value) float() float64 { return math.Float64frombits(v.bits) }

// number returns integers and floats as a float.
func (v Value) number() float64 {
	if v.kind == KindInt {
		return float64(v.int())
	}
	return v.float()
}

// rawFloat keeps the sign of zero, which arithmetic may need.
func rawFloat(f float64) Value { return Value{kind: KindFloat, bits: math.Float64bits(f)} }

// less compares two numbers or two strings.
func less(a, b *Value) bool {
	switch {
	case a.kind == KindInt && b.kind == KindInt:
		return a.int() < b.int()
	case a.kind == KindString:
		return a.str < b.str
	case a.kind == KindInt:
		return compareExact(a.int(), b.float()) == -1
	case b.kind == KindInt:
		return compareExact(b.int(), a.float()) == 1
	}
	return a.float() < b.float()
}

// equal compares two numbers, two strings or two booleans.
func equal(a, b *Value) bool {
	switch {
	case a.kind == KindString:
		return a.str == b.str
	case a.kind == b.kind && a.kind != KindFloat:
		return a.bits == b.bits
	case a.kind == KindInt:
		return compareExact(a.int(), b.float()) == 0
	case b.kind == KindInt:
		return compareExact(b.int(), a.float()) == 0
	}
	return a.float() == b.float()
}

// maxRange is the longest range.
const maxRange = 1e6

// apply computes an operation that needs all its operands; false means that it
// failed, and the Value then says whether by an overflow.
func apply(op opcode, v []Value) (Value, bool) {
	a, b := &v[0], &v[len(v)-1] // with two operands
	ints := a.kind == KindInt && b.kind == KindInt
	if ints { // the most common case
		switch op {
		case opEq:
			return Bool(a.bits == b.bits), true
		case opLt:
			return Bool(a.int() < b.int()), true
		case opLe:
			return Bool(a.int() <= b.int()), true
		}
	}
	switch op {
	case opNeg:
		if ints {
			return minus(0, a.int())
		}
		return rawFloat(-a.float()), true
	case opAdd:
		if ints {
			return plus(a.int(), b.int())
		}
		return rawFloat(a.number() + b.number()), true
	case opSub:
		if ints {
			return minus(a.int(), b.int())
		}
		return rawFloat(a.number() - b.number()), true
	case opMul:
		if ints {
			return times(a.int(), b.int())
		}
		return rawFloat(a.number() * b.number()), true
	case opDiv:
		return rawFloat(quotient(a, b)), true
	case opFloorDiv, opFloorMod:
		return floored(op, a, b)
	case opIntPow:
		return intPower(a.int(), b.int())
	case opMod:
		if b.bits == 0 {
			return Value{}, false
		}
		return Int(a.int() % b.int()), true
	case opPow:
		return rawFloat(math.Pow(a.number(), b.number())), true

	case opInt:
		if ints {
			return *a, true
		}
		return truncated(a.float())
	case opFloat:
		return rawFloat(a.number()), true
	case opCeil:
		return rawFloat(math.Ceil(a.number())), true
	case opFloor:
		return rawFloat(math.Floor(a.number())), true
	case opRound:
		return rawFloat(math.Round(a.number())), true
	case opAbs:
		switch {
		case ints && a.int() < 0:
			return minus(0, a.int())
		case !ints && a.float() < 0:
			return rawFloat(-a.float()), true
		}
		return *a, true
	case opMin:
		for i := range v[1:] {
			if less(&v[1+i], a) {
				a = &v[1+i]
			}
		}
		return *a, true
	case opMax:
		for i := range v[1:] {
			if less(a, &v[1+i]) {
				a = &v[1+i]
			}
		}
		return *a, true

	case opBitAnd:
		return Int(a.int() & b.int()), true
	case opBitOr:
		return Int(a.int() | b.int()), true
	case opBitXor:
		return Int(a.int() ^ b.int()), true
	case opBitNand:
		return Int(a.int() &^ b.int()), true
	case opBitNot:
		return Int(^a.int()), true
	case opBitShl, opBitShr, opBitUshr:
		n := b.int()
		switch {
		case n < 0:
			return Value{}, false
		case op == opBitShl:
			if shifted := a.int() << n; shifted>>n == a.int() {
				return Int(shifted), true
			}
			return overflowed, false
		case op == opBitShr:
			return Int(a.int() >> n), true
		}
		return Int(int64(a.bits >> n)), true

	case opEq:
		return Bool(equal(a, b)), true
	case opNe:
		return Bool(!equal(a, b)), true
	case opLt:
		return Bool(less(a, b)), true
	case opGt:
		return Bool(less(b, a)), true
	case opLe:
		return Bool(less(a, b) || equal(a, b)), true
	case opGe:
		return Bool(less(b, a) || equal(a, b)), true
	case opIn:
		for i := range v[1:] {
			if equal(a, &v[1+i]) {
				return Bool(true), true
			}
		}
		return Bool(false), true
	case opRange:
		lo, hi := &v[1], &v[2]
		if lo.int() <= hi.int() && hi.bits-lo.bits >= maxRange {
			return Value{}, false
		}
		whole := a.kind == KindInt || a.float() == math.Trunc(a.float())
		return Bool(whole && !less(a, lo) && !less(hi, a)), true
	case opContains:
		return Bool(strings.Contains(a.str, b.str)), true
	case opHasPrefix:
		return Bool(strings.HasPrefix(a.str, b.str)), true
	case opHasSuffix:
		return Bool(strings.HasSuffix(a.str, b.str)), true

	case opNot:
		return Bool(a.bits == 0), true
	}
	return Value{}, false
}

// failure says why apply failed with a Value, in the words of expr-lang.
func failure(op opcode, v []Value, as Value) string {
	if as == overflowed {
		return ErrOverflow.Error()
	}
	switch op {
	case opMod:
		return "integer divide by zero"
	case opFloorDiv, opFloorMod:
		return "a division by zero"
	case opInt:
		return fmt.Sprintf("int(%v): a division by zero or an overflow", v[0].float())
	case opIntPow:
		return fmt.Sprintf("%d is a negative exponent; a ** b takes one and gives a float", v[1].int())
	case opRange:
		return "memory budget exceeded"
	}
	return fmt.Sprintf("invalid operation: negative shift count %d (type int)", v[1].int())
}
