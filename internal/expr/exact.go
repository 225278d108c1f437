package expr

import (
	"errors"
	"math"
	"math/big"
	"math/bits"

	exprlang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// This file has the exact arithmetic of expressions. An integer that 64 bits do not
// hold is an error and never wraps: a constraint that wraps keeps or loses genomes for
// no reason that its author could see.

// overflowed is the Value of an evaluation that failed by an overflow.
var overflowed = Value{bits: 1}

// ErrOverflow means that an integer is beyond 64 bits.
var ErrOverflow = errors.New("the result is beyond 64 bits")

// Overflow makes the error of an expression that overflows at a place that is not known.
func Overflow(src string) *Error {
	e := exprError(src, 0, ErrOverflow.Error())
	e.overflow = true
	return e
}

// plus and times give the sum and the product of integers; false on an overflow.
func plus(a, b int64) (Value, bool) {
	sum := a + b
	if (a^sum)&(b^sum) < 0 {
		return overflowed, false
	}
	return Int(sum), true
}

func times(a, b int64) (Value, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if a < 0 {
		hi -= uint64(b)
	}
	if b < 0 {
		hi -= uint64(a)
	}
	if int64(hi) != int64(lo)>>63 {
		return overflowed, false
	}
	return Int(int64(lo)), true
}

func minus(a, b int64) (Value, bool) {
	difference := a - b
	if (a^b)&(a^difference) < 0 {
		return overflowed, false
	}
	return Int(difference), true
}

// truncated gives the integer part of a float.
func truncated(x float64) (Value, bool) {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return Value{}, false
	case -1<<63 <= x && x < 1<<63:
		return Int(int64(x)), true
	}
	return overflowed, false
}

// quotient gives the float nearest to a/b.
func quotient(a, b *Value) float64 {
	// The sign of zero is that of the division of floats.
	if a.kind == KindInt && b.kind == KindInt && a.bits != 0 && b.bits != 0 && (!isExact(a.int()) || !isExact(b.int())) {
		x, _ := new(big.Rat).SetFrac64(a.int(), b.int()).Float64()
		return x
	}
	return a.number() / b.number()
}

func isExact(i int64) bool { return -maxExact <= i && i <= maxExact }

// compareExact compares an integer with a float: -1, 0, 1, or 2 if the float is NaN.
func compareExact(i int64, f float64) int {
	switch {
	case math.IsNaN(f):
		return 2
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Floor(f)
	switch w := int64(whole); {
	case i < w:
		return -1
	case i > w:
		return 1
	case f > whole:
		return -1
	}
	return 0
}

// floored computes floordiv and floormod. Division by zero fails.
func floored(op opcode, a, b *Value) (Value, bool) {
	if a.kind == KindInt && b.kind == KindInt {
		x, y := a.int(), b.int()
		switch {
		case y == 0:
			return Value{}, false
		case y == -1 && op == opFloorDiv:
			return minus(0, x)
		case y == -1:
			return Int(0), true
		}
		q, r := x/y, x%y
		if r != 0 && (r < 0) != (y < 0) {
			q, r = q-1, r+y
		}
		if op == opFloorDiv {
			return Int(q), true
		}
		return Int(r), true
	}
	x, y := a.number(), b.number()
	if y == 0 {
		return Value{}, false
	}
	// As Python's float_divmod: the remainder is exact, and the quotient follows from it.
	r := math.Mod(x, y)
	q := (x - r) / y
	switch {
	case r == 0:
		r = math.Copysign(0, y)
	case (r < 0) != (y < 0):
		r, q = r+y, q-1
	}
	if op == opFloorMod {
		return rawFloat(r), true
	}
	if q == 0 {
		return rawFloat(math.Copysign(0, x/y)), true
	}
	whole := math.Floor(q)
	if q-whole > 0.5 {
		whole++
	}
	return rawFloat(whole), true
}

// intPower computes a power of integers. Negative exponents fail.
func intPower(base, exponent int64) (Value, bool) {
	if exponent < 0 {
		return Value{}, false
	}
	switch base {
	case 0, 1:
		if exponent == 0 {
			return Int(1), true
		}
		return Int(base), true
	case -1:
		return Int(1 - 2*(exponent&1)), true
	}
	product := Int(1)
	for ; exponent > 0; exponent-- { // at most 63 times
		next, ok := times(product.int(), base)
		if !ok {
			return next, false
		}
		product = next
	}
	return product, true
}

// operationOption gives an operation to expr-lang's machine, as a function.
func operationOption(name string, op opcode) exprlang.Option {
	types := []any{new(func(int, int) int)}
	if op != opIntPow {
		types = append(types, new(func(int, float64) float64), new(func(float64, int) float64), new(func(float64, float64) float64), new(func(any, any) any))
	}
	return exprlang.Function(name, func(params ...any) (any, error) { return applyAny(op, params) }, types...)
}

// applyAny computes an operation on what expr-lang's machine has.
func applyAny(op opcode, params []any) (any, error) {
	operands := make([]Value, len(params))
	for i, x := range params {
		v, err := ValueOf(x)
		if err != nil || v.kind != KindInt && v.kind != KindFloat {
			return nil, errors.New("invalid operation: " + operations[op].name + " needs numbers, not " + describe(x))
		}
		operands[i] = v
	}
	v, ok := apply(op, operands)
	if !ok {
		return nil, errors.New(failure(op, operands, v))
	}
	return v.operand(), nil
}

// checkedOptions make expr-lang's machine compute integers as trees do: its own
// operations wrap.
func checkedOptions() []exprlang.Option {
	number := new(func(any, any) any)
	integer := new(func(int, int) int)
	options := []exprlang.Option{exprlang.Patch(checked{})}
	for name, op := range checkedOperations {
		if name == "-1" {
			options = append(options, exprlang.Function("$"+name, func(params ...any) (any, error) { return applyAny(op, params) }, new(func(int) int), new(func(any) any)))
			continue
		}
		options = append(options, exprlang.Function("$"+name, func(params ...any) (any, error) {
			if a, ok := params[0].(string); ok && op == opAdd { // of values whose type is only known at run time
				if b, ok := params[1].(string); ok {
					return a + b, nil
				}
			}
			return applyAny(op, params)
		}, integer, number))
	}
	convert := func(name string, op opcode) {
		options = append(options, exprlang.Function("$"+name, func(params ...any) (any, error) { return applyAny(op, params) }, new(func(any) int)))
	}
	convert("int", opInt)
	options = append(options, exprlang.Function("$bitshl", func(params ...any) (any, error) { return applyAny(opBitShl, params) }, integer))
	options = append(options, exprlang.Function("$sum", func(params ...any) (any, error) {
		sum := any(0)
		list, _ := params[0].([]any)
		for _, x := range list {
			var err error
			if sum, err = applyAny(opAdd, []any{sum, x}); err != nil {
				return nil, err
			}
		}
		return sum, nil
	}, new(func([]any) any), new(func(any) any)))
	return options
}

// checkedOperations are the operations of integers that can overflow; "-1" has one
// operand.
var checkedOperations = map[string]opcode{"+": opAdd, "-": opSub, "*": opMul, "-1": opNeg}

// checked replaces operations that can overflow.
type checked struct{}

// Visit replaces one.
func (checked) Visit(node *ast.Node) {
	call := func(name string, args ...ast.Node) {
		ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: "$" + name}, Arguments: args})
	}
	other := func(n ast.Node) bool { return kindOf(n) == KindFloat || kindOf(n) == KindString }
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		if _, ok := checkedOperations[n.Operator]; ok && !other(n.Left) && !other(n.Right) {
			call(n.Operator, n.Left, n.Right)
		}
	case *ast.UnaryNode:
		if n.Operator == "-" && !other(n.Node) {
			call("-1", n.Node)
		}
	case *ast.BuiltinNode:
		switch {
		case n.Name == "int" && len(n.Arguments) == 1 && kindOf(n.Arguments[0]) != KindString:
			call("int", n.Arguments...)
		case n.Name == "bitshl":
			call("bitshl", n.Arguments...)
		case n.Name == "sum" && len(n.Arguments) == 1:
			call("sum", n.Arguments[0])
		case n.Name == "sum":
			call("sum", &ast.BuiltinNode{Name: "map", Arguments: n.Arguments})
		}
	}
}
