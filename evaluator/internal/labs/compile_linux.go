package labs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// A Compilation is one run of a compiler, in a folder of its own.
type Compilation struct {
	// Command is the compiler's. It gets the folder, and keeps no cache.
	process.Command
	Files   map[string]string
	Product string   // the file that it makes
	Marks   []string // as for [FirstError]
	// Crash is how the log tells that the compiler crashed; "" if that is no matter.
	Crash string
	// Also looks at what else is in the folder afterwards; nil looks at nothing.
	Also func(dir string)
}

// Run runs the compiler and gives what it made. The error is a *[Refusal] when it is
// the fault of the files.
func (c Compilation) Run(ctx context.Context, l *process.Launcher, cached *cache.Cache) (product []byte, log string, err error) {
	if c.Jail == nil {
		if err := Outside(c.Files); err != nil {
			return nil, "", err
		}
	}
	if c.Dir, err = cached.Scratch(); err != nil {
		return nil, "", err
	}
	defer func() { _ = os.RemoveAll(c.Dir) }()
	if err := WriteFiles(c.Dir, c.Files); err != nil {
		return nil, "", err
	}
	c.Env = append(c.Env, "CCACHE_DISABLE=1")
	text, err := l.Run(ctx, c.Command)
	log = OwnDiagnostics(string(text), c.Dir, c.Files, headersOf(c.Path)...)
	var exit *exec.ExitError
	refuse := func(format string, args ...any) error {
		return &Refusal{Summary: fmt.Sprintf(format, args...), Log: log}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, log, ctx.Err()
	case errors.Is(err, process.ErrTimeout):
		return nil, log, refuse("the compiler did not end within %v", c.Timeout)
	case !errors.As(err, &exit):
		return nil, log, fmt.Errorf("running %s: %w", c.Path, err)
	case strings.Contains(log, "File size limit exceeded"):
		return nil, log, refuse("the compiler writes a file of more than %d MiB", c.FileSize>>20)
	case c.CPU > 0 && strings.Contains(log, "CPU time limit exceeded"):
		return nil, log, refuse("the compiler needs more than %v of processor time", c.CPU)
	case c.Crash != "" && strings.Contains(log, c.Crash):
		return nil, log, &Refusal{"the compiler crashes on it", log, true}
	default:
		return nil, log, refuse("%s", FirstError(log, c.Marks...))
	}
	if product, err = os.ReadFile(filepath.Join(c.Dir, c.Product)); err != nil {
		return nil, log, fmt.Errorf("the compiler's output: %w", err)
	}
	if c.Also != nil {
		c.Also(c.Dir)
	}
	return product, log, nil
}

// Version asks a tool for the line of its version that says most.
func Version(ctx context.Context, l *process.Launcher, path string) (string, error) {
	text, err := l.Run(ctx, process.Command{Path: path, Args: []string{"--version"}, Dir: "/", Timeout: 30 * time.Second, Output: 16 << 10})
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(strings.ToLower(line), "release") || strings.Contains(line, "Version ") {
			return plain.Line(line), nil
		}
	}
	return plain.First(string(text)), nil
}

// Find finds a program on the PATH or in one of the folders; "" if it is in none.
func Find(name string, dirs ...string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, d := range dirs {
		if path, err := exec.LookPath(filepath.Join(d, name)); err == nil {
			return path
		}
	}
	return ""
}
