package expr

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
	"pgregory.net/rapid"
)

// errMachine: expr-lang takes min and max of an integer and a float for the type of
// the first and fails when such a result is compared for equality. Trees do not.
var errMachine = errors.New("a fault of expr-lang")

// byMachine evaluates an expression by expr-lang's own machine, which shares no
// code with terms. Sample gives the types, as in Compile.
func byMachine(src string, sample, env map[string]any) (any, error) {
	types, args := map[string]any{}, map[string]any{}
	for name, x := range sample {
		v, err := ValueOf(x)
		if err != nil {
			return nil, err
		}
		types[name] = v.operand()
		if w, err := ValueOf(env[name]); err == nil {
			w, _ = w.As(v.kind)
			args[name] = w.operand()
		}
	}
	program, err := machine(src, types, oracleOptions()...)
	if err != nil {
		return nil, err
	}
	out, err := vm.Run(program, args)
	var f *file.Error
	switch {
	case err != nil && strings.Contains(err.Error(), "interface {} is float64, not int"):
		return nil, errMachine
	case errors.As(err, &f):
		return nil, exprError(src, f.From, strings.TrimPrefix(f.Message, "runtime error: "))
	}
	return out, err
}

// genTree draws an expression of a kind that the tree covers, from the table of
// operations. kindNumber is a number of either type, as in "P ? 1 : 0.5".
func genTree(t *rapid.T, names map[Kind][]string, kind Kind, depth int) string {
	sub := func(k Kind) string { return genTree(t, names, k, depth-1) }
	pick := func(list ...Kind) Kind { return rapid.SampledFrom(list).Draw(t, "kind") }
	if depth <= 0 || kind == KindString || rapid.IntRange(0, 5).Draw(t, "leaf") == 0 {
		if kind == kindNumber {
			kind = pick(KindInt, KindFloat)
		}
		if len(names[kind]) > 0 && rapid.IntRange(0, 3).Draw(t, "name") > 0 {
			return rapid.SampledFrom(names[kind]).Draw(t, "name")
		}
		return rapid.SampledFrom(map[Kind][]string{
			KindInt: {"0", "1", "2", "3", "7", "64", "9223372036854775807"}, KindFloat: {"0.5", "2.0", "0.0", "1e300", "3.25"},
			KindBool: {"true", "false"}, KindString: {`"a"`, `""`, `"ab"`},
		}[kind]).Draw(t, "literal")
	}
	var ops []opcode
	for op := opNeg; op <= opBitUshr; op++ { // the machine has no other
		var gives []Kind
		switch operations[op].takes {
		case arithmetic, selecting:
			gives = []Kind{KindInt, KindFloat, kindNumber}
		case floating:
			gives = []Kind{KindFloat, kindNumber}
		case bitwise, truncating:
			gives = []Kind{KindInt, kindNumber}
		case choosing:
			gives = []Kind{KindInt, KindFloat, KindBool, kindNumber}
		default:
			gives = []Kind{KindBool}
		}
		for _, k := range gives {
			if k == kind {
				ops = append(ops, op)
			}
		}
	}
	op := rapid.SampledFrom(ops).Draw(t, "op")
	o := operations[op]
	n := rapid.IntRange(o.least, min(o.most, o.least+2)).Draw(t, "operands")
	args := make([]string, n)
	all := func(k Kind, from int) {
		for i := from; i < n; i++ {
			args[i] = sub(k)
		}
	}
	anything := pick(KindInt, KindFloat, kindNumber)
	switch o.takes {
	case arithmetic, selecting:
		all(kind, 0)
		if kind == KindFloat && o.takes == arithmetic && n == 2 {
			args[rapid.IntRange(0, 1).Draw(t, "which")] = sub(anything)
		}
	case floating, truncating:
		all(anything, 0)
	case bitwise:
		all(KindInt, 0)
	case comparing:
		all(pick(KindInt, KindInt, anything, anything, KindString), 0)
	case equating:
		all(pick(KindInt, KindInt, anything, anything, KindString, KindBool), 0)
	case logical:
		all(KindBool, 0)
	case textual:
		all(KindString, 0)
	case choosing:
		all(kind, 1)
		args[0] = sub(KindBool)
	case ranging: // ends whose distance overflows are for TestLongRanges
		args[0] = sub(anything)
		for i := 1; i < n; i++ {
			args[i] = rapid.SampledFrom(append([]string{"-2", "0", "3", "64"}, names[KindInt][0])).Draw(t, "end")
		}
	}
	switch {
	case op == opIn:
		return "(" + args[0] + " in [" + strings.Join(args[1:], ", ") + "])"
	case op == opRange:
		return "(" + args[0] + " in " + args[1] + ".." + args[2] + ")"
	case op == opIf:
		return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")"
	case op == opNeg || op == opNot:
		return "(" + o.name + " " + args[0] + ")"
	case n == 2 && (op <= opOr || o.takes == textual):
		return "(" + args[0] + " " + o.name + " " + args[1] + ")"
	}
	return o.name + "(" + strings.Join(args, ", ") + ")"
}

// TestTreeAgreesWithTheMachine compares what trees give, or why and where they
// fail, with expr-lang's machine.
func TestTreeAgreesWithTheMachine(t *testing.T) {
	values := map[string][]Value{
		"A": {Int(-2), Int(0), Int(1), Int(7)}, "B": {Int(0), Int(3), Int(64), Int(math.MinInt64)},
		"X": {Float(-1.5), Float(0), Float(2), Float(1e18)}, "P": {Bool(false), Bool(true)}, "S": {Str("a"), Str(""), Str("ab")},
	}
	names := map[Kind][]string{KindInt: {"A", "B"}, KindFloat: {"X"}, KindBool: {"P"}, KindString: {"S"}}
	sample := map[string]any{}
	for n, vs := range values {
		sample[n] = vs[0]
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Kind{KindInt, KindFloat, KindBool, kindNumber}).Draw(t, "result")
		src := genTree(t, names, kind, 4)
		e, err := Compile(src, sample)
		if err != nil {
			if _, same := byMachine(src, sample, sample); same == nil {
				t.Fatalf("%s: %v, but the machine compiles it", src, err)
			}
			return
		}
		env := map[string]any{}
		for _, n := range slices.Sorted(maps.Keys(values)) {
			env[n] = rapid.SampledFrom(values[n]).Draw(t, n)
		}
		got, err := e.Any(env)
		want, wantErr := byMachine(src, sample, env)
		if errors.Is(wantErr, errMachine) {
			return
		}
		if fmt.Sprint(got, err) != fmt.Sprint(want, wantErr) || fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
			t.Fatalf("%s over %v gives %T %v, %v, the machine %T %v, %v", src, env, got, got, err, want, want, wantErr)
		}
		if e.program != nil {
			t.Fatalf("%s is not covered by the tree", src)
		}
	})
}

// What expr-lang cannot compute.
func TestBeyondTheMachine(t *testing.T) {
	env := map[string]any{"A": 3, "X": 0.5}
	for src, want := range map[string]string{
		"min(A, X) == 0.5":                         "true <nil>",
		"min(A, X) == A":                           "false <nil>",
		"A in 1..1000000":                          "true <nil>",
		"A in 1..1000002":                          `<nil> column 7 of "A in 1..1000002": memory budget exceeded`,
		"A in 2..1":                                "false <nil>",
		"A in -A..bitshl(1, 62) * 3":               `<nil> column 24 of "A in -A..bitshl(1, 62) * 3": the result is beyond 64 bits`,
		"A + 9223372036854775804":                  "9223372036854775807 <nil>",
		"A - -9223372036854775805":                 `<nil> column 3 of "A - -9223372036854775805": the result is beyond 64 bits`,
		"int(X * 1e300)":                           `<nil> column 1 of "int(X * 1e300)": the result is beyond 64 bits`,
		"sum([A, 9223372036854775805])":            `<nil> column 1 of "sum([A, 9223372036854775805])": the result is beyond 64 bits`,
		"any([A], # * 9223372036854775805 > 0)":    `<nil> column 12 of "any([A], # * 9223372036854775805 > 0)": the result is beyond 64 bits`,
		"floordiv(9223372036854775806, A)":         "3074457345618258602 <nil>",
		"floordiv(-7, 2)":                          "-4 <nil>",
		"floordiv(A, -X)":                          "-6 <nil>",
		"floormod(-7, A)":                          "2 <nil>",
		"floormod(7, -A)":                          "-2 <nil>",
		"floormod(1.25, X)":                        "0.25 <nil>",
		"floormod(A, 0)":                           `<nil> column 1 of "floormod(A, 0)": a division by zero`,
		"intpow(A, 39)":                            "4052555153018976267 <nil>",
		"intpow(A, 40)":                            `<nil> column 1 of "intpow(A, 40)": the result is beyond 64 bits`,
		"intpow(-1, 1000001)":                      "-1 <nil>",
		"9007199254740993 > 9007199254740992.0":    "true <nil>",
		"9007199254740993 / 9007199254740993 == 1": "true <nil>",
		"X in -bitshl(1, 62) * 2..A":               `<nil> column 24 of "X in -bitshl(1, 62) * 2..A": memory budget exceeded`,
		"bitshl(A, -A) > 1 and X == A":             `<nil> column 1 of "bitshl(A, -A) > 1 and X == A": invalid operation: negative shift count -3 (type int)`,
	} {
		e, err := Compile(src, env)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.Any(env)); got != want {
			t.Errorf("%s gives %s, want %s", src, got, want)
		}
	}
}
