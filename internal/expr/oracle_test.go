package expr

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"

	exprlang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// The oracle is expr-lang's machine with exact integers: its own operations wrap, and
// compare integers with floats as floats. It shares no code with terms: it computes with
// math/big.

var errBeyond = ErrOverflow

func whole(x any) *big.Int {
	if i, ok := x.(int); ok {
		return big.NewInt(int64(i))
	}
	return nil
}

func within(x *big.Int) (any, error) {
	if !x.IsInt64() {
		return nil, errBeyond
	}
	return int(x.Int64()), nil
}

func float(x any) float64 {
	if i, ok := x.(int); ok {
		return float64(i)
	}
	return x.(float64)
}

// order compares two numbers; false if one is NaN.
func order(a, b any) (int, bool) {
	exactly := func(x any) (*big.Float, bool) {
		if i := whole(x); i != nil {
			return new(big.Float).SetInt(i), true
		}
		if math.IsNaN(x.(float64)) {
			return nil, false
		}
		return big.NewFloat(x.(float64)), true
	}
	x, ok1 := exactly(a)
	y, ok2 := exactly(b)
	if !ok1 || !ok2 {
		return 0, false
	}
	return x.Cmp(y), true
}

func number(x any) bool {
	_, i := x.(int)
	_, f := x.(float64)
	return i || f
}

// same is equality as far as the tree has it.
func alike(a, b any) bool {
	if number(a) && number(b) {
		c, ok := order(a, b)
		return ok && c == 0
	}
	return a == b
}

var oracleBinary = map[string]func(a, b any) (any, error){
	"+": func(a, b any) (any, error) {
		if i, j := whole(a), whole(b); i != nil && j != nil {
			return within(i.Add(i, j))
		}
		return float(a) + float(b), nil
	},
	"-": func(a, b any) (any, error) {
		if i, j := whole(a), whole(b); i != nil && j != nil {
			return within(i.Sub(i, j))
		}
		return float(a) - float(b), nil
	},
	"*": func(a, b any) (any, error) {
		if i, j := whole(a), whole(b); i != nil && j != nil {
			return within(i.Mul(i, j))
		}
		return float(a) * float(b), nil
	},
	"/": func(a, b any) (any, error) {
		if i, j := whole(a), whole(b); i != nil && j != nil && j.Sign() != 0 && i.Sign() != 0 {
			x, _ := new(big.Rat).SetFrac(i, j).Float64()
			return x, nil
		}
		return float(a) / float(b), nil
	},
	"==": func(a, b any) (any, error) { return alike(a, b), nil },
	"!=": func(a, b any) (any, error) { return !alike(a, b), nil },
	"<":  func(a, b any) (any, error) { c, ok := order(a, b); return ok && c < 0, nil },
	"<=": func(a, b any) (any, error) { c, ok := order(a, b); return ok && c <= 0, nil },
	">":  func(a, b any) (any, error) { c, ok := order(a, b); return ok && c > 0, nil },
	">=": func(a, b any) (any, error) { c, ok := order(a, b); return ok && c >= 0, nil },
}

var oracleUnary = map[string]func(a any) (any, error){
	"-": func(a any) (any, error) {
		if i := whole(a); i != nil {
			return within(i.Neg(i))
		}
		return -float(a), nil
	},
	"abs": func(a any) (any, error) {
		if i := whole(a); i != nil {
			return within(i.Abs(i))
		}
		if x := float(a); x < 0 {
			return -x, nil
		}
		return a, nil
	},
	"int": func(a any) (any, error) {
		if _, ok := a.(int); ok {
			return a, nil
		}
		x := float(a)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("int(%v): a division by zero or an overflow", x)
		}
		i, _ := big.NewFloat(x).Int(nil)
		return within(i)
	},
}

// oracleOptions replaces the machine's operations.
func oracleOptions() []exprlang.Option {
	options := []exprlang.Option{exprlang.Patch(oracle{})}
	kinds := func(binary bool, name string) []any {
		boolean := binary && len(oracleKind[name]) > 0
		switch {
		case boolean:
			return []any{new(func(any, any) bool)}
		case name == "/":
			return []any{new(func(any, any) float64)}
		case name == "int":
			return []any{new(func(any) int)}
		case binary:
			return []any{new(func(int, int) int), new(func(float64, int) float64), new(func(int, float64) float64), new(func(float64, float64) float64), new(func(any, any) any)}
		}
		return []any{new(func(int) int), new(func(float64) float64), new(func(any) any)}
	}
	for name, f := range oracleBinary {
		options = append(options, exprlang.Function("$2"+name, func(p ...any) (any, error) { return f(p[0], p[1]) }, kinds(true, name)...))
	}
	for name, f := range oracleUnary {
		options = append(options, exprlang.Function("$1"+name, func(p ...any) (any, error) { return f(p[0]) }, kinds(false, name)...))
	}
	in := func(p ...any) (any, error) {
		for _, x := range p[1].([]any) {
			if alike(p[0], x) {
				return true, nil
			}
		}
		return false, nil
	}
	shift := func(p ...any) (any, error) {
		n := p[1].(int)
		switch {
		case n < 0:
			return 0, errors.New("invalid operation: negative shift count " + itoa(n) + " (type int)")
		case p[0] == 0:
			return 0, nil
		case n > 64:
			return nil, errBeyond
		}
		return within(new(big.Int).Lsh(whole(p[0]), uint(n)))
	}
	sum := func(p ...any) (any, error) {
		total := any(0)
		for _, x := range p[0].([]any) {
			if !number(x) {
				return nil, errMachine
			}
			var err error
			if total, err = oracleBinary["+"](total, x); err != nil {
				return nil, err
			}
		}
		return total, nil
	}
	pick := func(sign int) func(p ...any) (any, error) {
		return func(p ...any) (any, error) {
			best := p[0]
			for _, x := range p {
				if !number(x) {
					return nil, errMachine
				}
				if c, ok := order(x, best); ok && c*sign > 0 {
					best = x
				}
			}
			return best, nil
		}
	}
	return append(options, exprlang.Function("$in", in, new(func(any, any) bool)), exprlang.Function("$bitshl", shift, new(func(int, int) int)),
		exprlang.Function("$sum", sum, new(func(any) any)), exprlang.Function("$min", pick(-1), new(func(...int) int), new(func(...any) any)),
		exprlang.Function("$max", pick(1), new(func(...int) int), new(func(...any) any)))
}

func itoa(n int) string { return big.NewInt(int64(n)).String() }

// oracleKind has the comparisons.
var oracleKind = map[string]string{"==": "e", "!=": "e", "<": "c", "<=": "c", ">": "c", ">=": "c"}

type oracle struct{}

func (oracle) Visit(node *ast.Node) {
	call := func(name string, args ...ast.Node) {
		ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args})
	}
	numeric := func(nodes ...ast.Node) bool {
		for _, n := range nodes {
			k := kindOf(n)
			if _, array := n.(*ast.ArrayNode); array || cmp.Or(k, KindInt) > KindFloat {
				return false
			}
			if k == KindNone && n.Type() != nil && n.Type().Kind().String() == "slice" {
				return false
			}
		}
		return true
	}
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		_, array := n.Right.(*ast.ArrayNode)
		switch {
		case oracleBinary[n.Operator] != nil && numeric(n.Left, n.Right):
			call("$2"+n.Operator, n.Left, n.Right)
		case n.Operator == "in" && array && kindOf(n.Left) <= KindFloat:
			call("$in", n.Left, n.Right)
		}
	case *ast.UnaryNode:
		if n.Operator == "-" && numeric(n.Node) {
			call("$1-", n.Node)
		}
	case *ast.BuiltinNode:
		switch {
		case oracleUnary[n.Name] != nil && len(n.Arguments) == 1 && numeric(n.Arguments[0]):
			call("$1"+n.Name, n.Arguments...)
		case n.Name == "bitshl", (n.Name == "min" || n.Name == "max") && len(n.Arguments) > 0 && numeric(n.Arguments...):
			call("$"+n.Name, n.Arguments...)
		case n.Name == "sum" && len(n.Arguments) == 1:
			call("$sum", n.Arguments[0])
		case n.Name == "sum" && len(n.Arguments) == 2:
			call("$sum", &ast.BuiltinNode{Name: "map", Arguments: n.Arguments})
		}
	}
}
