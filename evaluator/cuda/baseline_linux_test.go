package cuda

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// TestLibraryOrGenome: where a genome may stand in for a library, the library computes the baseline
// of the tuned shapes that it knows, the genome that of all others, and the lab says which and why.
func TestLibraryOrGenome(t *testing.T) {
	const genome, library = "fake with its baseline genome", "attention of libcudnn.so 9.9.9"
	file := filepath.Join(t.TempDir(), "libcudnn.so.9")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	with := strings.Replace(fakeKernel, "[implementation.baseline]\n", "[implementation.baseline]\nlibrary = \"libcudnn.so:attention\"\n", 1)
	with = strings.Replace(with, `name = "odd"
dims = { N = 1001 }
use = "verify"`, `name = "odd"
dims = { N = 1001 }
use = "tune"`, 1)
	plan := planOf(fakeFrom(t, with, "y[i] = 2 * x[i]", "const double *x"))
	for _, c := range []struct {
		name, cudnn, env string
		says, missing    string
		by               []string // the tuned shapes that the routine computes
	}{
		{"there", file, "", library, "", []string{"tuned", "odd"}},
		{"one shape", file, "EVOTUNE_FAKE_REFUSES=odd", library + "; at odd " + genome, "", []string{"tuned"}},
		{"no shape", file, "EVOTUNE_FAKE_REFUSES=all", genome, "not this one", nil},
		{"not wanted", withoutCUDNN, "", genome, "TUNE_CUDA_CUDNN is none", nil},
		{"broken", file, "EVOTUNE_FAKE_ROUTINE=fails", genome, "no such library", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TUNE_CUDA_CUDNN", c.cudnn)
			var env []string
			if c.env != "" {
				env = append(env, c.env)
			}
			h, ordeal := openFakePlan(t, fakeOptions(t, env...), plan)
			d := ordeal.Describe()
			if d.Baseline != c.says {
				t.Errorf("the baseline is %q, want %q", d.Baseline, c.says)
			}
			i := slices.IndexFunc(d.Tools, func(e evaluator.Tool) bool { return e.Name == "cudnn" })
			if i < 0 || !strings.Contains(d.Tools[i].Missing, c.missing) || (c.missing == "") != (d.Tools[i].Missing == "") {
				t.Errorf("of the library: %+v", d.Tools)
			}
			for _, s := range h.problem.shapes() {
				b := h.baselineOf(s)
				if got := b != nil && b.routine == "cudnn:attention"; got != slices.Contains(c.by, s.shape.Name) {
					t.Errorf("shape %s: by the routine: %t", s.shape.Name, got)
				}
			}
			r, err := ordeal.Evaluate(t.Context(), fakeGenome(t, "nothing", 1), 0)
			if err != nil || r.Verdict != evaluator.Correct {
				t.Errorf("a candidate is %s, %v: %s", r.Verdict, err, r.Reason)
			}
		})
	}
}

func TestRoutineName(t *testing.T) {
	for _, c := range []struct{ library, symbol, want string }{
		{"libcublas.so", "gemm", "cublas:gemm"},
		{"libcublas.so.12", "gemm", "cublas:gemm"},
		{"libcublasLt.so", "matmul_nt_bias_gelu", "cublasLt:matmul_nt_bias_gelu"},
		{"/opt/lib/libcublasLt.so.13", "matmul_nn", "cublasLt:matmul_nn"},
		{"libcudnn.so", "attention", "cudnn:attention"},
	} {
		if got := routineName(&kernels.Baseline{Library: c.library, Symbol: c.symbol}); got != c.want {
			t.Errorf("%s:%s is %s, want %s", c.library, c.symbol, got, c.want)
		}
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"9.19.0", "9.14.0", true}, {"9.9.0", "9.14.0", false}, {"9.14.0", "9.14.0", false}, {"10.0.0", "9.14.0", true}, {"9.14.1", "9.14.0", true}} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("%s newer than %s: %t", c.a, c.b, got)
		}
	}
}

func TestVendorLibrary(t *testing.T) {
	dir := t.TempDir()
	lt := filepath.Join(dir, "libevotunetestLt.so.12")
	if err := os.WriteFile(lt, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tools := &toolkit{libraries: []string{filepath.Join(dir, "libnvrtc.so.12")}}
	if got := vendorLibrary(tools, "evotunetestLt"); got != lt {
		t.Errorf("found %q, want %q", got, lt)
	}
	if got := vendorLibrary(tools, "evotunetest"); got != "" {
		t.Errorf("%q was taken for another library", got)
	}
}

// TestPythonPackages: NVIDIA's packages of the python3 on the PATH are found, also in an environment of its own.
func TestPythonPackages(t *testing.T) {
	env := t.TempDir()
	want := filepath.Join(env, "lib", "python3.12", "site-packages", "nvidia", "cudnn")
	for _, dir := range []string{want, filepath.Join(env, "bin")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/bin/true", filepath.Join(env, "bin", "python3")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(env, "bin"))
	t.Setenv("VIRTUAL_ENV", "")
	if got := pythonPackages(); !slices.Contains(got, want) {
		t.Errorf("%s is not among %q", want, got)
	}
}
