package export

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

func TestTorchSchemas(t *testing.T) {
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"attention": "attention(Tensor q, Tensor k, Tensor v, bool causal) -> Tensor, leading B",
		"conv2d":    "conv2d(Tensor x, Tensor k) -> Tensor",
		"gemm":      "gemm(Tensor a, Tensor b) -> Tensor, leading M",

		"attention-bf16":       "attention_bf16(Tensor q, Tensor k, Tensor v, bool causal) -> Tensor, leading B",
		"attention-varlen":     "attention_varlen(Tensor q, Tensor k, Tensor v, Tensor starts, bool causal) -> Tensor, leading S",
		"attention-varlen-f16": "attention_varlen_f16(Tensor q, Tensor k, Tensor v, Tensor starts, bool causal) -> Tensor, leading S",

		"gemm-batched":   "gemm_batched(Tensor a, Tensor b) -> Tensor, leading L",
		"gemm-bf16":      "gemm_bf16(Tensor a, Tensor b) -> Tensor, leading M",
		"gemm-bias-gelu": "gemm_bias_gelu(Tensor a, Tensor b, Tensor bias) -> Tensor, leading M",
		"gemm-fp8":       "gemm_fp8(Tensor a, Tensor b) -> Tensor, leading M",
		"gemm-gated":     "gemm_gated(Tensor a, Tensor b) -> Tensor, leading M",
		"gemm-residual":  "gemm_residual(Tensor a, Tensor b, Tensor r) -> Tensor, leading M",
		"linear":         "linear(Tensor x, Tensor w) -> Tensor, leading M",

		"cross-entropy": "cross_entropy(Tensor x, Tensor target) -> (Tensor, Tensor), leading ROWS",
		"decode":        "decode(Tensor q, Tensor k, Tensor v, Tensor table, Tensor lengths) -> Tensor",
		"decode-bf16":   "decode_bf16(Tensor q, Tensor k, Tensor v, Tensor table, Tensor lengths) -> Tensor",
		"rope-kv":       "rope_kv(Tensor q, Tensor k, Tensor v, Tensor angles, Tensor positions, Tensor slots, int capacity) -> (Tensor, Tensor, Tensor)",

		"rmsnorm-residual":     "rmsnorm_residual(Tensor x, Tensor r, Tensor w, *, float eps=1e-05) -> (Tensor, Tensor), leading ROWS",
		"rmsnorm-residual-fp8": "rmsnorm_residual_fp8(Tensor x, Tensor r, Tensor w, *, float eps=1e-05) -> (Tensor, Tensor, Tensor), leading ROWS",
		"silu-mul":             "silu_mul(Tensor x) -> Tensor, leading ROWS",
		"silu-mul-fp8":         "silu_mul_fp8(Tensor x) -> (Tensor, Tensor), leading ROWS",

		"layernorm": "layernorm(Tensor x, Tensor g, Tensor b, *, float eps=1e-05) -> Tensor, leading ROWS",
		"reduce":    "reduce(Tensor x) -> Tensor, leading ROWS",
		"rmsnorm":   "rmsnorm(Tensor x, Tensor w, *, float eps=1e-05) -> Tensor, leading ROWS",
		"sgemm":     "sgemm(Tensor a, Tensor b, int team) -> Tensor, leading M",
		"softmax":   "softmax(Tensor x) -> Tensor, leading ROWS",
		"transpose": "transpose(Tensor x) -> Tensor",
	}
	formulas, err := sources.ReadFile("files/torch/formulas.py")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		p := newProblem(d, &d.Problem)
		op, err := newTorchOp(p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got[name], err = op.Schema(); err != nil {
			t.Fatal(err)
		}
		if op.Leading >= 0 {
			got[name] += ", leading " + op.Dims[op.Leading]
		}
		if !sameProblem(p) {
			t.Errorf("%s is not the built-in kernel", name)
		}
		if !strings.Contains(string(formulas), fmt.Sprintf("\n    %q: ", name)) {
			t.Errorf("%s has no formula of PyTorch's", name)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the schemas are\n%q, want\n%q", got, want)
	}
}

// torchProblem is a problem over M and N.
func torchProblem(buffers ...kernels.Buffer) *problem {
	return &problem{Problem: &kernels.Problem{Dims: []string{"M", "N"}, Buffers: buffers}, Kernel: "mine", Name: "mine", Func: "evotune_mine"}
}

func torchBuffer(name string, role kernels.Role, shape ...string) kernels.Buffer {
	return kernels.Buffer{Name: name, DType: kernels.F32, Role: role, Shape: shape}
}

// Where dimensions come from.
func TestTorchSources(t *testing.T) {
	const in, out, inout = kernels.In, kernels.Out, kernels.InOut
	for _, c := range []struct {
		name    string
		buffers []kernels.Buffer
		want    string // the schema; for each dimension tensor.axis num add den, or its argument
		axes    string // of the first result, in Python
	}{
		{"exact", []kernels.Buffer{torchBuffer("X", in, "M", "N"), torchBuffer("Y", out, "M")}, "mine(Tensor x) -> Tensor; 0.0 1 0 1; 0.1 1 0 1", "(d[0],)"},
		{"doubled", []kernels.Buffer{torchBuffer("X", in, "M", "2*N"), torchBuffer("Y", out, "M", "N")}, "mine(Tensor x) -> Tensor; 0.0 1 0 1; 0.1 2 0 1", "(d[0], d[1],)"},
		{"exact rather than earlier", []kernels.Buffer{torchBuffer("X", in, "M", "2*N"), torchBuffer("W", in, "N"), torchBuffer("Y", out, "M")}, "mine(Tensor x, Tensor w) -> Tensor; 0.0 1 0 1; 1.0 1 0 1", "(d[0],)"},
		{"halved", []kernels.Buffer{torchBuffer("X", in, "M", "N / 2"), torchBuffer("Y", out, "M", "N / 2")}, "mine(Tensor x) -> Tensor; 0.0 1 0 1; 0.1 1 0 2", "(d[0], (1 * d[1] + 0) // 2,)"},
		{"with a border", []kernels.Buffer{torchBuffer("X", in, "3*(N + 1) - 1", "M"), torchBuffer("Y", out, "M")}, "mine(Tensor x) -> Tensor; 0.1 1 0 1; 0.0 3 2 1", "(d[0],)"},
		{"a third and more", []kernels.Buffer{torchBuffer("X", in, "(2*N + 1) / 3", "M"), torchBuffer("Y", out, "M")}, "mine(Tensor x) -> Tensor; 0.1 1 0 1; 0.0 2 1 3", "(d[0],)"},
		{"not linear", []kernels.Buffer{torchBuffer("X", in, "M", "N*N"), torchBuffer("Y", out, "ceil(N/4)")}, "mine(Tensor x, int n) -> Tensor; 0.0 1 0 1; arg n", "(int(math.ceil((d[1] / 4))),)"},
		{"of two", []kernels.Buffer{torchBuffer("X", in, "M", "M*N"), torchBuffer("Y", out, "max(M, N)")}, "mine(Tensor x, int n) -> Tensor; 0.0 1 0 1; arg n", "(max(d[0], d[1]),)"},
		{"falling", []kernels.Buffer{torchBuffer("X", in, "M", "8 - N"), torchBuffer("Y", out, "M")}, "mine(Tensor x, int n) -> Tensor; 0.0 1 0 1; arg n", "(d[0],)"},
		{"in place", []kernels.Buffer{torchBuffer("X", in, "M", "N"), torchBuffer("Y", inout, "N"), torchBuffer("Z", out, "M")}, "mine(Tensor x, Tensor y) -> (Tensor, Tensor); 0.0 1 0 1; 0.1 1 0 1", "(d[1],)"},
		{"words", []kernels.Buffer{torchBuffer("Self", in, "M"), torchBuffer("lambda", in, "N"), torchBuffer("Y", out, "M")}, "mine(Tensor self_, Tensor lambda_) -> Tensor; 0.0 1 0 1; 1.0 1 0 1", "(d[0],)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			op, err := newTorchOp(torchProblem(c.buffers...))
			if err != nil {
				t.Fatal(err)
			}
			got, err := op.Schema()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range op.Sources {
				if s.Tensor < 0 {
					got += "; arg " + s.Arg
				} else {
					got += fmt.Sprintf("; %d.%d %d %d %d", s.Tensor, s.Axis, s.Num, s.Add, s.Den)
				}
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if axes, err := op.Out[0].PyAxes(); err != nil || axes != c.axes {
				t.Errorf("axes %s, %v, want %s", axes, err, c.axes)
			}
		})
	}
	for want, buffers := range map[string][]kernels.Buffer{
		"no tensor goes into it": {torchBuffer("Y", out, "N")},
		`the shape of X: "bitnand(M, N)" cannot be written in Python: the function bitnand has no translation`: {torchBuffer("X", in, "bitnand(M, N)"), torchBuffer("Y", out, "N")},
	} {
		if _, err := newTorchOp(torchProblem(buffers...)); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A problem of a built-in kernel's name is that kernel's only with its reference.
func TestTorchBuiltin(t *testing.T) {
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cat.Get("softmax")
	if err != nil {
		t.Fatal(err)
	}
	other := d.Problem
	other.Reference.Text += "\n"
	if sameProblem(newProblem(d, &other)) {
		t.Error("another reference passes as the built-in kernel")
	}
}

// Expressions in Python have the values that they have in evotune.
func TestTorchExpressions(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: nothing was computed")
	}
	dims := []string{"M", "N"}
	var program strings.Builder
	var want []string
	program.WriteString("import math\n")
	for _, src := range []string{
		"2*N", "N + M - 3", "N / 2", "(2*N + 6) / 4", "ceil(N / 8)", "int(ceil(N/128)) * M", "floor(N / 3)", "round(N / 3)", "max(M, N, 7) - min(M, N)", "N % 4", "2**3 * M",
		"M > N ? M : N", "M in [4, 6, 12] ? 1 : 2", "M in 1..12 and not (N == 5) ? 3 : 4", "bitand(N, 12)", "bitor(M, 1)", "bitshl(M, 2)", "bitshr(N, 1)", "abs(M - N)", "-M + 2*M", "7",
	} {
		text, err := inPython(src, dims)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		for _, d := range [][]int64{{12, 40}, {6, 6}, {300, 22}} {
			e, err := expr.Compile(src, map[string]any{"M": 0, "N": 0})
			if err != nil {
				t.Fatal(err)
			}
			n, err := e.Float(map[string]any{"M": d[0], "N": d[1]})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%s %d %d: %d", src, d[0], d[1], int64(n)))
			fmt.Fprintf(&program, "d = [%d, %d]\nprint(%q + str(%s))\n", d[0], d[1], fmt.Sprintf("%s %d %d: ", src, d[0], d[1]), text)
		}
	}
	if got := strings.TrimSpace(run(t, t.TempDir(), python, "-c", program.String())); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// What finals measured counts against a vendor's library alone, and where it is no noise.
func TestTorchFinals(t *testing.T) {
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kernel, shape   string
		significant     bool
		library, faster bool
	}{
		{"gemm", "4096", true, true, true},
		{"gemm", "4096", false, true, false},
		{"layernorm", "4096x1024", true, false, true},
	} {
		d, err := cat.Get(c.kernel)
		if err != nil {
			t.Fatal(err)
		}
		d = d.On("cuda")
		s, err := d.Problem.Shape(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		w := cudaWinner(t, d, d.Implementations[0], s, rand.New(rand.NewSource(1)))
		w.Evidence.Summary.Significant = c.significant
		problems, err := newProblems([]*Winner{w})
		if err != nil {
			t.Fatal(err)
		}
		op, err := newTorchOp(problems[0])
		if err != nil {
			t.Fatal(err)
		}
		want := []torchFinal{{
			Device: "NVIDIA H200", Candidate: w.Evidence.Candidate, Against: "its baseline", Dims: newShape(s, d.Problem.Dims).Dims(),
			NS: 100, BaselineNS: 200, Library: c.library, Faster: c.faster,
		}}
		if diff := cmp.Diff(want, op.Finals()); diff != "" {
			t.Errorf("%s: %s", c.kernel, diff)
		}
	}
}

// compilePython compiles the Python of a package.
func compilePython(t *testing.T, files map[string][]byte) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: nothing was compiled")
	}
	dir := t.TempDir()
	writeFiles(t, dir, files)
	var list []string
	for name := range files {
		if strings.HasSuffix(name, ".py") {
			list = append(list, filepath.Join(dir, filepath.FromSlash(name)))
		}
	}
	slices.Sort(list)
	if len(list) != 9 {
		t.Errorf("files %q", list)
	}
	if out, err := exec.CommandContext(t.Context(), python, append([]string{"-m", "py_compile"}, list...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// ownKernels are kernels as users write them: an axis that is an expression, functions for
// PyTorch, an array that is changed in place, and one that PyTorch knows nothing of.
func ownKernels(t *testing.T) []*kernels.Definition {
	t.Helper()
	var list []*kernels.Definition
	for _, k := range []struct{ name, dims, shapes, buffers, params, wide, body, torch string }{
		{
			"silu-mul", `"M", "D"`, "M = 64, D = 96;M = 7, D = 33;M = 3, D = 5",
			"X in M 2*D;Y out M D", "const float *X, float *Y, float scale", "const double *X, double *Y, double scale",
			"for (int64_t m = 0; m < M; m++)\n\t\tfor (int64_t i = 0; i < D; i++)\n\t\t\tY[m * D + i] = X[m * 2 * D + i] / (1 + exp(-X[m * 2 * D + i])) * X[m * 2 * D + D + i] * scale;",
			"import torch\n\n\ndef silu_mul(X, D, scale):\n    return torch.nn.functional.silu(X[:, :D]) * X[:, D:] * scale\n\n\ndef silu_mul_backward(grad_Y, X, Y, D, scale):\n    g, u = X[:, :D], X[:, D:]\n    s = torch.sigmoid(g)\n    return {\"X\": torch.cat([grad_Y * u * s * (1 + g * (1 - s)), grad_Y * g * s], 1) * scale}\n",
		},
		{
			"add-to", `"N"`, "N = 1000;N = 77;N = 9",
			"X in N;Y inout N", "const float *X, float *Y, float scale", "const double *X, double *Y, double scale",
			"for (int64_t i = 0; i < N; i++)\n\t\tY[i] += scale * X[i];",
			"def add_to(X, Y, scale):\n    Y += scale * X\n    return Y\n",
		},
		{
			"turns", `"N"`, "N = 4096;N = 70;N = 8",
			"X in N;Y out N", "const float *X, float *Y, float scale", "const double *X, double *Y, double scale",
			"for (int turn = 0; turn < 40 * TURNS - 39; turn++)\n\t\tfor (int64_t i = 0; i < N; i++)\n\t\t\tY[i] = turn ? 0.5 * Y[i] + 0.5 * sin(X[i] * scale) : sin(X[i] * scale);",
			"import torch\n\n\ndef turns(X, scale):\n    return torch.sin(X * scale)\n",
		},
		{
			"alone", `"N"`, "N = 512;N = 66;N = 4",
			"X in N;Y out N/2", "const float *X, float *Y, float scale", "const double *X, double *Y, double scale",
			"for (int64_t i = 0; i < N / 2; i++)\n\t\tY[i] = X[i] - X[i + N / 2] * scale;", "",
		},
	} {
		toml := fmt.Sprintf("format = 1\nname = %q\ndescription = \"a test\"\n[problem]\ndims = [%s]\noperations = \"1\"\nbytes = \"8\"\npipe = \"f32\"\n[problem.reference]\nsource = \"reference.c\"\nentry = \"reference\"\n", k.name, k.dims)
		for i, dims := range strings.Split(k.shapes, ";") {
			toml += fmt.Sprintf("[[problem.shape]]\nname = \"s%d\"\nuse = %q\ndims = { %s }\n", i, []string{"tune", "verify", "sanitize"}[i], dims)
		}
		for _, b := range strings.Split(k.buffers, ";") {
			f := strings.Fields(b)
			toml += fmt.Sprintf("[[problem.buffer]]\nname = %q\ndtype = \"f32\"\nrole = %q\nshape = [\"%s\"]\n", f[0], f[1], strings.Join(f[2:], `", "`))
			if f[1] != "out" {
				toml += "data = \"normal(0,1)\"\n"
			}
		}
		toml += "[[problem.scalar]]\nname = \"scale\"\ndtype = \"f32\"\nvalue = \"0.5\"\n[problem.tolerance]\nf32 = 1e-5\n[[problem.control]]\nkind = \"zeros\"\n" +
			"[[implementation]]\nname = \"plain\"\nbackend = \"cpu\"\ntarget = \"native\"\ntemplate = \"k.c.tmpl\"\nentry = \"f\"\n" +
			"[[implementation.parameter]]\nname = \"U\"\nvalues = [1, 2]\n[[implementation.constraint]]\nexpr = \"" + strings.Trim(strings.Split(k.dims, ",")[0], `"`) + " < 5000\"\nwhy = \"a test\"\n[implementation.baseline]\ngenome = { U = 1 }\n"
		var head []string
		for _, d := range strings.Split(k.dims, ", ") {
			head = append(head, "int64_t "+strings.Trim(d, `"`))
		}
		text := "#include <math.h>\n#include <stdint.h>\nvoid %s(" + strings.Join(head, ", ") + ", %s)\n{\n\t" + strings.ReplaceAll(k.body, "%", "%%") + "\n}\n"
		fsys := fstest.MapFS{
			"k/reference.c": {Data: fmt.Appendf(nil, strings.ReplaceAll(text, "TURNS", "1"), "reference", k.wide)},
			"k/k.c.tmpl":    {Data: fmt.Appendf(nil, "/* {{.U}} */\n"+strings.ReplaceAll(text, "TURNS", "{{.U}}"), "f", k.params)},
		}
		if function := strings.ReplaceAll(k.name, "-", "_"); k.torch != "" {
			toml += fmt.Sprintf("[torch]\nsource = \"torch.py\"\nforward = %q\n", function)
			if strings.Contains(k.torch, "_backward") {
				toml += fmt.Sprintf("backward = %q\n", function+"_backward")
			}
			fsys["k/torch.py"] = &fstest.MapFile{Data: []byte(k.torch)}
		}
		fsys["k/kernel.toml"] = &fstest.MapFile{Data: []byte(toml)}
		d, err := kernels.Load(fsys, "k")
		if err != nil {
			t.Fatalf("%v\n%s", err, toml)
		}
		list = append(list, d)
	}
	return list
}

var update = flag.Bool("update", false, "write testdata/evotune_torch.golden")

// The module of kernels as users write them.
func TestTorchGolden(t *testing.T) {
	var winners []*Winner
	for i, d := range ownKernels(t) {
		winners = append(winners, winnerFrom(t, d, fmt.Sprintf("beef%02d", i), 1))
	}
	files := mustExport(t, winners, toC)
	golden := filepath.Join("testdata", "evotune_torch.golden")
	got := files["torch/evotune_torch.py"]
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), which -update writes:\n%s", golden, diff)
	}
	for name, text := range map[string]string{"own_silu_mul": "def silu_mul_backward(", "own_add_to": "def add_to("} {
		if !strings.Contains(string(files["torch/_evotune_torch/"+name+".py"]), text) {
			t.Errorf("%s.py lacks %s", name, text)
		}
	}
}

// A reference in Python is the formula if it is for PyTorch.
func TestTorchOwn(t *testing.T) {
	for _, c := range []struct {
		library, text string
		want          bool
	}{
		{"", "def reference(x):\n    return x.sum(1)\n", true},
		{"", "import torch\n", true},
		{"", "import numpy as np\n", false},
		{"", "import numpy\nimport torch.nn.functional as F\n", true},
		{"", "import math, numpy as np\n", false},
		{"", "import os, torch as t, numpy as np\n", true},
		{"", "from numpy import exp\n", false},
		{"", "from numpy.random import default_rng\n\ndef f(x):\n    from torch import exp\n", true},
		{"", "# import torch\nimport numpy\n", false},
		{"", "import numpy_like\n", true},
		{"numpy", "import torch\n", false},
		{"torch", "import numpy as np\n", true},
	} {
		d := &kernels.Definition{}
		d.Problem.Reference = kernels.Reference{Source: kernels.Source{File: "reference.py", Text: c.text, Entry: "reference"}, Python: true, Library: c.library}
		own, reference := torchOwn(d)
		if got := own != nil; got != c.want || reference != c.want {
			t.Errorf("library %q, %q: %t, %t, want %t", c.library, c.text, got, reference, c.want)
		}
		d.Torch = &kernels.Torch{Forward: "f"}
		if own, reference = torchOwn(d); own != d.Torch || reference {
			t.Errorf("%v, %t in the place of the table [torch]", own, reference)
		}
	}
}

// torchRows is a reference in PyTorch, with the function that makes its row pointers.
const torchRows = "import torch\n\n\ndef rows(M, NNZ, step, seed):\n    inner = torch.randint(0, NNZ + 1, (M - step,), generator=torch.Generator().manual_seed(seed))\n    return torch.cat([torch.tensor([0]), inner.sort().values, torch.tensor([NNZ])])\n\n\n" +
	"def reference(row, col, val, x, step):\n    at = torch.repeat_interleave(torch.arange(range(len(row) - 1, 0, -step)[0]), row[1:] - row[:-1])\n    return torch.zeros(len(row) - 1, dtype=val.dtype).index_add(0, at, val * x[col])\n"

// Integers, arrays and scalars, come to a reference as in campaigns, also where it is the formula of an operator. An
// input that a function in Python makes is made by it where it is in the library; else nothing
// calls the kernel on other contents.
func TestTorchReferenceLong(t *testing.T) {
	longtest.Long(t, "it compiles PyTorch's headers")
	python := torchPython(t)
	dir := t.TempDir()
	winners := []*Winner{
		winnerFrom(t, sparse(t, "spmv", torchRows, ""), "c0ffee", 1), winnerFrom(t, sparse(t, "spmv-numpy", numpyRows, ""), "beef", 1),
		winnerFrom(t, sparse(t, "spmv-own", numpyRows, strings.Replace(torchRows, "(row, col, val, x, step):", "(row, col, val, x):\n    step = 1\n    assert row.dtype == torch.int32\n    col = col.long()", 1)), "510e", 1),
	}
	writeFiles(t, dir, mustExport(t, winners, toC))
	t.Setenv("EVOTUNE_TORCH_CACHE", filepath.Join(dir, "cache"))
	got := run(t, filepath.Join(dir, "torch"), python, "-W", "ignore", "-c", `
import torch, evotune_torch
row, col = torch.tensor([0, 2, 2, 5], dtype=torch.int32), torch.tensor([0, 2, 1, 1, 0], dtype=torch.int32)
args = row, col, torch.tensor([1.0, 2, 3, 4, 5]), torch.tensor([1.0, 10, 100])
for name in ("spmv", "spmv_numpy"):
    for way in ("kernels", "pytorch"):
        with evotune_torch.use(way):
            print(getattr(evotune_torch, name)(*args).tolist())
print(evotune_torch.explain("spmv", *args))
print(evotune_torch.explain("spmv_numpy", *args))`)
	if strings.Count(got, "[201.0, 0.0, 75.0]\n") != 4 || !strings.Contains(got, "spmv: PyTorch computes this: ") || !strings.Contains(got, "spmv_numpy: evotune computes this: ") || !strings.Contains(got, "there is no PyTorch formula") {
		t.Error(got)
	}
	const why = ": not run: a function in Python makes row, and the library does not contain it\n"
	t.Setenv("EVOTUNE_TORCH_MEASURED", filepath.Join(dir, "measured.txt"))
	for _, c := range []struct {
		args            []string
		contains, lacks string
	}{
		{[]string{"test_ops.py", "-v"}, "\nOK (skipped=", "FAIL"},
		{[]string{"-m", "evotune_torch", "measure", "--rounds", "7"}, "\nspmv ", "\nspmv_"},
		{[]string{"bench.py", "--grid", "2", "--rounds", "7"}, "\nspmv ", "\nspmv-"},
		{[]string{"-m", "evotune_torch", "measure", "spmv_numpy"}, "nothing was measured: ", "\nspmv"},
		{[]string{"-m", "evotune_torch", "explain"}, "evotune::spmv_own: ", "not run"},
	} {
		out := run(t, filepath.Join(dir, "torch"), python, c.args...)
		names := []string{"spmv-numpy", "spmv-own"}
		if c.args[len(c.args)-1] == "spmv_numpy" {
			names = names[:1]
		}
		for _, name := range names {
			if c.lacks != "not run" && strings.Count(strings.Split(out, "test_")[0], name+why) != 1 {
				t.Errorf("%q does not say once that %s is not run", c.args, name)
			}
		}
		lacks := strings.ReplaceAll(strings.ReplaceAll(out, names[0]+why, ""), "spmv-own"+why, "")
		if !strings.Contains("\n"+out, c.contains) || strings.Contains("\n"+lacks, c.lacks) {
			t.Errorf("%q\n%s", c.args, out)
		}
	}
	// What a caller gives is measured.
	got = run(t, filepath.Join(dir, "torch"), python, "-c", `
import evotune_torch
find = evotune_torch._operators.find
args = find("spmv").arguments({"M": 7, "NNZ": 33}, "cpu", seed=5)
row = args[0].tolist()
print(args[0].dtype, row == sorted(row), row[0], row[-1], args[1].min() >= 0 and args[1].max() < 7, len({tuple(find("spmv").arguments({"M": 7, "NNZ": 33}, "cpu", seed=n)[0].tolist()) for n in range(4)}))
print([r["kernel"] for r in evotune_torch.measure("spmv_own", [args], rounds=7)])
try:
    find("spmv_own").arguments({"M": 7, "NNZ": 33}, "cpu")
except RuntimeError as e:
    print(e)`)
	if !strings.HasSuffix(got, "torch.int32 True 0 33 tensor(True) 4\n['spmv-own']\nspmv-own"+why) {
		t.Error(got)
	}
}

// torchPython is a Python that has PyTorch, for tests of the long set.
func torchPython(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), p, "-c", "import torch").Run() == nil {
			return p
		}
	}
	t.Fatal("no python3 has torch: apt-get install python3-torch libtorch-dev ninja-build")
	return ""
}

// TestTorchFormulasLong holds what PyTorch computes built-in kernels with against their references,
// which say what the kernels compute.
func TestTorchFormulasLong(t *testing.T) {
	longtest.Long(t, "it starts PyTorch")
	python := torchPython(t)
	cat, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	type shape struct {
		Name    string             `json:"name"`
		Dims    map[string]int64   `json:"dims"`
		Axes    map[string][]int64 `json:"axes"`
		Scalars []float64          `json:"scalars"`
		// Made are the contents of buffers whose data have a structure.
		Made map[string][]float64 `json:"made"`
	}
	type kernel struct {
		Kernel  string           `json:"kernel"`
		Symbol  string           `json:"symbol"`
		Dims    []string         `json:"dims"`
		Buffers []kernels.Buffer `json:"buffers"`
		Scalars []string         `json:"scalars"`
		Shapes  []shape          `json:"shapes"`
	}
	var spec []kernel
	files := map[string][]byte{}
	args := []string{"-O1", "-shared", "-fPIC", "-o", "libreference.so"}
	count := 0
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		p := newProblem(d, &d.Problem)
		k := kernel{Kernel: name, Symbol: p.ReferenceSymbol(), Dims: p.Dims, Buffers: p.Problem.Buffers, Scalars: []string{}}
		for _, s := range p.Scalars {
			k.Scalars = append(k.Scalars, s.Name)
		}
		for _, s := range slices.Concat(p.ShapesFor(kernels.Sanitize), p.ShapesFor(kernels.Verify)) {
			one := shape{Name: s.Name, Dims: s.Dims, Axes: map[string][]int64{}, Made: map[string][]float64{}}
			if one.Scalars, err = p.Problem.ScalarValues(s); err != nil {
				t.Fatal(err)
			}
			if work, err := p.Operations(s); err != nil || work > 1e9 {
				continue // the reference would take long
			}
			for _, b := range p.Problem.Buffers {
				if one.Axes[b.Name], err = p.Axes(b, s); err != nil {
					t.Fatal(err)
				}
				if b.Data.Made() {
					if one.Made[b.Name], err = p.Made(b, s, 1); err != nil {
						t.Fatal(err)
					}
				}
			}
			k.Shapes = append(k.Shapes, one)
			count++
		}
		if len(k.Shapes) < 2 {
			t.Errorf("%s has %d shapes to compare at", name, len(k.Shapes))
		}
		spec = append(spec, k)
		files[name+".c"] = []byte((&export{}).referenceC(p))
		args = append(args, name+".c")
	}
	if files["spec.json"], err = json.Marshal(spec); err != nil {
		t.Fatal(err)
	}
	if files["formulas.py"], err = sources.ReadFile("files/torch/formulas.py"); err != nil {
		t.Fatal(err)
	}
	if files["formulas_test.py"], err = os.ReadFile(filepath.Join("testdata", "formulas_test.py")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFiles(t, dir, files)
	run(t, dir, "gcc", append(args, "-lm")...)
	out := run(t, dir, python, "formulas_test.py", "formulas.py", "./libreference.so", "spec.json")
	if !strings.HasPrefix(out, fmt.Sprintf("compared %d, derivatives ", count)) || strings.HasSuffix(out, " 0\n") {
		t.Error(out)
	}
	t.Log(out)
}

// winnerWith makes a winner at a shape that has a value of the parameter U.
func winnerWith(t *testing.T, d *kernels.Definition, shape, candidate, u string) *Winner {
	t.Helper()
	d = d.On("cpu")
	s, err := d.Problem.Shape(shape)
	if err != nil {
		t.Fatal(err)
	}
	device := evaluator.Device{Name: `A "B" C`, Kind: "cpu", Fingerprint: "f00d", Facts: map[string]string{"architecture": "any"}}
	for seed := range int64(100) {
		if w := proven(t, d, d.Implementations, s, device, nil, candidate, rand.New(rand.NewSource(seed))); fmt.Sprint(w.Evidence.Genome["U"]) == u {
			return w
		}
	}
	t.Fatalf("no genome of %s has U = %s", d.Name, u)
	return nil
}

var torchOut = flag.String("torch.out", "", "TestTorchOperatorsLong: the folder to write its library to and to keep it in")

// TestTorchOperatorsLong builds a library for processors with its operators and runs its tests,
// and others, in PyTorch.
func TestTorchOperatorsLong(t *testing.T) {
	longtest.Long(t, "it compiles PyTorch's headers")
	python := torchPython(t)
	var winners []*Winner
	for i, name := range []string{"attention", "conv2d", "rmsnorm", "sgemm", "softmax", "rmsnorm-residual"} {
		winners = append(winners, winnerOf(t, name, fmt.Sprintf("c0ffee%02d", i), int64(i+3)))
	}
	for i, d := range ownKernels(t) {
		if d.Name == "turns" { // a slow winner and a fast one, which was tuned far away
			winners = append(winners, winnerWith(t, d, "N=4000", "510e", "2"), winnerWith(t, d, "N=40", "fa57", "1"))
			continue
		}
		winners = append(winners, winnerFrom(t, d, fmt.Sprintf("beef%02d", i), 1))
	}
	dir := *torchOut
	if dir == "" {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, "library")
	writeFiles(t, dir, mustExport(t, winners, toC))
	writeFiles(t, filepath.Join(dir, "..", "second"), mustExport(t, []*Winner{winnerOf(t, "softmax", "feed", 9)}, toC))
	test, err := os.ReadFile(filepath.Join("testdata", "torch_test.py"))
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, filepath.Join(dir, "torch"), map[string][]byte{"torch_test.py": test})
	t.Setenv("EVOTUNE_TORCH_CACHE", filepath.Join(dir, "cache"))
	for _, file := range []string{"test_ops.py", "torch_test.py"} {
		out := run(t, filepath.Join(dir, "torch"), python, file, "-v")
		t.Log(out)
		if !strings.Contains(out, "\nOK") {
			t.Errorf("%s did not end well", file)
		}
	}
}
