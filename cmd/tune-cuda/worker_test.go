package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/internal/longtest"
)

// fakeGPU builds the worker, a driver that has no device and a library that it runs,
// and gives what runs the worker with them.
func fakeGPU(t *testing.T) *exec.Cmd {
	t.Helper()
	longtest.Long(t, "it compiles the worker")
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
		}
		return string(out)
	}
	for _, tool := range []string{"gcc", "nm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is not installed: %v", tool, err)
		}
	}
	if err := exec.Command("gcc", "-I/usr/local/cuda/include", "-fsyntax-only", "testdata/gpu.c").Run(); err != nil {
		t.Fatal("there is no cuda.h: run scripts/setup-cuda-debian.sh")
	}
	worker := filepath.Join(dir, "tune-cuda")
	run("go", "build", "-tags", "cuda", "-o", worker, ".")
	source, err := os.ReadFile("testdata/gpu.c")
	if err != nil {
		t.Fatal(err)
	}
	rest := ""
	for _, m := range regexp.MustCompile(`(?m) U (cu[A-Z]\w*)`).FindAllStringSubmatch(run("nm", "-D", worker), -1) {
		if !strings.Contains(string(source), "CUresult "+m[1]+"(") {
			rest += fmt.Sprintf("int %s() { return 0; }\n", m[1])
		}
	}
	missing := filepath.Join(dir, "rest.c")
	if err := os.WriteFile(missing, []byte(rest), 0o600); err != nil {
		t.Fatal(err)
	}
	driver := filepath.Join(dir, "libcuda.so.1")
	run("gcc", "-shared", "-fPIC", "-I/usr/local/cuda/include", "-Wl,-soname,libcuda.so.1", "-o", driver, "testdata/gpu.c", missing)
	library := filepath.Join(dir, "libcublasLt.so.12")
	run("gcc", "-shared", "-fPIC", "-o", library, "testdata/cublaslt.c", driver)
	cmd := exec.Command(worker)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "TUNE_CUDA_CUBLASLT="+library)
	return cmd
}

// start runs a worker until the test ends, and then has a look at what it wrote.
func start(t *testing.T, cmd *exec.Cmd, look func(said string)) (io.Writer, *bufio.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the worker ended with %v and said %q", err, said.String())
		}
		look(said.String())
	})
	return in, bufio.NewReader(out)
}

// TestWorkerChoosesLong: the worker finds the fastest algorithm that is right, once for each
// shape and cache, before anything is captured or timed, and times that.
func TestWorkerChoosesLong(t *testing.T) {
	in, answers := start(t, fakeGPU(t), func(said string) {
		// Each search launches an algorithm twice outside of graphs.
		if n := strings.Count(said, "the slow one ran\n"); n != 2*3 {
			t.Errorf("the slow algorithm ran %d times in three searches", n)
		}
	})
	h := filepath.Join(t.TempDir(), "harness.cubin")
	if err := os.WriteFile(h, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	buffers := []wire.Buffer{
		{Name: "A", DType: "f16", Role: "in", Distribution: "normal", B: 1},
		{Name: "B", DType: "f16", Role: "in", Distribution: "normal", B: 1},
		{Name: "v", DType: "f16", Role: "in", Distribution: "normal", B: 1},
		{Name: "C", DType: "f16", Role: "out", Tolerance: 1e-3},
	}
	ask[wire.HelloAnswer](t, in, answers, wire.Hello, wire.HelloRequest{Version: wire.Version})
	ask[wire.OpenAnswer](t, in, answers, wire.Open, wire.OpenRequest{Harness: h, Buffers: buffers})
	l := ask[wire.LoadAnswer](t, in, answers, wire.Load, wire.LoadRequest{Name: "base", Routine: "cublasLt:matmul_nt_bias"})
	if l.Version != "12.9.1" || l.Fault != nil {
		t.Fatalf("%+v", l)
	}
	shape := wire.Shape{Name: "small", Dims: []int64{64, 32, 16}, Elements: []int64{1024, 512, 32, 2048}}
	other := wire.Shape{Name: "other", Dims: []int64{32, 64, 16}, Elements: []int64{512, 1024, 64, 2048}}
	// Before anything is chosen the first proposal that can be run is.
	if a := ask[wire.LaunchAnswer](t, in, answers, wire.Launch, wire.LaunchRequest{Binary: "base", Shape: shape}); a.Fault != nil {
		t.Errorf("a launch: %+v", a.Fault)
	}
	const want = "cublasLt 12.9.1, best of 6 algorithms (of 10 proposed), without 1 that gave other results: algorithm 7, tile 1, cluster 8, split 2, " +
		"8.9 us with a %s cache; the first of them that can be run takes 10 us"
	for i, c := range []struct {
		shape  wire.Shape
		cold   bool
		rounds int
	}{{shape, false, 2}, {shape, false, 2}, {shape, true, 3}, {other, true, 1}, {shape, true, 1}, {shape, false, 1}} {
		a := ask[wire.TimeAnswer](t, in, answers, wire.Time, wire.TimeRequest{
			Contenders: []wire.Contender{{Binary: "base"}}, Shape: c.shape, Cold: c.cold, BatchNS: 1e5, Rounds: c.rounds, Last: true, Latencies: 1,
		})
		x := a.Contenders[0]
		cache := map[bool]string{false: "warm", true: "cold"}[c.cold]
		if x.Said != fmt.Sprintf(want, cache) {
			t.Errorf("race %d: %q", i, x.Said)
		}
		if x.Fault != nil || len(x.SamplesNS) != c.rounds+1 || len(x.LatencyNS) != 1 || len(x.After) != 1 || x.After[0].Error != 0 {
			t.Errorf("race %d: %+v", i, x)
		}
		for _, ns := range x.SamplesNS {
			if math.Abs(ns-8900) > 1 {
				t.Errorf("race %d: a launch takes %g ns", i, ns)
			}
		}
		if a.ChoosingNS <= 0 || a.ChoosingNS > a.ElapsedNS {
			t.Errorf("race %d: choosing took %d ns of %d", i, a.ChoosingNS, a.ElapsedNS)
		}
	}
}

// TestOldDriverLong: what the driver is too old for is the fault of the candidate that needs
// it, and others go on.
func TestOldDriverLong(t *testing.T) {
	cmd := fakeGPU(t) // whose driver has only what all have
	cmd.Env = append(cmd.Env, "GPU_DRIVER=11040")
	in, answers := start(t, cmd, func(string) {})
	h := filepath.Join(t.TempDir(), "none.cubin")
	if err := os.WriteFile(h, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask[wire.HelloAnswer](t, in, answers, wire.Hello, wire.HelloRequest{Version: wire.Version})
	ask[wire.OpenAnswer](t, in, answers, wire.Open, wire.OpenRequest{Harness: h, Buffers: []wire.Buffer{
		{Name: "x", DType: "f32", Role: "in", Distribution: "normal", B: 1}, {Name: "y", DType: "f32", Role: "out", Tolerance: 1e-3},
	}})
	plain := wire.Geometry{Grid: [3]int64{4, 1, 1}, Block: [3]int64{64, 1, 1}}
	clusters, dependent, maps := plain, plain, plain
	clusters.Cluster = [3]int64{2, 1, 1}
	next := plain
	next.Dependent = true
	dependent.Then = []wire.Geometry{next}
	maps.Maps = []wire.TensorMap{{DType: "f32", Dims: []int64{64}, Box: []int64{64}}}
	shape := wire.Shape{Name: "s", Elements: []int64{64, 64}}
	for _, name := range []string{"base", "other"} {
		ask[wire.LoadAnswer](t, in, answers, wire.Load, wire.LoadRequest{Name: name, Cubin: h, Entry: "k"})
	}
	for _, c := range []struct {
		wire.Geometry
		call, why string
	}{
		{plain, "", ""},
		{clusters, "cuLaunchKernelEx", "the driver is of CUDA 11.4 and knows no clusters, cooperative and dependent launches: update it to one of CUDA 11.8 or later"},
		{dependent, "cuLaunchKernelEx", "the driver is of CUDA 11.4 and knows no graphs of dependent launches, by which these are timed: update it to one of CUDA 12.3 or later"},
		{maps, "cuTensorMapEncodeTiled", "the driver is of CUDA 11.4 and knows no tensor maps: update it to one of CUDA 12.0 or later"},
		{plain, "", ""},
	} {
		launched := ask[wire.LaunchAnswer](t, in, answers, wire.Launch, wire.LaunchRequest{Binary: "other", Geometry: c.Geometry, Shape: shape}).Fault
		timed := ask[wire.TimeAnswer](t, in, answers, wire.Time, wire.TimeRequest{
			Contenders: []wire.Contender{{Binary: "base", Geometry: plain}, {Binary: "other", Geometry: c.Geometry}}, Shape: shape, BatchNS: 1e5, Rounds: 1,
		}).Contenders
		for _, f := range []*wire.Fault{launched, timed[1].Fault} {
			switch {
			case c.call == "" && f != nil:
				t.Errorf("%v: %+v", c.Geometry, f)
			case c.call != "" && (f == nil || f.Call != c.call || f.Code != 801 || f.Why != c.why || f.Fatal):
				t.Errorf("%v: %+v", c.Geometry, f)
			}
		}
		if timed[0].Fault != nil {
			t.Errorf("%v: the other one is blamed: %+v", c.Geometry, timed[0].Fault)
		}
	}
}

// ask has the worker carry out a request.
func ask[A any](t *testing.T, in io.Writer, out *bufio.Reader, kind wire.Kind, request any) A {
	t.Helper()
	if err := wire.Write(in, kind, request); err != nil {
		t.Fatal(err)
	}
	got, body, err := wire.Read(out)
	if err != nil || got != kind {
		t.Fatalf("%s was answered by %s: %s, %v", kind, got, body, err)
	}
	a, err := wire.Decode[A](body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
