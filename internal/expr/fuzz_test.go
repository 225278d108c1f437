package expr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// FuzzExpr evaluates any text as an expression over fixed values: it must end
// with a value of the asked kind or with an error, the same as by expr-lang's machine.
func FuzzExpr(f *testing.F) {
	for _, seed := range []string{"2*M*N", "M / N", "ceil(M / 7) * 7", "X ** 100", "S + S", "M % 0", "int('12')", "[M, N][2]", "sum([M], # * X)", "bitshl(1, 64)", "float(S)", "max([[1, 2], M])"} {
		f.Add(seed)
	}
	env := map[string]any{"M": 1024, "N": -7, "X": 0.25, "S": "text", "P": true}
	f.Fuzz(func(t *testing.T, src string) {
		e, err := Compile(src, env)
		if err != nil {
			return
		}
		i, intErr := e.Int(env)
		x, floatErr := e.Float(env)
		_, _ = e.Bool(env)
		got, anyErr := e.Any(env)
		want, wantErr := byMachine(src, env, env)
		switch _, noScalar := ValueOf(want); {
		case errors.Is(wantErr, errMachine), wantErr != nil && strings.Contains(wantErr.Error(), "memory budget"):
		case wantErr == nil && noScalar != nil:
			if anyErr == nil {
				t.Fatalf("%q gives %v, the machine %v", src, got, want)
			}
		case fmt.Sprint(got, anyErr) != fmt.Sprint(want, wantErr):
			t.Fatalf("%q gives %v, %v, the machine %v, %v", src, got, anyErr, want, wantErr)
		}
		if intErr == nil && (floatErr != nil || float64(i) != x) {
			t.Fatalf("%q: the integer is %d, the float %v (%v)", src, i, x, floatErr)
		}
	})
}
