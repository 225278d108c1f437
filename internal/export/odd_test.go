package export

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// A kernel whose names mean something elsewhere: in C's library, in the generated code, in
// Python and in Go. It has arrays and scalars of every type, sizes that are expressions,
// and a description that would end comments.
func odd(t *testing.T, name string) *kernels.Definition {
	t.Helper()
	types := slices.DeleteFunc(kernels.DTypes(), kernels.DType.FP8) // which only GPUs have
	names := []string{"state", "next", "error", "room", "s", "len", "type_", "lambda", "func", "yield", "out"}
	toml := fmt.Sprintf("format = 1\nname = %q\ndescription = '''adds */ \"\"\" \\N\nup /* // \\'''\n", name) + `[problem]
dims = ["i", "n", "now", "range"]
operations = "n"
bytes = "n"
pipe = "f32"
[problem.reference]
source = "reference.c"
entry = "reference"
`
	for _, s := range []string{"a.tune 7 64 1", "b.verify 3 6 0", "c.sanitize 2 2 1", "d.tune 1 2 0"} {
		var i, n, flag int
		what, dims, _ := strings.Cut(s, " ")
		if _, err := fmt.Sscan(dims, &i, &n, &flag); err != nil {
			t.Fatal(err)
		}
		name, use, _ := strings.Cut(what, ".")
		toml += fmt.Sprintf("[[problem.shape]]\nname = %q\nuse = %q\ndims = { i = %d, n = %d, now = %d, range = 1 }\n", name, use, i, n, flag)
	}
	params, wide, body, reference, bounds := "", "", "", "", "[problem.tolerance]\n"
	for k, d := range types {
		role, tolerance := "inout", 0.0
		if d.Float() {
			tolerance = 1e-2
		}
		axes := `"n / 2", "ceil(i / 2)"`
		if k == 0 {
			axes = `"max(i, n) - 1"`
		}
		toml += fmt.Sprintf("[[problem.buffer]]\nname = %q\ndtype = %q\nrole = %q\nshape = [%s]\ndata = \"integers(1,4)\"\n", names[k], d, role, axes)
		bounds += fmt.Sprintf("%s = %g\n", d, tolerance)
		params += fmt.Sprintf(", %s *%s", d.C(), names[k])
		wide += fmt.Sprintf(", double *%s", names[k])
		count := "n / 2 * ((i + 1) / 2)"
		if k == 0 {
			count = "((i > n ? i : n) - 1)"
		}
		to := "(%s)(%s + %s)"
		switch d {
		case kernels.F16:
			to = "evotune_f16_from_float(evotune_f16_to_float(%[2]s) + (float)%[3]s)%.0[1]s"
		case kernels.BF16:
			to = "evotune_bf16_from_float(evotune_bf16_to_float(%[2]s) + (float)%[3]s)%.0[1]s"
		}
		at := names[k] + "[k]"
		body += fmt.Sprintf("\tfor (int64_t k = 0; k < %s; k++)\n\t\t%s = %s;\n", count, at, fmt.Sprintf(to, d.C(), at, "v"))
		reference += fmt.Sprintf("\tfor (int64_t k = 0; k < %s; k++)\n\t\t%s += v;\n", count, at)
	}
	for k, d := range []kernels.DType{kernels.F64, kernels.F32, kernels.I64, kernels.I32} {
		toml += fmt.Sprintf("[[problem.scalar]]\nname = \"free_%d\"\ndtype = %q\nvalue = \"now + 1\"\n", k, d)
		params += fmt.Sprintf(", %s free_%d", d.C(), k)
		wide += fmt.Sprintf(", double free_%d", k)
	}
	toml += bounds + `[[problem.control]]
kind = "zeros"
[[implementation]]
name = "loop"
backend = "cpu"
target = "native"
template = "k.c.tmpl"
entry = "add"
include = ["k.h"]
[[implementation.parameter]]
name = "U"
values = [1, 2]
[[implementation.constraint]]
expr = "i % range == 0 and bitand(n, 1) == 0"
why = "it holds"
[implementation.baseline]
genome = { U = 1 }
`
	const sum = "free_0 + free_1 + free_2 + free_3"
	head := "(int64_t i, int64_t n, int64_t now, int64_t range"
	d, err := kernels.Load(fstest.MapFS{
		"k/kernel.toml": {Data: []byte(toml)},
		"k/reference.c": {Data: []byte("#include <stdint.h>\nvoid reference" + head + wide + ")\n{\n\tconst double v = " + sum + ";\n\t(void)now, (void)range;\n" + reference + "}\n")},
		"k/k.c.tmpl":    {Data: []byte("#include \"k.h\"\n/* {{.U}} */\nvoid add" + head + params + ")\n{\n\tconst int64_t v = sum4((int64_t)free_0, (int64_t)free_1, free_2, free_3);\n\t(void)now, (void)range;\n" + body + "}\n")},
		"k/k.h":         {Data: []byte("static int64_t sum4(int64_t a, int64_t b, int64_t c, int64_t d) { return a + b + c + d; }\n")},
	}, "k")
	if err != nil {
		t.Fatalf("%v\n%s", err, toml)
	}
	return d
}

func TestOddKernelsLong(t *testing.T) {
	longtest.Long(t, "it builds a library, and a program in Go")
	files := mustExport(t, []*Winner{winnerFrom(t, odd(t, "2-map"), "c0ffee", 1), winnerFrom(t, odd(t, "map"), "beef", 2)}, toC)
	dir := build(t, files)
	check(t, dir, files)
	// Nothing but names of the library, also where hidden ones are seen.
	if _, err := exec.LookPath("nm"); err == nil {
		for line := range strings.Lines(run(t, dir, "nm", "-D", "--defined-only", "libevotune.so")) {
			if f := strings.Fields(line); !strings.HasPrefix(f[len(f)-1], "evotune_") {
				t.Errorf("the symbol %s is visible", f[len(f)-1])
			}
		}
	}
	// The header alone, by the strictest compilers; the times, which nobody reads here.
	for _, args := range [][]string{
		{"gcc", "-std=c99", "-pedantic-errors", "-x", "c"},
		{"g++", "-std=c++11", "-pedantic-errors", "-x", "c++"},
		{"clang", "-std=c11", "-Weverything", "-x", "c"},
		{"gcc", "-std=gnu11", "test/bench.c", "-x", "c"},
	} {
		if _, err := exec.LookPath(args[0]); err == nil {
			run(t, dir, args[0], append(args[1:], "-Wall", "-Wextra", "-Werror", "-Wno-unused-macros", "-fsyntax-only", "-Iinclude", "include/evotune.h")...)
		}
	}
	got := program(t, dir, `
		struct evotune_choice c;
		int64_t n[8];
		const int status = evotune_map_choice(4, 2, 0, 0, &c); /* nothing is divided by 0 */
		printf("%d %d\n", status, c.rule);
		printf("%d %d %d\n", evotune_map_sizes(3, 5, 0, 1, n), evotune_map_sizes(0, 0, 0, 1, n), evotune_map_sizes(2, 8, 0, 1, n));
		printf("%d %d\n", (int)n[0], (int)n[1]);`)
	if want := "0 5\n1 1 0\n7 4\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
	if _, err := exec.LookPath("python3"); err == nil {
		t.Setenv("EVOTUNE_LIBRARY", filepath.Join(dir, "libevotune.so"))
		out := run(t, dir, "python3", "python/example.py")
		if !strings.HasSuffix(out, "all right\n") || !strings.Contains(out, "k2_map a") || !strings.Contains(out, "map_ d") {
			t.Error(out)
		}
		body := `
import array, sys
sys.path.insert(0, "python")
import evotune
for dims in ((1 << 64, 2, 0, 1), ("x", 2, 0, 1), (-1, 2, 0, 1), (1 << 40, 1 << 40, 0, 1)):
    for f in (evotune.map__sizes, evotune.map__choice):
        try:
            print(f(*dims))
        except (ValueError, TypeError, evotune.Error) as e:
            print(type(e).__name__)
evotune.wisdom_load("wisdom.txt")
`
		got := run(t, dir, "python3", "-c", body)
		want := strings.Repeat("ValueError\n", 2) + strings.Repeat("TypeError\n", 2) + strings.Repeat("Error\n", 4)
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
	// In Go the names are other ones; go vet compiles it.
	pc := fmt.Sprintf("Name: evotune\nDescription: x\nVersion: 1\nLibs: -L%s -levotune\nCflags: -I%s/include\n", dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "evotune.pc"), []byte(pc), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("pkg-config"); err == nil {
		t.Setenv("PKG_CONFIG_PATH", dir)
		t.Setenv("LD_LIBRARY_PATH", dir)
		if err := os.Symlink("libevotune.so", filepath.Join(dir, "libevotune.so.1")); err != nil {
			t.Fatal(err)
		}
		if out := run(t, filepath.Join(dir, "go"), "go", "run", "./example"); !strings.HasSuffix(out, "all right\n") {
			t.Error(out)
		}
	}
}

// An expression that C does not have is named, and where it stands.
func TestNotInC(t *testing.T) {
	for _, c := range []struct{ old, with, want string }{
		{`shape = ["N"]`, `shape = ["len(string(N))"]`, "kernel scale-half cannot be exported: k/kernel.toml: the shape of x: \"len(string(N))\" cannot be written in C: len(string(N)) has no translation"},
		{"[problem.tolerance]", "[[problem.scalar]]\nname = \"a\"\ndtype = \"f32\"\nvalue = \"sum([N])\"\n[problem.tolerance]", "kernel scale-half cannot be exported: k/kernel.toml: the value of a: \"sum([N])\" cannot be written in C: sum([N]) has no translation"},
		{"values = [1, 2]\n", "values = [1, 2]\n[[implementation.constraint]]\nexpr = \"sum([N, UNROLL]) > 0\"\nwhy = \"x\"\n", "candidate c0ffee of scale-half cannot be exported: k/kernel.toml: the constraint \"sum([N, UNROLL]) > 0\" cannot be written in C: sum([N, UNROLL]) > 0 has no translation"},
	} {
		d, err := kernels.Load(fstest.MapFS{
			"k/kernel.toml": {Data: []byte(strings.Replace(halves, c.old, c.with, 1))},
			"k/reference.c": {Data: []byte("void reference(){}")},
			"k/k.c.tmpl":    {Data: []byte("/* {{.UNROLL}} */\nvoid scale(){}")},
		}, "k")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Export([]*Winner{winnerFrom(t, d, "c0ffee", 1)}, toC); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Names that cannot stand in one library.
func TestNamesClash(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"a-b", "a_b"}, "the kernels a-b and a_b would have one function, evotune_a_b: export them apart"},
		{[]string{"conv-2d", "conv2d"}, "the kernels conv-2d and conv2d would have one function, Conv2d: export them apart"},
		{[]string{"a", "a-sizes"}, "the kernels a and a-sizes would have one function, evotune_a_sizes: export them apart"},
		{[]string{"wisdom-load"}, "the kernel wisdom-load would have the function evotune_wisdom_load, which every library has: rename it"},
		{[]string{"choice"}, "the kernel choice would have the function Choice, which every library has: rename it"},
	} {
		var winners []*Winner
		for i, name := range c.names {
			d := *odd(t, name)
			winners = append(winners, winnerFrom(t, &d, fmt.Sprintf("c0ffee%d", i), 1))
		}
		if _, err := Export(winners, toC); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if files := mustExport(t, []*Winner{winnerFrom(t, odd(t, "a"), "c0ffee", 1)}, toC); !slices.Contains(slices.Collect(maps.Keys(files)), "torch/README.md") {
		t.Error("nothing is said of PyTorch")
	}
}

// A library checks the flags that its own backend's shapes show, whatever those of
// other backends are.
func TestFlagsOfTheBackend(t *testing.T) {
	shape := func(causal, bias int64) kernels.Shape {
		return kernels.Shape{Dims: map[string]int64{"N": 8, "CAUSAL": causal, "BIAS": bias}}
	}
	dims := []string{"N", "CAUSAL", "BIAS"}
	d := &kernels.Definition{Problem: kernels.Problem{Dims: dims, Shapes: []kernels.Shape{shape(0, 0), shape(1, 0)}}}
	d.Variants = map[string]*kernels.Problem{"cuda": {Dims: dims, Shapes: []kernels.Shape{shape(2, 0), shape(1, 1)}}}
	for backend, want := range map[string]string{"cpu": "CAUSAL", "cuda": "BIAS"} {
		if got := newProblem(d, d.ProblemOn(backend)).FlagText(); got != want {
			t.Errorf("%s: the flags are %q, want %q", backend, got, want)
		}
	}
}
