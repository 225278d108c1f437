package kernels_test

import (
	"context"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

func lint(d *kernels.Definition, n int) []string {
	out := []string{}
	for _, f := range kernels.Lint(context.Background(), d, n, rand.New(rand.NewSource(1))) {
		out = append(out, filepath.ToSlash(f.String()))
	}
	return out
}

// What is delivered must be clean: the built-in kernels and the scaffolds.
func TestLintClean(t *testing.T) { lintDelivered(t, 15) }

func TestLintCleanLong(t *testing.T) {
	longtest.Long(t, "it renders thousands of candidates")
	lintDelivered(t, 100)
}

// lintDelivered looks at that many random genomes of each.
func lintDelivered(t *testing.T, genomes int) {
	t.Helper()
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	var defs []*kernels.Definition
	for _, backend := range kernels.Backends() {
		dir := filepath.Join(t.TempDir(), "fresh")
		if err := draft.New(dir, "fresh", backend); err != nil {
			t.Fatal(err)
		}
		fresh, err := kernels.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defs = append(defs, fresh)
	}
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		defs = append(defs, d)
	}
	for _, d := range defs {
		if diff := cmp.Diff([]string{}, lint(d, genomes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d.Name, diff)
		}
	}
}

func TestLint(t *testing.T) {
	type edit struct{ old, new string }
	tests := []struct {
		name     string
		edits    []edit            // of kernel.toml
		files    map[string]string // replaced
		template []edit
		want     []string
	}{
		{name: "clean"},
		{
			name:     "unused parameter",
			template: []edit{{"#define TILE {{.TILE}}\n", ""}},
			edits:    []edit{{"TILE*ROWS*4 <=", "ROWS*4*512 <="}, {"TILE*ROWS <= M*2", "ROWS*32 <= M*2"}, {"M = 64", "M = 32"}, {"M = 16", "M = 64"}},
			want:     []string{"k/kernel.toml:94:8: nothing reads the parameter TILE: use it in the template or in a flag, or remove it"},
		},
		{
			name:     "parameter of constraints alone",
			template: []edit{{"#define TILE {{.TILE}}\n", ""}},
			want:     []string{"k/kernel.toml:94:8: parameter TILE is read by constraints alone, so that no value of it changes a candidate: use it or remove it"},
		},
		{
			name:     "parameter without effect",
			template: []edit{{"#define TILE {{.TILE}}\n", "{{if gt .TILE 100}}#define TILE {{.TILE}}{{end}}\n"}},
			want:     []string{"k/kernel.toml:94:8: parameter TILE is read, but no value of it changed any of the candidates tried: is it inside text that is never rendered?"},
		},
		{
			name:     "the genome as a whole is read",
			template: []edit{{"#define TILE {{.TILE}}\n", "{{range $name, $value := .}}#define {{$name}} {{$value}}\n{{end}}"}},
		},
		{
			name:  "constraint that excludes nothing",
			edits: []edit{{"TILE*ROWS <= M*2", "TILE*ROWS > 0"}},
			want:  []string{`k/kernel.toml:124:8: the constraint "TILE*ROWS > 0" excludes nothing at any shape: remove it, or correct it`},
		},
		{
			name:  "constraint that excludes at other shapes",
			edits: []edit{{"TILE*ROWS <= M*2", "TILE*ROWS*4096 >= M"}},
		},
		{
			name: "odd shapes that a constraint forbids", edits: []edit{
				{"{ M = 7, N = 9, K = 5 }", "{ M = 8, N = 4, K = 16 }"}, {"TILE*ROWS <= M*2", "M % 2 == 0 and N % 2 == 0 and K % 2 == 0 and TILE*ROWS <= M*2"},
			},
		},
		{
			name:  "constraint on a limit",
			edits: []edit{{"TILE*ROWS*4 <= device_l1_bytes", "ROWS <= device_cores * 1000"}},
		},
		{
			name:  "reference in Python",
			edits: []edit{{`source = "reference.c"`, `python = "reference.py"`}},
			files: map[string]string{"k/reference.py": "def reference(A, B, C):\n    return C + A @ B\n"},
		},
		{
			name:  "reference in Python without its function",
			edits: []edit{{`source = "reference.c"`, `python = "reference.py"`}},
			files: map[string]string{"k/reference.py": "def other(A, B, C):\n    return reference(C)\n"},
			want:  []string{"k/kernel.toml:14:9: reference.py does not define reference: correct the entry"},
		},
		{
			name: "condition that always holds", edits: []edit{{`when = "THREADS > 1"`, `when = "THREADS > 0"`}, {"THREADS = 1 }", "THREADS = 1, SPLIT = \"rows\" }"}},
			want: []string{`k/kernel.toml:121:8: the condition of SPLIT always holds: remove it, or correct it`},
		},
		{
			name: "condition that never holds", edits: []edit{{`when = "THREADS > 1"`, `when = "THREADS > 2"`}},
			template: []edit{{"gt .THREADS 1", "gt .THREADS 2"}},
			want:     []string{`k/kernel.toml:121:8: the condition of SPLIT never holds: correct it`},
		},
		{
			name: "template fails for some genomes", template: []edit{{"{{- if gt .THREADS 1}}\n/* in {{.SPLIT}} */\n{{- end}}\n", "/* in {{.SPLIT}} */\n"}},
			want: []string{`k/tiled.c.tmpl:4:9: the template uses .SPLIT, which exists only when THREADS > 1: put it inside {{if has $ "SPLIT"}} ... {{end}}`},
		},
		{
			name: "genome to start with that is not valid",
			edits: []edit{{"blocking = [", `start = [
  'TILE=4,ROWS=2,OPTIMIZE="-O2",FAST=true,SCALE=1.0,THREADS=1',
  'TILE=64,ROWS=8,OPTIMIZE="-O2",FAST=true,SCALE=1.0,THREADS=1',
]
blocking = [`}},
			want: []string{`k/kernel.toml:93:3: start "TILE=64,ROWS=8,OPTIMIZE=\"-O2\",FAST=true,SCALE=1.0,THREADS=1" is valid at no tuned shape, so that no campaign proposes it: correct it, or remove it`},
		},
		{
			name: "include that is not listed", template: []edit{{`#include "tile.h"`, `#include "tile.h"` + "\n" + `#include "missing.h"`}},
			want: []string{`includes "missing.h", which include does not list: add it`},
		},
		{
			name: "entry that is not defined", edits: []edit{{`entry = "product"`, `entry = "other"`}},
			want: []string{`k/kernel.toml:87:9: the candidate `},
		},
		{
			name: "reference without its entry", files: map[string]string{"k/reference.c": "void reference2(long M) {}\n"},
			want: []string{`k/kernel.toml:14:9: reference.c does not define reference: correct the entry`},
		},
		{
			name: "flag of two arguments", edits: []edit{{`"-DSCALE={{.SCALE}}"`, `"-D SCALE={{.SCALE}}"`}},
			want: []string{`k/kernel.toml:88:61: the flag "-D SCALE=`},
		},
		{
			name: "bytes beyond the buffers", edits: []edit{{`"4*(M*K + K*N + M*N)"`, `"4*(M*K + K*N*M)"`}},
			want: []string{`k/kernel.toml:9:9: at shape 64 bytes gives 532480, but the buffers, each moved once, have 49216: count what has to move, not what a kernel happens to move`},
		},
		{
			name: "no bytes", edits: []edit{{`"4*(M*K + K*N + M*N)"`, `"0"`}},
			want: []string{`k/kernel.toml:9:9: a launch at shape 64 moves no bytes: it has to read its inputs and write its outputs once`},
		},
		{
			name: "no operations", edits: []edit{{`"2*M*N*K"`, `"0"`}},
			want: []string{`k/kernel.toml:8:14: a launch at shape 64 takes no operations: count one for each element that is moved, if it only moves them`},
		},
		{
			name: "no odd shape", edits: []edit{{"{ M = 7, N = 9, K = 5 }", "{ M = 8, N = 4, K = 1 }"}},
			want: []string{`k/kernel.toml:16:3: no shape with use = "verify" has an odd dimension above 1: a kernel that is right only for multiples of its tiles would pass`},
		},
		{
			name: "large shape for the sanitizers", edits: []edit{{"{ M = 8, N = 8, K = 8 }", "{ M = 1024, N = 1024, K = 8 }"}},
			want: []string{`k/kernel.toml:31:3: the shape small is for the sanitizers and has 1065984 elements: below 1048576 they end in a second or so`},
		},
		{
			name: "long shape for the sanitizers", edits: []edit{{"{ M = 8, N = 8, K = 8 }", "{ M = 512, N = 512, K = 512 }"}},
			want: []string{`k/kernel.toml:31:3: the shape small is for the sanitizers and takes 2.68e+08 operations: below 2e+07 they end in a second or so`},
		},
		{
			name: "one shape twice", edits: []edit{{"{ M = 16, N = 256, K = 32 }", "{ M = 64, N = 64, K = 32 }"}},
			want: []string{`k/kernel.toml:21:3: the shapes 64 and wide are the same: remove one`},
		},
		{
			name: "no controls", edits: []edit{
				{`pipe = "f32"`, "pipe = \"f32\"\ncontrol = []"},
				{"[[problem.control]]\nkind = \"zeros\"\n\n[[problem.control]]\nkind = \"constant\"\n\n[[problem.control]]\nkind = \"swap\"\nbuffers = [\"A\", \"B\"]\n", ""},
			},
			want: []string{
				`k/kernel.toml:11:1: there is no control of kind "zeros": without it nothing shows that the tolerance refuses such an answer`,
				`k/kernel.toml:11:1: there is no control of kind "constant": without it nothing shows that the tolerance refuses such an answer`,
			},
		},
		{
			name: "controls missing", edits: []edit{{"[[problem.control]]\nkind = \"zeros\"\n", ""}, {"[[problem.control]]\nkind = \"constant\"\n", ""}},
			want: []string{
				`k/kernel.toml:74:3: there is no control of kind "zeros": without it nothing shows that the tolerance refuses such an answer`,
				`k/kernel.toml:74:3: there is no control of kind "constant": without it nothing shows that the tolerance refuses such an answer`,
			},
		},
		{
			name: "tolerances", edits: []edit{{"f32 = 1e-5", "f32 = 0.5\nf64 = 1e-9"}},
			want: []string{
				`k/kernel.toml:70:7: a tolerance of 0.5 of the output's scale proves next to nothing`,
				`k/kernel.toml:71:1: no output has the type f64: remove its tolerance`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := base
			for _, e := range tt.edits {
				if strings.Count(text, e.old) == 0 {
					t.Fatalf("%q is not in base", e.old)
				}
				text = strings.Replace(text, e.old, e.new, 1)
			}
			fsys := folder(text)
			tmpl := baseTemplate
			for _, e := range tt.template {
				if strings.Count(tmpl, e.old) != 1 {
					t.Fatalf("%q is not in the template", e.old)
				}
				tmpl = strings.Replace(tmpl, e.old, e.new, 1)
			}
			fsys["k/tiled.c.tmpl"].Data = []byte(tmpl)
			for name, text := range tt.files {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got := lint(mustLoad(t, fsys), 100)
			if len(got) != len(tt.want) {
				t.Fatalf("got  %q\nwant %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got  %s\nwant %s", got[i], want)
				}
			}
		})
	}
}

// A space that is empty at a tuned shape is told with the constraint that
// empties it.
func TestLintEmptySpace(t *testing.T) {
	source := `source = "baseline.c"
entry = "plain"`
	text := strings.NewReplacer(
		"TILE*ROWS <= M*2", "TILE*ROWS < M/64",
		`genome = { TILE = 4, ROWS = 2, OPTIMIZE = "-O2", FAST = false, SCALE = 1, THREADS = 1 }`, source,
	).Replace(base)
	want := []string{
		`k/kernel.toml:124:8: no genome satisfies the constraint "TILE*ROWS < M/64" at shape 64: correct it`,
	}
	if diff := cmp.Diff(want, lint(mustLoad(t, folder(text)), 10)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLintGPU(t *testing.T) {
	got := lint(mustLoad(t, folder(base+cuda)), 10)
	if len(got) != 1 || !strings.Contains(got[0], `grid: "N - 60" gives -51`) {
		t.Errorf("got %q, want the grid that is empty at shape odd", got)
	}
}

// Lint ends with its context, and with many genomes that fail.
func TestLintEnds(t *testing.T) {
	d := mustLoad(t, folder(base))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found := kernels.Lint(ctx, d, 1000, rand.New(rand.NewSource(1)))
	if n := len(found); n == 0 || !strings.Contains(fmt.Sprint(found), "there was no time left to look at all of") {
		t.Errorf("%v", found)
	}
	fsys := folder(base)
	fsys["k/tiled.c.tmpl"].Data = []byte(`{{define "x"}}{{template "x" .}}{{end}}{{template "x" .}}`)
	began := time.Now()
	found = kernels.Lint(t.Context(), mustLoad(t, fsys), 1_000_000, rand.New(rand.NewSource(1)))
	if !strings.Contains(fmt.Sprint(found), "exceeded maximum template depth") {
		t.Errorf("%v", found)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}
