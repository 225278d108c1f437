package evotune

import (
	"bufio"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/internal/backend"
)

// Options that make no sense are the caller's to correct, and what else keeps a backend
// from being made is not.
func TestBadOptions(t *testing.T) {
	if _, err := (&Machine{CPU: cpu.Options{Timeout: -1}}).backend(CPU); !errors.Is(err, ErrInput) || !errors.Is(err, cpu.ErrOptions) {
		t.Errorf("CPU: %v", err)
	}
	if _, err := (&Machine{CUDA: cuda.Options{Timeout: -1}}).backend(CUDA); !errors.Is(err, ErrInput) || !errors.Is(err, cuda.ErrOptions) {
		t.Errorf("CUDA: %v", err)
	}
	full := errors.New("no space left on device")
	if err := badOption(full, cpu.ErrOptions); errors.Is(err, ErrInput) || !errors.Is(err, full) {
		t.Errorf("the machine: %v", err)
	}
}

// helloVariable makes this program a GPU worker that says hello, and nothing else.
const helloVariable = "TUNE_TEST_HELLO" // programs that evotune starts get no EVOTUNE_*

func sayHello() {
	if _, _, err := wire.Read(bufio.NewReader(os.Stdin)); err == nil {
		_ = wire.Write(os.Stdout, wire.Hello, wire.HelloAnswer{
			Version: wire.Version, PID: os.Getpid(), Device: wire.Device{Name: "GPU", UUID: "GPU-" + os.Getenv("CUDA_VISIBLE_DEVICES"), Capability: 90},
		})
	}
}

// What of the sandbox is missing, or was not tried, is said in one line.
func TestUnlocked(t *testing.T) {
	tool := func(name, missing string) evaluator.Tool { return evaluator.Tool{Name: name, Missing: missing} }
	for _, c := range []struct {
		tools []evaluator.Tool
		want  string
	}{
		{[]evaluator.Tool{tool("compiler", ""), tool("seccomp", ""), tool("landlock", ""), tool("memcheck", "not installed")}, ""},
		{[]evaluator.Tool{tool("seccomp", "refused"), tool("landlock", "none here")}, "seccomp: refused|landlock: none here"},
		{[]evaluator.Tool{tool("seccomp", ""), tool("landlock", ""), tool("memcheck jail", "works outside")}, "memcheck jail: works outside"},
		{[]evaluator.Tool{tool("compiler", "no gcc")}, "seccomp: could not be tried (compiler: no gcc)|landlock: could not be tried (compiler: no gcc)"},
		{nil, "seccomp: could not be tried (no candidate can be run)|landlock: could not be tried (no candidate can be run)"},
	} {
		if got := strings.Join(unlocked(c.tools, "seccomp", "landlock"), "|"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.tools, got, c.want)
		}
	}
}

// Sandboxed agrees with what doctor says of this machine, and is an error where nothing
// can be tried.
func TestSandboxed(t *testing.T) {
	m := &Machine{CPU: cpu.Options{Sanitizers: []string{"none"}}}
	tools, err := m.Doctor(t.Context(), CPU)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Sandboxed(t.Context())
	if m.Available(t.Context(), CUDA) != nil && (err == nil) != (len(unlocked(tools, "seccomp", "landlock")) == 0) || err != nil && !errors.Is(err, ErrSandbox) {
		t.Errorf("%v, and doctor says %+v", err, tools)
	}
	m = &Machine{CPU: cpu.Options{Compiler: "/nonexistent/cc"}}
	if err := m.Sandboxed(t.Context()); !errors.Is(err, ErrSandbox) || !strings.Contains(err.Error(), "/nonexistent/cc") || strings.Contains(err.Error(), "\n") {
		t.Errorf("without a compiler: %v", err)
	}
}

// TestWindowOfGPUs: each GPU adds its part of the proposals in flight, unless the job says
// how many there are.
func TestWindowOfGPUs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("GPUs are used on Linux")
	}
	t.Setenv(helloVariable, "1")
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		devices     []string
		asked, want int
	}{
		{nil, 0, DefaultGPUWindow},
		{[]string{"0", "1", "2"}, 0, 3 * DefaultGPUWindow},
		{[]string{"0", "1", "0"}, 0, 2 * DefaultGPUWindow},
		{[]string{"0", "1"}, 5, 5},
	} {
		m := &Machine{CUDA: cuda.Options{Worker: self, Devices: c.devices}}
		target, err := m.Target(Job{Kernel: "gemm", Backend: CUDA, Window: c.asked})
		if err != nil {
			t.Fatal(err)
		}
		if target.Job.Window != c.want {
			t.Errorf("%v, asked for %d: %d in flight, want %d", c.devices, c.asked, target.Job.Window, c.want)
		}
	}
}

// Every backend that has facts can be opened, under its name, and each device of an accelerator used
// alone.
func TestModules(t *testing.T) {
	if len(modules) != len(backend.All()) {
		t.Errorf("%d modules for %d backends", len(modules), len(backend.All()))
	}
	m := &Machine{Definitions: []string{"x"}}
	for _, f := range backend.All() {
		b, err := m.backend(f.Name)
		if err != nil || b.Name() != f.Name {
			t.Errorf("%s: %v, %v", f.Name, b, err)
		}
		if again, _ := m.backend(f.Name); again != b {
			t.Errorf("%s is made twice: it would look for its devices again", f.Name)
		}
		if (modules[f.Name].alone != nil) != f.Accelerator {
			t.Errorf("%s: alone is for accelerators", f.Name)
		}
	}
	one := m.Alone(Accelerator{CUDA, "GPU-1"})
	if len(one.CUDA.Devices) != 1 || one.CUDA.Devices[0] != "GPU-1" || len(m.CUDA.Devices) != 0 || len(one.Definitions) != 1 {
		t.Errorf("%+v of %+v", one.CUDA, m.CUDA)
	}
}
