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
	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/words"
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

	mu     sync.Mutex
	opened map[string]evaluator.Backend
}

// A module is how a backend is made with a Machine's options.
type module struct {
	open func(m *Machine) (evaluator.Backend, error)
	// alone makes a machine use one device alone, of those that [evaluator.Backend.Devices]
	// names; nil for a processor.
	alone func(m *Machine, device string)
}

// modules has a row for each of [backend.All].
var modules = map[string]module{
	CPU: {open: func(m *Machine) (evaluator.Backend, error) {
		b, err := cpu.New(m.CPU)
		return b, badOption(err, cpu.ErrOptions)
	}},
	CUDA: {
		open: func(m *Machine) (evaluator.Backend, error) {
			b, err := cuda.New(m.CUDA)
			return b, badOption(err, cuda.ErrOptions)
		},
		alone: func(m *Machine, device string) { m.CUDA.Devices = []string{device} },
	},
}

// backend makes the backend of a name, once: a backend remembers the devices that it found.
func (m *Machine) backend(name string) (evaluator.Backend, error) {
	module, ok := modules[name]
	if !ok {
		return nil, unknownBackend(name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.opened[name]; b != nil {
		return b, nil
	}
	b, err := module.open(m)
	if err != nil {
		return nil, err
	}
	if m.opened == nil {
		m.opened = map[string]evaluator.Backend{}
	}
	m.opened[name] = b
	return b, nil
}

func unknownBackend(name string) error {
	return badField("backend", "%q is not known: there are %s, %s and %s", name, Auto, strings.Join(backend.Names(), ", "), Replay)
}

// badOption is the error of a backend that could not be made: an ErrInput if one of its
// options is wrong, else the machine's.
func badOption(err, options error) error {
	if errors.Is(err, options) {
		return badInput(err)
	}
	return err
}

// count is on how many devices of a backend candidates are evaluated, at least one.
func (m *Machine) count(name string) int {
	if m.Elsewhere != nil {
		return m.Elsewhere.Workers
	}
	b, err := m.backend(name)
	if err != nil {
		return 1
	}
	return max(b.Count(), 1)
}

// An Accelerator is a device on which campaigns run side by side with those on other devices.
type Accelerator struct {
	Backend string
	Device  string // a GPU's UUID
}

// Accelerators lists the devices of a backend, or of all if it is Auto: those that its options
// name, such as [cuda.Options].Devices, or all if they name none. The error is that of the
// first backend whose devices cannot be used.
func (m *Machine) Accelerators(ctx context.Context, name string) (list []Accelerator, failed error) {
	for _, f := range backend.All() {
		if !f.Accelerator || name != Auto && name != f.Name {
			continue
		}
		b, err := m.backend(f.Name)
		var devices []string
		if err == nil {
			devices, err = b.Devices(ctx)
		}
		if failed == nil {
			failed = err
		}
		for _, d := range devices {
			list = append(list, Accelerator{f.Name, d})
		}
	}
	return list, failed
}

// Alone is a machine that uses one accelerator alone.
func (m *Machine) Alone(a Accelerator) *Machine {
	one := &Machine{Definitions: m.Definitions, CPU: m.CPU, CUDA: m.CUDA, Elsewhere: m.Elsewhere, ReplayLatency: m.ReplayLatency}
	modules[a.Backend].alone(one, a.Device)
	return one
}

// Offer is the device of a backend here and its limits for constraints: a worker
// sends both to its coordinator.
func (m *Machine) Offer(ctx context.Context, name string) (evaluator.Device, map[string]int64, error) {
	d, err := m.device(ctx, name)
	if err != nil {
		return d, nil, err
	}
	limits, err := m.limits(name)
	return d, limits, err
}

// Available returns why a backend cannot be used here; nil when it can.
func (m *Machine) Available(ctx context.Context, name string) error {
	if m.Elsewhere != nil {
		if m.Elsewhere.Device.Kind == name {
			return nil
		}
		return errors.New("the workers have none")
	}
	b, err := m.backend(name)
	if err != nil {
		return err
	}
	return b.Available(ctx)
}

// device describes what a backend runs candidates on, as its labs do.
func (m *Machine) device(ctx context.Context, name string) (evaluator.Device, error) {
	if m.Elsewhere != nil {
		return m.Elsewhere.Device, nil
	}
	b, err := m.backend(name)
	if err != nil {
		return evaluator.Device{}, err
	}
	return b.Together(ctx)
}

// Devices lists the devices of this machine: its accelerators, if they can be used, and its
// CPU.
func (m *Machine) Devices(ctx context.Context) ([]evaluator.Device, error) {
	var out []evaluator.Device
	for _, f := range slices.Backward(backend.All()) {
		b, err := m.backend(f.Name)
		var d evaluator.Device
		if err == nil {
			d, err = b.Device(ctx)
		}
		if err == nil {
			out = append(out, d)
		} else if !f.Accelerator {
			return nil, err
		}
	}
	return out, nil
}

// Doctor tries the tools of a backend; Auto (or empty) means those of the CPU's and, where
// they have devices, of the others. The backend Replay needs none.
func (m *Machine) Doctor(ctx context.Context, name string) ([]evaluator.Tool, error) {
	names := []string{name}
	switch name {
	case Auto, "":
		names = nil
		for _, f := range backend.All() {
			if !f.Accelerator || m.Available(ctx, f.Name) == nil {
				names = append(names, f.Name)
			}
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
			if !slices.Contains(tools, t) { // which several backends use
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
	var lacks []string
	for _, f := range backend.All() {
		on := fast
		if f.Accelerator {
			if on = m; m.Available(ctx, f.Name) != nil {
				continue
			}
		}
		tools, err := on.Doctor(ctx, f.Name)
		if err != nil {
			return err
		}
		lacks = append(lacks, unlocked(tools, f.Sandbox...)...)
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

// limits are the properties of a backend's device, for constraints.
func (m *Machine) limits(name string) (map[string]int64, error) {
	if m.Elsewhere != nil {
		return m.Elsewhere.Limits, nil
	}
	b, err := m.backend(name)
	if err != nil {
		return nil, err
	}
	return limitsOf(b.Limits())
}

// limitsOf are the limits of a device, in the form that jobs have.
func limitsOf(of map[string]any) (map[string]int64, error) {
	if of == nil {
		return nil, nil
	}
	m := make(map[string]int64, len(of))
	for name, v := range of {
		n, ok := v.(int64)
		if !ok {
			return nil, fmt.Errorf("the limit %s of the device is %v, not an integer", name, v)
		}
		m[name] = n
	}
	return m, nil
}
