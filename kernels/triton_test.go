package kernels_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/internal/draft"
	"github.com/evotune/evotune/kernels"
)

const tritonTOML = `format = 1
name = "rows"
description = "the softmax of each row"

[problem]
dims = ["M", "N"]
bytes = "4*M*N"

[problem.reference]
python = "reference.py"
entry = "reference"

[[problem.shape]]
name = "large"
dims = { M = 1024, N = 1024 }
use = "tune"

[[problem.shape]]
name = "odd"
dims = { M = 37, N = 203 }
use = "verify"

[[problem.shape]]
name = "small"
dims = { M = 5, N = 64 }
use = "sanitize"

[[problem.buffer]]
name = "x"
dtype = "f16"
shape = ["M", "N"]
role = "in"
data = "normal(0,1)"

[[problem.buffer]]
name = "y"
dtype = "f16"
shape = ["M", "N"]
role = "out"

[[problem.scalar]]
name = "scale"
dtype = "f32"
value = "0.5"

[problem.tolerance]
f16 = 1e-2

[[problem.control]]
kind = "zeros"

[[implementation]]
name = "main"
language = "triton"
backend = "cuda"
target = "sm_80"
template = "kernel.py"
entry = "softmax_kernel"

[implementation.args]
stride = "N"
EVICT = "num_warps > 4 ? 'first' : 'last'"
DEPTH = 2

[implementation.launch]
grid = ["ceil(M/ROWS)"]

[[implementation.parameter]]
name = "BLOCK"
pow2 = [64, 2048]

[[implementation.parameter]]
name = "ROWS"
values = [1, 4]

[[implementation.parameter]]
name = "num_warps"
values = [4, 8]

[[implementation.constraint]]
expr = "BLOCK >= N"
why = "a row must fit"

[implementation.baseline]
genome = { BLOCK = 1024, ROWS = 1, num_warps = 4 }

[[problem.control]]
kind = "constant"
`

const tritonPython = `import triton
import triton.language as tl


# The softmax of rows.
@triton.jit
def softmax_kernel(y_ptr, x,  # the rows
                   scale, stride,
                   N, M,
                   BLOCK: tl.constexpr, ROWS: tl.constexpr = 1, EVICT: tl.constexpr = "a,b", DEPTH: tl.constexpr = (1, 2)):
    pass
`

func tritonFolder(change ...string) fstest.MapFS {
	toml := strings.NewReplacer(change...).Replace(tritonTOML)
	python := strings.NewReplacer(change...).Replace(tritonPython)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"rows/kernel.toml": file(toml), "rows/kernel.py": file(python),
		"rows/reference.py": file("import numpy as np\n\n\ndef reference(x, scale):\n    e = np.exp(x * scale)\n    return e / e.sum(1, keepdims=True)\n"),
	}
}

func tritonRendered(t *testing.T, values map[string]any, change ...string) kernels.Rendered {
	t.Helper()
	d, err := kernels.Load(tritonFolder(change...), "rows")
	if err != nil {
		t.Fatal(err)
	}
	space, err := d.Space(d.Implementations, d.Problem.ShapesFor(kernels.Tune), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := space.FromMap(values)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Implementations[0].Render(g)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What Triton is asked for follows from the function's parameters, by name.
func TestTritonCall(t *testing.T) {
	genes := map[string]any{"BLOCK": 1024, "ROWS": 4, "num_warps": 8}
	r := tritonRendered(t, genes)
	got, err := json.Marshal(r.Triton)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"entry":"softmax_kernel","arguments":[` +
		`{"name":"y_ptr","type":"*fp16","of":3,"value":null,"divisible":true},{"name":"x","type":"*fp16","of":2,"value":null,"divisible":true},` +
		`{"name":"scale","type":"fp32","of":4,"value":null},{"name":"stride","type":"i32","of":1,"value":null},` +
		`{"name":"N","type":"i32","of":1,"value":null},{"name":"M","type":"i32","of":0,"value":null},` +
		`{"name":"BLOCK","type":"constexpr","of":-1,"value":1024},{"name":"ROWS","type":"constexpr","of":-1,"value":4},` +
		`{"name":"EVICT","type":"constexpr","of":-1,"value":"first"},{"name":"DEPTH","type":"constexpr","of":-1,"value":2}],` +
		`"options":{"num_stages":3,"num_warps":8},"params":[".u64",".u64",".u64",".u64",".f32"]}`
	if string(got) != want {
		t.Errorf("the call is\n%s, expected\n%s", got, want)
	}
	if r.Source != tritonPython || r.SelfContained() != "# evotune calls it so: "+want+"\n"+tritonPython {
		t.Errorf("the source is not the file:\n%s", r.SelfContained())
	}
	geo, err := r.Implementation.Geometry(r.Genome, r.Implementation.Problem().Shapes[0], nil)
	if err != nil || geo.Block != [3]int64{256, 1, 1} || geo.Grid != [3]int64{256, 1, 1} {
		t.Errorf("the launch is %+v, %v", geo, err)
	}
	genes["num_warps"] = 4
	if other := tritonRendered(t, genes); other.Hash == r.Hash {
		t.Error("another number of warps has the same hash")
	}
	if geo, err := r.Implementation.Geometry(r.Genome, kernels.Shape{Dims: map[string]int64{"M": 4, "N": 1 << 32}}, nil); err != nil {
		t.Errorf("%+v, %v", geo, err)
	}
	if err := r.Implementation.Supports(r.Genome, kernels.Shape{Dims: map[string]int64{"M": 1 << 32, "N": 4}}, nil); err == nil || !strings.Contains(err.Error(), "32 bits") {
		t.Errorf("a dimension beyond 32 bits: %v", err)
	}
}

// Triton may take a dimension for a multiple of 16 exactly where constraints make it one
// wherever the genome is launched.
func TestTritonMultiples(t *testing.T) {
	for _, c := range []struct {
		expr, search string
		want         bool
	}{
		{"N % 16 == 0", "", true},
		{"(N % 64) == 0", "", true},
		{"N % (16*ROWS) == 0", "", false}, // not folded
		{"N % BLOCK == 0", "", true},
		{"N % ROWS == 0", "", false},
		{"N % 8 == 0", "", false},
		{"N % 16 == 0 or M > 4", "", false},
		{"N % 16 == 0", "search = true\n", false},
		{"N % 16 != 1", "", false},
	} {
		r := tritonRendered(t, map[string]any{"BLOCK": 1024, "ROWS": 4, "num_warps": 8}, "[implementation.baseline]",
			"[[implementation.constraint]]\nexpr = \""+c.expr+"\"\nwhy = \"a test\"\n"+c.search+"\n[implementation.baseline]")
		for _, a := range r.Triton.Arguments {
			if is := a.Name == "N" || a.Name == "stride"; is && a.Divisible != c.want || a.Name == "M" && a.Divisible {
				t.Errorf("%s %s: %s has divisible %v", c.expr, c.search, a.Name, a.Divisible)
			}
		}
	}
}

func TestTritonIsWrong(t *testing.T) {
	for what, c := range map[string]struct {
		change []string
		want   string
	}{
		"no such function": {[]string{`entry = "softmax_kernel"`, `entry = "softmax"`}, `rows/kernel.toml:58:9: kernel.py does not define softmax with def at its top level: correct the entry`},
		"no mark":          {[]string{"@triton.jit\n", ""}, "rows/kernel.py:6: softmax_kernel has no @triton.jit on the line above: add it"},
		"unbound":          {[]string{"scale, stride,", "scale, stride, other,"}, "rows/kernel.py:8: nothing has the name of other, a parameter of softmax_kernel: name it so, or say what it is in [implementation.args]"},
		"no annotation":    {[]string{"DEPTH: tl.constexpr = (1, 2)", "DEPTH: tl.constexpr = (1, 2), LAST=3"}, "rows/kernel.py:10: LAST of softmax_kernel has a default and no tl.constexpr"},
		"constexpr":        {[]string{"N, M,", "N: tl.constexpr, M,"}, "rows/kernel.py:9: N of softmax_kernel is a tl.constexpr, and N is known at the launch only"},
		"an option":        {[]string{"N, M,", "N, M, num_stages: tl.constexpr = 1,"}, "rows/kernel.py:9: num_stages of softmax_kernel has the name of an option"},
		"stars":            {[]string{"N, M,", "N, M, *rest,"}, `rows/kernel.py:7: softmax_kernel has the parameter "*rest": it can have plain ones only`},
		"over dimensions":  {[]string{`stride = "N"`, `stride = "2*N"`}, `rows/kernel.toml:61:10: stride is "2*N", and N is known at the launch only: declare a [[problem.scalar]]`},
		"no such argument": {[]string{`stride = "N"`, `strid = "N"`}, "rows/kernel.toml:61:1: softmax_kernel has no parameter strid: did you mean stride?"},
		"a list":           {[]string{`stride = "N"`, `stride = ["N"]`}, "rows/kernel.toml:61:10: stride is an array: give the name of"},
		"a name of nobody": {[]string{`stride = "N"`, `stride = "stride_x"`}, "rows/kernel.toml:61:11: in the expression"},
		"a block":          {[]string{`grid = [`, "block = [\"128\"]\ngrid = ["}, "rows/kernel.toml:66:1: block is for Triton to say"},
		"flags":            {[]string{`template =`, "flags = [\"-O3\"]\ntemplate ="}, "rows/kernel.toml:57:1: flags means nothing to Triton: remove it"},
		"on a CPU":         {[]string{`backend = "cuda"`, `backend = "cpu"`}, `rows/kernel.toml:54:12: an implementation in Triton is for GPUs: write backend = "cuda"`},
		"not in Triton":    {[]string{"language = \"triton\"\n", ""}, `args is for implementations in Triton: remove it, or add language = "triton"`},
		"another language": {[]string{`"triton"`, `"mojo"`}, `rows/kernel.toml:54:12: `},
		"warps":            {[]string{"values = [4, 8]", "values = [4, 6]"}, "num_warps has the value 6: give powers of two, up to 32"},
		"unread":           {[]string{`name = "ROWS"`, `name = "LINES"`, "ROWS = 1, num", "LINES = 1, num", "/ROWS", "/4"}, "nothing reads the parameter LINES: softmax_kernel has no such parameter"},
		"num_ctas":         {[]string{`name = "num_warps"`, `name = "num_ctas"`, "num_warps = 4", "num_ctas = 4", "num_warps >", "ROWS >"}, "nothing reads the parameter num_ctas: softmax_kernel has no such parameter, and Triton's options are num_warps, num_stages and maxnreg"},
		"no end":           {[]string{"(1, 2)):\n    pass\n", "(1, 2)"}, "rows/kernel.py:7: the parameters of softmax_kernel have no end"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := kernels.Load(tritonFolder(c.change...), "rows")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, expected %s", err, c.want)
			}
			if !errors.Is(err, kernels.ErrDefinition) {
				t.Errorf("%v is not an error of the definition", err)
			}
		})
	}
}

// lint finds nothing wrong with it, and what nobody reads.
func TestTritonLint(t *testing.T) {
	d, err := kernels.Load(tritonFolder(), "rows")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range kernels.Lint(t.Context(), d, 50, rand.New(rand.NewSource(1))) {
		t.Errorf("%s:%d: %s", f.File, f.Line, f.Msg)
	}
	if want := []string{"kernel.py", "kernel.toml", "reference.py"}; !slices.Equal(slices.Sorted(maps.Keys(d.Files())), want) {
		t.Errorf("files are %v", slices.Sorted(maps.Keys(d.Files())))
	}
	if text := d.Implementations[0].Baseline().String(); text != "main with its baseline genome" {
		t.Errorf("the baseline is %s", text)
	}
}

// A definition is made of a file and what its program knows.
func TestTritonDraft(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.py")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	given := func(more string) *draft.Given {
		t.Helper()
		g, err := draft.ParseGiven([]byte(`{"dims": ["M", "N"], "reference": {"source": "reference.c", "entry": "reference"}, "files": {"reference.c": "void reference(void) {}\n"},
			"shapes": [{"name": "large", "dims": {"M": 64, "N": 512}, "use": "tune"}],
			"buffers": [{"name": "x", "dtype": "f16", "shape": ["M", "N"], "role": "in"}, {"name": "y", "dtype": "f16", "shape": ["M", "N"], "role": "out"}],
			"scalars": [{"name": "scale", "dtype": "f32", "value": "0.5"}], "grid": ["ceil(M/ROWS)"],
			"parameters": [{"name": "BLOCK", "values": [512, 1024]}, {"name": "ROWS", "values": [1, 4]}, {"name": "num_warps", "values": [4, 8]}],
			"args": {"stride": "N", "DEPTH": 2}` + more + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	write(tritonPython)
	made, err := draft.From(filepath.Join(dir, "rows"), "rows", file, "", given(""))
	if err != nil {
		t.Fatal(err)
	}
	if made.Entry.Line != 7 || made.Entry.Msg != "softmax_kernel" {
		t.Errorf("the entry is %+v", made.Entry)
	}
	d, err := kernels.LoadDir(filepath.Join(dir, "rows"))
	if err != nil {
		t.Fatal(err)
	}
	if im := d.Implementations[0]; im.Language != kernels.Triton || im.Entry != "softmax_kernel" || im.Template != "kernel.py" {
		t.Errorf("%+v", im)
	}
	for what, c := range map[string]struct {
		text, entry, more string
		nothing           bool
		want              string
	}{
		"nothing given": {text: tritonPython, nothing: true, want: "a function of Triton does not say what its arguments hold"},
		"no function":   {text: "import triton\n", want: "there is no function with @triton.jit on the line above"},
		"another entry": {text: tritonPython, entry: "f", want: "there is no function f with @triton.jit on the line above"},
		"two functions": {text: tritonPython + "\n@triton.jit\ndef g(x):\n    pass\n", want: "there are several functions with @triton.jit, softmax_kernel, g: choose one with --entry"},
		"flags":         {text: tritonPython, more: `, "flags": ["-O3"]`, want: "flags means nothing to Triton"},
		"unbound":       {text: strings.Replace(tritonPython, "N, M", "N, M, more", 1), want: "mine.py:9: nothing has the name of more"},
	} {
		write(c.text)
		g := given(c.more)
		if c.nothing {
			g = nil
		}
		if _, err := draft.From(filepath.Join(dir, "other"), "other", file, c.entry, g); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", what, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "other")); err == nil {
			t.Errorf("%s: a folder is left", what)
		}
	}
}
