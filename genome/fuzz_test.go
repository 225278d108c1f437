package genome

import (
	"errors"
	"math/rand"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzConstraint compiles any text as a constraint: it must be refused with a
// position or give a space whose every genome satisfies it, and that misses none.
func FuzzConstraint(f *testing.F) {
	for _, seed := range []string{
		"A * B <= 8", "A % B == 0 and P", "P ? A > 1 : S == 'x'", "X / A > 0.3 or not P", "A in [1, 2] and S not in ['y']", "A in 1..3",
		"min(A, B, 2) == max(X, 1.0)", "all([A, B], # > 1)", "bitand(A, A - 1) == 0", "S matches '^x'", "sum([A, B]) > N", "A = B", "AA > 1",
		"int(X) % (A - 1) == 0", "abs(A - B) <= 1 < N", "-A ** 2 < 0", "if P {A > 1} else {B > 1}", "len(S) == 1", "string(A) == S", "A | max(B) > 2",
		"[A, B][1] > 0", "A ?? B > 1", "P == nil", "\"\\x00\" < S", "A // B", "1 / 0 > X", "C > 1 or P", "bitshl(1, A) > B", "(((A)))==B", "A!=B!=P", "count([A,B,N], {# > 1}) > 1",
	} {
		f.Add(seed)
	}
	m := model{
		genes: []Gene{
			{Name: "A", Values: []Value{Int(-1), Int(0), Int(1), Int(3)}, Ordinal: true},
			{Name: "B", Values: []Value{Int(2), Int(1 << 62)}},
			{Name: "X", Values: []Value{Float(0.5), Float(-2)}, Ordinal: true},
			{Name: "P", Values: []Value{Bool(false), Bool(true)}},
			{Name: "S", Values: []Value{Str("x"), Str("")}},
			{Name: "C", Values: []Value{Int(1), Int(2)}, When: "P"},
		},
		envs: []map[string]any{{"N": 7}},
	}
	f.Fuzz(func(t *testing.T, src string) {
		m := m
		m.constraints = []Constraint{{Expr: src}}
		s, err := NewSpace(m.genes, m.constraints, m.envs...)
		if err != nil {
			var at *ExprError
			if errors.As(err, &at) {
				if at.Line < 1 || at.Column < 1 || at.Offset < 0 || at.Offset > len(at.Expr) {
					t.Fatalf("%q: position %d:%d, offset %d", src, at.Line, at.Column, at.Offset)
				}
			} else if !errors.Is(err, ErrEmpty) {
				t.Fatalf("%q: %v", src, err)
			}
			if !errors.Is(err, ErrEmpty) {
				return
			}
		}
		want := m.all(t)
		if err != nil {
			if len(want) != 0 {
				t.Fatalf("%q: %v, but %d genomes are valid", src, err, len(want))
			}
			return
		}
		if s.Size() != float64(len(want)) {
			t.Fatalf("%q: %v genomes, want %d", src, s.Size(), len(want))
		}
		for g := range s.All() {
			if !want[g.String()] {
				t.Fatalf("%q: %v is not valid", src, g)
			}
		}
	})
}

// FuzzParse reads any text as a genome: what is accepted must be valid and
// come back from its canonical encoding, which must be stable.
func FuzzParse(f *testing.F) {
	s, err := NewSpace([]Gene{
		{Name: "BM", Values: []Value{Int(16), Int(32), Int(64)}, Ordinal: true},
		{Name: "X", Values: []Value{Float(0.5), Float(1), Float(1e30)}, Ordinal: true},
		{Name: "PACK", Values: bools},
		{Name: "AHEAD", Values: []Value{Int(0), Int(2)}, When: "PACK"},
		{Name: "S", Values: []Value{Str("ijk"), Str("a,b=\"c\" \\"), Str(""), Str("64")}},
	}, []Constraint{{"BM < 64 or PACK", "large blocks need packing"}})
	if err != nil {
		f.Fatal(err)
	}
	rng := rand.New(rand.NewSource(1))
	for range 20 {
		f.Add(s.Random(rng).String())
	}
	for _, seed := range []string{"", "BM", "BM=", "BM=16,", `S="`, "BM=16,BM=16", " BM = 16 , X = 1", "X=1e30,BM=+64", "BM=1.6e1", "=", ",", "S=\"\\x41\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, encoding string) {
		decoded, decodeErr := Decode(encoding)
		g, err := s.Parse(encoding)
		if err != nil {
			if g != (Genome{}) {
				t.Fatalf("Parse(%q) gives a genome and %v", encoding, err)
			}
			if utf8.ValidString(encoding) && strings.Contains(err.Error(), "\n") {
				t.Fatalf("Parse(%q): %q has several lines", encoding, err)
			}
			return
		}
		if decodeErr != nil || len(decoded) != len(g.Map()) {
			t.Fatalf("Decode(%q) = %v, %v", encoding, decoded, decodeErr)
		}
		if err := s.Check(g); err != nil {
			t.Fatalf("Parse(%q): %v", encoding, err)
		}
		if h, err := s.Parse(g.String()); err != nil || h != g || h.String() != g.String() || h.Hash() != g.Hash() {
			t.Fatalf("Parse(%q) = %v, %v, want %v", g.String(), h, err, g)
		}
	})
}
