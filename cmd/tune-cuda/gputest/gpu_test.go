//go:build cuda

// Package gputest drives a real worker on a real GPU: every kind of message,
// right candidates and wrong ones, and the worker under compute-sanitizer. It
// is plain Go, so that it can be built where there is no GPU and run where
// there is no Go:
//
//	CGO_ENABLED=0 go test -c -tags cuda -o bin/cuda-smoke ./cmd/tune-cuda/gputest
//	bin/cuda-smoke -worker bin/tune-cuda -harness evaluator/cuda/harness.cu \
//		-kernels cmd/tune-cuda/gputest/testdata
//
// It needs nvcc on the PATH (or in /usr/local/cuda/bin), and ends with a table.
package gputest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
)

var (
	workerFile  = flag.String("worker", "", "the worker, as built")
	harnessFile = flag.String("harness", "../../../evaluator/cuda/harness.cu", "the source of its harness")
	kernelsDir  = flag.String("kernels", "testdata", "where candidates.cu and reference.cu are")
)

var (
	dir    string // cubins
	device wire.Device

	tableMu sync.Mutex
	table   []string
)

// note adds a line to the table at the end.
func note(t *testing.T, format string, args ...any) {
	t.Helper()
	s := fmt.Sprintf(format, args...)
	t.Log(s)
	tableMu.Lock()
	defer tableMu.Unlock()
	table = append(table, fmt.Sprintf("%-34s %s", strings.TrimPrefix(t.Name(), "Test"), s))
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if *workerFile == "" {
		fmt.Println("SKIPPED: no GPU test ran, for want of -worker FILE")
		return 0
	}
	var err error
	if dir, err = os.MkdirTemp("", "gputest"); err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := prepare(); err != nil {
		fmt.Println("prepare:", err)
		return 1
	}
	code := m.Run()
	fmt.Println("---")
	for _, l := range table {
		fmt.Println(l)
	}
	return code
}

// prepare asks the worker for the device and compiles for it.
func prepare() error {
	c, err := start(nil)
	if err != nil {
		return err
	}
	begin := time.Now()
	var hello wire.HelloAnswer
	if err := c.ask(wire.Hello, wire.HelloRequest{Version: wire.Version}, &hello, time.Minute); err != nil {
		c.kill()
		return err
	}
	device = hello.Device
	fmt.Printf("hello in %v: %+v\n", time.Since(begin).Round(time.Millisecond), device)
	if err := c.end(); err != nil {
		return err
	}
	nvcc := "nvcc"
	if _, err := exec.LookPath(nvcc); err != nil {
		nvcc = "/usr/local/cuda/bin/nvcc"
	}
	var wg sync.WaitGroup
	sources := []string{*harnessFile, filepath.Join(*kernelsDir, "candidates.cu"), filepath.Join(*kernelsDir, "reference.cu")}
	if device.Capability >= 90 {
		sources = append(sources, filepath.Join(*kernelsDir, "hopper.cu"))
	}
	failed := make([]error, len(sources))
	for i, source := range sources {
		wg.Go(func() {
			out, err := exec.Command(nvcc, "-O3", "-lineinfo", "-cubin", fmt.Sprintf("-arch=sm_%d", device.Capability),
				"-o", cubin(strings.TrimSuffix(filepath.Base(source), ".cu")), source).CombinedOutput()
			if err != nil {
				failed[i] = fmt.Errorf("%s: %w\n%s", source, err, out)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

func cubin(name string) string { return filepath.Join(dir, name+".cubin") }

// A client is a worker process and its pipes.
type client struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said bytes.Buffer // on standard error, for who has waited for its end
}

// start runs a worker, behind a tool where one is given.
func start(tool []string, flags ...string) (*client, error) {
	worker, err := filepath.Abs(*workerFile)
	if err != nil {
		return nil, err
	}
	line := append(append(slices.Clone(tool), worker), flags...)
	cmd := exec.Command(line[0], line[1:]...)
	c := &client{cmd: cmd}
	cmd.Stderr = &c.said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c, cmd.Start()
}

// ask sends a request and reads its answer; a failure is an error.
func (c *client) ask(kind wire.Kind, request, answer any, within time.Duration) error {
	if err := wire.Write(c.in, kind, request); err != nil {
		return err
	}
	type reply struct {
		kind wire.Kind
		body []byte
		err  error
	}
	got := make(chan reply, 1)
	go func() {
		k, b, err := wire.Read(c.out)
		got <- reply{k, b, err}
	}()
	select {
	case r := <-got:
		switch {
		case r.err != nil:
			return r.err
		case r.kind == wire.Failed:
			f, err := wire.Decode[wire.Failure](r.body)
			return errors.Join(err, fmt.Errorf("failed (fatal %v): %s", f.Fatal, f.Error))
		case r.kind != kind:
			return fmt.Errorf("%s was answered by %s", kind, r.kind)
		}
		return jsonInto(r.body, answer)
	case <-time.After(within):
		c.kill()
		return fmt.Errorf("%s: no answer in %v", kind, within)
	}
}

func jsonInto(body []byte, answer any) (err error) {
	switch a := answer.(type) {
	case *wire.HelloAnswer:
		*a, err = wire.Decode[wire.HelloAnswer](body)
	case *wire.OpenAnswer:
		*a, err = wire.Decode[wire.OpenAnswer](body)
	case *wire.LoadAnswer:
		*a, err = wire.Decode[wire.LoadAnswer](body)
	case *wire.UnloadAnswer:
		*a, err = wire.Decode[wire.UnloadAnswer](body)
	case *wire.ParityAnswer:
		*a, err = wire.Decode[wire.ParityAnswer](body)
	case *wire.ControlAnswer:
		*a, err = wire.Decode[wire.ControlAnswer](body)
	case *wire.ReferenceAnswer:
		*a, err = wire.Decode[wire.ReferenceAnswer](body)
	case *wire.LaunchAnswer:
		*a, err = wire.Decode[wire.LaunchAnswer](body)
	case *wire.TimeAnswer:
		*a, err = wire.Decode[wire.TimeAnswer](body)
	case *wire.PeaksAnswer:
		*a, err = wire.Decode[wire.PeaksAnswer](body)
	case *wire.TelemetryAnswer:
		*a, err = wire.Decode[wire.TelemetryAnswer](body)
	default:
		err = fmt.Errorf("no answer of type %T", answer)
	}
	return err
}

// end closes the worker's input and waits for it to end.
func (c *client) end() error {
	c.in.Close()
	return c.wait(20 * time.Second)
}

func (c *client) wait(within time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		c.kill()
		return fmt.Errorf("the worker did not end in %v", within)
	}
}

func (c *client) kill() { _ = c.cmd.Process.Kill() }

// opened is a worker with a problem open.
func opened(t *testing.T, problem wire.OpenRequest, tool []string, flags ...string) *client {
	t.Helper()
	c, err := start(tool, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.in.Close(); c.kill(); _ = c.cmd.Wait() })
	var hello wire.HelloAnswer
	must(t, c.ask(wire.Hello, wire.HelloRequest{Version: wire.Version}, &hello, 2*time.Minute))
	must(t, c.ask(wire.Open, problem, &wire.OpenAnswer{}, 2*time.Minute))
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// axpy is o = a*x + y.
func axpy() wire.OpenRequest {
	return wire.OpenRequest{
		Harness: cubin("harness"),
		Buffers: []wire.Buffer{
			{Name: "x", DType: "f32", Role: "in", Distribution: "normal", A: 0, B: 1},
			{Name: "y", DType: "f32", Role: "in", Distribution: "uniform", A: -1, B: 1},
			{Name: "o", DType: "f32", Role: "out", Tolerance: 1e-5},
		},
		Scalars: []string{"f32"}, Reference: cubin("reference"), ReferenceEntry: "axpy",
	}
}

func axpyShape(n int64) wire.Shape {
	return wire.Shape{Name: fmt.Sprint(n), Dims: []int64{n}, Elements: []int64{n, n, n}, Scalars: []float64{0.5}, Reference: line(256)}
}

func line(blocks int64) wire.Geometry {
	return wire.Geometry{Grid: [3]int64{blocks, 1, 1}, Block: [3]int64{256, 1, 1}}
}

func gemm() wire.OpenRequest {
	in := wire.Buffer{DType: "f16", Role: "in", Distribution: "normal", B: 1}
	a, b := in, in
	a.Name, b.Name = "A", "B"
	return wire.OpenRequest{
		Harness:   cubin("harness"),
		Buffers:   []wire.Buffer{a, b, {Name: "C", DType: "f16", Role: "out", Tolerance: 5e-3}},
		Reference: cubin("reference"), ReferenceEntry: "gemm",
	}
}

func gemmShape(m, n, k int64) wire.Shape {
	return wire.Shape{Name: fmt.Sprint(m, n, k), Dims: []int64{m, n, k}, Elements: []int64{m * k, k * n, m * n}, Reference: gemmGrid(m, n)}
}

func gemmGrid(m, n int64) wire.Geometry {
	return wire.Geometry{Grid: [3]int64{(n + 127) / 128, m, 1}, Block: [3]int64{128, 1, 1}}
}

func (c *client) load(t *testing.T, entry string) wire.LoadAnswer {
	t.Helper()
	var a wire.LoadAnswer
	must(t, c.ask(wire.Load, wire.LoadRequest{Name: entry, Cubin: cubin("candidates"), Entry: entry}, &a, time.Minute))
	return a
}

func (c *client) parity(t *testing.T, entry string, g wire.Geometry, s wire.Shape, repeat int) wire.ParityAnswer {
	t.Helper()
	var a wire.ParityAnswer
	must(t, c.ask(wire.Parity, wire.ParityRequest{
		Binary: entry, Geometry: g, Shape: s, Seed: 7, Repeat: repeat, TimeoutNS: 1e9,
	}, &a, time.Minute))
	return a
}

// odd is no multiple of anything.
const odd = 100_003

func clean(a wire.ParityAnswer) bool {
	return a.Fault == nil && a.InputChanged == "" && a.Guard == "" && a.Different == 0 &&
		len(a.Outputs) == 1 && float64(a.Outputs[0].Error) <= a.Outputs[0].Limit && a.Outputs[0].Elements > 0
}

func TestParity(t *testing.T) {
	c := opened(t, axpy(), nil)
	work, shared, alone, large := line(64), line(64), line(1), line(64)
	work.Workspace, shared.Shared, alone.Workspace, large.Workspace = 1024, 100<<10, 4096+64*4*odd, 1<<39
	for _, k := range []struct {
		entry string
		g     wire.Geometry
		sees  func(wire.ParityAnswer) bool
	}{
		{"good", line(64), clean},
		{"counted", work, clean},
		{"counted", large, func(a wire.ParityAnswer) bool {
			return a.Fault != nil && a.Fault.Name == "CUDA_ERROR_OUT_OF_MEMORY" && strings.HasPrefix(a.Fault.Why, "a workspace of 549755813888 bytes, where the device has ") && !a.Fault.Fatal
		}},
		{"large_shared", shared, clean},
		{"remembered", alone, clean},
		{"wrong", line(64), func(a wire.ParityAnswer) bool {
			e := float64(a.Outputs[0].Error)
			return e > 1e-3 && e < 1 && a.Outputs[0].NotFinite == 0
		}},
		{"past_end", line(64), func(a wire.ParityAnswer) bool { return a.Guard == "o" && a.GuardOffset/4 == odd+3 }},
		{"before_start", line(64), func(a wire.ParityAnswer) bool {
			return a.Guard == "o" && a.GuardOffset >= -8 && a.GuardOffset < -4
		}},
		{"partial", line(64), func(a wire.ParityAnswer) bool {
			o := a.Outputs[0]
			return o.Unwritten == (odd-5+96)/97 && o.NotFinite == o.Unwritten && math.IsInf(float64(o.Error), 1) && o.Worst == 5
		}},
		{"infinite", line(64), func(a wire.ParityAnswer) bool {
			o := a.Outputs[0]
			return o.NotFinite == 1 && o.Unwritten == 0 && o.Worst == 7 && math.IsInf(float64(o.Got), 1)
		}},
		{"moody", line(64), func(a wire.ParityAnswer) bool { return a.Different > 0 }},
		{"greedy", line(64), func(a wire.ParityAnswer) bool { return a.InputChanged == "x" }},
		{"good", wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{1024, 2, 1}}, func(a wire.ParityAnswer) bool {
			return a.Fault != nil && !a.Fault.Fatal
		}},
		{"good", wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{32, 1, 1}, Shared: 1 << 20}, func(a wire.ParityAnswer) bool {
			return a.Fault != nil && a.Fault.Call == "cuFuncSetAttribute" && !a.Fault.Fatal
		}},
		{"good", line(64), clean},
	} {
		t.Run(k.entry, func(t *testing.T) {
			l := c.load(t, k.entry)
			if l.Fault != nil || l.Registers == 0 || l.MaxThreads == 0 {
				t.Fatalf("load: %+v", l)
			}
			a := c.parity(t, k.entry, k.g, axpyShape(odd), 3)
			ok := k.sees(a)
			second := c.parity(t, k.entry, k.g, axpyShape(odd), 3)
			note(t, "seen %v, %.0f us (again %.0f us) fault %+v in %q zone %q%+d different %d %+v", ok, float64(a.ElapsedNS)/1e3, float64(second.ElapsedNS)/1e3,
				a.Fault, a.InputChanged, a.Guard, a.GuardOffset, a.Different, a.Outputs)
			if !ok || !k.sees(second) {
				t.Errorf("not seen: %+v, then %+v", a, second)
			}
		})
	}
}

func TestIllegalAddressEndsTheWorker(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "illegal")
	a := c.parity(t, "illegal", line(64), axpyShape(odd), 2)
	if a.Fault == nil || !a.Fault.Fatal {
		t.Fatalf("%+v, want a fatal fault", a)
	}
	begin := time.Now()
	err := c.wait(20 * time.Second)
	note(t, "%+v, ended after %v with %v", *a.Fault, time.Since(begin).Round(time.Millisecond), err)
}

// TestAssert: an assert ends the worker, which has said before where it was.
func TestAssert(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "asserts")
	a := c.parity(t, "asserts", line(64), axpyShape(odd), 2)
	if a.Fault == nil || !a.Fault.Fatal || a.Fault.Name != "CUDA_ERROR_ASSERT" {
		t.Fatalf("%+v, want a failed assert", a)
	}
	err := c.wait(20 * time.Second)
	said := c.said.String()
	if !strings.Contains(said, " Assertion `i != 77` failed") || !strings.Contains(said, "candidates.cu:") {
		t.Errorf("the text of the assert is not on standard error: %q", said)
	}
	note(t, "%+v, ended with %v, said %q", *a.Fault, err, said)
}

// TestPrints: what a kernel prints does not come between the answers, and is
// on standard error.
func TestPrints(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "prints")
	for range 3 {
		if a := c.parity(t, "prints", line(64), axpyShape(odd), 2); !clean(a) {
			t.Fatalf("%+v", a)
		}
	}
	c.load(t, "good")
	if a := c.parity(t, "good", line(64), axpyShape(odd), 2); !clean(a) {
		t.Errorf("after it: %+v", a)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	const launches = 3 * 2
	lines := strings.Count(c.said.String(), "evotune/3 parity 2\n")
	if lines == 0 {
		t.Error("nothing of what was printed is on standard error")
	}
	note(t, "%d lines of %d that %d launches printed are on standard error", lines, launches*64*256, launches)
}

// TestEndless shows that a worker with a kernel that does not end can be killed,
// and how soon the device is there for the next.
func TestEndless(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "endless")
	var a wire.ParityAnswer
	if err := c.ask(wire.Parity, wire.ParityRequest{Binary: "endless", Geometry: line(64), Shape: axpyShape(odd), Repeat: 1}, &a, time.Second); err == nil {
		t.Fatalf("%+v", a)
	}
	begin := time.Now()
	_ = c.cmd.Wait()
	gone := time.Since(begin)
	c = opened(t, axpy(), nil)
	c.load(t, "good")
	again := c.parity(t, "good", line(64), axpyShape(odd), 2)
	note(t, "gone %v after it was killed; the next worker had an answer %v later", gone.Round(time.Millisecond), (time.Since(begin) - gone).Round(time.Millisecond))
	if !clean(again) {
		t.Errorf("%+v", again)
	}
}

func TestInPlace(t *testing.T) {
	c := opened(t, wire.OpenRequest{
		Harness: cubin("harness"),
		Buffers: []wire.Buffer{
			{Name: "x", DType: "i32", Role: "in", Distribution: "integers", A: -100, B: 100},
			{Name: "o", DType: "i32", Role: "inout", Distribution: "integers", A: 1, B: 6},
		},
		Reference: cubin("reference"), ReferenceEntry: "accumulate",
	}, nil)
	s := wire.Shape{Name: "odd", Dims: []int64{odd}, Elements: []int64{odd, odd}, Reference: line(64)}
	c.load(t, "accumulate")
	for entry, right := range map[string]bool{"accumulate": true, "accumulate_most": false} {
		if !right {
			c.load(t, entry)
		}
		a := c.parity(t, entry, line(64), s, 3)
		if clean(a) != right {
			t.Errorf("%s: %+v", entry, a)
		}
		if !right && a.Outputs[0].Worst != 11 {
			t.Errorf("%s: %+v, want element 11 to be wrong", entry, a)
		}
		var x wire.TimeAnswer
		must(t, c.ask(wire.Time, wire.TimeRequest{
			Contenders: []wire.Contender{{Binary: "accumulate", Geometry: line(64)}, {Binary: entry, Geometry: line(64)}},
			Shape:      s, Seed: 5, BatchNS: 1e4, Rounds: 5, Last: true, Latencies: 3, // a pass takes ten times as long
		}, &x, time.Minute))
		r := x.Contenders[1]
		note(t, "%s: error %.2g, %.0f ns, batch %d, sets %d, after %v", entry, float64(a.Outputs[0].Error), evaluator.Median(r.SamplesNS), r.Batch, r.Sets, r.After[0].Error)
		if (r.After[0].Error == 0) != right || r.Batch != r.Sets {
			t.Errorf("%s: %+v", entry, r)
		}
	}
}

// Contents that are made as a whole belong together, and all contenders of a round get the same:
// how long a launch takes may depend on them.
func TestMadeTogether(t *testing.T) {
	c := opened(t, wire.OpenRequest{
		Harness: cubin("harness"),
		Buffers: []wire.Buffer{
			{Name: "t", DType: "i32", Role: "in", Distribution: wire.Made},
			{Name: "u", DType: "i32", Role: "in", Distribution: wire.Made},
			{Name: "x", DType: "f32", Role: "in", Distribution: "normal", B: 1},
			{Name: "o", DType: "f32", Role: "out", Tolerance: 1e-5},
		},
		Reference: cubin("reference"), ReferenceEntry: "together",
	}, nil)
	made := filepath.Join(t.TempDir(), "made")
	var b []byte
	for _, us := range []float64{1, 2, 4} {
		b = wire.AppendElements(wire.AppendElements(b, "i32", []float64{us}), "i32", []float64{us})
	}
	must(t, os.WriteFile(made, b, 0o600))
	c.load(t, "together")
	contender := wire.Contender{Binary: "together", Geometry: line(64)}
	var x wire.TimeAnswer
	must(t, c.ask(wire.Time, wire.TimeRequest{
		Contenders: []wire.Contender{contender, contender},
		Shape:      wire.Shape{Name: "odd", Dims: []int64{odd}, Elements: []int64{1, 1, odd, odd}, Reference: line(64), Made: made},
		Seed:       5, BatchNS: 1e5, Rounds: 16, Last: true, Latencies: 3,
	}, &x, time.Minute))
	base, r := x.Contenders[0].SamplesNS, x.Contenders[1].SamplesNS
	note(t, "together: %.0f beside %.0f ns, after %v", r, base, x.Contenders[1].After)
	if slices.Max(r) < 2*slices.Min(r) {
		t.Errorf("all rounds have the same contents: %.0f ns", r)
	}
	for i := range r {
		if ratio := r[i] / base[i]; ratio < 0.9 || ratio > 1.1 {
			t.Errorf("round %d: %.0f ns beside %.0f", i, r[i], base[i])
		}
	}
	if x.Contenders[1].After[0].Error != 0 {
		t.Errorf("the contents of two buffers do not belong together: %+v", x.Contenders[1].After)
	}
}

func TestRequestsThatCannotBe(t *testing.T) {
	c := opened(t, axpy(), nil)
	for what, err := range map[string]error{
		"unloaded":    c.ask(wire.Launch, wire.LaunchRequest{Binary: "none", Geometry: line(1), Shape: axpyShape(9)}, &wire.LaunchAnswer{}, time.Minute),
		"no file":     c.ask(wire.Load, wire.LoadRequest{Name: "x", Cubin: "/nowhere", Entry: "x"}, &wire.LoadAnswer{}, time.Minute),
		"bad control": c.ask(wire.Control, wire.ControlRequest{Kind: "tiny", Shape: axpyShape(9)}, &wire.ControlAnswer{}, time.Minute),
	} {
		if err == nil || strings.Contains(err.Error(), "fatal true") {
			t.Errorf("%s: %v, want a failure that the worker survives", what, err)
		}
	}
	var l wire.LoadAnswer
	must(t, c.ask(wire.Load, wire.LoadRequest{Name: "x", Cubin: cubin("candidates"), Entry: "nothing"}, &l, time.Minute))
	var m wire.LoadAnswer
	must(t, c.ask(wire.Load, wire.LoadRequest{Name: "x", Cubin: *harnessFile, Entry: "nothing"}, &m, time.Minute))
	note(t, "entry missing: %+v; no cubin: %+v", l.Fault, m.Fault)
	if l.Fault == nil || m.Fault == nil {
		t.Error("an entry or a cubin that is none was loaded")
	}
}

func TestControls(t *testing.T) {
	c := opened(t, axpy(), nil)
	for _, r := range []wire.ControlRequest{
		{Kind: "zeros"},
		{Kind: "constant"},
		{Kind: "swap", Buffers: []string{"x", "y"}},
		{Kind: "input", Buffers: []string{"y", "o"}},
		{Kind: "left out", Last: []int64{odd, odd, 0}, Inner: []int64{1, 1, 0}},
	} {
		r.Shape, r.Seed = axpyShape(odd), 3
		var a wire.ControlAnswer
		must(t, c.ask(wire.Control, r, &a, time.Minute))
		note(t, "%s: error %.3g", r.Kind, float64(a.Outputs[0].Error))
		if e := float64(a.Outputs[0].Error); e < 0.5 || e > 20 {
			t.Errorf("%s: error %g", r.Kind, e)
		}
	}
}

func TestReference(t *testing.T) {
	c := opened(t, axpy(), nil)
	file := filepath.Join(dir, "dump")
	must(t, c.ask(wire.Reference, wire.ReferenceRequest{Shape: axpyShape(odd), Seed: 3, File: file}, &wire.ReferenceAnswer{}, time.Minute))
	b, err := os.ReadFile(file)
	must(t, err)
	if len(b) != 8*4*odd {
		t.Fatalf("%d bytes", len(b))
	}
	at := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])) }
	var sum, squares, uniform, wrong float64
	for i := range odd {
		x, y := at(i), at(odd+i)
		sum, squares, uniform = sum+x, squares+x*x, uniform+y*y
		if float64(float32(x)) != x || float64(float32(y)) != y {
			t.Fatalf("element %d is not of single precision", i)
		}
		if at(2*odd+i) != 0 {
			t.Fatalf("output %d is not zero before", i)
		}
		wrong = max(wrong, math.Abs(at(3*odd+i)-(0.5*x+y)))
	}
	mean, deviation, third := sum/odd, math.Sqrt(squares/odd), 3*uniform/odd
	note(t, "normal mean %.4f deviation %.4f, uniform 3 E y^2 %.4f, reference off by %.2g", mean, deviation, third, wrong)
	if math.Abs(mean) > 0.02 || math.Abs(deviation-1) > 0.02 || math.Abs(third-1) > 0.02 || wrong > 1e-15 {
		t.Error("inputs or reference are not what was asked for")
	}
}

func TestTime(t *testing.T) {
	c := opened(t, axpy(), nil)
	for _, e := range []string{"good", "slow", "remembered", "illegal"} {
		c.load(t, e)
	}
	alone := line(1)
	alone.Workspace = 4096 + 64*4*odd
	for _, k := range []struct {
		name string
		n    int64
		cold bool
		base wire.Contender
		it   wire.Contender
	}{
		{"same", 1 << 20, false, wire.Contender{Binary: "good", Geometry: line(512)}, wire.Contender{Binary: "good", Geometry: line(512)}},
		{"same, cold", 1 << 20, true, wire.Contender{Binary: "good", Geometry: line(512)}, wire.Contender{Binary: "good", Geometry: line(512)}},
		{"same, small, cold", 5000, true, wire.Contender{Binary: "good", Geometry: line(20)}, wire.Contender{Binary: "good", Geometry: line(20)}},
		{"slow", 1 << 20, false, wire.Contender{Binary: "good", Geometry: line(512)}, wire.Contender{Binary: "slow", Geometry: line(512)}},
		{"remembered", odd, false, wire.Contender{Binary: "good", Geometry: line(64)}, wire.Contender{Binary: "remembered", Geometry: alone}},
		{"illegal", odd, false, wire.Contender{Binary: "good", Geometry: line(64)}, wire.Contender{Binary: "illegal", Geometry: line(64)}},
	} {
		t.Run(k.name, func(t *testing.T) {
			r := wire.TimeRequest{
				Contenders: []wire.Contender{k.base, k.it}, Shape: axpyShape(k.n), Seed: 11, Cold: k.cold,
				BatchNS: 500_000, Rounds: 20, Last: true, Latencies: 20,
			}
			for again := range 2 {
				var a wire.TimeAnswer
				must(t, c.ask(wire.Time, r, &a, time.Minute))
				if k.name == "illegal" {
					if f := a.Contenders[1].Fault; f == nil || !f.Fatal {
						t.Errorf("%+v, want a fatal fault", a)
					}
					return
				}
				for i, x := range a.Contenders {
					if x.Fault != nil || len(x.After) == 0 {
						t.Fatalf("contender %d: fault %+v, %d samples", i, x.Fault, len(x.SamplesNS))
					}
				}
				ratio := evaluator.NewTiming("", a.Contenders[1].SamplesNS, a.Contenders[0].SamplesNS, 1, 1)
				x := a.Contenders[1]
				note(t, "%d: %.0f/%.0f ns, ratio %.4f, spread %.2g%%, wall/event %.3f, latency %.1f us, batch %d/%d, sets %d, rounds %d, gpu %.1f of %.1f ms, after %v", again,
					ratio.MedianNS, ratio.BaselineMedianNS, ratio.Ratio, 100*ratio.Spread,
					evaluator.Median(x.WallNS)/evaluator.Median(x.SamplesNS)/float64(x.Batch), evaluator.Median(x.LatencyNS)/1e3,
					a.Contenders[0].Batch, x.Batch, x.Sets, len(x.SamplesNS), float64(a.GPUNS)/1e6, float64(a.ElapsedNS)/1e6, x.After[0].Error)
				after := float64(x.After[0].Error)
				switch {
				case k.name == "remembered" && !(after > 0.01):
					t.Error("an answer that was remembered passed")
				case k.name != "remembered" && !(after < 1e-5):
					t.Errorf("after: %+v", x.After)
				case strings.HasPrefix(k.name, "same") && math.Abs(ratio.Ratio-1) > 0.05:
					t.Error("a kernel is not as fast as itself")
				case k.name == "slow" && !(ratio.Ratio > 1.5):
					t.Error("a slow kernel is as fast as another")
				}
			}
		})
	}
}

// TestLooks: what launches leave is looked at, not in the last round alone, and beside
// what they should have written to. In 20 readings there is no stop once in 5e8 times.
func TestLooks(t *testing.T) {
	const n = odd
	for _, k := range []struct {
		entry string
		sees  func(x wire.Timed) bool
	}{
		{"good", func(x wire.Timed) bool { return float64(x.After[0].Error) <= x.After[0].Limit }},
		{"slow", func(x wire.Timed) bool { return float64(x.After[0].Error) <= x.After[0].Limit }},
		{"wrong", func(x wire.Timed) bool { return float64(x.After[0].Error) > 1e-3 && x.After[0].Unwritten == 0 }},
		{"partial", func(x wire.Timed) bool { return x.After[0].Unwritten == (n-5+96)/97 }},
		{"infinite", func(x wire.Timed) bool { return x.After[0].NotFinite == 1 && x.After[0].Worst == 7 }},
		{"tires", func(x wire.Timed) bool { return x.After[0].Unwritten > 0 }},
		{"greedy", func(x wire.Timed) bool { return x.InputChanged == "x" }},
		{"greedy_later", func(x wire.Timed) bool { return x.InputChanged == "x" }},
		{"past_end", func(x wire.Timed) bool { return x.Guard == "o" && x.GuardOffset/4 == n+3 }},
		{"before_start", func(x wire.Timed) bool { return x.Guard == "o" && x.GuardOffset >= -8 && x.GuardOffset < -4 }},
	} {
		t.Run(k.entry, func(t *testing.T) {
			c := opened(t, axpy(), nil)
			c.load(t, "good")
			c.load(t, k.entry)
			var a wire.TimeAnswer
			must(t, c.ask(wire.Time, wire.TimeRequest{
				Contenders: []wire.Contender{{Binary: "good", Geometry: line(64)}, {Binary: k.entry, Geometry: line(64)}},
				Shape:      axpyShape(n), Seed: 2, BatchNS: 200_000, Rounds: 20,
			}, &a, time.Minute))
			x := a.Contenders[1]
			note(t, "%d launches a reading on %d sets, guard %q%+d, input %q, %+v", x.Batch, x.Sets, x.Guard, x.GuardOffset, x.InputChanged, x.After)
			if len(x.After) != 1 || x.After[0].Elements != n || !k.sees(x) {
				t.Errorf("%+v", x)
			}
		})
	}
}

// TestOutlast: who is right in all launches that are timed, since they are few, is launched on.
func TestOutlast(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "good")
	c.load(t, "tires_late")
	var a wire.TimeAnswer
	must(t, c.ask(wire.Time, wire.TimeRequest{
		Contenders: []wire.Contender{{Binary: "good", Geometry: line(512)}, {Binary: "tires_late", Geometry: line(512)}},
		Shape:      axpyShape(1 << 22), Seed: 2, BatchNS: 1, Rounds: 5, Last: true, Longer: true,
	}, &a, time.Minute))
	x := a.Contenders[1]
	note(t, "%d readings of %d launches, %.1f ms in all, %+v", len(x.SamplesNS), x.Batch, float64(a.ElapsedNS)/1e6, x.After)
	if timed := len(x.SamplesNS) * x.Batch; timed > 50 || x.After[0].Unwritten == 0 {
		t.Errorf("%d timed launches, %+v", timed, x.After)
	}
}

// TestNothingToFind: an answer that is there already is another's: a candidate that
// looks for it finds none, and takes its true time.
func TestNothingToFind(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "good")
	c.load(t, "already")
	var a wire.TimeAnswer
	must(t, c.ask(wire.Time, wire.TimeRequest{
		Contenders: []wire.Contender{{Binary: "good", Geometry: line(512)}, {Binary: "already", Geometry: line(512)}},
		Shape:      axpyShape(1 << 22), Seed: 2, BatchNS: 500_000, Rounds: 20, Last: true,
	}, &a, time.Minute))
	ratio := evaluator.NewTiming("", a.Contenders[1].SamplesNS, a.Contenders[0].SamplesNS, 1, 1).Ratio
	note(t, "ratio %.3f", ratio)
	if x := a.Contenders[1]; !(ratio > 0.9) || !(float64(x.After[0].Error) <= x.After[0].Limit) {
		t.Errorf("ratio %.3f, %+v", ratio, x.After)
	}
}

// TestPool: a pool decides the contents of what is timed, and nothing else does.
func TestPool(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "good")
	c.load(t, "tallies")
	positive := func(pool, code string) int64 {
		var a wire.TimeAnswer
		must(t, c.ask(wire.Time, wire.TimeRequest{
			Contenders: []wire.Contender{{Binary: "good", Geometry: line(512)}, {Binary: "tallies", Code: code, Geometry: line(64)}},
			Shape:      axpyShape(1 << 20), Seed: 2, Pool: pool, BatchNS: 500_000, Last: true,
		}, &a, time.Minute))
		x := a.Contenders[1]
		if x.Sets != 1 || len(x.After) != 1 {
			t.Fatalf("%+v", x)
		}
		return x.After[0].NotFinite
	}
	first, again, other, drawn, another := positive("a", "x"), positive("a", "x"), positive("b", "x"), positive("", "x"), positive("a", "y")
	note(t, "positive: %d, again %d; other pools %d, %d", first, again, other, drawn)
	if first != again || first == other || first == drawn || first == another || first == 0 {
		t.Errorf("pools a, a, b and a new one: %d, %d, %d, %d; of other code %d", first, again, other, drawn, another)
	}
}

// TestBaselineIsHeld: a baseline is compared with the reference where that is asked for.
func TestBaselineIsHeld(t *testing.T) {
	for entry, right := range map[string]bool{"good": true, "wrong": false} {
		c := opened(t, axpy(), nil)
		c.load(t, entry)
		var a wire.TimeAnswer
		must(t, c.ask(wire.Time, wire.TimeRequest{
			Contenders: []wire.Contender{{Binary: entry, Geometry: line(64)}},
			Shape:      axpyShape(odd), Seed: 2, BatchNS: 200_000, Rounds: 1, Last: true, Reference: true,
		}, &a, time.Minute))
		if o := a.Contenders[0].After[0]; (float64(o.Error) <= o.Limit) != right {
			t.Errorf("%s: %+v", entry, o)
		}
	}
}

// TestRace: a race goes on as it was begun, for as little as its rounds take, and
// ends with what it needs.
func TestRace(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "good")
	c.load(t, "slow")
	begin := wire.TimeRequest{
		Contenders: []wire.Contender{{Binary: "good", Geometry: line(512)}, {Binary: "slow", Geometry: line(512)}},
		Shape:      axpyShape(1 << 20), Seed: 11, BatchNS: 500_000, Rounds: 3,
	}
	ask := func(r wire.TimeRequest, rounds int, last bool) wire.TimeAnswer {
		t.Helper()
		var a wire.TimeAnswer
		must(t, c.ask(wire.Time, r, &a, time.Minute))
		for i, x := range a.Contenders {
			if x.Fault != nil || len(x.SamplesNS) != rounds || len(x.WallNS) != rounds || len(x.After) == 0 && last || x.Batch == 0 || x.Sets == 0 || float64(x.LaunchesNS) < x.WallNS[0]-x.WaitedNS[0] {
				t.Errorf("contender %d: %+v", i, x)
			}
			for _, o := range x.After {
				if !(float64(o.Error) <= o.Limit) {
					t.Errorf("contender %d, after: %+v", i, o)
				}
			}
		}
		return a
	}
	first := ask(begin, 3, false)
	more := ask(wire.TimeRequest{Continue: true, Rounds: 3}, 3, false)
	var each []float64
	for range 10 {
		asked := time.Now()
		a := ask(wire.TimeRequest{Continue: true, Rounds: 1}, 1, false)
		each = append(each, float64(time.Since(asked).Nanoseconds()-a.GPUNS))
	}
	ask(wire.TimeRequest{Continue: true, Last: true, Latencies: 4}, 1, true)
	ask(wire.TimeRequest{Continue: true, Rounds: 2}, 2, false)            // after the last round
	ask(wire.TimeRequest{Continue: true, Rounds: 1, Last: true}, 2, true) // and to the end again
	for i, x := range first.Contenders {
		ratio := evaluator.Median(more.Contenders[i].SamplesNS) / evaluator.Median(x.SamplesNS)
		note(t, "%d: %.0f ns, going on %.3f of it, batch %d, wall %.1f us; a request of one round costs %.0f us besides", i,
			evaluator.Median(x.SamplesNS), ratio, x.Batch, evaluator.Median(x.WallNS)/1e3, evaluator.Median(each)/1e3)
		if math.Abs(ratio-1) > 0.1 || more.Contenders[i].Batch != x.Batch {
			t.Errorf("%d: it does not go on as it began: %+v, then %+v", i, x, more.Contenders[i])
		}
	}
	// Another shape's data may drive out what no race needs, and not what one does.
	must(t, c.ask(wire.Control, wire.ControlRequest{Kind: "zeros", Shape: axpyShape(odd), Seed: 1}, &wire.ControlAnswer{}, time.Minute))
	ask(wire.TimeRequest{Continue: true, Rounds: 1, Last: true}, 2, true)
	for what, end := range map[string]func(){
		"a comparison": func() {
			if a := c.parity(t, "good", line(64), axpyShape(odd), 2); !clean(a) {
				t.Errorf("%+v", a)
			}
		},
		"unloading": func() {
			must(t, c.ask(wire.Unload, wire.UnloadRequest{Name: "slow"}, &wire.UnloadAnswer{}, time.Minute))
			c.load(t, "slow")
		},
		"loading another under its name": func() { c.load(t, "good") },
		"another problem": func() {
			must(t, c.ask(wire.Open, axpy(), &wire.OpenAnswer{}, time.Minute))
			c.load(t, "good")
			c.load(t, "slow")
		},
	} {
		ask(begin, 3, false)
		end()
		if err := c.ask(wire.Time, wire.TimeRequest{Continue: true, Rounds: 1}, &wire.TimeAnswer{}, time.Minute); err == nil || strings.Contains(err.Error(), "fatal true") {
			t.Errorf("after %s: %v, want a failure that the worker survives", what, err)
		}
	}
	for _, r := range []wire.TimeRequest{{}, {Rounds: 1}, {Continue: true}, {Rounds: -1, Last: true}} {
		if err := c.ask(wire.Time, r, &wire.TimeAnswer{}, time.Minute); err == nil {
			t.Errorf("%+v was taken", r)
		}
	}
}

// TestFaultInRace: a launch that cannot be ends the race, and neither the worker
// nor the next race.
func TestFaultInRace(t *testing.T) {
	c := opened(t, axpy(), nil)
	c.load(t, "good")
	c.load(t, "slow")
	r := wire.TimeRequest{
		Contenders: []wire.Contender{{Binary: "good", Geometry: line(64)}, {Binary: "slow", Geometry: wire.Geometry{Grid: [3]int64{1, 1, 1}, Block: [3]int64{1024, 2, 1}}}},
		Shape:      axpyShape(odd), Seed: 3, BatchNS: 100_000, Rounds: 2,
	}
	var a wire.TimeAnswer
	must(t, c.ask(wire.Time, r, &a, time.Minute))
	if len(a.Contenders) != 2 || a.Contenders[0].Fault != nil || a.Contenders[1].Fault == nil || a.Contenders[1].Fault.Fatal {
		t.Fatalf("%+v, want a fault of the second that the worker survives", a)
	}
	r.Contenders = r.Contenders[:1]
	must(t, c.ask(wire.Time, r, &a, time.Minute))
	if a.Contenders[0].Fault != nil || len(a.Contenders[0].SamplesNS) != 2 {
		t.Errorf("after it: %+v", a)
	}
}

// TestTelemetry shows what NVML tells of this machine, other processes included.
func TestTelemetry(t *testing.T) {
	c := opened(t, axpy(), nil)
	var first, second wire.TelemetryAnswer
	must(t, c.ask(wire.Telemetry, wire.TelemetryRequest{}, &first, time.Minute))
	time.Sleep(300 * time.Millisecond)
	asked := time.Now()
	must(t, c.ask(wire.Telemetry, wire.TelemetryRequest{}, &second, time.Minute))
	note(t, "in %v: %+v, then %+v; set to: power %d W, clocks %d and %d MHz, at most %d MHz", time.Since(asked).Round(time.Microsecond), first.State, second.State,
		device.PowerLimitWatts, device.AppClockMHz, device.AppMemoryClockMHz, device.MaxClockMHz)
	if device.NVML == "" && (second.State.SMClockMHz == 0 || device.PowerLimitWatts == 0) {
		t.Error("NVML works, and tells neither clocks nor the power limit")
	}
}

func TestNothingGrows(t *testing.T) {
	c := opened(t, axpy(), nil)
	var before, after wire.TelemetryAnswer
	rss := func() string {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid))
		f := strings.Fields(string(b))
		if len(f) < 2 {
			return "?"
		}
		return f[1] + " pages"
	}
	work := line(16)
	work.Workspace = 1 << 20
	one := func() {
		c.load(t, "counted")
		if a := c.parity(t, "counted", work, axpyShape(4099), 2); !clean(a) {
			t.Fatalf("%+v", a)
		}
		var time1 wire.TimeAnswer
		must(t, c.ask(wire.Time, wire.TimeRequest{
			Contenders: []wire.Contender{{Binary: "counted", Geometry: work}}, Shape: axpyShape(4099), Seed: 1,
			BatchNS: 20_000, Last: true,
		}, &time1, time.Minute))
		must(t, c.ask(wire.Unload, wire.UnloadRequest{Name: "counted"}, &wire.UnloadAnswer{}, time.Minute))
	}
	for range 50 {
		one()
	}
	must(t, c.ask(wire.Telemetry, wire.TelemetryRequest{}, &before, time.Minute))
	low := rss()
	begin := time.Now()
	const times = 1000
	for range times {
		one()
	}
	each := time.Since(begin) / times
	asked := time.Now()
	must(t, c.ask(wire.Telemetry, wire.TelemetryRequest{}, &after, time.Minute))
	note(t, "%v each; device memory %d MiB, then %d MiB; host %s, then %s; telemetry in %v: %+v", each.Round(time.Microsecond),
		before.State.UsedBytes>>20, after.State.UsedBytes>>20, low, rss(), time.Since(asked).Round(time.Microsecond), after.State)
	if after.State.UsedBytes > before.State.UsedBytes+8<<20 {
		t.Error("device memory grows")
	}
}

func TestPeaks(t *testing.T) {
	c := opened(t, axpy(), nil)
	var a wire.PeaksAnswer
	begin := time.Now()
	must(t, c.ask(wire.Peaks, wire.PeaksRequest{Harness: cubin("harness")}, &a, time.Minute))
	var s []string
	for k, v := range a.Peaks {
		s = append(s, fmt.Sprintf("%s %.3g", k, v))
		if !(v > 1e9) {
			t.Errorf("%s: %g", k, v)
		}
	}
	slices.Sort(s)
	note(t, "in %v: %s", time.Since(begin).Round(time.Millisecond), strings.Join(s, ", "))
}

// findBLAS looks where cuBLAS is installed on machines with CUDA or PyTorch.
func findBLAS() {
	if os.Getenv("TUNE_CUDA_CUBLAS") != "" {
		return
	}
	for _, pattern := range []string{
		"/usr/local/cuda/lib64/libcublas.so.1?", "/usr/local/cuda*/targets/*/lib/libcublas.so.1?",
		"/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcublas.so.1?", "/usr/lib/python3*/*-packages/nvidia/*/lib/libcublas.so.1?",
		"/opt/*/lib/python3*/site-packages/nvidia/*/lib/libcublas.so.1?",
	} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			os.Setenv("TUNE_CUDA_CUBLAS", found[len(found)-1])
			return
		}
	}
}

func TestVendorsRoutine(t *testing.T) {
	findBLAS()
	c := opened(t, gemm(), nil)
	var l wire.LoadAnswer
	if err := c.ask(wire.Load, wire.LoadRequest{Name: "blas", Routine: "cublas:gemm"}, &l, time.Minute); err != nil {
		t.Fatal(err)
	}
	c.load(t, "gemm")
	for _, s := range []wire.Shape{gemmShape(257, 130, 66), gemmShape(512, 256, 128), gemmShape(1024, 1024, 1024), gemmShape(2048, 2048, 2048), gemmShape(4096, 4096, 4096)} {
		t.Run(s.Name, func(t *testing.T) {
			a := c.parity(t, "blas", wire.Geometry{}, s, 2)
			again := c.parity(t, "blas", wire.Geometry{}, s, 2)
			if !clean(a) {
				t.Errorf("%+v", a)
			}
			var x wire.TimeAnswer
			must(t, c.ask(wire.Time, wire.TimeRequest{
				Contenders: []wire.Contender{{Binary: "blas"}}, Shape: s, Seed: 5, BatchNS: 1e6, Rounds: 10, Last: true,
			}, &x, time.Minute))
			r := x.Contenders[0]
			note(t, "cuBLAS %s: error %.2g, parity %.1f then %.1f ms, %.2f us, batch %d, sets %d, request %.1f ms, after %v", l.Version,
				float64(a.Outputs[0].Error), float64(a.ElapsedNS)/1e6, float64(again.ElapsedNS)/1e6, evaluator.Median(r.SamplesNS)/1e3, r.Batch, r.Sets, float64(x.ElapsedNS)/1e6, r.After[0].Error)
		})
	}
	s := gemmShape(257, 130, 66)
	if a := c.parity(t, "gemm", gemmGrid(257, 130), s, 2); !clean(a) {
		t.Errorf("the plain kernel: %+v", a)
	}
}

// TestSanitizers shows what the tools say, when, and of whom.
func TestSanitizers(t *testing.T) {
	tool := "compute-sanitizer"
	if _, err := exec.LookPath(tool); err != nil {
		tool = "/usr/local/cuda/bin/compute-sanitizer"
	}
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	small := axpyShape(2051)
	for _, k := range []struct{ tool, bad string }{
		{"memcheck", "past_end"}, {"memcheck", "illegal"}, {"racecheck", "shared_race"}, {"initcheck", "reads_output"}, {"synccheck", "torn_barrier"},
	} {
		t.Run(k.tool+"_"+k.bad, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(dir, k.tool+k.bad+".log")
			begin := time.Now()
			c := opened(t, axpy(), []string{tool, "--tool", k.tool, "--log-file", log}, "-share", "1")
			up := time.Since(begin)
			var took []string
			launch := func(entry string, g wire.Geometry) wire.LaunchAnswer {
				c.load(t, entry)
				var a wire.LaunchAnswer
				at := time.Now()
				must(t, c.ask(wire.Launch, wire.LaunchRequest{Binary: entry, Geometry: g, Shape: small, Seed: 1}, &a, 2*time.Minute))
				took = append(took, fmt.Sprintf("%s %.1f ms", entry, float64(time.Since(at).Microseconds())/1e3))
				return a
			}
			work, shared := line(4), line(4)
			work.Workspace, shared.Shared = 1024, 100<<10
			for _, g := range []struct {
				entry string
				g     wire.Geometry
			}{{"good", line(4)}, {"counted", work}, {"large_shared", shared}} {
				if a := launch(g.entry, g.g); a.Fault != nil {
					t.Errorf("%s: %+v", g.entry, *a.Fault)
				}
			}
			time.Sleep(100 * time.Millisecond)
			quiet, _ := os.ReadFile(log)
			a := launch(k.bad, line(4))
			at := time.Now()
			prompt := "never before the end"
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			for ctx.Err() == nil {
				if now, _ := os.ReadFile(log); len(now) > len(quiet) {
					prompt = fmt.Sprintf("%v after the answer", time.Since(at).Round(time.Millisecond))
					break
				}
				time.Sleep(2 * time.Millisecond)
			}
			var next string
			if a.Fault == nil || !a.Fault.Fatal {
				next = fmt.Sprintf("then good again: %+v", launch("good", line(4)).Fault)
			}
			c.in.Close()
			end := c.wait(30 * time.Second)
			text, _ := os.ReadFile(log)
			head := strings.Split(string(text[len(quiet):]), "\n")
			note(t, "up in %v; %s; log before %d bytes, grew %s to %d; fault %+v %s; end %v\n  quiet: %s\n  said: %s", up.Round(time.Millisecond),
				strings.Join(took, ", "), len(quiet), prompt, len(text), a.Fault, next, end, strings.TrimSpace(string(quiet)),
				strings.Join(head[:min(len(head), 9)], "\n        "))
			if strings.Contains(string(quiet), "Error") || strings.Contains(string(quiet), "hazard") {
				t.Error("clean candidates were accused")
			}
			if !strings.Contains(string(text), k.bad) {
				t.Errorf("the log does not name %s", k.bad)
			}
		})
	}
}
