package genome

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// This file evaluates expressions partially: a term is an expression in which
// some genes already have values, folded as far as they allow. Terms are
// unique within their pool, so that two prefixes of a genome that leave the
// same thing to be decided lead to the same term. That is what keeps diagrams
// small: after A and B, the constraint A*B*C <= 64 remembers their product
// only, and "A == 0 || ..." remembers nothing once A is 0.
//
// The semantics are those of expr-lang's virtual machine, which the tests
// compare term by term. What a term cannot express stays one opaque call of
// the machine, made when all its genes are known.

type opcode uint8

const (
	opConst opcode = iota
	opErr          // the evaluation failed
	opVar

	// Integers; sums and products are flat, sorted, and hold at most one
	// constant, which wrapping arithmetic permits.
	opAddI
	opMulI
	opMod
	opAbsI
	opMinI
	opMaxI
	opBitAnd
	opBitOr
	opBitXor
	opBitNand
	opBitNot
	opBitShl
	opBitShr
	opBitUshr
	opTrunc // int(float)

	// Floats.
	opAddF
	opSubF
	opMulF
	opDiv
	opPow
	opNegF
	opAbsF
	opMinF
	opMaxF
	opCeil
	opFloor
	opRound
	opFloat // float(int)

	// Comparisons.
	opLtI
	opLeI
	opEqI
	opLtF
	opLeF
	opEqF
	opLtS
	opLeS
	opEqS
	opEqB
	opContains
	opHasPrefix
	opHasSuffix

	// Logic.
	opNot
	opAnd
	opOr
	opIf

	opCall // an opaque expression over args
)

// A term is a folded expression; see the comment at the top of the file.
type term struct {
	op   opcode
	kind Kind
	errs bool   // whether evaluation can fail
	id   int32  // unique in the pool, in order of making
	vars uint64 // positions of the variables it depends on
	val  Value  // of opConst; the position of opVar as an integer
	args []*term
	call *Expr // of opCall; args are in the order of its names
	in   interval
}

// maxScope is the number of variables that terms of one pool can have.
const maxScope = 64

type pool struct {
	terms  map[string]*term
	key    []byte
	ranges []interval // of the variables
}

// newPool makes a pool whose variables have the given values.
func newPool(values [][]Value) *pool {
	p := &pool{terms: map[string]*term{}}
	for _, vs := range values {
		in := point(vs[0])
		for _, v := range vs[1:] {
			in = in.hull(point(v))
		}
		p.ranges = append(p.ranges, in)
	}
	return p
}

// intern makes a term unique. args must not be changed afterwards.
func (p *pool) intern(op opcode, kind Kind, val Value, args []*term, call *Expr) *term {
	k := append(p.key[:0], byte(op), byte(kind))
	switch op {
	case opConst, opVar:
		k = append(k, byte(val.kind))
		k = binary.LittleEndian.AppendUint64(k, val.bits)
		k = append(k, val.str...)
	default:
		for _, a := range args {
			k = binary.LittleEndian.AppendUint32(k, uint32(a.id))
		}
	}
	p.key = k
	if t, ok := p.terms[string(k)]; ok {
		return t
	}
	t := &term{op: op, kind: kind, val: val, args: args, call: call, id: int32(len(p.terms))}
	switch op {
	case opVar:
		t.vars = 1 << val.bits
	case opErr, opMod, opBitShl, opBitShr, opBitUshr, opCall:
		t.errs = true
	}
	for _, a := range args {
		t.vars |= a.vars
		t.errs = t.errs || a.errs
	}
	switch op {
	case opVar:
		t.in = p.ranges[val.bits]
	case opConst:
		t.in = point(val)
	default:
		t.in = bound(op, args)
	}
	p.terms[string(k)] = t
	return t
}

func (p *pool) constant(v Value) *term  { return p.intern(opConst, v.kind, v, nil, nil) }
func (p *pool) failure(kind Kind) *term { return p.intern(opErr, kind, Value{}, nil, nil) }
func (p *pool) variable(position int, kind Kind) *term {
	return p.intern(opVar, kind, Int(int64(position)), nil, nil)
}

func (t *term) is(v Value) bool { return t.op == opConst && t.val == v }

// make builds a term of an operator over terms, folding what it can.
func (p *pool) make(op opcode, kind Kind, call *Expr, args ...*term) *term {
	switch op {
	case opAnd, opOr:
		return p.logic(op, args[0], args[1])
	case opIf:
		c, a, b := args[0], args[1], args[2]
		switch {
		case c.op == opErr:
			return p.failure(kind)
		case c.is(Bool(true)):
			return a
		case c.is(Bool(false)):
			return b
		case a == b && !c.errs:
			return a
		}
		return p.intern(op, kind, Value{}, args, nil)
	}
	closed := true
	for _, a := range args {
		if a.op == opErr { // every other operator evaluates all its operands
			return p.failure(kind)
		}
		closed = closed && a.op == opConst
	}
	if closed {
		var buf [4]Value
		vals := buf[:0]
		for _, a := range args {
			vals = append(vals, a.val)
		}
		v, ok := apply(op, call, vals)
		if !ok {
			return p.failure(kind)
		}
		return p.constant(v)
	}
	switch op {
	case opAddI, opMulI:
		return p.ring(op, args)
	case opNot:
		if args[0].op == opNot {
			return args[0].args[0]
		}
	case opLtI, opLtF, opLeI, opLeF, opEqI, opEqF:
		if decided, v := settled(op, args[0], args[1]); decided {
			return p.constant(Bool(v))
		}
	}
	return p.intern(op, kind, Value{}, args, call)
}

// logic folds "and" and "or", which look at the right side only when the left
// one does not decide.
func (p *pool) logic(op opcode, a, b *term) *term {
	neutral := Bool(op == opAnd) // true and b is b; false or b is b
	decides := Bool(op == opOr)
	switch {
	case a.op == opErr:
		return a
	case a.is(decides):
		return a
	case a.is(neutral):
		return b
	case b.is(neutral), a == b:
		return a
	case b.is(decides) && !a.errs:
		return b
	}
	return p.intern(op, KindBool, Value{}, []*term{a, b}, nil)
}

// ring folds sums and products of integers, which wrap and so may be
// rearranged at will.
func (p *pool) ring(op opcode, args []*term) *term {
	acc, neutral := int64(0), int64(0)
	if op == opMulI {
		acc, neutral = 1, 1
	}
	flat := make([]*term, 0, len(args)+1)
	var add func(ts []*term)
	add = func(ts []*term) {
		for _, t := range ts {
			switch {
			case t.op == op:
				add(t.args)
			case t.op != opConst:
				flat = append(flat, t)
			case op == opAddI:
				acc += int64(t.val.bits)
			default:
				acc *= int64(t.val.bits)
			}
		}
	}
	add(args)
	if op == opMulI && acc == 0 && !slices.ContainsFunc(flat, func(t *term) bool { return t.errs }) {
		return p.constant(Int(0))
	}
	if acc == neutral && len(flat) == 1 {
		return flat[0]
	}
	slices.SortFunc(flat, func(a, b *term) int { return int(a.id) - int(b.id) })
	if acc != neutral {
		flat = append(flat, p.constant(Int(acc)))
	}
	return p.intern(op, KindInt, Value{}, flat, nil)
}

// subst gives the term with a value for one variable.
func (p *pool) subst(t *term, position int, v Value) *term {
	if t.vars&(1<<position) == 0 {
		return t
	}
	if t.op == opVar {
		return p.constant(v)
	}
	switch t.op {
	case opAnd, opOr, opIf: // spare the sides that no longer matter
		a := p.subst(t.args[0], position, v)
		if a.op == opConst {
			switch {
			case t.op == opIf && a.val == Bool(true):
				return p.subst(t.args[1], position, v)
			case t.op == opIf:
				return p.subst(t.args[2], position, v)
			case (a.val == Bool(true)) == (t.op == opOr):
				return a
			default:
				return p.subst(t.args[1], position, v)
			}
		}
	}
	args := make([]*term, len(t.args))
	for i, a := range t.args {
		args[i] = p.subst(a, position, v)
	}
	return p.make(t.op, t.kind, t.call, args...)
}

// eval computes a term under values for all its variables; false means that
// the evaluation failed.
func (t *term) eval(vars []Value) (Value, bool) {
	switch t.op {
	case opConst:
		return t.val, true
	case opErr:
		return Value{}, false
	case opVar:
		return vars[t.val.bits], true
	case opAnd, opOr:
		a, ok := t.args[0].eval(vars)
		if !ok || (a.bits != 0) == (t.op == opOr) {
			return a, ok
		}
		return t.args[1].eval(vars)
	case opIf:
		c, ok := t.args[0].eval(vars)
		switch {
		case !ok:
			return c, false
		case c.bits != 0:
			return t.args[1].eval(vars)
		}
		return t.args[2].eval(vars)
	case opAddI, opMulI:
		a, ok := t.args[0].eval(vars)
		for _, b := range t.args[1:] {
			v, good := b.eval(vars)
			ok = ok && good
			if t.op == opAddI {
				a.bits += v.bits
			} else {
				a.bits *= v.bits
			}
		}
		return a, ok
	}
	var buf [4]Value
	vals := buf[:0]
	for _, a := range t.args {
		v, ok := a.eval(vars)
		if !ok {
			return v, false
		}
		vals = append(vals, v)
	}
	return apply(t.op, t.call, vals)
}

func (v Value) int() int64     { return int64(v.bits) }
func (v Value) float() float64 { return math.Float64frombits(v.bits) }

// rawFloat keeps the sign of zero, which arithmetic may need.
func rawFloat(f float64) Value { return Value{kind: KindFloat, bits: math.Float64bits(f)} }

// apply computes a strict operator over values; false means that it failed.
func apply(op opcode, call *Expr, v []Value) (Value, bool) {
	switch op {
	case opAddI, opMulI:
		acc := v[0].bits
		for _, w := range v[1:] {
			if op == opAddI {
				acc += w.bits
			} else {
				acc *= w.bits
			}
		}
		return Int(int64(acc)), true
	case opMod:
		if v[1].bits == 0 {
			return Value{}, false
		}
		return Int(v[0].int() % v[1].int()), true
	case opAbsI:
		if i := v[0].int(); i < 0 {
			return Int(-i), true
		}
		return v[0], true
	case opMinI:
		return Int(min(v[0].int(), v[1].int())), true
	case opMaxI:
		return Int(max(v[0].int(), v[1].int())), true
	case opBitAnd:
		return Int(v[0].int() & v[1].int()), true
	case opBitOr:
		return Int(v[0].int() | v[1].int()), true
	case opBitXor:
		return Int(v[0].int() ^ v[1].int()), true
	case opBitNand:
		return Int(v[0].int() &^ v[1].int()), true
	case opBitNot:
		return Int(^v[0].int()), true
	case opBitShl, opBitShr, opBitUshr:
		n := v[1].int()
		switch {
		case n < 0:
			return Value{}, false
		case op == opBitShl:
			return Int(v[0].int() << n), true
		case op == opBitShr:
			return Int(v[0].int() >> n), true
		}
		return Int(int64(v[0].bits >> n)), true
	case opTrunc:
		return Int(int64(int(v[0].float()))), true

	case opAddF:
		return rawFloat(v[0].float() + v[1].float()), true
	case opSubF:
		return rawFloat(v[0].float() - v[1].float()), true
	case opMulF:
		return rawFloat(v[0].float() * v[1].float()), true
	case opDiv:
		return rawFloat(v[0].float() / v[1].float()), true
	case opPow:
		return rawFloat(math.Pow(v[0].float(), v[1].float())), true
	case opNegF:
		return rawFloat(-v[0].float()), true
	case opAbsF:
		if f := v[0].float(); f < 0 {
			return rawFloat(-f), true
		}
		return v[0], true
	case opMinF: // written so that NaN behaves as in expr-lang
		if v[0].float() > v[1].float() {
			return v[1], true
		}
		return v[0], true
	case opMaxF:
		if v[0].float() < v[1].float() {
			return v[1], true
		}
		return v[0], true
	case opCeil:
		return rawFloat(math.Ceil(v[0].float())), true
	case opFloor:
		return rawFloat(math.Floor(v[0].float())), true
	case opRound:
		return rawFloat(math.Round(v[0].float())), true
	case opFloat:
		return rawFloat(float64(v[0].int())), true

	case opLtI:
		return Bool(v[0].int() < v[1].int()), true
	case opLeI:
		return Bool(v[0].int() <= v[1].int()), true
	case opEqI, opEqB:
		return Bool(v[0].bits == v[1].bits), true
	case opLtF:
		return Bool(v[0].float() < v[1].float()), true
	case opLeF:
		return Bool(v[0].float() <= v[1].float()), true
	case opEqF:
		return Bool(v[0].float() == v[1].float()), true
	case opLtS:
		return Bool(v[0].str < v[1].str), true
	case opLeS:
		return Bool(v[0].str <= v[1].str), true
	case opEqS:
		return Bool(v[0].str == v[1].str), true
	case opContains:
		return Bool(strings.Contains(v[0].str, v[1].str)), true
	case opHasPrefix:
		return Bool(strings.HasPrefix(v[0].str, v[1].str)), true
	case opHasSuffix:
		return Bool(strings.HasSuffix(v[0].str, v[1].str)), true

	case opNot:
		return Bool(v[0].bits == 0), true

	case opCall:
		env := make(map[string]any, len(v))
		for i, name := range call.names {
			env[name] = v[i].operand()
		}
		x, err := call.value(env)
		if err != nil {
			return Value{}, false
		}
		b, ok := x.(bool)
		return Bool(b), ok
	}
	return Value{}, false
}

// errOpaque: the expression has a construct that terms do not know.
var errOpaque = errors.New("opaque")

// compile turns an expression into a term; lookup gives the term of a name.
func (p *pool) compile(e *Expr, lookup func(name string) *term) *term {
	t, err := p.translate(e.node, lookup)
	if err == nil && t.kind == KindBool {
		return t
	}
	args := make([]*term, len(e.names))
	for i, name := range e.names {
		args[i] = lookup(name)
	}
	return p.make(opCall, KindBool, e, args...)
}

func (p *pool) translate(n ast.Node, lookup func(string) *term) (*term, error) {
	sub := func(n ast.Node) (*term, error) { return p.translate(n, lookup) }
	switch n := n.(type) {
	case *ast.IntegerNode:
		return p.constant(Int(int64(n.Value))), nil
	case *ast.FloatNode:
		return p.constant(rawFloat(n.Value)), nil
	case *ast.BoolNode:
		return p.constant(Bool(n.Value)), nil
	case *ast.StringNode:
		return p.constant(Str(n.Value)), nil
	case *ast.IdentifierNode:
		if t := lookup(n.Value); t != nil {
			return t, nil
		}
	case *ast.UnaryNode:
		a, err := sub(n.Node)
		if err != nil {
			return nil, err
		}
		switch {
		case (n.Operator == "!" || n.Operator == "not") && a.kind == KindBool:
			return p.make(opNot, KindBool, nil, a), nil
		case n.Operator == "-" && a.kind == KindInt:
			return p.make(opMulI, KindInt, nil, a, p.constant(Int(-1))), nil
		case n.Operator == "-" && a.kind == KindFloat:
			return p.make(opNegF, KindFloat, nil, a), nil
		case n.Operator == "+" && (a.kind == KindInt || a.kind == KindFloat):
			return a, nil
		}
	case *ast.ConditionalNode:
		c, err := sub(n.Cond)
		if err != nil {
			return nil, err
		}
		a, err := sub(n.Exp1)
		if err != nil {
			return nil, err
		}
		b, err := sub(n.Exp2)
		if err != nil {
			return nil, err
		}
		if c.kind == KindBool && a.kind == b.kind {
			return p.make(opIf, a.kind, nil, c, a, b), nil
		}
	case *ast.BuiltinNode:
		args := make([]*term, len(n.Arguments))
		for i, m := range n.Arguments {
			t, err := sub(m)
			if err != nil {
				return nil, err
			}
			args[i] = t
		}
		return p.function(n.Name, args)
	case *ast.BinaryNode:
		if n.Operator == "in" {
			return p.member(n, lookup)
		}
		a, err := sub(n.Left)
		if err != nil {
			return nil, err
		}
		b, err := sub(n.Right)
		if err != nil {
			return nil, err
		}
		return p.binary(n.Operator, a, b)
	}
	return nil, errOpaque
}

func (t *term) number() bool { return t.kind == KindInt || t.kind == KindFloat }

func (p *pool) float(t *term) *term {
	if t.kind == KindInt {
		return p.make(opFloat, KindFloat, nil, t)
	}
	return t
}

func (p *pool) binary(operator string, a, b *term) (t *term, err error) {
	ints := a.kind == KindInt && b.kind == KindInt
	numbers := a.number() && b.number()
	strs := a.kind == KindString && b.kind == KindString
	bools := a.kind == KindBool && b.kind == KindBool
	float := func(op opcode, kind Kind) *term { return p.make(op, kind, nil, p.float(a), p.float(b)) }
	plain := func(op opcode, kind Kind) *term { return p.make(op, kind, nil, a, b) }
	compare := func(i, f, s opcode) (*term, error) {
		switch {
		case ints:
			return plain(i, KindBool), nil
		case numbers:
			return float(f, KindBool), nil
		case strs:
			return plain(s, KindBool), nil
		}
		return nil, errOpaque
	}
	switch operator {
	case "+":
		if ints {
			return plain(opAddI, KindInt), nil
		} else if numbers {
			return float(opAddF, KindFloat), nil
		}
	case "-":
		if ints {
			return p.make(opAddI, KindInt, nil, a, p.make(opMulI, KindInt, nil, b, p.constant(Int(-1)))), nil
		} else if numbers {
			return float(opSubF, KindFloat), nil
		}
	case "*":
		if ints {
			return plain(opMulI, KindInt), nil
		} else if numbers {
			return float(opMulF, KindFloat), nil
		}
	case "/":
		if numbers {
			return float(opDiv, KindFloat), nil
		}
	case "%":
		if ints {
			return plain(opMod, KindInt), nil
		}
	case "**", "^":
		if numbers {
			return float(opPow, KindFloat), nil
		}
	case "<":
		return compare(opLtI, opLtF, opLtS)
	case "<=":
		return compare(opLeI, opLeF, opLeS)
	case ">":
		a, b = b, a
		return compare(opLtI, opLtF, opLtS)
	case ">=":
		a, b = b, a
		return compare(opLeI, opLeF, opLeS)
	case "==", "!=":
		if bools {
			t = plain(opEqB, KindBool)
		} else if t, err = compare(opEqI, opEqF, opEqS); err != nil {
			return nil, err
		}
		if operator == "!=" {
			t = p.make(opNot, KindBool, nil, t)
		}
		return t, nil
	case "and", "&&":
		if bools {
			return plain(opAnd, KindBool), nil
		}
	case "or", "||":
		if bools {
			return plain(opOr, KindBool), nil
		}
	case "contains":
		if strs {
			return plain(opContains, KindBool), nil
		}
	case "startsWith":
		if strs {
			return plain(opHasPrefix, KindBool), nil
		}
	case "endsWith":
		if strs {
			return plain(opHasSuffix, KindBool), nil
		}
	}
	return nil, errOpaque
}

// maxRange is the longest range that expr-lang's machine makes.
const maxRange = 1e6

// member translates "x in [a, b, c]" and "x in 1..8".
func (p *pool) member(n *ast.BinaryNode, lookup func(string) *term) (*term, error) {
	x, err := p.translate(n.Left, lookup)
	if err != nil {
		return nil, err
	}
	switch set := n.Right.(type) {
	case *ast.ArrayNode:
		if x.errs {
			return nil, errOpaque
		}
		found := p.constant(Bool(false))
		for _, m := range set.Nodes {
			y, err := p.translate(m, lookup)
			if err != nil {
				return nil, err
			}
			if y.errs { // the machine fails even if another element matches
				return nil, errOpaque
			}
			eq, err := p.binary("==", x, y)
			if err != nil {
				return nil, err
			}
			found = p.logic(opOr, found, eq)
		}
		return found, nil
	case *ast.BinaryNode:
		if set.Operator != ".." || x.kind != KindInt || x.errs {
			return nil, errOpaque
		}
		lo, err := p.translate(set.Left, lookup)
		if err != nil {
			return nil, err
		}
		hi, err := p.translate(set.Right, lookup)
		if err != nil {
			return nil, err
		}
		if lo.op != opConst || hi.op != opConst || lo.kind != KindInt || hi.kind != KindInt {
			return nil, errOpaque
		}
		if lo.val.int() <= hi.val.int() && hi.val.bits-lo.val.bits >= maxRange {
			return p.failure(KindBool), nil
		}
		return p.logic(opAnd, p.make(opLeI, KindBool, nil, lo, x), p.make(opLeI, KindBool, nil, x, hi)), nil
	}
	return nil, errOpaque
}

func (p *pool) function(name string, args []*term) (*term, error) {
	all := func(k Kind) bool {
		return !slices.ContainsFunc(args, func(t *term) bool { return t.kind != k })
	}
	ints, floats := all(KindInt), all(KindFloat)
	switch len(args) {
	case 0:
		return nil, errOpaque
	case 1:
		a := args[0]
		round := map[string]opcode{"ceil": opCeil, "floor": opFloor, "round": opRound}
		switch op, isRound := round[name]; {
		case isRound && floats:
			return p.make(op, KindFloat, nil, a), nil
		case isRound && ints, name == "float" && ints:
			return p.float(a), nil
		case name == "float" && floats, name == "int" && ints:
			return a, nil
		case name == "int" && floats:
			return p.make(opTrunc, KindInt, nil, a), nil
		case name == "abs" && ints:
			return p.make(opAbsI, KindInt, nil, a), nil
		case name == "abs" && floats:
			return p.make(opAbsF, KindFloat, nil, a), nil
		case name == "bitnot" && ints:
			return p.make(opBitNot, KindInt, nil, a), nil
		}
	}
	fold := func(op opcode, kind Kind) (*term, error) {
		t := args[0]
		for _, a := range args[1:] {
			t = p.make(op, kind, nil, t, a)
		}
		return t, nil
	}
	switch {
	case name == "min" && ints:
		return fold(opMinI, KindInt)
	case name == "max" && ints:
		return fold(opMaxI, KindInt)
	case name == "min" && floats:
		return fold(opMinF, KindFloat)
	case name == "max" && floats:
		return fold(opMaxF, KindFloat)
	}
	bit := map[string]opcode{
		"bitand": opBitAnd, "bitor": opBitOr, "bitxor": opBitXor, "bitnand": opBitNand,
		"bitshl": opBitShl, "bitshr": opBitShr, "bitushr": opBitUshr,
	}
	if op, ok := bit[name]; ok && ints && len(args) == 2 {
		return p.make(op, KindInt, nil, args...), nil
	}
	return nil, errOpaque
}
