package cuda

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// A pickyCompiler refuses sources with a word.
type pickyCompiler struct {
	fakeCompiler
	word   string
	closed *bool
}

func (c pickyCompiler) identity() string { return "picky " + c.word }
func (c pickyCompiler) close()           { *c.closed = true }

func (c pickyCompiler) compile(ctx context.Context, u unit) (compiled, error) {
	if c.word != "" && strings.Contains(u.source, c.word) {
		return compiled{}, &labs.Refusal{Summary: "kernel.cu(1): error: cannot open source file \"float.h\""}
	}
	return c.fakeCompiler.compile(ctx, u)
}

// TestFitCompiler: where the faster compiler refuses the baseline or the reference, the one that takes them compiles, and
// the lab says so.
func TestFitCompiler(t *testing.T) {
	plan := fakePlan(t)
	for _, c := range []struct {
		name          string
		first, second string // what the compilers refuse
		missing       error  // the second is not there
		says          string // about the tool that is not used
		takesSecond   bool
	}{
		{"takes both", "", "", nil, "", false},
		{"refuses the baseline", "const float *x", "", nil, "nvrtc: it does not compile this kernel (kernel.cu(1): error: cannot open source file \"float.h\"): nvcc compiles instead", true},
		{"refuses the reference", "const double *x", "", nil, "nvrtc: it does not compile this kernel", true},
		{"both refuse", "const float *x", "const float *x", nil, "", false},
		{"there is no other", "const float *x", "", errors.New("nvcc was not found"), "nvcc: the compiler of the tests does not compile the kernel (kernel.cu(1): error: cannot open source file \"float.h\"), and nvcc cannot be tried: nvcc was not found", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept, err := cache.New(t.TempDir(), 0)
			if err != nil {
				t.Fatal(err)
			}
			l := process.NewLauncher()
			t.Cleanup(l.Close)
			h := newLab(&labs.Base{Scratch: t.TempDir(), Plan: plan, Cache: kept, Launcher: l, Log: slog.New(slog.DiscardHandler)}, fakeOptions(t))
			if h.problem, err = newProblem(plan); err != nil {
				t.Fatal(err)
			}
			var closed [2]bool
			h.compiler = pickyCompiler{word: c.first, closed: &closed[0]}
			second := pickyCompiler{word: c.second, closed: &closed[1]}
			err = h.fitCompiler(t.Context(), wire.Device{Capability: 90}, func() (compiler, error) { return second, c.missing })
			if err != nil {
				t.Fatal(err)
			}
			if took := h.compiler == compiler(second); took != c.takesSecond || closed[0] != took {
				t.Errorf("the second compiles: %t, closed %v", took, closed)
			}
			var said string
			for _, tool := range h.Desc.Tools {
				said += tool.Name + ": " + tool.Missing
			}
			if !strings.HasPrefix(said, c.says) || (c.says == "") != (said == "") {
				t.Errorf("it says %q, want %q", said, c.says)
			}
		})
	}
}

// TestHeaderBesideCUDALong: with NVRTC, evotune's header declares nothing that CUDA's own headers declare otherwise.
func TestHeaderBesideCUDALong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	d := fakeDefinition(t)
	header := kernels.Header(&d.Problem, d.Implementations[0])
	_, _, found := compilers(t)
	list := map[string]compiler{"found": found["nvrtc"], "newer": hopperCompilers(t)["nvrtc"].compiler}
	for age, c := range list {
		if c == nil {
			t.Errorf("the %s NVRTC is not here: scripts/setup-cuda-debian.sh installs it", age)
			continue
		}
		for _, name := range []string{"cuda/pipeline", "cuda/std/type_traits", "cuda/std/cstdint", "curand_kernel.h", "cooperative_groups.h", "cooperative_groups/memcpy_async.h", "cuda_pipeline.h"} {
			u := unit{
				source: "#include \"" + kernels.HeaderFile + "\"\n#include <" + name + ">\nextern \"C\" __global__ void fake(int64_t N, const float *x, float *y) { y[0] = x[0] + sizeof(uint64_t); }\n",
				files:  map[string]string{kernels.HeaderFile: header}, arch: "sm_80",
			}
			if _, err := c.compile(t.Context(), u); err != nil {
				t.Errorf("%s, <%s>: %v", c.version(), name, logOf(err))
			}
		}
	}
}

// TestIncludesOfDevices: NVRTC looks where CUDA 13 has its headers of C++.
func TestIncludesOfDevices(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"lib64/libnvrtc.so", "include/cuda_fp16.h", "include/cccl/cuda/std/type_traits"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := process.NewLauncher()
	t.Cleanup(l.Close)
	kit := findToolkit(t.Context(), Options{NVRTC: filepath.Join(root, "lib64/libnvrtc.so"), NVCC: "/none/bin/nvcc"}, l)
	want := []string{filepath.Join(root, "include"), filepath.Join(root, "include/cccl")}
	if len(kit.includes) < 2 || !slices.Equal(kit.includes[:2], want) {
		t.Errorf("the folders are %q, want %q first", kit.includes, want)
	}
}
