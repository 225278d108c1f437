package cpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/backend"
)

// harnessVersion changes whenever results of an older harness must not be
// compared with newer ones.
const harnessVersion = "cpu/14"

// Errors of the backend, for errors.Is.
var (
	// ErrNoCompiler is returned when no C compiler was found.
	ErrNoCompiler = errors.New("no C compiler")
	// ErrUnsupported is returned on systems that the backend does not know.
	ErrUnsupported = errors.New("the CPU backend needs Linux on x86-64 or 64-bit ARM")
	// ErrOptions is returned by New for options that make no sense.
	ErrOptions = errors.New("bad option of the CPU backend")
	// ErrReference is returned by Open when the reference cannot be built or
	// run.
	ErrReference = errors.New("the reference fails")
)

// Share waits until no candidate is being timed on this processor, and none is until release
// is called. Work of this process that is not a candidate's, and takes long, goes in between:
// what is timed beside it would be slower, and nothing would tell why. The error is ctx's.
func Share(ctx context.Context) (release func(), err error) {
	_, release, err = programs.ShareHost(ctx)
	return release, err
}

// Options configure the CPU backend. The zero value is a good default.
type Options struct {
	// Compiler is "auto", "gcc", "clang" or a path. Empty means "auto": $CC,
	// else gcc, else clang.
	Compiler string `flag:"compiler,auto" doc:"the C compiler: gcc, clang, a path, or auto, which is gcc, else clang"`
	// Python is the name or path of the interpreter for references in Python. Empty
	// means python3.
	Python string `flag:"python" doc:"the interpreter for references in Python: a name or a path (default: python3)"`
	// Sanitizers lists the ones to run, of "asan", "tsan" and "memcheck"
	// ("asan" includes the undefined behaviour sanitizer). Empty means all that
	// work here; "none" alone means none.
	Sanitizers []string `flag:"sanitizers" doc:"run only these sanitizers (default: all that were found)"`
	// Timeout is how long a candidate may take for one stage. Zero means 30
	// seconds.
	Timeout time.Duration `flag:"timeout,30s" minimum:"0" doc:"how long a candidate may take for one stage"`
	// CacheDir is where binaries, reference outputs and measured peaks are
	// kept. Empty means evotune in the user's cache folder.
	CacheDir string `flag:"cache-dir" doc:"where compiled candidates and references are cached (default: the user's cache folder)"`
	// CacheSize bounds that folder, in bytes. Zero means 2 GiB; a negative
	// value sets no bound.
	CacheSize int64
	// MemoryLimit is how much address space a candidate may take beyond the
	// problem's own buffers, in bytes. Zero means 2 GiB.
	MemoryLimit int64
	// Jobs bounds how many compilers and unmeasured runs go on at once. Zero
	// means one per core.
	Jobs int
	// Logger gets what happens inside. Nil discards it.
	Logger *slog.Logger

	// noSandbox leaves out the system call filter, as on a kernel without it.
	noSandbox bool
}

// The names that Options.Sanitizers takes.
const (
	asanName     = "asan"
	tsanName     = "tsan"
	memcheckName = "memcheck"
	guardsName   = "guards"
)

// Backend runs kernels on the CPU of this machine.
type Backend struct {
	options Options
}

var _ evaluator.Backend = (*Backend)(nil)

// New returns the CPU backend. It looks for nothing yet: Open and Doctor do.
func New(o Options) (*Backend, error) {
	for _, s := range o.Sanitizers {
		known := []string{asanName, tsanName, memcheckName, guardsName}
		if slices.Contains(known, s) || s == "none" && len(o.Sanitizers) == 1 {
			continue
		}
		return nil, fmt.Errorf("%w: no sanitizer is called %q: there are %s, and \"none\" alone", ErrOptions, s, strings.Join(known, ", "))
	}
	if o.Timeout < 0 || o.Jobs < 0 || o.MemoryLimit < 0 {
		return nil, fmt.Errorf("%w: a duration, a size or a count is negative", ErrOptions)
	}
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.CacheSize = cmp.Or(o.CacheSize, 2<<30)
	o.MemoryLimit = cmp.Or(o.MemoryLimit, 2<<30)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Backend{options: o}, nil
}

// Name implements [evaluator.Backend].
func (b *Backend) Name() string { return backend.CPU }

// Count implements [evaluator.Backend].
func (b *Backend) Count() int { return 1 }

// Devices implements [evaluator.Backend].
func (b *Backend) Devices(context.Context) ([]string, error) { return nil, nil }

// Together implements [evaluator.Backend].
func (b *Backend) Together(ctx context.Context) (evaluator.Device, error) { return b.Device(ctx) }

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
