package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/internal/backend"
)

// harnessVersion changes whenever results of an older harness must not be
// compared with newer ones.
const harnessVersion = "cuda/12"

// Errors of the backend, for errors.Is.
var (
	// ErrUnsupported is returned on systems that the backend does not know.
	ErrUnsupported = errors.New("the CUDA backend needs Linux on x86-64 or 64-bit ARM")
	// ErrOptions is returned by New for options that make no sense.
	ErrOptions = errors.New("bad option of the CUDA backend")
	// ErrWorker is returned when the worker is missing, or does not find a GPU.
	ErrWorker = errors.New("no GPU worker")
	// ErrNoCompiler is returned when neither NVRTC nor nvcc works.
	ErrNoCompiler = errors.New("no CUDA compiler")
	// ErrDevices is returned when the chosen GPUs are not alike.
	ErrDevices = errors.New("the GPUs differ")
	// ErrReference is returned by Open when the reference on the device cannot
	// be built or run, or disagrees with the one on the CPU.
	ErrReference = errors.New("the reference fails")
)

// Options configure the CUDA backend. The zero value is a good default.
type Options struct {
	// Worker is the path of tune-cuda. Empty means the one beside this
	// executable, else the one on the PATH.
	Worker string `flag:"cuda-worker" doc:"the GPU worker: the path of tune-cuda (default: beside tune, else on the PATH)"`
	// Devices names the GPUs by index or UUID; "all" alone means all. They must
	// be of one model. Empty means the first.
	Devices []string `flag:"cuda-devices" doc:"use this GPU, by index or UUID, or all of one model with \"all\" (default: the first)"`
	// Compiler is "auto", "nvrtc" or "nvcc". Empty means "auto": NVRTC where it
	// works, else nvcc.
	Compiler string `flag:"cuda-compiler,auto" doc:"the CUDA compiler: nvrtc, nvcc, or auto, which is NVRTC where it works, else nvcc"`
	// Python is the name or path of the interpreter for references in Python. Empty
	// means python3.
	Python string `flag:"python"`
	// NVCC is the path of nvcc. Empty means the one on the PATH, else that of
	// /usr/local/cuda.
	NVCC string `flag:"cuda-nvcc" doc:"the path of nvcc (default: the one on the PATH, else the toolkit's)"`
	// NVRTC is the path of libnvrtc.so. Empty means that of the toolkit, else
	// one of a Python package, else the one the linker finds.
	NVRTC string `flag:"cuda-nvrtc" doc:"the path of libnvrtc.so (default: the toolkit's, else that of a Python package)"`
	// Sanitizers lists the tools of compute-sanitizer to run, of "memcheck",
	// "racecheck", "synccheck" and "initcheck", "schedules", the launches with
	// delays, and "guards", those between pages that are not mapped. Empty means all that work here;
	// "none" alone means none.
	Sanitizers []string `flag:"sanitizers"`
	// SanitizeWorkers is the number of processes under each tool and GPU, and
	// twice as many under racecheck, the slowest. Zero means 2.
	SanitizeWorkers int `flag:"cuda-sanitize-workers" minimum:"0" doc:"run <N> processes for each tool of compute-sanitizer on each GPU (0: the default)"`
	// ParityWorkers is the number of processes for parity on each GPU. Zero
	// means 4.
	ParityWorkers int `flag:"cuda-parity-workers" minimum:"0" doc:"compare <N> candidates at once on each GPU (0: the default)"`
	// CompileWorkers is how many candidates are compiled or disassembled at
	// once. Zero means one per core.
	CompileWorkers int `flag:"cuda-compile-workers" minimum:"0" doc:"compile <N> candidates for GPUs at once (0: one per core)"`
	// Timeout is how long a candidate may take for one request; for one under a tool, or with
	// delays, it is four times that. Zero means 30 seconds.
	Timeout time.Duration `flag:"timeout,30s" minimum:"0"`
	// CacheDir is where binaries and measured peaks are kept. Empty means
	// evotune in the user's cache folder.
	CacheDir string `flag:"cache-dir"`
	// CacheSize bounds that folder, in bytes. Zero means 2 GiB; a negative
	// value sets no bound.
	CacheSize int64
	// Profile runs Nsight Compute over the finalists where it works.
	Profile bool `flag:"cuda-profile,true" doc:"profile finalists with Nsight Compute where it works"`
	// Logger gets what happens inside. Nil discards it.
	Logger *slog.Logger

	// For tests: a compiler that stands in for the real ones, the only folder in which programs of CUDA are
	// looked for, what is added to the environment of workers, and folders that they may write.
	compiler     compiler
	programs     string
	workerEnv    []string
	workerWrites []string
}

// The tools of compute-sanitizer.
const (
	memcheck  = "memcheck"
	racecheck = "racecheck"
	synccheck = "synccheck"
	initcheck = "initcheck"
)

// schedules is the check that runs candidates with random delays.
const schedules = evaluator.Schedules

// guards is the check that launches finalists on buffers that begin or end where mapped memory does.
const guards = evaluator.Guards

func sanitizers() []string { return []string{memcheck, racecheck, synccheck, initcheck} }

// The values of Options.Compiler.
const (
	compilerAuto  = "auto"
	compilerNVRTC = "nvrtc"
	compilerNVCC  = "nvcc"
)

// Backend runs kernels on the GPUs of this machine.
type Backend struct {
	options Options

	mu    sync.Mutex
	first *wire.Device  // the first GPU, once a worker has told of it
	gpus  []wire.Device // all of them, once workers have told
}

var _ evaluator.Backend = (*Backend)(nil)

// New returns the CUDA backend. It looks for nothing yet: Open and Doctor do.
func New(o Options) (*Backend, error) {
	for _, s := range o.Sanitizers {
		all := append(sanitizers(), schedules, guards)
		if slices.Contains(all, s) || s == "none" && len(o.Sanitizers) == 1 {
			continue
		}
		return nil, fmt.Errorf("%w: no sanitizer is called %q: there are %s, and \"none\" alone", ErrOptions, s, strings.Join(all, ", "))
	}
	switch o.Compiler {
	case "":
		o.Compiler = compilerAuto
	case compilerAuto, compilerNVRTC, compilerNVCC:
	default:
		return nil, fmt.Errorf("%w: the compiler %q is none of auto, nvrtc and nvcc", ErrOptions, o.Compiler)
	}
	if o.Timeout < 0 || o.SanitizeWorkers < 0 || o.ParityWorkers < 0 || o.CompileWorkers < 0 {
		return nil, fmt.Errorf("%w: a duration or a count is negative", ErrOptions)
	}
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.CacheSize = cmp.Or(o.CacheSize, 2<<30)
	o.SanitizeWorkers = cmp.Or(o.SanitizeWorkers, 2)
	o.ParityWorkers = cmp.Or(o.ParityWorkers, 4)
	o.CompileWorkers = cmp.Or(o.CompileWorkers, runtime.NumCPU())
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Backend{options: o}, nil
}

// Name implements [evaluator.Backend].
func (b *Backend) Name() string { return backend.CUDA }

// Doctor implements [evaluator.Backend].
func (b *Backend) Doctor(ctx context.Context) []evaluator.Tool { return b.doctor(ctx) }

// Open implements [evaluator.Backend].
func (b *Backend) Open(ctx context.Context, plan evaluator.Plan) (evaluator.Lab, error) {
	l, err := b.open(ctx, plan)
	if err != nil {
		return nil, err // and no lab that is a nil pointer
	}
	return l, nil
}

// Available implements [evaluator.Backend]: it is nil when a worker has found a GPU.
func (b *Backend) Available(ctx context.Context) error {
	_, err := b.probe(ctx)
	return err
}

// Device implements [evaluator.Backend].
func (b *Backend) Device(ctx context.Context) (evaluator.Device, error) {
	d, err := b.probe(ctx)
	if err != nil {
		return evaluator.Device{}, err
	}
	return describeDevice([]wire.Device{d}), nil
}

// Together implements [evaluator.Backend].
func (b *Backend) Together(ctx context.Context) (evaluator.Device, error) {
	devices, err := b.all(ctx)
	if err != nil {
		return evaluator.Device{}, err
	}
	return describeDevice(devices), nil
}

// Limits implements [evaluator.Backend].
func (b *Backend) Limits() map[string]any {
	d, err := b.probe(context.Background())
	if err != nil {
		return nil
	}
	return limitsOf(d)
}

// Count implements [evaluator.Backend].
func (b *Backend) Count() int {
	devices, err := b.all(context.Background())
	if err != nil {
		return 0
	}
	return len(devices)
}

// Devices implements [evaluator.Backend]: it gives the UUID of each GPU.
func (b *Backend) Devices(ctx context.Context) ([]string, error) { return b.uuids(ctx) }

func limitsOf(d wire.Device) map[string]any {
	return map[string]any{
		"device_cores":            int64(d.SMs),
		"device_l2_bytes":         d.L2Bytes,
		"device_l3_bytes":         int64(0),
		"device_line_bytes":       int64(128),
		"device_capability":       int64(d.Capability),
		"device_warp":             int64(32),
		"device_max_threads":      int64(1024),
		"device_max_shared_bytes": d.SharedOptin,
		"device_registers":        int64(d.RegistersSM),
	}
}
