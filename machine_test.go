package evotune

import (
	"bufio"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/evaluator/cuda/wire"
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
