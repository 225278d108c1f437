package expr

import (
	"encoding/binary"
	"slices"
)

// This file folds terms: some names already have values, and what depends only on them
// is computed. Terms are unique within their pool, so two choices of values that
// leave the same decision lead to the same term. That keeps diagrams small: after A and
// B, the constraint A*B*C <= 64 only remembers their product, and "A == 0 || ..."
// remembers nothing once A is 0.
//
// A pool expresses everything with fewer operations than a tree. Sums and products of
// integers whose bounds are known cannot overflow, so they can be rearranged: they are
// flat, sorted, and hold at most one constant. What a tree does not cover is one opaque call of
// expr-lang's machine, made when all its names are known.

// MaxVariables is the number of variables that terms of one pool can have.
const MaxVariables = 64

// A Pool makes the terms of conditions over the same variables, and makes each once.
type Pool struct {
	terms  map[string]*Term
	key    []byte
	ranges []interval // of the variables
}

// NewPool makes a pool whose variables have the given values.
func NewPool(values [][]Value) *Pool {
	p := &Pool{terms: map[string]*Term{}}
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
func (p *Pool) intern(op opcode, kind Kind, val Value, args []*Term, call *Expr) *Term {
	k := append(p.key[:0], byte(op), byte(kind))
	switch op {
	case opConst, opVar, opErr:
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
	t := &Term{op: op, kind: kind, val: val, args: args, call: call, id: int32(len(p.terms))}
	switch op {
	case opVar:
		t.vars = 1 << val.bits
	case opErr, opMod, opBitShl, opBitShr, opBitUshr, opFloorDiv, opFloorMod, opIntPow, opCall, opInt:
		t.errs = true
	case opAdd, opSub, opMul, opNeg, opAbs:
		t.errs = kind == KindInt // its bounds are not known; see make
	}
	t.beyond = t.errs && op != opErr && op != opMod && op != opBitShr && op != opBitUshr && op != opFloorMod || val == overflowed
	for _, a := range args {
		t.vars |= a.vars
		t.errs = t.errs || a.errs
		t.beyond = t.beyond || a.beyond
	}
	switch op {
	case opVar:
		t.in = p.ranges[val.bits]
	case opConst:
		t.in = point(val)
	default:
		t.in = bound(op, args)
	}
	if t.in.known { // it cannot overflow itself
		t.beyond = slices.ContainsFunc(args, func(a *Term) bool { return a.beyond })
		if op == opInt || op == opAbs {
			t.errs = slices.ContainsFunc(args, func(a *Term) bool { return a.errs })
		}
	}
	p.terms[string(k)] = t
	return t
}

// Constant is the term of a value.
func (p *Pool) Constant(v Value) *Term { return p.intern(opConst, v.kind, v, nil, nil) }

// failure is the term of an evaluation that fails with a Value; see eval.
func (p *Pool) failure(kind Kind, as Value) *Term { return p.intern(opErr, kind, as, nil, nil) }

// Variable is the term of a variable, by its position among those of NewPool.
func (p *Pool) Variable(position int, kind Kind) *Term {
	return p.intern(opVar, kind, Int(int64(position)), nil, nil)
}

func (t *Term) is(v Value) bool { return t.op == opConst && t.val == v }

// make builds a term of an operation over terms, folding what it can.
func (p *Pool) make(op opcode, kind Kind, call *Expr, args ...*Term) *Term {
	switch op {
	case opAnd, opOr:
		return p.logic(op, args[0], args[1])
	case opIf:
		c, a, b := args[0], args[1], args[2]
		switch {
		case c.op == opErr:
			return p.failure(kind, c.val)
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
		if a.op == opErr { // every other operation evaluates all its operands
			return p.failure(kind, a.val)
		}
		closed = closed && a.op == opConst
	}
	if closed {
		var buf [4]Value
		vals := buf[:0]
		for _, a := range args {
			vals = append(vals, a.val)
		}
		var v Value
		var ok bool
		switch op {
		case opCall:
			v, ok = call.condition(vals)
		case opSum, opProduct:
			return p.ring(op, args)
		default:
			v, ok = apply(op, vals)
		}
		if !ok {
			return p.failure(kind, v)
		}
		return p.Constant(v)
	}
	switch op {
	case opSum, opProduct:
		return p.ring(op, args)
	case opSub:
		if kind == KindInt && bound(op, args).known {
			return p.reduced(op, kind, args...)
		}
	case opAdd, opMul:
		if kind == KindInt && bound(op, args).known {
			return p.ring(flat[op], args)
		}
	case opNot:
		if args[0].op == opNot {
			return args[0].args[0]
		}
	case opLt, opLe, opEq:
		if decided, v := settled(op, args[0], args[1]); decided {
			return p.Constant(Bool(v))
		}
	}
	return p.intern(op, kind, Value{}, args, call)
}

// reduced builds a term for any operation of a tree from the fewer operations of pools.
func (p *Pool) reduced(op opcode, kind Kind, args ...*Term) *Term {
	negative := func(t *Term) *Term { return p.make(opMul, KindInt, nil, t, p.Constant(Int(-1))) }
	switch {
	case op == opNeg && kind == KindInt:
		return negative(args[0])
	case op == opSub && kind == KindInt && bound(op, args).known:
		return p.make(opAdd, KindInt, nil, args[0], negative(args[1]))
	case op == opNe:
		return p.make(opNot, KindBool, nil, p.make(opEq, KindBool, nil, args...))
	case op == opGt:
		return p.make(opLt, KindBool, nil, args[1], args[0])
	case op == opGe:
		return p.make(opLe, KindBool, nil, args[1], args[0])
	case op == opInt && args[0].kind == KindInt, op == opFloat && args[0].kind == KindFloat:
		return args[0]
	case (op == opCeil || op == opFloor || op == opRound) && args[0].kind == KindInt:
		return p.make(opFloat, KindFloat, nil, args[0])
	case op == opMin || op == opMax:
		t := args[0]
		for _, a := range args[1:] {
			t = p.make(op, kind, nil, t, a)
		}
		return t
	}
	return p.make(op, kind, nil, args...)
}

// And is true where both terms are; like Or, it evaluates b only if a does not decide.
func (p *Pool) And(a, b *Term) *Term { return p.logic(opAnd, a, b) }

// Or is true where one of two terms is.
func (p *Pool) Or(a, b *Term) *Term { return p.logic(opOr, a, b) }

// logic folds "and" and "or", which evaluate the right side only if the left
// one does not decide.
func (p *Pool) logic(op opcode, a, b *Term) *Term {
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
	return p.intern(op, KindBool, Value{}, []*Term{a, b}, nil)
}

// flat are the operations that ring folds, by those of a tree.
var flat = map[opcode]opcode{opAdd: opSum, opMul: opProduct}

// ring folds sums and products of integers that do not overflow, in whatever order
// they are computed: if a part wraps, the whole is right again.
func (p *Pool) ring(op opcode, args []*Term) *Term {
	acc, neutral := int64(0), int64(0)
	if op == opProduct {
		acc, neutral = 1, 1
	}
	rest := make([]*Term, 0, len(args)+1)
	var add func(ts []*Term)
	add = func(ts []*Term) {
		for _, t := range ts {
			switch {
			case t.op == op:
				add(t.args)
			case t.op != opConst:
				rest = append(rest, t)
			case op == opSum:
				acc += int64(t.val.bits)
			default:
				acc *= int64(t.val.bits)
			}
		}
	}
	add(args)
	if op == opProduct && acc == 0 && !slices.ContainsFunc(rest, func(t *Term) bool { return t.errs }) {
		return p.Constant(Int(0))
	}
	if len(rest) == 0 {
		return p.Constant(Int(acc))
	}
	if acc == neutral && len(rest) == 1 {
		return rest[0]
	}
	slices.SortFunc(rest, func(a, b *Term) int { return int(a.id) - int(b.id) })
	if acc != neutral {
		rest = append(rest, p.Constant(Int(acc)))
	}
	return p.intern(op, KindInt, Value{}, rest, nil)
}

// Subst returns the term with a value for one variable.
func (p *Pool) Subst(t *Term, position int, v Value) *Term {
	if t.vars&(1<<position) == 0 {
		return t
	}
	if t.op == opVar {
		return p.Constant(v)
	}
	switch t.op {
	case opAnd, opOr, opIf: // skip the sides that no longer matter
		a := p.Subst(t.args[0], position, v)
		if a.op == opConst {
			switch {
			case t.op == opIf && a.val == Bool(true):
				return p.Subst(t.args[1], position, v)
			case t.op == opIf:
				return p.Subst(t.args[2], position, v)
			case (a.val == Bool(true)) == (t.op == opOr):
				return a
			default:
				return p.Subst(t.args[1], position, v)
			}
		}
	}
	args := make([]*Term, len(t.args))
	for i, a := range t.args {
		args[i] = p.Subst(a, position, v)
	}
	return p.make(t.op, t.kind, t.call, args...)
}

// Compile turns a condition into a term; lookup returns the term of a name.
func (p *Pool) Compile(e *Expr, lookup func(name string) *Term) *Term {
	vars := make([]*Term, len(e.names))
	for i, name := range e.names {
		vars[i] = lookup(name)
	}
	if e.program == nil {
		if t := p.add(e.tree, vars); t != nil && t.kind == KindBool {
			return t
		}
	}
	return p.make(opCall, KindBool, e, vars...)
}

// add folds a tree into the pool; nil when it is better left opaque.
func (p *Pool) add(t *Term, vars []*Term) *Term {
	switch {
	case t.op == opConst:
		return p.Constant(t.val)
	case t.op == opVar:
		return vars[t.val.bits]
	case t.kind == kindNumber:
		return nil
	}
	args := make([]*Term, len(t.args))
	for i, a := range t.args {
		if args[i] = p.add(a, vars); args[i] == nil {
			return nil
		}
	}
	switch t.op {
	case opIn:
		if slices.ContainsFunc(args, func(a *Term) bool { return a.errs }) {
			return nil // it fails even if another element matches
		}
		found := p.Constant(Bool(false))
		for _, a := range args[1:] {
			found = p.logic(opOr, found, p.make(opEq, KindBool, nil, args[0], a))
		}
		return found
	case opRange:
		x, lo, hi := args[0], args[1], args[2]
		switch {
		case x.kind != KindInt || x.errs || lo.op != opConst || hi.op != opConst:
			return nil
		case lo.val.int() <= hi.val.int() && hi.val.bits-lo.val.bits >= maxRange:
			return p.failure(KindBool, Value{})
		}
		return p.logic(opAnd, p.make(opLe, KindBool, nil, lo, x), p.make(opLe, KindBool, nil, x, hi))
	}
	return p.reduced(t.op, t.kind, args...)
}
