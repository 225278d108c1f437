package export

import (
	"fmt"
	"math/rand"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

const tritonDefinition = `format = 1
name = "rows"
description = "twice each row"

[problem]
dims = ["M", "N"]
bytes = "8*M*N"

[problem.reference]
python = "reference.py"
entry = "reference"

[[problem.shape]]
name = "large"
dims = { M = 64, N = 512 }
use = "tune"

[[problem.shape]]
name = "odd"
dims = { M = 3, N = 96 }
use = "verify"

[[problem.shape]]
name = "small"
dims = { M = 2, N = 64 }
use = "sanitize"

[[problem.buffer]]
name = "x"
dtype = "f32"
shape = ["M", "N"]
role = "in"
data = "normal(0,1)"

[[problem.buffer]]
name = "y"
dtype = "f32"
shape = ["M", "N"]
role = "out"

[problem.tolerance]
f32 = 1e-5

[[problem.control]]
kind = "zeros"

[[implementation]]
name = "main"
language = "triton"
backend = "cuda"
target = "sm_80"
template = "kernel.py"
entry = "twice"

[implementation.launch]
grid = ["ceil(M/ROWS)", "2"]

[[implementation.parameter]]
name = "ROWS"
values = [1, 4]

[[implementation.parameter]]
name = "num_warps"
values = [4, 8]

[[implementation.constraint]]
expr = "N % 16 == 0"
why = "wide loads"

[implementation.baseline]
genome = { ROWS = 1, num_warps = 4 }
`

// tritonWinner is a winner in Triton, whose code was judged on a device.
func tritonWinner(t *testing.T, code []byte) *Winner {
	t.Helper()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	d, err := kernels.Load(fstest.MapFS{
		"rows/kernel.toml":  file(tritonDefinition),
		"rows/reference.py": file("def reference(x):\n    return 2 * x\n"),
		"rows/kernel.py":    file("import triton\nimport triton.language as tl\n\n@triton.jit\ndef twice(x, y, M, N, ROWS: tl.constexpr):\n    pass\n"),
	}, "rows")
	if err != nil {
		t.Fatal(err)
	}
	w := cudaWinner(t, d, d.Implementations[0], d.Problem.Shapes[0], rand.New(rand.NewSource(3)))
	w.Evidence.Result.Steps = append(w.Evidence.Result.Steps, evaluator.Step{
		Stage: evaluator.StageInspect, Outcome: evaluator.Passed,
		Evidence: []evaluator.Evidence{{Check: evaluator.MachineCode, Outcome: evaluator.Passed, Detail: string(code)}},
	})
	return w
}

const tritonProgramC = `
#include <stdio.h>
#include "evotune.h"
int main(void)
{
	struct evotune_choice c;
	printf("prepare %d\n", evotune_prepare());
	const int64_t rows[] = {64, 3, 3, INT64_C(1) << 31}, cols[] = {512, 96, 97, 16};
	for (int i = 0; i < 4; i++) {
		const int status = evotune_rows_choice(rows[i], cols[i], &c);
		printf("choice %d %s\n", status, c.candidate);
		printf("rows %d\n", evotune_rows(rows[i], cols[i], (const float *)4096, (float *)8192, NULL, 0, (evotune_stream)7));
	}
	return 0;
}
`

// TestTriton: a winner in Triton leaves as the code that was judged, with the launch that
// Triton says, for its architecture alone, and without nvcc.
func TestTriton(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: nothing was launched")
	}
	t.Setenv("PATH", filepath.Dir(cc)+":/usr/bin:/bin")
	code := func(r kernels.Rendered) []byte { return fmt.Appendf(nil, "code of %s\n", r.Genome) }
	w := tritonWinner(t, nil)
	w = tritonWinner(t, code(w.Rendered))
	o := Options{Lang: CUDA, By: "test", NVCC: "/nowhere/nvcc", Triton: func(r kernels.Rendered, capability int) (TritonCode, error) {
		if capability != 90 {
			t.Errorf("it is compiled for %d", capability)
		}
		threads := 32 * r.Triton.Options["num_warps"].(int64)
		return TritonCode{Code: code(r), Name: string(code(r)), Threads: threads + 128, Shared: 4096, Compiler: "Triton 3.6.0", Capability: capability}, nil
	}}
	files, err := Export([]*Winner{w}, o)
	if err != nil {
		t.Fatal(err)
	}
	id := w.Evidence.Candidate
	if string(files[id+".cubin"]) != string(code(w.Rendered)) || !strings.Contains(string(files["manifest.json"]), `"embedded": "Triton 3.6.0"`) {
		t.Errorf("the code is %q, manifest\n%s", files[id+".cubin"], files["manifest.json"])
	}
	if text := string(files["src/kernels/rows_"+id+".py"]); !strings.HasPrefix(text, "# rows, "+id+"\n# ROWS=") || !strings.HasSuffix(text, w.Rendered.Source) {
		t.Errorf("the source is\n%s", text)
	}
	dir := t.TempDir()
	writeFiles(t, dir, files)
	writeFiles(t, dir, map[string][]byte{"fake/libcuda.c": []byte(standInDriver + plainLaunch), "program.c": []byte(tritonProgramC)})
	strict := []string{"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Isrc"}
	run(t, dir, cc, append(strict, "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", "fake/libcuda.so.1", "fake/libcuda.c")...)
	run(t, dir, cc, slices.Concat(strict, []string{"-pthread", "-o", "program", "program.c"}, sourcesIn(files), []string{"-lm", "-ldl"})...)
	on := func(name, capability string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
		cmd.Env = []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "fake"), "FAKE_CAPABILITY=" + capability, "FAKE_NAME=" + name}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	rows, _ := w.Rendered.Genome.Get("ROWS")
	warps, _ := w.Rendered.Genome.Get("num_warps")
	launch := func(m, n int64) string {
		r := rows.Any().(int64)
		return fmt.Sprintf("choice 0 %s\nlaunch code of %s at %d,2,1,%d,1,1,4096 on 7 with %d %d 0x1000 0x2000\nrows 0\n", id, w.Rendered.Genome, (m+r-1)/r, 32*warps.Any().(int64)+128, m, n)
	}
	got := on("NVIDIA H200", "90")
	// 97 is no multiple of 16, and 2^31 has no place in 32 bits.
	if want := "prepare 0\n" + launch(64, 512) + launch(3, 96) + "choice 0 \nrows 3\nchoice 0 \nrows 3\n"; !strings.HasSuffix(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	for _, device := range [][2]string{{"NVIDIA B200", "100"}, {"NVIDIA A100", "80"}} {
		if got := on(device[0], device[1]); strings.Contains(got, "launch") || !strings.HasPrefix(got, "prepare 0\nchoice 0 \nrows 3\n") {
			t.Errorf("on %s\n%s", device[0], got)
		}
	}
}

// TestTritonIsNotTheSame: what is compiled to other code than was judged does not leave.
func TestTritonIsNotTheSame(t *testing.T) {
	w := tritonWinner(t, []byte("one"))
	o := Options{Lang: CUDA, By: "test", Triton: func(kernels.Rendered, int) (TritonCode, error) {
		return TritonCode{Code: []byte("another"), Name: "another", Threads: 128, Compiler: "Triton 3.7.0", Capability: 90}, nil
	}}
	_, err := Export([]*Winner{w}, o)
	if want := "candidate " + w.Evidence.Candidate + " of rows: Triton 3.7.0 compiles it to other code than was judged with a compiler: export it with the Triton that it was tuned with"; err == nil || err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
	o.Triton = nil
	if _, err := Export([]*Winner{w}, o); err == nil || !strings.Contains(err.Error(), "it is in Triton, which does not compile here") {
		t.Errorf("without Triton: %v", err)
	}
}
