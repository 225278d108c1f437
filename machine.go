package evotune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/internal/words"
	"github.com/evotune/evotune/kernels"
)

// A Machine says how candidates are compiled, run and measured here. The zero value is
// this machine with its defaults. A Machine is safe for concurrent use if its fields do
// not change after the first use.
//
// Campaigns of one process, of one Machine or of several, may run at once and take turns:
// while one times on the CPU, none compiles or launches there, and on each GPU one times
// while the others wait. That slows the campaigns down, but not the times that they
// measure. Timing on a GPU does not wait for the host, and workers of GPUs go on while the
// CPU is timed. Campaigns of different processes do not coordinate: each sees the other's
// work as a disturbance.
type Machine struct {
	// Definitions are folders with definitions of kernels. They replace built-in
	// kernels of the same name and those that a recorded campaign names.
	Definitions []string
	// CPU configures the CPU backend: compiler, sanitizers, timeouts, cache.
	CPU cpu.Options
	// CUDA configures the CUDA backend: worker, devices, compilers, sanitizers,
	// timeouts, cache.
	CUDA cuda.Options
	// Elsewhere, when not nil, is the device of the workers of a fleet: jobs are for that device,
	// and nothing is compiled or run here (see Options.Fleet).
	Elsewhere *FleetDevice
	// ReplayLatency is how long the backend Replay takes for every evaluation. Zero
	// means no time.
	ReplayLatency time.Duration

	once struct {
		sync.Mutex
		cpu  *cpu.Backend
		cuda *cuda.Backend
	}
}

// A limitedBackend is a backend that reports the properties of its device that
// constraints may name.
type limitedBackend interface {
	evaluator.Backend
	Limits() map[string]any
}

// backend makes the backend of a name.
func (m *Machine) backend(name string) (limitedBackend, error) {
	switch name {
	case CPU:
		return m.cpuBackend()
	case CUDA:
		return m.cudaBackend()
	}
	return nil, unknownBackend(name)
}

func unknownBackend(name string) error {
	return badInput(fmt.Errorf("unknown backend %q: there are %s, %s and %s", name, Auto, strings.Join(kernels.Backends(), ", "), Replay))
}

// cudaBackend makes the CUDA backend, once: the backend remembers the GPU that it
// found.
func (m *Machine) cudaBackend() (*cuda.Backend, error) {
	m.once.Lock()
	defer m.once.Unlock()
	if m.once.cuda != nil {
		return m.once.cuda, nil
	}
	b, err := cuda.New(m.CUDA)
	if err != nil {
		return nil, badOption(err, cuda.ErrOptions)
	}
	m.once.cuda = b
	return b, nil
}

func (m *Machine) cpuBackend() (*cpu.Backend, error) {
	m.once.Lock()
	defer m.once.Unlock()
	if m.once.cpu != nil {
		return m.once.cpu, nil
	}
	b, err := cpu.New(m.CPU)
	if err != nil {
		return nil, badOption(err, cpu.ErrOptions)
	}
	m.once.cpu = b
	return b, nil
}

// badOption is the error of a backend that could not be made: an ErrInput if one of its
// options is wrong, else the machine's.
func badOption(err, options error) error {
	if errors.Is(err, options) {
		return badInput(err)
	}
	return err
}

// gpus is how many GPUs evaluate candidates, at least one.
func (m *Machine) gpus() int {
	if m.Elsewhere != nil {
		return m.Elsewhere.Workers
	}
	b, err := m.cudaBackend()
	if err != nil {
		return 1
	}
	return max(b.GPUs(), 1)
}

// GPUs returns the UUID of each of the GPUs of [cuda.Options].Devices. Set Devices to one
// UUID for a machine that uses that GPU alone.
func (m *Machine) GPUs(ctx context.Context) ([]string, error) {
	b, err := m.cudaBackend()
	if err != nil {
		return nil, err
	}
	return b.UUIDs(ctx)
}

// Offer is the device of a backend here, CPU or CUDA, and its limits for constraints: a worker
// sends both to its coordinator.
func (m *Machine) Offer(ctx context.Context, backend string) (evaluator.Device, map[string]int64, error) {
	d, err := m.device(ctx, backend)
	if err != nil {
		return d, nil, err
	}
	limits, err := m.limits(backend)
	return d, limits, err
}

// GPU returns why the CUDA backend cannot be used here; nil when it can.
func (m *Machine) GPU(ctx context.Context) error {
	if m.Elsewhere != nil {
		if m.Elsewhere.Device.Kind == CUDA {
			return nil
		}
		return errors.New("the workers have none")
	}
	b, err := m.cudaBackend()
	if err != nil {
		return err
	}
	return b.Available(ctx)
}

// device describes what a backend runs candidates on, as its labs do.
func (m *Machine) device(ctx context.Context, backend string) (evaluator.Device, error) {
	if m.Elsewhere != nil {
		return m.Elsewhere.Device, nil
	}
	if backend == CUDA {
		b, err := m.cudaBackend()
		if err != nil {
			return evaluator.Device{}, err
		}
		return b.Together(ctx)
	}
	b, err := m.cpuBackend()
	if err != nil {
		return evaluator.Device{}, err
	}
	return b.Device(), nil
}

// Devices lists the devices of this machine: its GPU, if it can be used, and its CPU.
func (m *Machine) Devices(ctx context.Context) ([]evaluator.Device, error) {
	var out []evaluator.Device
	if b, err := m.cudaBackend(); err == nil {
		if d, err := b.Device(ctx); err == nil {
			out = append(out, d)
		}
	}
	b, err := m.cpuBackend()
	if err != nil {
		return nil, err
	}
	return append(out, b.Device()), nil
}

// Doctor tries the tools of a backend; Auto (or empty) means those of the CPU's and,
// where there is a GPU, of the CUDA backend. The backend Replay needs none.
func (m *Machine) Doctor(ctx context.Context, backend string) ([]evaluator.Tool, error) {
	names := []string{backend}
	switch backend {
	case Auto, "":
		names[0] = CPU
		if m.GPU(ctx) == nil {
			names = append(names, CUDA)
		}
	case Replay:
		return nil, nil
	}
	var tools []evaluator.Tool
	for _, name := range names {
		b, err := m.backend(name)
		if err != nil {
			return nil, err
		}
		for _, t := range b.Doctor(ctx) {
			if !slices.Contains(tools, t) { // which both backends use
				tools = append(tools, t)
			}
		}
	}
	return tools, nil
}

// Sandboxed tests what keeps candidates, and the tools that handle them, from the files,
// the sockets and the processes of the user who runs them. The error, an [ErrSandbox],
// says in one line what does not work on this machine. The test takes some seconds, and
// longer where there is a GPU, whose workers and compilers are tested too.
func (m *Machine) Sandboxed(ctx context.Context) error {
	fast := &Machine{CPU: m.CPU}
	fast.CPU.Sanitizers = []string{"none"} // a tool that is not jailed does not run
	tools, err := fast.Doctor(ctx, CPU)
	if err != nil {
		return err
	}
	lacks := unlocked(tools, "seccomp", "landlock")
	if m.GPU(ctx) == nil {
		gpu, err := m.Doctor(ctx, CUDA)
		if err != nil {
			return err
		}
		lacks = append(lacks, unlocked(gpu, "landlock", "worker jail")...)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%w: %s", ErrSandbox, words.OneLine(strings.Join(lacks, "; ")))
	}
	return nil
}

// unlocked says which parts of the sandbox are missing or were not tried, and which
// tools run outside of it.
func unlocked(tools []evaluator.Tool, parts ...string) (lacks []string) {
	for _, t := range tools {
		if i := slices.Index(parts, t.Name); i >= 0 {
			parts = slices.Delete(slices.Clone(parts), i, i+1)
		} else if !strings.HasSuffix(t.Name, " jail") {
			continue
		}
		if t.Missing != "" {
			lacks = append(lacks, t.Name+": "+t.Missing)
		}
	}
	for _, name := range parts {
		why := "no candidate can be run"
		if i := slices.IndexFunc(tools, func(t evaluator.Tool) bool { return t.Missing != "" }); i >= 0 {
			why = tools[i].Name + ": " + tools[i].Missing
		}
		lacks = append(lacks, name+": could not be tried ("+why+")")
	}
	return lacks
}

// definition finds a kernel.
func (m *Machine) definition(kernel string) (*kernels.Definition, error) {
	catalogue, err := kernels.Open(m.Definitions...)
	if err != nil {
		return nil, err
	}
	return catalogue.Get(kernel)
}
