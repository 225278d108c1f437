package kernels_test

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/internal/sources"
	"github.com/evotune/evotune/kernels"
)

var update = flag.Bool("update", false, "write the golden files in testdata/golden")

// spaceOf is the space of one implementation at the default shape.
func spaceOf(tb testing.TB, im *kernels.Implementation) *genome.Space {
	tb.Helper()
	d := im.Definition()
	space, err := d.Space([]*kernels.Implementation{im}, im.Problem().ShapesFor(kernels.Tune)[:1], nil)
	if err != nil {
		tb.Fatal(err)
	}
	return space
}

func TestRender(t *testing.T) {
	d := mustLoad(t, folder(base))
	im := d.Implementations[0]
	space := spaceOf(t, im)
	g, err := space.FromMap(map[string]any{
		"TILE": 8, "ROWS": 2, "OPTIMIZE": "-O3", "FAST": true, "SCALE": 0.5, "THREADS": 2, "SPLIT": "columns",
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := im.Render(g)
	if err != nil {
		t.Fatal(err)
	}
	want := kernels.Rendered{
		Implementation: im,
		Genome:         g,
		Entry:          "product",
		Source: `#include "tile.h"
#define TILE 8
#define ROWS 2
/* in columns */
void product(int64_t M, int64_t N, int64_t K, const float *A, const float *B, const int8_t *mask, float *C, float alpha)
{
	one(M, N, K, A, B, mask, C, alpha, 0);
	one(M, N, K, A, B, mask, C, alpha, 1);
}
`,
		Header:  kernels.Header(&d.Problem, im),
		Files:   map[string]string{"tile.h": "/* one() */\n"},
		Flags:   []string{"-O3", "-ffast-math", "-DSCALE=0.5"},
		Threads: 2,
		Hash:    r.Hash,
	}
	if len(r.Require) != 1 || r.Require[0].String() != "mul" {
		t.Errorf("required is %v", r.Require)
	}
	r.Require = nil
	if diff := cmp.Diff(want, r, cmp.Comparer(func(a, b *kernels.Implementation) bool { return a == b }), cmp.Comparer(func(a, b genome.Genome) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	again, err := im.Render(g)
	if err != nil || again.Hash != r.Hash {
		t.Errorf("rendered again: %s, %v; want %s", again.Hash, err, r.Hash)
	}
	again.Files["tile.h"] = "" // belongs to the caller
	if third, _ := im.Render(g); third.Hash != r.Hash {
		t.Error("a caller changed what is rendered")
	}
}

// The hash tells any two candidates apart that are compiled from something
// else, and no others.
func TestRenderedHash(t *testing.T) {
	d := mustLoad(t, folder(base))
	im := d.Implementations[0]
	seen := map[string]string{}
	for g := range spaceOf(t, im).All() {
		r, err := im.Render(g)
		if err != nil {
			t.Fatal(err)
		}
		content := fmt.Sprintf("%q", []any{r.Source, r.Header, r.Flags, r.Threads, r.Files, r.Entry})
		if prev, ok := seen[r.Hash]; ok && prev != content {
			t.Fatalf("one hash for\n%s\nand\n%s", prev, content)
		}
		seen[r.Hash] = content
	}
	contents := map[string]bool{}
	for _, c := range seen {
		contents[c] = true
	}
	if len(contents) != len(seen) {
		t.Errorf("%d hashes for %d contents", len(seen), len(contents))
	}
}

func TestRenderBaseline(t *testing.T) {
	d := mustLoad(t, folder(base))
	r, err := d.Implementations[0].RenderBaseline(d.Problem.Shapes[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"-O2", "-DSCALE=1"}, r.Flags); diff != "" || r.Threads != 1 || !strings.Contains(r.Source, "TILE 4") {
		t.Errorf("the baseline genome renders to %+v", r)
	}
	const genomeLine = `genome = { TILE = 4, ROWS = 2, OPTIMIZE = "-O2", FAST = false, SCALE = 1, THREADS = 1 }`

	d = mustLoad(t, folder(change(t, genomeLine, "source = \"baseline.c\"\nentry = \"plain\"\nflags = [\"-O1\"]")))
	r, err = d.Implementations[0].RenderBaseline(d.Problem.Shapes[0])
	if err != nil {
		t.Fatal(err)
	}
	if r.Entry != "plain" || !strings.Contains(r.Header, "void plain(int64_t M,") || r.Source != "void plain(void);\n" || r.Flags[0] != "-O1" {
		t.Errorf("the baseline source renders to %+v", r)
	}
	if got := d.Implementations[0].Baseline().String(); got != "baseline.c" {
		t.Errorf("the baseline is called %q", got)
	}

	d = mustLoad(t, folder(change(t, genomeLine, `library = "libblas.so.3:cblas_sgemm"`)))
	b := d.Implementations[0].Baseline()
	if b.Kind != kernels.BaselineLibrary || b.Library != "libblas.so.3" || b.Symbol != "cblas_sgemm" || b.String() != "cblas_sgemm of libblas.so.3" {
		t.Errorf("the library: %+v", b)
	}
	if _, err = d.Implementations[0].RenderBaseline(d.Problem.Shapes[0]); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a library renders: %v", err)
	}
}

func TestRenderErrors(t *testing.T) {
	tests := []struct {
		name     string
		template string // replaces the template; empty leaves it
		old, new string // in kernel.toml
		want     string
	}{
		{name: "missing key", template: "a\n  {{.TILES}}\n", want: "k/tiled.c.tmpl:2:5: the template uses .TILES, which is not a parameter of implementation tiled: did you mean TILE?"},
		{name: "missing key by index", template: "{{index . \"TILES\"}}\n", want: "k/tiled.c.tmpl:1:3: the template uses .TILES, which is not a parameter of implementation tiled: did you mean TILE?"},
		{name: "inactive parameter", template: "{{.SPLIT}}\n", want: `k/tiled.c.tmpl:1:3: the template uses .SPLIT, which exists only when THREADS > 1: put it inside {{if has $ "SPLIT"}} ... {{end}}`},
		{name: "dimension", template: "{{.M}}\n", want: "k/tiled.c.tmpl:1:3: the template uses .M, which is not a parameter of implementation tiled: there are TILE, ROWS, OPTIMIZE, FAST, SCALE, THREADS, SPLIT"},
		{name: "own failure", template: "\n{{fail \"no such tile\"}}\n", want: `k/tiled.c.tmpl:2:3: {{fail "no such tile"}}: error calling fail: no such tile`},
		{name: "division by zero", template: "{{div 1 0}}\n", want: "k/tiled.c.tmpl:1:3: {{div 1 0}}: error calling div: div: division of 1 by zero"},
		{name: "nothing printed", template: "{{define \"x\"}}{{.}}{{end}}{{template \"x\"}}", want: "k/tiled.c.tmpl:1: the template prints a value that does not exist (<no value>)"},
		{name: "endless", template: "{{range until 65536}}{{range until 65536}}xxxxxxxx{{end}}{{end}}", want: "k/tiled.c.tmpl:1: the rendered text is longer than 8388608 bytes"},
		{name: "recursion", template: "{{define \"x\"}}{{template \"x\" .}}{{end}}{{template \"x\" .}}", want: `k/tiled.c.tmpl:1:26: {{template "x" .}}: exceeded maximum template depth (100000)`},
		{name: "flag", old: `"{{.OPTIMIZE}}"`, new: `"-O{{.LEVEL}}"`, want: `k/kernel.toml:88:10: flag "-O{{.LEVEL}}": the template uses .LEVEL, which is not a parameter of implementation tiled: there are TILE, ROWS, OPTIMIZE, FAST, SCALE, THREADS, SPLIT`},
		{name: "threads of nobody", old: `threads = "THREADS"`, new: `threads = "THREADS - 1"`, want: `k/kernel.toml:89:11: threads: "THREADS - 1" gives 0 for the genome TILE=4,ROWS=2,OPTIMIZE="-O2",FAST=false,SCALE=1.0,THREADS=1, expected 1 to 1024`},
		{name: "threads of an inactive parameter", old: `threads = "THREADS"`, new: `threads = "SPLIT == 'rows' ? 1 : 2"`, want: `k/kernel.toml:89:11: threads: expression "SPLIT == 'rows' ? 1 : 2": no value for SPLIT`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := base
			if tt.old != "" {
				text = change(t, tt.old, tt.new)
			}
			fsys := folder(text)
			if tt.template != "" {
				fsys["k/tiled.c.tmpl"].Data = []byte(tt.template)
			}
			d := mustLoad(t, fsys)
			g, err := spaceOf(t, d.Implementations[0]).FromMap(map[string]any{
				"TILE": 4, "ROWS": 2, "OPTIMIZE": "-O2", "FAST": false, "SCALE": 1.0, "THREADS": 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.Implementations[0].Render(g)
			if err == nil || filepath.ToSlash(err.Error()) != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if !errors.Is(err, kernels.ErrRender) {
				t.Errorf("%v is no ErrRender", err)
			}
		})
	}
}

// The functions that templates have beside those of text/template.
func TestTemplateFunctions(t *testing.T) {
	tests := []struct{ template, want string }{
		{`{{add 1 2 3}} {{sub 1 2}} {{mul 2 3 4}}`, "6 -1 24"},
		{`{{add 1 0.5}} {{mul .SCALE 3}}`, "1.5 3"},
		{`{{div 7 2}} {{div -7 2}} {{mod 7 2}} {{mod -7 2}} {{ceil 7 2}} {{ceil 8 2}} {{ceil -7 2}}`, "3 -3 1 -1 4 4 -3"},
		{`{{min 3 1 2}} {{max 3 1 2}} {{max 1 1.5}}`, "1 3 1.5"},
		{`{{log2 .TILE}} {{log2 1}}`, "2 0"},
		{`{{range until 3}}{{.}}{{end}} {{range until 0}}x{{else}}none{{end}}`, "012 none"},
		{`{{range seq 2 9 3}}{{.}},{{end}} {{range seq 5 7}}{{.}},{{end}} {{range seq 3 3}}x{{end}}`, "2,5,8, 5,6, "},
		{`{{join (until 3) ", "}} {{join (list "a" 1 true) "|"}}`, "0, 1, 2 a|1|true"},
		{`{{has $ "TILE"}} {{has $ "SPLIT"}} {{if has $ "SPLIT"}}{{.SPLIT}}{{end}}`, "true false "},
		{`{{index (list 5 6) 1}} {{index $ "TILE"}}`, "6 4"},
		{`{{range $i := .ROWS}}{{$i}}{{end}}`, "01"},
	}
	for _, tt := range tests {
		if got, err := renderText(t, tt.template); err != nil || got != tt.want {
			t.Errorf("%s = %q, %v; want %q", tt.template, got, err, tt.want)
		}
	}
	for _, bad := range []string{
		`{{add 1 "2"}}`, `{{add 9223372036854775807 1}}`, `{{sub -9223372036854775807 2}}`, `{{mul 4611686018427387904 2}}`,
		`{{mul -1 (sub -9223372036854775807 1)}}`, `{{div 1 0}}`, `{{mod 1 0}}`, `{{ceil 1 0}}`, `{{div 1.5 2}}`, `{{log2 3}}`, `{{log2 0}}`, `{{log2 -4}}`,
		`{{until 65537}}`, `{{seq 0 9 0}}`, `{{seq 0 9 1 1}}`, `{{seq 0 "x"}}`, `{{join 3 ","}}`, `{{index (list 1) 1}}`, `{{index (list 1) -1}}`, `{{index 3 0}}`,
	} {
		if got, err := renderText(t, bad); err == nil {
			t.Errorf("%s = %q, want an error", bad, got)
		} else if !errors.Is(err, kernels.ErrRender) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func renderText(tb testing.TB, template string) (string, error) {
	tb.Helper()
	fsys := folder(base)
	fsys["k/tiled.c.tmpl"].Data = []byte(template)
	r, err := mustLoad(tb, fsys).Implementations[0].RenderBaseline(mustLoad(tb, fsys).Problem.Shapes[0])
	return r.Source, err
}

// cuda is an implementation for a GPU, to add to base.
const cuda = `
[[implementation]]
name = "blocks"
backend = "cuda"
target = "sm_90a"
template = "tiled.c.tmpl"
entry = "product"
include = ["tile.h"]
[[implementation.parameter]]
name = "TILE"
values = [4, 8]
[[implementation.parameter]]
name = "ROWS"
values = [2]
[[implementation.parameter]]
name = "THREADS"
values = [1]
[[implementation.constraint]]
expr = "TILE*ROWS*4 <= device_max_shared_bytes"
why = "a tile is in shared memory"
[implementation.launch]
grid = ["int(ceil(M/TILE))", "N - 60"]
block = ["32", "TILE"]
shared = "TILE*ROWS*4"
[implementation.baseline]
library = "libcublas.so.12:cublasSgemm"
[implementation.binary]
max_registers = 255
max_spill = 0
`

func TestGeometry(t *testing.T) {
	d := mustLoad(t, folder(base+cuda))
	im := d.Implementations[1]
	space := spaceOf(t, im)
	g, err := space.FromMap(map[string]any{"TILE": 8, "ROWS": 2, "THREADS": 1})
	if err != nil {
		t.Fatal(err)
	}
	shape := d.Problem.Shapes[0]
	got, err := im.Geometry(g, shape, nil)
	want := kernels.Geometry{Grid: [3]int64{8, 4, 1}, Block: [3]int64{32, 8, 1}, SharedBytes: 64}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("geometry = %+v, %v; want %+v", got, err, want)
	}
	const wantErr = `k/kernel.toml:159:30: grid: "N - 60" gives -51, expected at least 1, for the genome TILE=8,ROWS=2,THREADS=1 at shape odd`
	if _, err := im.Geometry(g, d.Problem.Shapes[2], nil); err == nil || filepath.ToSlash(err.Error()) != wantErr || !errors.Is(err, kernels.ErrRender) {
		t.Errorf("got  %v\nwant %s", err, wantErr)
	}
	if _, err := d.Implementations[0].Geometry(g, shape, nil); err == nil {
		t.Error("an implementation for the CPU has a launch geometry")
	}
	if b := im.Baseline(); b.Kind != kernels.BaselineLibrary {
		t.Errorf("the baseline on CUDA is %v", b)
	}
	if b := d.Implementations[0].Baseline(); b.Kind != kernels.BaselineGenome {
		t.Errorf("the baseline on the CPU is %v", b)
	}
	if h := kernels.Header(&d.Problem, im); !strings.Contains(h, "__global__ void product(") {
		t.Errorf("header for CUDA:\n%s", h)
	}
}

// TestGolden compares rendered kernels with the files in testdata/golden: of
// every built-in implementation, and of the scaffold, the baseline and two
// genomes drawn when the files were written. A golden file carries its genome,
// so that it does not depend on how genomes are drawn.
func TestGolden(t *testing.T) {
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range cat.Errors() {
		t.Error(err)
	}
	var defs []*kernels.Definition
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		defs = append(defs, d)
	}
	dir := filepath.Join(t.TempDir(), "scaffold")
	if err := draft.New(dir, "scaffold", "cpu"); err != nil {
		t.Fatal(err)
	}
	d, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defs = append(defs, d)

	var wanted []string
	for _, d := range defs {
		for _, im := range d.Implementations {
			space := spaceOf(t, im)
			rng := rand.New(rand.NewSource(1))
			for i := range 3 {
				name := filepath.Join("testdata", "golden", fmt.Sprintf("%s.%s.%d.txt", d.Name, im.Name, i))
				wanted = append(wanted, name)
				t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) { golden(t, name, im, space, i == 0, rng) })
			}
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if slices.Contains(wanted, f) {
			continue
		}
		if !*update {
			t.Errorf("%s belongs to no kernel; run the test with -update", f)
		} else if err := os.Remove(f); err != nil {
			t.Error(err)
		}
	}
}

const (
	genomeMark = "genome: "
	baselineIs = "the baseline"
)

func golden(t *testing.T, name string, im *kernels.Implementation, space *genome.Space, baseline bool, rng *rand.Rand) {
	old, err := os.ReadFile(name)
	if isNew := *update && errors.Is(err, fs.ErrNotExist); err != nil && !isNew {
		t.Fatalf("%v; run the test with -update", err)
	}
	encoding, _, _ := strings.Cut(strings.TrimPrefix(string(old), genomeMark), "\n")
	g, parseErr := space.Parse(encoding)
	var r kernels.Rendered
	switch {
	case baseline:
		encoding = baselineIs
		if b := im.Baseline(); b.Implementation() != im || b.Kind == kernels.BaselineLibrary && !b.Varies() {
			encoding = "" // the baseline belongs to another implementation
			break
		}
		r, err = im.RenderBaseline(im.Problem().ShapesFor(kernels.Tune)[0])
	case parseErr != nil && !*update:
		t.Fatalf("%s: %v; run the test with -update", name, parseErr)
	default:
		if parseErr != nil {
			g = space.Random(rng)
		}
		encoding = g.String()
		r, err = im.Render(g)
	}
	if encoding == "" {
		encoding = "none"
	} else if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s%s\nflags: %q\nthreads: %d\nfiles: %v\n-- header --\n%s-- source --\n%s",
		genomeMark, encoding, r.Flags, r.Threads, slices.Sorted(maps.Keys(r.Files)), r.Header, r.Source)
	if got == string(old) {
		return
	}
	if !*update {
		t.Errorf("%s: rendered otherwise; run the test with -update and read the difference (-want +got):\n%s", name, cmp.Diff(strings.Split(string(old), "\n"), strings.Split(got, "\n")))
		return
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustGenome(tb testing.TB, im *kernels.Implementation) genome.Genome {
	tb.Helper()
	return spaceOf(tb, im).Random(rand.New(rand.NewSource(1)))
}

// TestRenderedText guards what the built-in kernels compile while their definitions are rewritten: hashes of the text of each
// implementation, at the baseline of every tuned shape and of some genomes, and of the references, without comments.
func TestRenderedText(t *testing.T) {
	const file = "testdata/rendered.txt"
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		line := func(what string, texts ...string) {
			h := sha256.New()
			for _, text := range texts {
				text = sources.NotCode.ReplaceAllStringFunc(text, func(s string) string {
					if s[0] == '/' {
						return " "
					}
					return s
				})
				fmt.Fprintln(h, strings.Join(strings.Fields(text), " "))
			}
			fmt.Fprintf(&got, "%s %s %.16x\n", name, what, h.Sum(nil))
		}
		line("reference", d.Problem.Reference.Text, kernels.ReferenceHeader(&d.Problem))
		if d.Problem.DeviceReference != nil {
			line("reference.cuda", d.Problem.DeviceReference.Text, fmt.Sprint(d.Problem.DeviceReference.Launch.Grid, d.Problem.DeviceReference.Launch.Block))
		}
		for _, im := range d.Implementations {
			var texts []string
			add := func(r kernels.Rendered, err error) {
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, r.Source, r.Header, r.Entry, fmt.Sprint(r.Flags, r.Threads, r.Require))
				for _, name := range slices.Sorted(maps.Keys(r.Files)) {
					texts = append(texts, name, r.Files[name])
				}
			}
			for _, s := range im.Problem().ShapesFor(kernels.Tune) {
				if b := im.Baseline(); b.Implementation() == im && (b.Kind != kernels.BaselineLibrary || b.Varies()) {
					add(im.RenderBaseline(s))
				}
			}
			texts = append(texts, im.Starts...)
			space, rng := spaceOf(t, im), rand.New(rand.NewSource(1))
			for range 3 {
				add(im.Render(space.Random(rng)))
			}
			line(im.Name, texts...)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got.String() {
		t.Errorf("%v (-want +got)\n%s", err, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")))
	}
}
