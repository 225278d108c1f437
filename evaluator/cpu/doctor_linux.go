package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/evaluator/internal/python"
)

// trialSource is a candidate that every tool must be able to run.
const trialSource = "void evotune_call(const long *d, void *const *b, const double *s)\n" +
	"{ (void)d, (void)s; *(volatile float *)b[0] = 1; }\n"

// findTools looks for the tools of the stages before the sanitizers, and proves that the
// harness works and whether system calls are filtered in it.
func (h *lab) findTools(ctx context.Context) (sandboxed bool, err error) {
	h.Found(evaluator.Tool{Name: "compiler", Path: h.tool.path, Version: h.tool.version})

	t := evaluator.Tool{Name: "objdump", Path: labs.Find("objdump")}
	if t.Path == "" {
		t.Missing = "instructions are not counted, and what definitions require or forbid of the binary is not checked; apt-get install binutils"
	} else {
		t.Version = h.toolVersion(ctx, t.Path)
		h.objdump = t.Path
	}
	h.Found(t)

	clean := cleanFlavour()
	box := evaluator.Tool{Name: "seccomp"}
	sandboxed, err = h.try(ctx, &clean)
	switch {
	case err != nil:
		return false, fmt.Errorf("the harness does not work on this machine: %w", err)
	case !h.sandbox:
		box.Missing = "switched off: candidates may start processes and open files; what they leave running is killed"
	case !sandboxed:
		box.Missing = "this kernel refuses system call filters: candidates may start processes and open files; what they leave running is killed"
	default:
		box.Version = "filters work"
	}
	h.Found(box)
	locked := evaluator.Tool{Name: "landlock", Missing: h.tool.unjailed}
	switch {
	case !h.sandbox:
		locked.Missing = "switched off: candidates can read the user's files"
	case locked.Missing == "":
		locked.Version = fmt.Sprintf("version %d", programs.Landlock())
	}
	h.Found(locked)
	return sandboxed, nil
}

// findSanitizers looks for the sanitizers and proves that each works: one whose library is
// missing, or that this kernel does not let start, must not pass for one that finds nothing.
// Where the harness is sandboxed, it must be so in them too.
func (h *lab) findSanitizers(ctx context.Context, sandboxed bool) error {
	valgrind := labs.Find("valgrind")
	memcheck := memcheckFlavour(valgrind)
	// It would read the C library's symbols in each run, for a third of the time. It replaces functions that are exported,
	// and a finding is the candidate's wherever it shows.
	if path, err := h.tool.command(ctx, h.tool.path, "-print-file-name=libc.so.6"); err == nil {
		if symbols := symbolsOf(strings.TrimSpace(string(path))); symbols != "" {
			memcheck.unread = []string{symbols}
		}
	}
	candidates := []struct {
		flavour flavour
		path    string
		cost    string
	}{
		{asanFlavour(), h.tool.path, "reads and writes outside of buffers and undefined behavior are found only where they change an output; " + runtimeHint(h.tool, "libasan8 libubsan1")},
		{tsanFlavour(), h.tool.path, "data races are found only where they change an output; " + runtimeHint(h.tool, "libtsan2")},
		{guardsFlavour(), h.tool.path, "reads outside of buffers at other shapes than the sanitize shape are found only where they change an output"},
		{memcheck, valgrind, "decisions on uninitialised memory are not looked for; apt-get install valgrind"},
	}
	for _, c := range candidates {
		f := c.flavour
		if slices.Contains(f.args, "-g") && !h.tool.clang {
			f.args = append(f.args, quickCode...)
		}
		t := evaluator.Tool{Name: f.name, Path: c.path}
		switch {
		case !h.wanted(f.name):
			t.Missing = "switched off by the options"
		case c.path == "":
			t.Missing = c.cost
		default:
			if f.name == memcheckName {
				t.Version = h.toolVersion(ctx, c.path)
			} else {
				t.Version = h.tool.version
			}
			path, err := h.tool.buildHarness(ctx, &f, h.Scratch)
			if err == nil {
				h.harness[f.name] = path
				var filtered bool
				if filtered, err = h.try(ctx, &f); err == nil && sandboxed && !filtered {
					err = errors.New("system calls are not filtered in it")
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				t.Missing = fmt.Sprintf("it does not work here (%s): %s", plain.First(err.Error()), c.cost)
				h.Log.Warn("sanitizer does not work", "tool", f.name, "error", err)
			} else {
				h.flavours = append(h.flavours, f)
			}
		}
		h.Found(t)
	}
	reach := reachFlavour()
	if len(h.flavours) > 0 {
		if h.harness[reach.name], h.reachless = h.tool.buildHarness(ctx, &reach, h.Scratch); h.reachless == nil {
			_, h.reachless = h.try(ctx, &reach)
		}
	}
	return ctx.Err()
}

func runtimeHint(t *toolchain, packages string) string {
	if t.clang {
		return "apt-get install the libclang-rt package of this clang"
	}
	return "apt-get install " + packages
}

func (h *lab) wanted(sanitizer string) bool {
	return len(h.options.Sanitizers) == 0 || slices.Contains(h.options.Sanitizers, sanitizer)
}

// toolVersion is the version of a tool, "" where it does not tell.
func (h *lab) toolVersion(ctx context.Context, path string) string {
	v, _ := labs.Version(ctx, h.Launcher, path)
	return v
}

// try runs a trivial candidate in a flavour and says whether its process was
// sandboxed.
func (h *lab) try(ctx context.Context, f *flavour) (sandboxed bool, err error) {
	ctx, leave, err := programs.ShareHost(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	args := slices.Concat([]string{"-O1"}, f.args, []string{"-shared", "-fPIC", "trial.c"})
	object, err := h.tool.compile(ctx, compilation{files: map[string]string{"trial.c": trialSource}, args: args})
	if err != nil {
		return false, err
	}
	d := &shapeData{layout: newLayout([]placedBuffer{{name: "x", dtype: f32, elements: 1, bytes: 4, role: roleOut}})}
	a, err := newArena(d.layout.stride)
	if err != nil {
		return false, err
	}
	defer a.close()
	p, err := h.start(ctx, f, object.Object, a, nil, 1)
	if err != nil {
		return false, describeFailure(err)
	}
	defer p.kill()
	if err := p.setShape(d, span{}); err != nil {
		return false, describeFailure(err)
	}
	if _, err := p.ask(command{kind: commandRun, launches: []uint32{0}, junk: -1}, answerDone, h.options.Timeout); err != nil {
		return false, describeFailure(err)
	}
	if got := f32.get(a.buffer(&d.layout, span{}, 0, 0), 0); got != 1 {
		return false, fmt.Errorf("the trial wrote %v instead of 1", got)
	}
	return p.sandboxed, describeFailure(p.quit(h.options.Timeout))
}

// describeFailure adds what the process wrote to the reason of its failure.
func describeFailure(err error) error {
	var f *evaluator.Fault
	if errors.As(err, &f) && strings.TrimSpace(f.Log) != "" {
		return fmt.Errorf("%w: %s", err, plain.First(f.Log))
	}
	return err
}

// doctor looks for the tools without a plan.
func (b *Backend) doctor(ctx context.Context) []evaluator.Tool {
	return labs.Try(ctx, b.options.Logger, func(base *labs.Base) []evaluator.Tool {
		h := newLab(base, b.options)
		var err error
		if h.tool, err = newToolchain(ctx, b.options.Compiler, h.Launcher, h.Cache, max(b.options.Timeout, time.Minute)); err != nil {
			return []evaluator.Tool{{Name: "compiler", Missing: err.Error()}}
		}
		h.tool.lockIn(ctx, nil)
		clean := cleanFlavour()
		if h.harness["clean"], err = h.tool.buildHarness(ctx, &clean, h.Scratch); err != nil {
			return []evaluator.Tool{{Name: "compiler", Path: h.tool.path, Version: h.tool.version, Missing: "it cannot build programs: " + plain.Line(err.Error()) + "; apt-get install libc6-dev"}}
		}
		sandboxed, err := h.findTools(ctx)
		if err == nil {
			err = h.findSanitizers(ctx, sandboxed)
		}
		if err != nil {
			h.Found(evaluator.Tool{Name: "harness", Missing: err.Error()})
		}
		h.Found(python.Doctor(ctx, h.Launcher, h.options.Python))
		return h.Desc.Tools
	})
}
