package cuda

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/ptx"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

const tritonKernel = `import triton
import triton.language as tl


@triton.autotune([], key=["N"])
@triton.jit
def fake(x_ptr, y, N,
         DO: tl.constexpr, SALT: tl.constexpr, BLOCK: tl.constexpr, LAST: tl.constexpr = 3):
    at = tl.program_id(0) * BLOCK
    tl.store(y + at, 2 * tl.load(x_ptr + at))
`

// tritonDefinition is the fake kernel in Triton.
func tritonDefinition(tb testing.TB) *kernels.Definition {
	tb.Helper()
	text := strings.NewReplacer(
		"template = \"fake.cu.tmpl\"", "template = \"fake.py\"\nlanguage = \"triton\"", "blocking = ['this must not be']\n", "",
		"block = [\"BLOCK\"]\n", "", "values = [%s]", `values = [%s, "compile=die", "compile=hang", "compile=scratch", "compile=more", "compile=large"]`,
		"[implementation.launch]", "[[implementation.parameter]]\nname = \"num_warps\"\nvalues = [4, 8]\n\n[implementation.launch]",
		"BLOCK = 64 }", "BLOCK = 64, num_warps = 4 }",
		// So that SALT is all that differs between two that do the same.
	).Replace(fakeKernel)
	return fakeFiles(tb, text, map[string]string{
		"fake.py":     tritonKernel,
		"reference.c": "#include <stdint.h>\nvoid reference(int64_t N, const double *x, double *y)\n{\n\tfor (int64_t i = 0; i < N; i++)\n\t\ty[i] = 2 * x[i];\n}\n",
	})
}

// withTriton puts the tests' own Triton on Python's path.
func withTriton(tb testing.TB) {
	tb.Helper()
	if process.Landlock() == 0 {
		tb.Skip(process.NoLandlock)
	}
	dir, err := filepath.Abs(filepath.Join("testdata", "triton"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Setenv("PYTHONPATH", dir)
}

// TestTriton: candidates in Triton pass the same stages, with the launch that Triton says,
// and are always tried with delays.
func TestTriton(t *testing.T) {
	withTriton(t)
	t.Setenv("TRITON_INTERPRET", "1")
	d := tritonDefinition(t)
	o := fakeOptions(t)
	h, ev := openFakePlan(t, o, planOf(d))
	i := slices.IndexFunc(h.Desc.Tools, func(t evaluator.Tool) bool { return t.Name == "triton" })
	if i < 0 || !strings.HasPrefix(h.Desc.Tools[i].Version, "Triton 3.6.0+tests (Python 3.") || !strings.Contains(h.Desc.Compiler, "Triton 3.6.0+tests") {
		t.Fatalf("tools %+v, compiler %s", h.Desc.Tools, h.Desc.Compiler)
	}
	space, err := d.Space(d.Implementations, d.Problem.ShapesFor(kernels.Tune), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		do        string
		verdict   evaluator.Verdict
		reason    string
		schedules string // in its evidence
	}{
		{"nothing", evaluator.Correct, "", "no fault in 20 launches at each of the shapes small, odd, with random delays at 3 places (st.global 1)"},
		{"parity=wrong", evaluator.Parity, "parity small seed 1: output y: error 0.5", ""},
		{"schedules=different", evaluator.Sanitizer, "schedules: shape odd: not the same answer twice: 2 elements differ", "with random delays"},
		{"schedules=unbearable", evaluator.Sanitizer, "schedules: its PTX can be assembled, and with delays it cannot: ptxas kernel.ptx, line 9", "the fake refuses"},
		{"memcheck=report", evaluator.Sanitizer, "memcheck: ", ""},
		{"compile=error", evaluator.Compile, "kernel.py:10: error: [16] and [32]", ""},
		{"compile=die", evaluator.Compile, "Triton's process ended: libtriton: assertion failed", ""},
		{"compile=scratch", evaluator.Compile, "kernel.py: error: it needs 128 bytes of scratch memory for each program", ""},
		{"compile=large", evaluator.Compile, "it needs 262144 bytes of shared memory, and a block has at most 232448", ""},
		{"compile=more", evaluator.Correct, "", "no fault"},
		{"compile=hang", evaluator.Compile, "Triton did not end within 1s", ""},
		{"time=fast", evaluator.Implausible, "floor tuned", "no fault"},
	} {
		t.Run(c.do, func(t *testing.T) {
			g, err := space.FromMap(map[string]any{"DO": c.do, "SALT": 3, "BLOCK": 64, "num_warps": 8})
			if err != nil {
				t.Fatal(err)
			}
			usual := h.triton.timeout
			if c.do == "compile=hang" {
				h.triton.timeout = time.Second
			}
			r := evaluate(t, ev, g)
			h.triton.timeout = usual
			if r.Verdict != c.verdict || !strings.HasPrefix(r.Reason, c.reason) {
				t.Errorf("%s: %q", r.Verdict, r.Reason)
			}
			if e, _ := findEvidence(r, schedules); !strings.Contains(e.Detail, c.schedules) {
				t.Errorf("schedules: %+v", e)
			}
			if c.verdict != evaluator.Correct {
				return
			}
			// An export finds the code that was judged.
			rendered, err := d.Implementations[0].Render(g)
			if err != nil {
				t.Fatal(err)
			}
			code, compiler, err := CompileTriton(o, rendered, h.gpus[0].device.Capability)
			e, _ := findEvidence(r, evaluator.MachineCode)
			if err != nil || !strings.HasPrefix(code.Name, "SHA-256 ") || code.Name != e.Detail || compiler != h.triton.version() {
				t.Errorf("%v: %s calls it %s, the evidence %+v", err, compiler, code.Name, e)
			}
		})
	}
}

// TestWithoutTriton: one line says what to do.
func TestWithoutTriton(t *testing.T) {
	b, err := New(fakeOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.open(t.Context(), planOf(tritonDefinition(t)))
	const want = "has no triton: install it (pip install triton), or name another Python with EVOTUNE_PYTHON"
	if !errors.Is(err, ErrNoCompiler) || !strings.HasPrefix(err.Error(), "no CUDA compiler: implementation fake is in Triton: /") || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// tritonUnit is the baseline of the fake kernel for one architecture.
func tritonUnit(tb testing.TB, arch string) unit {
	tb.Helper()
	d := tritonDefinition(tb)
	r, err := d.Implementations[0].RenderBaseline(d.Problem.ShapesFor(kernels.Tune)[0])
	if err != nil {
		tb.Fatal(err)
	}
	return unit{source: r.Source, triton: r.Triton, arch: arch}
}

// TestTritonIsAssembledLong: the real ptxas takes what comes out of Triton with other
// parameters, with lines and with delays, and the code is the same every time.
func TestTritonIsAssembledLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	l, tools, _ := compilers(t)
	withTriton(t)
	if tools.ptxas == "" {
		t.Fatal("no ptxas is here: scripts/setup-cuda-debian.sh installs it")
	}
	c, err := cache.New(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := newTriton(t.Context(), tools, l, c, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	version, err := labs.Version(t.Context(), l, tools.ptxas)
	if err != nil {
		t.Fatal(err)
	}
	n.ptxas.path, n.ptxas.text = tools.ptxas, version
	u := tritonUnit(t, "sm_80")
	out, err := n.compile(t.Context(), u)
	if err != nil {
		t.Fatal(logOf(err))
	}
	var r resources
	if err := r.readCubin(out.Cubin, kernels.TritonKernel); err != nil || r.registers == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if *out.Launched != (fixedLaunch{Threads: 128, Shared: 4096}) {
		t.Errorf("it is launched with %+v", *out.Launched)
	}
	if !bytes.Contains(out.Cubin, []byte(".debug_line")) {
		t.Error("the code has no lines")
	}
	if again, err := n.compile(t.Context(), u); err != nil || !bytes.Equal(again.Cubin, out.Cubin) {
		t.Errorf("it is compiled to something else the second time: %v", err)
	}
	text, err := n.ptx(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	d, err := ptx.Delay(text, true, nil, nil)
	if err != nil || d.String() != "delays at 3 places (st.global 1)" {
		t.Errorf("%s, %v", d, err)
	}
	u.plain = true
	late, err := n.assemble(t.Context(), d.Text, u)
	if err != nil {
		t.Fatal(logOf(err))
	}
	if bytes.Contains(late.Cubin, []byte(".debug_line")) {
		t.Error("the code with delays has lines")
	}
	if _, err := os.Stat(n.idle[0].dir); err != nil {
		t.Error(err)
	}
}
