package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/internal/longtest"
)

// The worker's own C, with a driver that notes what it is asked for: which launches have
// attributes, what a tensor map is made of, and that in a graph nothing goes on before all
// kernels of a call have ended.
func TestCallsOfTheDriverLong(t *testing.T) {
	longtest.Long(t, "it needs CUDA's headers")
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatalf("there is no gcc: %v", err)
	}
	if text, err := exec.Command(gcc, "-I/usr/local/cuda/include", "-E", "-include", "cuda.h", "-x", "c", os.DevNull).CombinedOutput(); err != nil {
		t.Fatalf("there is no cuda.h: run scripts/setup-cuda-debian.sh: %s", strings.SplitN(string(text), "\n", 2)[0])
	}
	source, err := os.ReadFile("driver.go")
	if err != nil {
		t.Fatal(err)
	}
	_, preamble, _ := strings.Cut(string(source), "/*\n")
	preamble, _, found := strings.Cut(preamble, "*/\nimport \"C\"")
	if !found {
		t.Fatal("driver.go has no preamble")
	}
	var lines []string
	for line := range strings.Lines(preamble) {
		if !strings.HasPrefix(line, "#cgo") {
			lines = append(lines, line)
		}
	}
	test, err := os.ReadFile(filepath.Join("testdata", "driver.c"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, program := filepath.Join(dir, "driver.c"), filepath.Join(dir, "driver")
	if err := os.WriteFile(file, []byte(strings.Replace(string(test), "\nPREAMBLE\n", "\n"+strings.Join(lines, "")+"\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(gcc, "-D_GNU_SOURCE", "-I/usr/local/cuda/include", "-O1", "-Wall", "-Wno-unused-function", "-Werror", "-rdynamic", "-o", program, file, "-ldl")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	out, err := exec.Command(program).CombinedOutput() // the worker moves standard output away
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const (
		same  = " grid 6 4 2 block 128 2 1 shared 1024 stream 5 arguments 40"
		pair  = "launch-ex 1" + same + ": cluster 2 4 1\nlaunch 2" + same + "\n"
		apart = "launch-ex 1" + same + ": cluster 2 4 1\nlaunch-ex 2" + same + ": dependent 1\n"
		all   = "launch-ex 1" + same + ": cluster 2 2 2 cooperative 1\n"
		large = "launch-ex 13" + same + ": cooperative 1\ncuLaunchKernelEx gives 720\n"
	)
	want := "plain\nlaunch 1" + same + "\nplain, captured\nlaunch 1" + same + "\n" +
		"pair\n" + pair + "pair, captured\n" + pair +
		"dependent\n" + apart + "dependent, captured\n" + apart +
		"empty node of graph 7 behind 101 102\nstream 5 goes on behind 1000, 1 in all, flags 1\n" +
		"all\n" + all + "all, captured\n" + all + "large\n" + large + "large, captured\n" + large +
		"alone\n" + apart + "wait\n" +
		"tile\nmap 128 type 9 at 4096 interleave 0 swizzle 3 promotion 2 fill 1: 64/64/1 32/8/1 8/1/1 +128 +4096\n1 0\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The kernels of the tests on a GPU, and the harness, compile: with any nvcc for any
// device, and what needs Hopper with one that knows it.
func TestKernelsOfTheGPUTestsLong(t *testing.T) {
	longtest.Long(t, "it compiles CUDA")
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Fatalf("nvcc is not installed: run scripts/setup-cuda-debian.sh: %v", err)
	}
	kernels := filepath.Join("gputest", "testdata")
	common := []string{filepath.Join(kernels, "candidates.cu"), filepath.Join(kernels, "reference.cu"), filepath.Join("..", "..", "evaluator", "cuda", "harness.cu")}
	compile := func(nvcc, arch, file string) (string, error) {
		target := "arch=compute_" + arch + ",code=sm_" + arch
		text, err := exec.CommandContext(t.Context(), nvcc, "-O3", "-gencode", target, "-cubin", "-o", filepath.Join(t.TempDir(), "k.cubin"), file).CombinedOutput()
		return string(text), err
	}
	for _, file := range common {
		if text, err := compile(nvcc, "80", file); err != nil {
			t.Errorf("%s for sm_80: %v\n%s", file, err, text)
		}
	}
	newer, err := filepath.Glob("/usr/local/cuda*/bin/nvcc")
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "k.cu")
	if err := os.WriteFile(empty, []byte("__global__ void k() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, nvcc := range append([]string{nvcc, filepath.Join(os.Getenv("CUDA_HOME"), "bin", "nvcc")}, newer...) {
		if _, err := compile(nvcc, "90a", empty); err != nil {
			continue // it does not know the architecture, or is not there
		}
		for _, file := range append(common, filepath.Join(kernels, "hopper.cu")) {
			if text, err := compile(nvcc, "90a", file); err != nil {
				t.Errorf("%s for sm_90a: %v\n%s", file, err, text)
			}
		}
		return
	}
	t.Error("no nvcc here compiles for sm_90a: run scripts/setup-cuda-debian.sh, or set CUDA_HOME to a newer toolkit")
}
