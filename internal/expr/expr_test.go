package expr

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestExpr(t *testing.T) {
	env := map[string]any{"M": int64(1024), "N": 512, "K": uint8(64), "X": 1.5, "FAST": true, "NAME": "avx2"}
	for _, c := range []struct {
		src   string
		want  any    // int64, float64, bool
		names string // joined
	}{
		{"2*M*N*K", int64(2 * 1024 * 512 * 64), "K M N"},
		{"(M + 63) / 64", int64(0), "M"}, // not an integer: an error, below
		{"int((M + 63) / 64)", int64(16), "M"},
		{"M / N", int64(2), "M N"},
		{"ceil(M / 1000)", int64(2), "M"},
		{"M / 1000", 1.024, "M"},
		{"FAST ? 4*M : 0", 4096.0, "FAST M"},
		{"X * 2", 3.0, "X"},
		{"NAME startsWith 'avx' and FAST", true, "FAST NAME"},
		{"K in 32..64", true, "K"},
		{"X in 1..2", false, "X"},
		{"1.0", 1.0, ""},
		{"2 ** 10", int64(1024), ""},
	} {
		e, err := Compile(c.src, env)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strings.Join(e.Names(), " "); got != c.names || e.String() != c.src {
			t.Errorf("%s: names %s, want %s", e, got, c.names)
		}
		var got any
		switch c.want.(type) {
		case int64:
			got, err = e.Int(env)
		case float64:
			got, err = e.Float(env)
		default:
			got, err = e.Bool(env)
		}
		if c.src == "(M + 63) / 64" {
			if err == nil || !strings.Contains(err.Error(), "16.984375, which is not an integer; round") {
				t.Errorf("%s: %v", e, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s = %v, %v, want %v", e, got, err, c.want)
		}
	}
	use := func(src string, env map[string]any) error {
		e, err := Compile(src, map[string]any{"M": 1, "NAME": "x"})
		if err != nil {
			t.Fatal(err)
		}
		_, err1 := e.Int(env)
		_, err2 := e.Float(env)
		_, err3 := e.Bool(env)
		return errors.Join(err1, err2, err3)
	}
	for _, c := range []struct {
		src  string
		env  map[string]any
		want string
	}{
		{"M + 1", nil, "no value for M"},
		{"M + 1", map[string]any{"M": "x"}, "M is string x, expected integer"},
		{"M + 1", map[string]any{"M": 1.5}, "M is float 1.5, expected integer"},
		{"M + 1", map[string]any{"M": nil}, "not null"},
		{"M % 0", map[string]any{"M": 1}, "column 3 of \"M % 0\": integer divide by zero"},
		{"M / 0", map[string]any{"M": 1}, "a division by zero"},
		{"NAME", map[string]any{"NAME": "y"}, `gives the string "y", expected a number`},
		{"[M]", map[string]any{"M": 1}, "gives a list, expected an integer"},
	} {
		if err := use(c.src, c.env); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s over %v: %v, want %q", c.src, c.env, err, c.want)
		}
	}
	if _, err := Compile("A", map[string]any{"A B": 1}); err == nil || !strings.Contains(err.Error(), `"A B"`) {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := Compile("A", map[string]any{"A": struct{}{}}); err == nil || !strings.Contains(err.Error(), "name A") {
		t.Errorf("a bad type: %v", err)
	}
	e, err := Compile("NAME == 'x' ? [1] : [2]", map[string]any{"NAME": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if x, err := e.Any(map[string]any{"NAME": "x"}); err == nil {
		t.Errorf("an array is a value: %v", x)
	}
}
