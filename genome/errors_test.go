package genome

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func ab() []Gene {
	return []Gene{
		{Name: "A", Values: ints(1, 4), Ordinal: true},
		{Name: "B", Values: ints(1, 4), Ordinal: true},
		{Name: "FAST", Values: bools},
		{Name: "ORDER", Values: []Value{Str("ijk"), Str("ikj"), Str("kij")}},
	}
}

func TestNewSpaceErrors(t *testing.T) {
	one := func(expr string) []Constraint { return []Constraint{{Expr: expr, Why: "because"}} }
	gene := func(g Gene) []Gene { return append(ab(), g) }
	for _, c := range []struct {
		name        string
		genes       []Gene
		constraints []Constraint
		envs        []map[string]any
		want        []string // all of them in the message
		empty       bool
		line, col   int // of an ExprError, if not 0
	}{
		{name: "unknown name", constraints: one("A + BB <= 3"), want: []string{"column 5", "unknown name BB", "did you mean B?", `"A + BB <= 3"`}, line: 1, col: 5},
		{name: "unknown name, nothing near", constraints: one("A <= XYZZY"), want: []string{"unknown name XYZZY", "known are A, B, FAST, LIMIT, ORDER"}, envs: []map[string]any{{"LIMIT": 3}}, line: 1, col: 6},
		{name: "second line", constraints: one("A <= 3 and\n  FASTER"), want: []string{"line 2, column 3", "did you mean FAST?"}, line: 2, col: 3},
		{name: "after wide characters", constraints: one(`ORDER != "ékj" and Q > 1`), want: []string{"column 20"}, line: 1, col: 20},
		{name: "syntax", constraints: one("A <="), want: []string{"column 4", "unexpected token EOF"}},
		{name: "types", constraints: one("ORDER > 3"), want: []string{"column 7", "mismatched types string and int"}, line: 1, col: 7},
		{name: "not a condition", constraints: one("A + 1"), want: []string{"integer", "expected a condition"}, line: 1, col: 1},
		{name: "empty expression", constraints: one(" "), want: []string{"empty"}},
		{name: "no functions of time", constraints: one("A > now()"), want: []string{"unknown name now"}},
		{name: "no environment", constraints: one(`$env["A"] > 1`), want: []string{"$env"}},
		{name: "no long ranges", constraints: one("len(1..A) > 1"), want: []string{"range"}},
		{name: "no variables", constraints: one("let x = A; x > 1"), want: []string{"not available"}},
		{name: "floor division", constraints: one("ORDER != '//' and A == B // 2"), want: []string{"column 26", "int(a / b)"}, line: 1, col: 26},
		{name: "comment", constraints: one("A > 1 /* or more */"), want: []string{"column 7", "comments"}},
		{name: "deep loops", constraints: one("all([A], all([B], all([1], # > 0)))"), want: []string{"nest at most 2"}},
		{name: "too long", constraints: one(strings.Repeat("A > 1 and ", 1000) + "true"), want: []string{"at most 4096"}},
		{name: "regexp", constraints: one("ORDER matches '['"), want: []string{"error parsing regexp"}},
		{name: "always false", constraints: one("A * B > 100"), want: []string{"empty", `"A * B > 100" (because) excludes every genome`}, empty: true},
		{name: "constant false", constraints: one("LIMIT > 100"), envs: []map[string]any{{"LIMIT": 7}}, want: []string{`"LIMIT > 100"`}, empty: true},
		{name: "always fails", constraints: one("A % (B - B) == 0"), want: []string{"excludes every genome", "column 3: integer divide by zero"}, empty: true},
		{name: "empty together", constraints: []Constraint{{Expr: "FAST or A > 1"}, {Expr: "A + B > 7"}, {Expr: "A != 4 or B != 4", Why: "x"}, {Expr: "ORDER == 'ijk'"}}, want: []string{`these constraints together: "A + B > 7" and "A != 4 or B != 4" (x)`}, empty: true},
		{name: "one set of constants forbids", constraints: one("A <= LIMIT"), envs: []map[string]any{{"LIMIT": 2}, {"LIMIT": 0}}, want: []string{`"A <= LIMIT"`}, empty: true},
		{name: "no genes", genes: []Gene{}, want: []string{"no genes"}},
		{name: "no values", genes: gene(Gene{Name: "C"}), want: []string{"gene C", "no values"}},
		{name: "bad name", genes: gene(Gene{Name: "A B", Values: bools}), want: []string{`"A B"`, "letters, digits"}},
		{name: "reserved name", genes: gene(Gene{Name: "min", Values: bools}), want: []string{`"min" is taken`}},
		{name: "twice", genes: gene(Gene{Name: "A", Values: bools}), want: []string{"gene A is declared twice"}},
		{name: "value twice", genes: gene(Gene{Name: "C", Values: []Value{Int(1), Float(1)}}), want: []string{"1.0 is listed twice"}},
		{name: "mixed", genes: gene(Gene{Name: "C", Values: []Value{Int(1), Str("x")}}), want: []string{"gene C", "value x is a string among values of type integer"}},
		{name: "not finite", genes: gene(Gene{Name: "C", Values: []Value{Float(math.NaN())}}), want: []string{"not finite"}},
		{name: "zero value", genes: gene(Gene{Name: "C", Values: []Value{{}}}), want: []string{"gene C"}},
		{name: "when: unknown", genes: gene(Gene{Name: "C", Values: bools, When: "FASTT"}), want: []string{"gene C: when", "did you mean FAST?"}, line: 1, col: 1},
		{name: "when: itself", genes: gene(Gene{Name: "C", Values: bools, When: "C"}), want: []string{"names the gene itself"}},
		{name: "when: cycle", genes: append(ab(), Gene{Name: "C", Values: bools, When: "D"}, Gene{Name: "D", Values: bools, When: "C"}), want: []string{"depend on each other", "C needs D needs C"}},
		{name: "when: type", genes: gene(Gene{Name: "C", Values: bools, When: "A"}), want: []string{"expected a condition"}},
		{name: "constant and gene", envs: []map[string]any{{"A": 3}}, want: []string{"A is both a gene and a constant"}},
		{name: "constant type", envs: []map[string]any{{"LIMITS": []int{3}}}, want: []string{"constant LIMITS", "not a list"}},
		{name: "constant missing", envs: []map[string]any{{"M": 3, "N": 4}, {"M": 3}}, want: []string{"constant N is missing in set 2 of 2"}},
		{name: "constant too many", envs: []map[string]any{{"M": 3}, {"M": 3, "N": 4}}, want: []string{"constant N is missing in the first"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			genes := c.genes
			if genes == nil {
				genes = ab()
			}
			_, err := NewSpace(genes, c.constraints, c.envs...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(strings.ReplaceAll(err.Error(), `\n`, ""), "\n") {
				t.Errorf("%q has several lines", err)
			}
			if errors.Is(err, ErrEmpty) != c.empty {
				t.Errorf("%q: ErrEmpty is %v", err, !c.empty)
			}
			var at *ExprError
			if c.line != 0 {
				if !errors.As(err, &at) {
					t.Fatalf("%q is no ExprError", err)
				}
				if at.Line != c.line || at.Column != c.col {
					t.Errorf("at %d:%d, want %d:%d", at.Line, at.Column, c.line, c.col)
				}
			}
		})
	}
}

func TestFromMapErrors(t *testing.T) {
	genes := append(ab(), Gene{Name: "LDA", Values: pow2(8, 64), Ordinal: true, When: "FAST"})
	s, err := NewSpace(genes, []Constraint{{"A * B <= 8", "registers"}, {"LDA % (A - 1) == 0", ""}})
	if err != nil {
		t.Fatal(err)
	}
	good := map[string]any{"A": 2, "B": 4.0, "FAST": true, "ORDER": "ijk", "LDA": 8}
	g, err := s.FromMap(good)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.String(), "A=2,B=4,FAST=true,ORDER=ijk,LDA=8"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	for _, c := range []struct {
		name   string
		change map[string]any // nil deletes
		want   []string
	}{
		{"unknown gene", map[string]any{"ODER": "ijk"}, []string{"unknown gene ODER", "did you mean ORDER?"}},
		{"unknown value", map[string]any{"A": 9}, []string{"gene A has no value 9", "it has 1, 2, 3, 4"}},
		{"near value", map[string]any{"ORDER": "ijl"}, []string{"has no value ijl", "did you mean ijk?"}},
		{"fraction", map[string]any{"A": 1.5}, []string{"gene A has no value 1.5"}},
		{"wrong type", map[string]any{"A": "2"}, []string{"gene A has no value"}},
		{"odd type", map[string]any{"A": []int{2}}, []string{"gene A", "not a list"}},
		{"missing", map[string]any{"B": nil}, []string{"gene B is missing"}},
		{"missing, conditional", map[string]any{"LDA": nil}, []string{"gene LDA is missing", `"FAST" holds`}},
		{"inactive", map[string]any{"FAST": false}, []string{"gene LDA must not be given", `"FAST" holds`}},
		{"broken", map[string]any{"A": 3}, []string{`"A * B <= 8"`, "(registers)"}},
		{"fails", map[string]any{"A": 1}, []string{`"LDA % (A - 1) == 0"`, "column 5: integer divide by zero"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := map[string]any{}
			for k, v := range good {
				m[k] = v
			}
			for k, v := range c.change {
				if m[k] = v; v == nil {
					delete(m, k)
				}
			}
			_, err := s.FromMap(m)
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
	// A constraint that names an inactive gene does not apply, even if it
	// would fail.
	if _, err := s.FromMap(map[string]any{"A": 1, "B": 4, "FAST": false, "ORDER": "ijk"}); err != nil {
		t.Error(err)
	}
	var invalid *InvalidError
	if _, err := s.FromMap(map[string]any{"A": 4, "B": 4, "FAST": false, "ORDER": "ijk"}); !errors.As(err, &invalid) || invalid.Constraint != "A * B <= 8" || invalid.Why != "registers" {
		t.Errorf("%v does not name the constraint", err)
	}
	if err := s.Check(Genome{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("the zero genome: %v", err)
	}
	// A genome of another space is judged by its values.
	loose, err := NewSpace(genes, nil)
	if err != nil {
		t.Fatal(err)
	}
	for h := range loose.All() {
		_, parseErr := s.Parse(h.String())
		if err := s.Check(h); (err == nil) != (parseErr == nil) {
			t.Fatalf("Check(%v) = %v, Parse gives %v", h, err, parseErr)
		}
	}
}

func TestManyValuesInMessages(t *testing.T) {
	var names []Value
	for i := range 30 {
		names = append(names, Str(fmt.Sprintf("variant_%d", i)))
	}
	s, err := NewSpace([]Gene{{Name: "N", Values: ints(10, 99), Ordinal: true}, {Name: "V", Values: names}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for encoding, want := range map[string]string{
		"N=20.5,V=variant_1": "gene N has no value 20.5; it has 90 values from 10 to 99, the nearest being 20 and 21",
		"N=5,V=variant_1":    "the nearest being 10",
		"N=500,V=variant_1":  "the nearest being 99",
		"N=10,V=varant_7":    "gene V has no value varant_7; did you mean variant_7?",
		"N=10,V=x":           "variant_23, ...",
	} {
		if _, err := s.Parse(encoding); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", encoding, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	s, err := NewSpace(append(ab(), Gene{Name: "TEXT", Values: []Value{Str("a,b=\"c\""), Str(""), Str("64"), Str("true"), Str("x-1")}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Parse(` ORDER = kij , A=1,B=2,FAST=false, TEXT="a,b=\"c\"" `)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.String(), `A=1,B=2,FAST=false,ORDER=kij,TEXT="a,b=\"c\""`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for g := range s.All() {
		if h, err := s.Parse(g.String()); err != nil || h != g {
			t.Fatalf("Parse(%q) = %v, %v", g, h, err)
		}
		m, err := Decode(g.String())
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range m {
			if w, ok := g.Get(name); !ok || v != w {
				t.Fatalf("Decode(%q)[%s] = %v, want %v", g, name, v, w)
			}
		}
	}
	for encoding, want := range map[string]string{
		"":                "gene A is missing",
		"A":               "column 1: NAME=VALUE expected",
		"A=1,":            "column 5: NAME=VALUE expected",
		"A=1,A=2":         "column 5: gene A is given twice",
		"A=1,=2":          `"" is not a gene name`,
		"A=":              "a value is missing",
		`A=1,TEXT="x`:     "column 10: the quoted string of TEXT",
		`TEXT="x"y`:       "column 9: a comma expected",
		"A=0x10":          `"0x10" is neither`,
		"A=1e999":         "neither a number",
		"A=1,B=2,C=3":     "unknown gene C",
		"A=1,B=2,ORDER=é": "column 15",
	} {
		if _, err := s.Parse(encoding); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v, want %q", encoding, err, want)
		}
	}
}

// A constraint that does not fit into 64 bits is an error of the space, with the place
// and the values. It used to wrap, and to keep genomes or lose them for it.
func TestOverflow(t *testing.T) {
	genes := []Gene{{Name: "N", Values: []Value{Int(3), Int(1 << 33), Int(1 << 40), Int(5)}}, {Name: "P", Values: []Value{Bool(false), Bool(true)}}, {Name: "M", Values: []Value{Int(-1 << 62), Int(0), Int(9)}}}
	for src, want := range map[string]string{
		"N * N > 0":                            "column 3 of \"N * N > 0\": the result is beyond 64 bits where N = 8589934592; float(...) computes without a limit",
		"P and N * N * N > 0":                  "N = 8589934592",
		"M + M < 10":                           "",
		"M - N * 4194304 < 10":                 "",
		"M - N * 16777216 < 10":                "N = 1099511627776, M = -4611686018427387904; float",
		"bitshl(M, 1) < N":                     "",
		"bitshl(M, 2) < N":                     "where M = -4611686018427387904",
		"N < 100 and N * N > 0":                "",
		"float(N) * N > 0":                     "",
		"sum([N, M]) > 0":                      "",
		"any([N, 1], # * N > 0)":               "where N = 8589934592",
		"intpow(N, 2) > 0":                     "where N = 8589934592",
		"int(N * 1e10) > 0":                    "where N = 8589934592",
		"abs(M * 2) > 0":                       "where M = -4611686018427387904",
		"-(M * 2) > 0":                         "where M = -4611686018427387904",
		"floordiv(M * 2, N - 4) > 0 or N == 4": "where N = 3, M = -4611686018427387904",
	} {
		s, err := NewSpace(genes, []Constraint{{Expr: src}})
		switch {
		case want == "" && err == nil:
			for g := range s.All() { // what the space has can be computed
				if e := s.Check(g); e != nil {
					t.Errorf("%s: %v", src, e)
				}
			}
		case want == "" || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
	if s, err := NewSpace(genes, []Constraint{{Expr: "N * 4611686018427387904 > 0", Why: "x"}, {Expr: "N == 3"}}); err == nil {
		t.Errorf("3 * 2^62 is beyond 64 bits: %v genomes", s.Size())
	}
}

// Messages name types as files have them, not as Go does.
func TestMessagesWithoutGo(t *testing.T) {
	for want, x := range map[string]any{
		"not null": nil, "not a list": json.Delim('['), "not an object": json.Delim('{'), "string, not a list": []any{1}, "string, not an object": map[string]any{},
	} {
		if _, err := ValueOf(x); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: %v, want %q", x, err, want)
		}
	}
	_, err := NewSpace([]Gene{{Name: "A", Values: []Value{Str("x"), Int(1)}}}, nil)
	if err == nil || !strings.Contains(err.Error(), "value 1 is an integer among values of type string") {
		t.Errorf("mixed values: %v", err)
	}
	for src, want := range map[string]string{
		"[A, 1][0]":    `column 1 of "[A, 1][0]": it gives a value of type integer, expected a condition (true or false)`,
		"[A]":          "it gives a list, expected a condition",
		"[A, true][0]": "it gives 3, expected a condition",
	} {
		_, err := NewSpace([]Gene{{Name: "A", Values: []Value{Int(3), Int(4)}}}, []Constraint{{Expr: src}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}
