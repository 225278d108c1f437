package naming

import (
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	genes := []string{"BM", "BN", "BK", "STAGES", "THREADS", "PACK_A"}
	kernels := []string{"sgemm", "softmax", "rmsnorm", "conv2d", "attention"}
	for _, c := range []struct {
		known []string
		want  map[string]string
	}{
		{genes, map[string]string{
			"bm": "BM", "BL": "BM", "STAGE": "STAGES", "STAGSE": "STAGES", "THREAD": "THREADS", "PACKA": "PACK_A",
			"X": "", "QQ": "", "VECTOR": "", "": "",
		}},
		{kernels, map[string]string{
			"sgem": "sgemm", "SGEMM": "sgemm", "sgmem": "sgemm", "soft-max": "softmax", "atention": "attention", "norm": "", "x": "", "": "",
			strings.Repeat("attention", 20): "",
		}},
		{nil, map[string]string{"x": ""}},
	} {
		for name, want := range c.want {
			if got := Nearest(name, c.known); got != want {
				t.Errorf("nearest to %q is %q, want %q", name, got, want)
			}
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3}} {
		if got, back := distance(c.a, c.b), distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestCycle(t *testing.T) {
	for _, c := range []struct {
		needs map[string]string
		want  string
	}{
		{map[string]string{"a": "b", "b": "c"}, ""},
		{map[string]string{"a": "bc", "b": "d", "c": "d"}, ""},
		{map[string]string{"b": "b"}, "bb"},
		{map[string]string{"a": "b", "b": "c", "c": "b"}, "abcb"},
		{map[string]string{"b": "cd", "d": "b"}, "bdb"},
	} {
		got := Cycle([]string{"a", "b", "c", "d"}, func(x string) []string { return strings.Split(c.needs[x], "") })
		if s := strings.Join(got, ""); s != c.want || (s == "") != (got == nil) {
			t.Errorf("%v: %q, want %q", c.needs, slices.Clone(got), c.want)
		}
	}
}
