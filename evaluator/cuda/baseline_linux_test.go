package cuda

import (
	"errors"
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
	const genome = "fake with its baseline genome"
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
		{"there", file, "", "attention of libcudnn.so 9.9.9 (at shapes that are not tuned: " + genome + ")", "", []string{"tuned", "odd"}},
		{"one shape", file, "EVOTUNE_FAKE_REFUSES=odd", "attention of libcudnn.so 9.9.9 (at odd, shapes that are not tuned: " + genome + ")", "", []string{"tuned"}},
		{"no shape", file, "EVOTUNE_FAKE_REFUSES=all", genome, "not this one", nil},
		{"not wanted", withoutCUDNN, "", genome, "TUNE_CUDA_CUDNN is none", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TUNE_CUDA_CUDNN", c.cudnn)
			var env []string
			if c.env != "" {
				env = append(env, c.env)
			}
			o := fakeOptions(t, env...)
			o.Sanitizers = []string{"none"}
			h, ordeal := openFakePlan(t, o, plan)
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

// TestBestLibrary: of several files that which computes most of the tuned shapes is taken, and else the newest; one
// that is named and cannot be used is an error.
func TestBestLibrary(t *testing.T) {
	with := strings.Replace(fakeKernel, "[implementation.baseline]\n", "[implementation.baseline]\nlibrary = \"libcudnn.so:attention\"\n", 1)
	plan := planOf(fakeFrom(t, with, "y[i] = 2 * x[i]", "const double *x"))
	for _, c := range []struct {
		name  string
		files []string // what they contain tells the fake worker of what version they are
		want  string
	}{
		{"newest", []string{"9.9.0", "9.19.0", "9.14.0"}, "9.19.0"},
		{"able", []string{"9.21.0 refuses", "9.14.0"}, "9.14.0"},
		{"broken", []string{"fails", "9.14.0"}, "9.14.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var folders []string
			for _, text := range c.files {
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "libcudnn.so.9"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				folders = append(folders, dir)
			}
			t.Setenv("LD_LIBRARY_PATH", strings.Join(folders, ":"))
			t.Setenv("TUNE_CUDA_CUDNN", "")
			o := fakeOptions(t)
			o.Sanitizers = []string{"none"}
			_, ordeal := openFakePlan(t, o, plan)
			if d := ordeal.Describe(); !strings.HasPrefix(d.Baseline, "attention of libcudnn.so "+c.want+" (") {
				t.Errorf("the baseline is %s, want that of version %s", d.Baseline, c.want)
			}
		})
	}
	t.Run("another library", func(t *testing.T) {
		t.Setenv("TUNE_CUDA_CUDNN", withoutCUDNN) // which is not asked about
		plan := planOf(fakeFrom(t, strings.Replace(with, "libcudnn.so:attention", "libcublasLt.so:matmul_nn", 1), "y[i] = 2 * x[i]", "const double *x"))
		_, ordeal := openFakePlan(t, fakeOptions(t), plan)
		if d := ordeal.Describe(); !strings.HasPrefix(d.Baseline, "matmul_nn of libcublasLt.so 13.1.0 (") {
			t.Errorf("the baseline is %s", d.Baseline)
		}
	})
	file := filepath.Join(t.TempDir(), "libcudnn.so.9")
	if err := os.WriteFile(file, []byte("fails"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TUNE_CUDA_CUDNN", file)
	b, err := New(fakeOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = b.open(t.Context(), plan); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "no such library") || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that cannot be used: %v", err)
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
	if got := pythonPackages(pythonPrefix()...); !slices.Contains(got, want) {
		t.Errorf("%s is not among %q", want, got)
	}
}
