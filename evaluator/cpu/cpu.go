package cpu

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/evotune/evotune/evaluator"
)

// Errors of the backend, for errors.Is.
var (
	// ErrNoCompiler is returned when no C compiler was found.
	ErrNoCompiler = errors.New("no C compiler")
	// ErrUnsupported is returned for systems that the backend does not know.
	ErrUnsupported = errors.New("the CPU backend needs Linux")
	// ErrControl is returned by Open when a negative control passes the
	// definition's tolerance.
	ErrControl = errors.New("negative control passes")
	// ErrBaseline is returned by Open when the baseline fails the ordeal.
	ErrBaseline = errors.New("the baseline fails")
	// ErrReference is returned by Open when the reference cannot be built or run.
	ErrReference = errors.New("the reference fails")
)

// Options configure the CPU backend. The zero value is a good default.
type Options struct {
	// Compiler is "auto", "gcc", "clang" or a path. Empty means "auto": $CC,
	// else gcc, else clang.
	Compiler string
	// Sanitizers lists the ones to run, of "asan", "tsan" and "memcheck"
	// ("asan" includes the undefined behaviour sanitizer). Empty means all that
	// work here; "none" means none.
	Sanitizers []string
	// Timeout is how long a candidate may take for one stage. Zero means 30
	// seconds.
	Timeout time.Duration
	// CacheDir is where binaries, reference outputs and measured peaks are
	// kept. Empty means evotune in the user's cache folder.
	CacheDir string
	// CacheSize bounds that folder, in bytes. Zero means 2 GiB; a negative
	// value sets no bound.
	CacheSize int64
	// MemoryLimit is how much address space a candidate may take beyond the
	// problem's own buffers, in bytes. Zero means 2 GiB.
	MemoryLimit int64
	// Samples bounds the pairs of samples per shape. Zero means 20.
	Samples int
	// SampleTime bounds the time spent on timing one candidate at one shape.
	// At least five pairs are taken whatever they cost. Zero means one second.
	SampleTime time.Duration
	// Jobs bounds how many compilers and unmeasured runs go on at once. Zero
	// means one per core.
	Jobs int
	// Logger gets what happens inside. Nil discards it.
	Logger *slog.Logger
}

// Backend runs kernels on the CPU of this machine.
type Backend struct {
	options Options
}

var _ evaluator.Backend = (*Backend)(nil)

// New returns the CPU backend. It looks for nothing yet: Open and Doctor do.
func New(o Options) (*Backend, error) {
	return &Backend{options: o}, nil
}

// Name implements [evaluator.Backend].
func (b *Backend) Name() string { return "cpu" }

// Doctor implements [evaluator.Backend].
func (b *Backend) Doctor(ctx context.Context) []evaluator.Tool { return nil }

// Open implements [evaluator.Backend].
func (b *Backend) Open(ctx context.Context, plan evaluator.Plan) (evaluator.Bench, error) {
	return nil, ErrUnsupported
}
