package export

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

		"gemm-batched":   "gemm_batched(Tensor a, Tensor b) -> Tensor, leading L",
		"gemm-bf16":      "gemm_bf16(Tensor a, Tensor b) -> Tensor, leading M",
		"gemm-bias-gelu": "gemm_bias_gelu(Tensor a, Tensor b, Tensor bias) -> Tensor, leading M",
		"gemm-fp8":       "gemm_fp8(Tensor a, Tensor b) -> Tensor, leading M",
		"gemm-gated":     `none: the axis "2*N" of B is no dimension`,
		"gemm-residual":  "gemm_residual(Tensor a, Tensor b, Tensor r) -> Tensor, leading M",
		"linear":         "linear(Tensor x, Tensor w) -> Tensor, leading M",

		"layernorm": "layernorm(Tensor x, Tensor g, Tensor b) -> Tensor, leading ROWS",
		"reduce":    "reduce(Tensor x) -> Tensor, leading ROWS",
		"rmsnorm":   "rmsnorm(Tensor x, Tensor w) -> Tensor, leading ROWS",
		"sgemm":     "sgemm(Tensor a, Tensor b, int team) -> Tensor, leading M",
		"softmax":   "softmax(Tensor x) -> Tensor, leading ROWS",
		"transpose": "transpose(Tensor x) -> Tensor",
	}
	got := map[string]string{}
	for _, name := range cat.Names() {
		d, err := cat.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		op, err := newTorchOp(newProblem(d, &d.Problem))
		if err != nil {
			got[name] = "none: " + err.Error()
			continue
		}
		got[name] = op.Schema()
		if op.Leading >= 0 {
			got[name] += ", leading " + op.Dims[op.Leading]
		}
		if op.Call == "" {
			t.Errorf("%s has no operation of PyTorch's own", name)
		}
		if placeholder.MatchString(op.Call) {
			t.Errorf("%s: %q was not filled in", name, op.Call)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the schemas are\n%q, want\n%q", got, want)
	}
}

func TestTorchLeavesOut(t *testing.T) {
	buffer := func(name string, role kernels.Role, shape ...string) kernels.Buffer {
		return kernels.Buffer{Name: name, DType: kernels.F32, Role: role, Shape: shape}
	}
	for _, c := range []struct {
		name    string
		buffers []kernels.Buffer
		want    string
	}{
		{"in place", []kernels.Buffer{buffer("X", kernels.In, "N"), buffer("Y", kernels.InOut, "N")}, "it changes Y in place"},
		{"an expression", []kernels.Buffer{buffer("X", kernels.In, "2*N"), buffer("Y", kernels.Out, "N")}, `the axis "2*N" of X is no dimension`},
		{"no input", []kernels.Buffer{buffer("Y", kernels.Out, "N")}, "it has no input, or no output"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newTorchOp(&problem{Problem: &kernels.Problem{Dims: []string{"N"}, Buffers: c.buffers}, Kernel: "mine", Name: "mine"})
			if err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	// What it calls of PyTorch must be there.
	p := &problem{Problem: &kernels.Problem{Dims: []string{"N"}, Buffers: []kernels.Buffer{buffer("A", kernels.In, "N"), buffer("Y", kernels.Out, "N")}}, Kernel: "softmax", Name: "softmax"}
	op, err := newTorchOp(p)
	if err != nil {
		t.Fatal(err)
	}
	if op.Call != "" {
		t.Errorf("another kernel of the name calls %q", op.Call)
	}
}

// TestTorchPython compiles the Python of a package.
func TestTorchPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: nothing was compiled")
	}
	files, err := Export(cudaWinners(t, 2), Options{Lang: CUDA, By: "test"})
	if err != nil {
		t.Fatal(err)
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
	if len(list) != 6 {
		t.Errorf("files %q", list)
	}
	if out, err := exec.CommandContext(t.Context(), python, append([]string{"-m", "py_compile"}, list...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
