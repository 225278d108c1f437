package kernels_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/kernels"
)

// Page tables, slots and lengths follow from the shape, and edge-case inputs keep them.
func TestMadeData(t *testing.T) {
	made := func(data string) (*kernels.Problem, kernels.Buffer, error) {
		fsys := fstest.MapFS{}
		for name, file := range folder(strings.Replace(base, `data = "integers(0,1)"`, `data = "`+data+`"`, 1)) {
			fsys[name] = file
		}
		d, err := kernels.Load(fsys, "k")
		if err != nil {
			return nil, kernels.Buffer{}, err
		}
		b, _ := d.Problem.Buffer("mask")
		return &d.Problem, b, nil
	}
	for _, data := range []string{"permutation(M)", "permutation(M + 20)", "between(M, M + 3)", "between(0, M > 4 ? 1 : 0)", "offsets(M + 30)"} {
		p, b, err := made(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if strings.ReplaceAll(b.Data.String(), " ", "") != strings.ReplaceAll(data, " ", "") || !b.Data.Made() || !b.Kept() {
			t.Errorf("%s reads as %+v", data, b.Data)
		}
		for _, s := range p.Shapes {
			n, _ := p.Elements(b, s)
			m := s.Dims["M"]
			got, err := p.Made(b, s, 7)
			again, _ := p.Made(b, s, 7)
			other, _ := p.Made(b, s, 8)
			if err != nil || int64(len(got)) != n || !slices.Equal(got, again) || n > 20 && slices.Equal(got, other) {
				t.Fatalf("%s at %v: %v, %v", data, s.Dims, got, err)
			}
			lo, hi := map[string][2]int64{
				"permutation(M)": {0, m - 1}, "permutation(M + 20)": {0, m + 19}, "between(M, M + 3)": {m, m + 3}, "offsets(M + 30)": {0, 0},
			}[data][0], map[string][2]int64{
				"permutation(M)": {0, m - 1}, "permutation(M + 20)": {0, m + 19}, "between(M, M + 3)": {m, m + 3}, "between(0, M > 4 ? 1 : 0)": {0, 1}, "offsets(M + 30)": {0, m + 30},
			}[data][1]
			if slices.Min(got) < float64(lo) || slices.Max(got) > float64(hi) {
				t.Errorf("%s at %v: %v", data, s.Dims, got)
			}
			if strings.HasPrefix(data, "permutation") {
				slices.Sort(got)
				if len(slices.Compact(got)) != len(again) {
					t.Errorf("%s at %v has one twice: %v", data, s.Dims, again)
				}
			}
			if strings.HasPrefix(data, "offsets") && (!slices.IsSorted(got) || got[0] != 0 || got[n-1] != float64(m+30)) {
				t.Errorf("%s at %v: %v", data, s.Dims, got)
			}
			// All of a permutation are there, and both ends of an interval.
			if data == "permutation(M)" && n == m && got[n-1] != float64(m-1) || data == "between(M, M + 3)" && n > 100 && (slices.Min(got) != float64(m) || slices.Max(got) != float64(m+3)) {
				t.Errorf("%s at %v: %v", data, s.Dims, got)
			}
		}
	}
	for data, want := range map[string]string{
		"permutation(M - 1)":                  "cannot all differ below",
		"permutation()":                       "permutation takes 1 expressions",
		"offsets(1, 2)":                       "offsets takes 1 numbers",
		"offsets(1000)":                       "expected 0 to 127",
		"between(1)":                          "between takes 2 numbers",
		"between(M, 0)":                       "is empty: the first number",
		"between(0, nobody)":                  "nobody",
		"between(0 - M, M)":                   "expected 0 to 127",
		"between(0, 1000)":                    "expected 0 to 127",
		"permutation(M)\"\ndomain = \"[0, 9]": "edge-case inputs leave the data",
	} {
		if _, _, err := made(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
}
