package kernels_test

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/kernels"
)

// sanitized is the definition with launches of a genome's own size, of which a test
// changes a piece.
func sanitized(old, replacement string) (*kernels.Definition, error) {
	const tables = `[[implementation.constraint]]
expr = "TILE == 4 or N % 12 == 0 or N == 8 or N > 12"
why = "for the test"
[[implementation.constraint]]
expr = "SPLIT == 1 or M != 6"
why = "a search of these is no use"
search = true
[implementation.sanitize]
dims = { K = "SPLIT*K + 1", M = "TILE + 2" }
[implementation.baseline]`
	text := strings.Replace(sequence, "[implementation.baseline]", tables, 1)
	text = strings.NewReplacer(`cluster = ["1", "TILE / 4", "SPLIT"]`, "", old, replacement).Replace(text)
	return kernels.Load(folder(base+text), "k")
}

func TestSanitizeShape(t *testing.T) {
	d, err := sanitized("values = [4, 8]", "values = [4, 6, 8]")
	if err != nil {
		t.Fatal(err)
	}
	im := d.Implementations[1]
	small, err := d.Problem.Shape("small")
	if err != nil {
		t.Fatal(err)
	}
	dims := func(m, n, k int64) map[string]int64 { return map[string]int64{"M": m, "N": n, "K": k} }
	at := func(tile, split int, table string, limits map[string]any) (kernels.Shape, error) {
		t.Helper()
		d, err := sanitized(`dims = { K = "SPLIT*K + 1", M = "TILE + 2" }`, "dims = "+table)
		if err != nil {
			t.Fatal(err)
		}
		im := d.Implementations[1]
		genes := map[string]any{"TILE": tile, "ROWS": 2, "THREADS": 1, "SPLIT": split}
		if split > 1 {
			genes["SYNC"] = "none"
		}
		g, err := spaceOf(t, im).FromMap(genes)
		if err != nil {
			t.Fatal(err)
		}
		return im.SanitizeShape(g, small, limits)
	}
	for _, c := range []struct {
		tile, split int
		table       string
		limits      map[string]any
		name        string
		want        map[string]int64
	}{
		{4, 2, `{ K = "SPLIT*K + 1", M = "TILE + 2" }`, nil, "6x8x17", dims(6, 8, 17)}, // a search constraint is not asked
		{8, 1, `{ K = "SPLIT*K + 1", M = "TILE + 2" }`, nil, "10x8x9", dims(10, 8, 9)},
		{4, 1, `{ N = "device_cores" }`, map[string]any{"device_cores": 132}, "8x132x8", dims(8, 132, 8)},
		{4, 1, `{ N = "K + M" }`, nil, "8x16x8", dims(8, 16, 8)},
		{4, 1, `{ M = "2*TILE" }`, nil, "small", dims(8, 8, 8)},   // the same
		{8, 1, `{ N = "9" }`, nil, "small", dims(8, 8, 8)},        // which it cannot compute
		{8, 1, `{ N = "12" }`, nil, "8x12x8", dims(8, 12, 8)},     // and which it can
		{4, 1, `{ N = "8.0" }`, nil, "small", dims(8, 8, 8)},      // a whole number
		{4, 1, `{ N = "TILE / 4" }`, nil, "8x1x8", dims(8, 1, 8)}, // the least
	} {
		s, err := at(c.tile, c.split, c.table, c.limits)
		if err != nil || s.Name != c.name || s.Use != kernels.Sanitize || !maps.Equal(s.Dims, c.want) {
			t.Errorf("%s of TILE=%d,SPLIT=%d: %+v, %v; want %s, %v", c.table, c.tile, c.split, s, err, c.name, c.want)
		}
	}
	if !maps.Equal(small.Dims, dims(8, 8, 8)) {
		t.Errorf("the shape itself is now %v", small.Dims)
	}
	for _, c := range []struct {
		table, want string
	}{
		{`{ N = "TILE - 4" }`, `k/kernel.toml:182:14: N: "TILE - 4" gives 0, expected 1 to 1099511627776, for the genome TILE=4,ROWS=2,THREADS=1,SPLIT=1 at shape small`},
		{`{ N = "TILE / 3" }`, "which is not an integer"},
		{`{ M = "8", K = "TILE*1099511627776" }`, "k/kernel.toml:182:23: K: "},
		{`{ N = "SYNC == 'grid' ? 8 : 9" }`, "SYNC"}, // which this genome does not have
	} {
		s, err := at(4, 1, c.table, nil)
		if err == nil || !errors.Is(err, kernels.ErrRender) || !strings.Contains(filepath.ToSlash(err.Error()), c.want) {
			t.Errorf("%s: %+v, %v; want %q", c.table, s, err, c.want)
		}
	}
	if _, err := at(4, 1, `{ N = "9" }`, map[string]any{"device_colour": 1}); err == nil || !strings.Contains(err.Error(), "device_colour") {
		t.Errorf("an unknown limit: %v", err)
	}
	if got := mustJSON(t, im); !strings.Contains(got, `"sanitize":{"dims":{"K":"SPLIT*K + 1","M":"TILE + 2"}}`) {
		t.Errorf("JSON: %s", got)
	}
	other := d.Implementations[0]
	if s, err := other.SanitizeShape(mustGenome(t, other), small, nil); err != nil || s.Name != "small" || strings.Contains(mustJSON(t, other), "sanitize") {
		t.Errorf("without the table: %+v, %v", s, err)
	}
	changed, err := sanitized("TILE + 2", "TILE + 3")
	if err != nil || changed.Hash == d.Hash {
		t.Errorf("the hash does not cover the table: %v", err)
	}
}

func TestWrongSanitize(t *testing.T) {
	const table = `{ K = "SPLIT*K + 1", M = "TILE + 2" }`
	for _, c := range []struct{ new, want string }{
		{`{ K = "SPLITS*K" }`, `k/kernel.toml:182:15: in the expression "SPLITS*K": unknown name SPLITS; did you mean SPLIT?`},
		{`{ K = "8", Z = "8" }`, `k/kernel.toml:182:19: dims of [implementation.sanitize] has no key "Z": there are M, N, K`},
		{`{ K = 8 }`, `k/kernel.toml:182:14: K is an integer, expected a string`},
		{`{ K = "" }`, `the expression is empty`},
		{`{ K = "TILE > 4" }`, `k/kernel.toml:182:14: K: "TILE > 4" gives false, expected an integer`},
		{`{ K = "SYNC" }`, `k/kernel.toml:182:14: K: "SYNC" gives grid, expected an integer`},
		{`{ M = "8", K = "M - 8" }`, `k/kernel.toml:182:23: K at shape small: "M - 8" gives 0, expected 1 to 1099511627776`},
		{`{ K = "M / 3" }`, `k/kernel.toml:182:14: K at shape small: expression "M / 3" gives`},
		{`{}`, `k/kernel.toml:182:8: dims is empty: name a dimension, or remove [implementation.sanitize]`},
		{`"8"`, `k/kernel.toml:182:8: dims is a string, expected a table`},
		{`{ K = "8" }` + "\nshape = 1", `k/kernel.toml:183:1: [implementation.sanitize] has no key "shape": there are dims, blocks`},
		{`{ K = "8" }` + "\nblocks = 0", `k/kernel.toml:183:10: blocks is 0, expected at least 1`},
		{`{ K = "8" }` + "\nblocks = \"4\"", `k/kernel.toml:183:10: blocks is a string, expected an integer`},
		{`{ K = "8" }` + "\nblocks = 4", `k/kernel.toml:183:1: blocks is for a launch whose blocks need no others`},
	} {
		_, err := sanitized(table, c.new)
		if err == nil || !strings.Contains(filepath.ToSlash(err.Error()), c.want) || !errors.Is(err, kernels.ErrDefinition) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
	if _, err := sanitized("dims = "+table, ""); err == nil || !strings.Contains(err.Error(), "sanitize has neither dims nor blocks") {
		t.Errorf("without dims: %v", err)
	}
	_, err := kernels.Load(folder(change(t, "[implementation.binary]", "[implementation.sanitize]\ndims = { M = \"8\" }\n[implementation.binary]")), "k")
	if err == nil || !strings.Contains(filepath.ToSlash(err.Error()), "k/kernel.toml:134:2: sanitize means nothing to the cpu backend: remove it") {
		t.Errorf("on the CPU: %v", err)
	}
}

// The table may stand in a file that several share, and faults name that file.
func TestSanitizeLike(t *testing.T) {
	load := func(shared, own string) (*kernels.Definition, error) {
		_, text, _ := strings.Cut(sequence, "name = \"split\"\n")
		for _, open := range []string{"[[", "["} {
			text = strings.ReplaceAll(text, "\n"+open+"implementation.", "\n"+open)
		}
		fsys := folder(base + "[[implementation]]\nname = \"split\"\nlike = \"common.toml\"\n" + own)
		fsys["include/common.toml"] = &fstest.MapFile{Data: []byte(text + shared)}
		return kernels.Load(fsys, "k")
	}
	const shared = "[sanitize]\ndims = { M = \"TILE\" }\n"
	d, err := load(shared, "")
	if err != nil || d.Implementations[1].SanitizeDims["M"] != "TILE" {
		t.Fatalf("%v", err)
	}
	if d, err = load(shared, "[implementation.sanitize]\ndims = { N = \"8\" }\n"); err != nil || len(d.Implementations[1].SanitizeDims) != 1 || d.Implementations[1].SanitizeDims["N"] != "8" {
		t.Errorf("its own does not replace it: %v", err)
	}
	if d, err = load(strings.Replace(shared, "TILE", "100*TILE", 1), ""); err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, f := range lint(d, 20) {
		if strings.Contains(f, " is sanitized at ") && strings.HasPrefix(f, "k/common.toml:") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("of what the shared file says, lint tells %d times: %q", told, lint(d, 20))
	}
	if _, err := load(strings.Replace(shared, "TILE", "TILES", 1), ""); err == nil || !strings.Contains(filepath.ToSlash(err.Error()), "k/common.toml:") {
		t.Errorf("a fault in the shared file: %v", err)
	}
}

// Lint says where a launch buys nothing, and where it cannot be.
func TestLintSanitize(t *testing.T) {
	const table = `{ K = "SPLIT*K + 1", M = "TILE + 2" }`
	for _, c := range []struct{ new, want string }{
		{`{ M = "TILE + 1", K = "4" }`, ""},
		{`{ M = "4*TILE", K = "K" }`, "k/kernel.toml:182:8: the candidate "},
		{`{ M = "TILE - 4" }`, `M: "TILE - 4" gives 0`},
	} {
		d, err := sanitized(table, c.new)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, f := range lint(d, 20) {
			switch {
			case c.want != "" && strings.Contains(f, c.want):
				found++
			case strings.Contains(f, "sanitize") || strings.Contains(f, "gives 0"):
				t.Errorf("%s: %s", c.new, f)
			}
		}
		if want := min(len(c.want), 1); found != want {
			t.Errorf("%s: found %d times, want %d: %s", c.new, found, want, strings.Join(lint(d, 20), "\n"))
		}
	}
}
