package expr

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/evotune/evotune/internal/expr/exprtest"
)

// TestTermsAgreeWithTheMachine compares terms, evaluated at once and folded
// variable by variable in any order, with expr-lang's machine, and their
// bounds with what they give.
func TestTermsAgreeWithTheMachine(t *testing.T) {
	names := []string{"A", "B", "C", "X", "P", "S"}
	kinds := []Kind{KindInt, KindInt, KindInt, KindFloat, KindBool, KindString}
	values := [][]Value{
		{Int(-2), Int(0), Int(1), Int(7)},
		{Int(0), Int(3), Int(64)},
		{Int(5), Int(1 << 40)},
		{Float(-1.5), Float(0), Float(2), Float(1e18)},
		{Bool(false), Bool(true)},
		{Str("a"), Str(""), Str("ab")},
	}
	types := map[string]any{}
	for i, n := range names {
		types[n] = values[i][0]
	}
	rapid.Check(t, func(t *rapid.T) {
		src := exprtest.Condition(t, exprtest.Names{Ints: names[:3], Floats: names[3:4], Bools: names[4:5], Strings: names[5:]}, 4)
		if rapid.Bool().Draw(t, "covered") {
			src = genTree(t, map[Kind][]string{KindInt: names[:3], KindFloat: names[3:4], KindBool: names[4:5], KindString: names[5:]}, KindBool, 4)
		}
		e, err := Compile(src, types)
		if err != nil {
			t.Fatal(err)
		}
		p := NewPool(values)
		whole := p.Compile(e, func(name string) *Term {
			for i, n := range names {
				if n == name {
					return p.Variable(i, kinds[i])
				}
			}
			return nil
		})
		chosen := make([]Value, len(names))
		env := map[string]any{}
		for i, n := range names {
			chosen[i] = rapid.SampledFrom(values[i]).Draw(t, n)
			env[n] = chosen[i]
		}
		x, wantErr := byMachine(src, types, env)
		if errors.Is(wantErr, errMachine) {
			return
		}
		want, _ := x.(bool)
		say := func(v Value, ok bool) string {
			if !ok {
				return "fails"
			}
			return fmt.Sprint(v.bits != 0)
		}
		expected := say(Bool(want), wantErr == nil)
		if got := say(whole.eval(chosen, nil)); got != expected {
			t.Fatalf("%s over %v evaluates to %s, the machine gives %s (%v)", src, env, got, expected, wantErr)
		}
		folded := whole
		for _, i := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5}).Draw(t, "order") {
			folded = p.Subst(folded, i, chosen[i])
			checkBounds(t, src, folded, chosen)
		}
		got := "unfolded"
		switch folded.op {
		case opConst:
			got = say(folded.val, true)
		case opErr:
			got = "fails"
		}
		if got != expected {
			t.Fatalf("%s over %v folds to %s, the machine gives %s (%v)", src, env, got, expected, wantErr)
		}
	})
}

func checkBounds(t *rapid.T, src string, x *Term, vars []Value) {
	if v, ok := x.eval(vars, nil); ok && x.in.known {
		n, _ := v.Number()
		if n < x.in.lo || n > x.in.hi {
			t.Fatalf("%s: a term gives %v outside its bounds [%v, %v]", src, n, x.in.lo, x.in.hi)
		}
	}
	for _, a := range x.args {
		checkBounds(t, src, a, vars)
	}
}

// TestTermsKnowTheCommonConstructs guards against silently falling back to
// opaque calls, which cost speed and size.
func TestTermsKnowTheCommonConstructs(t *testing.T) {
	values := [][]Value{count(8), count(8), {Bool(false), Bool(true)}, {Str("a"), Str("b")}, {Float(0.5), Float(1)}}
	names := []string{"A", "B", "P", "S", "X"}
	types := map[string]any{}
	for i, n := range names {
		types[n] = values[i][0]
	}
	for _, src := range []string{
		"A * B + 3 <= 8 - A", "A % B == 0", "A / B >= 1.5", "not P or A == 2", "P ? A > 1 : B > 1", "A in [1, 2]", "A in 2..4",
		"S in ['a', 'c']", "S == 'a' && P", "min(A, B, 3) > 1", "max(X, 0.5) < 1", "ceil(A / B) == 2", "int(A / B) == 2", "bitand(A, A - 1) == 0",
		"abs(A - B) <= 1", "2 ** A < 9", "A < B < 5", "S startsWith 'a'", "if P {A > 1} else {true}", "-A < X", "!(P == (A > 1))", "A != B",
	} {
		e, err := Compile(src, types)
		if err != nil {
			t.Error(err)
			continue
		}
		p := NewPool(values)
		x := p.Compile(e, func(name string) *Term {
			for i, n := range names {
				if n == name {
					return p.Variable(i, values[i][0].kind)
				}
			}
			return nil
		})
		if x.op == opCall {
			t.Errorf("%s is opaque", src)
		}
	}
}

// count lists the integers from 1 to n.
func count(n int64) (list []Value) {
	for i := range n {
		list = append(list, Int(1+i))
	}
	return list
}
