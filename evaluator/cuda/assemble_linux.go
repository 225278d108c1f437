package cuda

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// An assembler makes what a worker loads out of PTX.
type assembler interface {
	// assemble takes the architecture and ptxas's flags from the unit. The error is a
	// *[labs.Refusal] when it is the text's fault.
	assemble(ctx context.Context, ptx string, u unit) (compiled, error)
	// name is for people; identity all that the output depends on besides the text
	// and the unit.
	name() string
	identity() string
}

// assemblyFile is the name of a text of PTX in diagnostics.
const assemblyFile = "kernel.ptx"

func (n *nvcc) name() string { return n.path }

func (n *nvcc) assemble(ctx context.Context, ptx string, u unit) (out compiled, err error) {
	args := []string{"-cubin", "-arch=" + u.arch, "-Xptxas", "-v"}
	options, registers := u.ptxasFlags()
	for _, o := range options {
		args = append(args, "-Xptxas", o)
	}
	if registers != "" {
		args = append(args, "--maxrregcount="+registers)
	}
	out.Cubin, out.Log, err = n.run(ctx, map[string]string{assemblyFile: ptx}, "out.cubin", append(args, assemblyFile)...)
	return out, err
}

// ptxas is the assembler of a toolkit without nvcc, or with another.
type ptxas struct {
	path     string
	text     string // its version
	launcher *process.Launcher
	cache    *cache.Cache
	timeout  time.Duration
	jail     *process.Jail
}

func (p *ptxas) name() string     { return p.path }
func (p *ptxas) identity() string { return cache.Key("ptxas 1", p.path, p.text) }

func (p *ptxas) installation(context.Context) (labs.Installation, error) { //nolint:unparam // as of other tools
	return labs.Installation{Programs: []string{p.path}}, nil
}

func (p *ptxas) assemble(ctx context.Context, ptx string, u unit) (out compiled, err error) {
	args := []string{"-v", "-arch=" + u.arch}
	options, registers := u.ptxasFlags()
	args = append(args, options...)
	if registers != "" {
		args = append(args, "--maxrregcount="+registers)
	}
	run := labs.Compilation{
		Command: process.Command{
			Path: p.path, Args: append(args, "-o", "out.cubin", assemblyFile),
			Jail:    p.jail,
			Timeout: p.timeout, Output: compilerLog, Memory: compilerMemory, FileSize: cubinLimit,
		},
		Files: map[string]string{assemblyFile: ptx}, Product: "out.cubin", Marks: errorMarks, Crash: "Segmentation fault",
	}
	out.Cubin, out.Log, err = run.Run(ctx, p.launcher, p.cache)
	return out, err
}

// driver leaves it to the GPU's driver to assemble what it loads.
type driver struct{ version string }

func (d driver) name() string     { return "the driver" }
func (d driver) identity() string { return cache.Key("driver 1", d.version) }

func (d driver) assemble(_ context.Context, ptx string, _ unit) (compiled, error) {
	return compiled{Cubin: []byte(ptx)}, nil
}

// installation is nothing: what the driver assembles is what it gets.
func (d driver) installation(context.Context) (labs.Installation, error) {
	return labs.Installation{}, nil
}

// assemblers lists what may take this lab's PTX, the best first: the compiler's own, since
// another release's may not know the version of its PTX.
func (h *lab) assemblers(ctx context.Context) (list []assembler) {
	if own, ok := h.compiler.(assembler); ok {
		return append(list, own)
	}
	timeout := max(h.options.Timeout, time.Minute)
	var paths []string
	if n, ok := h.compiler.(*nvrtc); ok { // beside it is what came with it
		paths = append(paths, filepath.Join(filepath.Dir(n.library), "..", "bin", "ptxas"))
	}
	if h.toolkit.nvcc != "" {
		paths = append(paths, filepath.Join(filepath.Dir(h.toolkit.nvcc), "ptxas"))
	}
	paths = append(paths, h.toolkit.ptxas)
	var tried []string
	for _, path := range paths {
		if path = filepath.Clean(path); path == "." || slices.Contains(tried, path) {
			continue
		}
		tried = append(tried, path)
		version, err := labs.Version(ctx, h.Launcher, path)
		if err != nil {
			continue
		}
		jail := h.toolkit.jail
		if jail != nil {
			jail = jail.With([]string{path}, nil)
		}
		list = append(list, &ptxas{path: path, text: version, launcher: h.Launcher, cache: h.Cache, timeout: timeout, jail: jail})
	}
	return append(list, driver{h.gpus[0].device.DriverString})
}
