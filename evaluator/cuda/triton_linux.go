package cuda

import (
	"bufio"
	"cmp"
	"context"
	_ "embed" // for the program
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/ptx"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/evaluator/internal/python"
	"github.com/evotune/evotune/kernels"
)

//go:embed triton.py
var tritonProgram string

const (
	// tritonStart bounds the import of Triton, which reads hundreds of megabytes.
	tritonStart = 2 * time.Minute
	// tritonVersion grows when what is made of Triton's code changes.
	tritonVersion = "triton 1"
)

// triton compiles functions of Triton: in children that run Python in a jail, each one
// function at a time, and with the ptxas that comes with Triton. It never touches a GPU.
type triton struct {
	children[*tritonChild]
	python  python.Interpreter
	timeout time.Duration
	hello   tritonHello
	ptxas   *ptxas
}

// A tritonChild is one of its children.
type tritonChild struct {
	*child
	answers *bufio.Reader
	hello   tritonHello
}

// newTriton starts a first child. The error says what is missing, and what to do.
func newTriton(ctx context.Context, t *toolkit, l *process.Launcher, c *cache.Cache, name string, timeout time.Duration) (*triton, error) {
	p, err := python.Find(ctx, l, name)
	switch {
	case err != nil:
		return nil, err
	case p.Triton == "":
		return nil, fmt.Errorf("%s has no triton: install it (pip install triton), or name another Python with EVOTUNE_PYTHON", p.Path)
	}
	n := &triton{python: p, timeout: timeout}
	var jail *process.Jail // nil locks them into nothing
	if process.Landlock() > 0 {
		jail = p.Jail().With(foldersOf([]string{os.Getenv("TRITON_PTXAS_PATH")}), nil)
	}
	n.start = func() (*tritonChild, error) { return startTriton(l, p.Path, jail) }
	first, err := n.start()
	if err != nil {
		return nil, fmt.Errorf("triton %s of %s does not work: %w", p.Triton, p.Path, err)
	}
	n.idle, n.hello = append(n.idle, first), first.hello
	n.ptxas = &ptxas{path: n.hello.PTXAS, text: n.hello.PTXASVersion, launcher: l, cache: c, timeout: timeout}
	if t.jail != nil {
		n.ptxas.jail = t.jail.With(foldersOf([]string{n.hello.PTXAS}), nil)
	}
	return n, nil
}

// startTriton starts a child and waits until it has imported Triton.
func startTriton(l *process.Launcher, interpreter string, jail *process.Jail) (*tritonChild, error) {
	started, err := startChild(l, jail, unix.RLIMIT_DATA, compilerLog, func(dir string) *exec.Cmd {
		cmd := exec.Command(interpreter, "-c", tritonProgram)
		// What Triton compiles must depend on the function and its own version alone.
		cmd.Env = append(process.Made(append([]string{"TRITON_PTXAS_PATH"}, python.Variables...)...), "HOME="+dir, "TMPDIR="+dir, "TRITON_HOME="+dir, "TRITON_CACHE_DIR="+filepath.Join(dir, "cache"),
			"PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0", "CUDA_VISIBLE_DEVICES=")
		return cmd
	})
	if err != nil {
		return nil, err
	}
	c := &tritonChild{child: started, answers: bufio.NewReaderSize(started.Out, 1<<16)}
	err = c.within(context.Background(), tritonStart, func() error { return c.read(&c.hello) })
	if err == nil && c.hello.Error == "" {
		return c, nil
	}
	c.kill() // its last words are read then
	if err != nil {
		return nil, fmt.Errorf("its process ended: %s", cmp.Or(plain.Line(lastLine(c.errors())), err.Error()))
	}
	return nil, errors.New(plain.Line(c.hello.Error))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func (c *tritonChild) read(to any) error {
	line, err := c.answers.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, to)
}

func (n *triton) name() string { return n.hello.PTXAS }

func (n *triton) version() string {
	return fmt.Sprintf("Triton %s (Python %s, %s: %s)", n.hello.Version, n.hello.Python, n.hello.PTXAS, n.hello.PTXASVersion)
}

func (n *triton) identity() string {
	return cache.Key(tritonVersion, tritonProgram, n.hello.Version, n.hello.Python, n.ptxas.identity())
}

// architectures is nil: Triton compiles for the device, whichever it is.
func (n *triton) architectures() []int { return nil }

// compile has Triton compile the function of a unit, and ptxas assemble it with evotune's
// parameters.
func (n *triton) compile(ctx context.Context, u unit) (out compiled, err error) {
	number, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(u.arch, "sm_"), "af"))
	if err != nil {
		return out, fmt.Errorf("the architecture %q has no number", u.arch)
	}
	answer, err := n.answer(ctx, tritonRequest{Text: u.source, Call: u.triton, Capability: number, Debug: u.debug})
	if err != nil {
		return out, err
	}
	refuse := func(format string, args ...any) (compiled, error) {
		return out, &labs.Refusal{Summary: fmt.Sprintf(format, args...), Log: answer.Log}
	}
	if answer.Error != "" {
		at := tritonFile
		if answer.Line > 0 {
			at += ":" + strconv.Itoa(answer.Line)
		}
		return refuse("%s: error: %s", at, plain.Line(answer.Error))
	}
	var meta tritonMeta
	if err := json.Unmarshal(answer.Meta, &meta); err != nil {
		return out, fmt.Errorf("what Triton says of a kernel: %w", err)
	}
	if why := meta.refused(); why != "" {
		return refuse("%s: error: %s, which evotune does not launch", tritonFile, why)
	}
	text, err := adopt(answer.PTX, u.triton)
	if err != nil {
		return out, err
	}
	if out, err = n.assemble(ctx, text, u); err != nil {
		return out, err
	}
	out.Assembly, out.Launched = text, &fixedLaunch{Threads: 32 * meta.Warps, Shared: meta.Shared}
	return out, nil
}

// tritonFile is what a function's file is called in messages.
const tritonFile = "kernel.py"

// ptx is what compile makes, too, without what tells of lines.
func (n *triton) ptx(ctx context.Context, u unit) (string, error) {
	out, err := n.compile(ctx, u)
	return ptx.Unlined(out.Assembly), err
}

// assemble uses the architecture that the text names.
func (n *triton) assemble(ctx context.Context, ptx string, u unit) (compiled, error) {
	m := tritonTarget.FindStringSubmatch(ptx)
	if m == nil {
		return compiled{}, fmt.Errorf("the PTX of Triton names no architecture")
	}
	u.arch = m[1]
	if !u.plain && tritonLine.MatchString(ptx) {
		u.flags = append(slices.Clone(u.flags), "--ptxas-options=-lineinfo")
	}
	return n.ptxas.assemble(ctx, ptx, u)
}

// answer asks a child. The error is a *[labs.Refusal] where the function ends it, or takes
// too long.
func (n *triton) answer(ctx context.Context, r tritonRequest) (a tritonAnswer, err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	text, err := n.ask(ctx, n.timeout, func(c *tritonChild) error {
		a = tritonAnswer{}
		if _, err := c.In.Write(append(line, '\n')); err != nil {
			return err
		}
		err := c.read(&a)
		a.Log = cmp.Or(a.Log, c.errors())
		return err
	})
	switch {
	case errors.Is(err, process.ErrTimeout):
		err = &labs.Refusal{Summary: fmt.Sprintf("Triton did not end within %v", n.timeout), Log: text}
	case errors.Is(err, errEnded):
		err = &labs.Refusal{Summary: "Triton's process ended: " + cmp.Or(plain.Line(lastLine(text)), "without a word"), Log: text}
	}
	return a, err
}

// inTriton lists the implementations in Triton.
func inTriton(list []*kernels.Implementation) []*kernels.Implementation {
	return slices.DeleteFunc(slices.Clone(list), func(im *kernels.Implementation) bool { return im.Language != kernels.Triton })
}

// findTriton starts what implementations in Triton need.
func (h *lab) findTriton(ctx context.Context, list []*kernels.Implementation) error {
	list = inTriton(list)
	if len(list) == 0 {
		return nil
	}
	var err error
	if h.triton, err = newTriton(ctx, h.toolkit, h.Launcher, h.Cache, h.options.Python, max(h.options.Timeout, time.Minute)); err != nil {
		return fmt.Errorf("%w: implementation %s is in Triton: %w", ErrNoCompiler, list[0].Name, err)
	}
	h.Found(evaluator.Tool{Name: kernels.Triton, Path: h.triton.python.Path, Version: h.triton.version()})
	return nil
}

// compilerOf is what compiles a unit.
func (h *lab) compilerOf(u unit) compiler {
	if u.triton != nil {
		return h.triton
	}
	return h.compiler
}

// CompileTriton compiles a candidate in Triton for a compute capability, such as 90, as a
// lab does, and names the compiler.
func CompileTriton(o Options, src kernels.Rendered, capability int) (code TritonCode, compiler string, err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "evotune-triton-")
	if err != nil {
		return code, "", err
	}
	defer remove(dir)
	base, err := labs.New(ctx, evaluator.Plan{}, slog.New(slog.DiscardHandler), dir, 0)
	if err != nil {
		return code, "", err
	}
	defer func() { err = errors.Join(err, base.End(nil, nil)) }()
	n, err := newTriton(ctx, findToolkit(ctx, o, base.Launcher), base.Launcher, base.Cache, o.Python, max(o.Timeout, time.Minute))
	if err != nil {
		return code, "", fmt.Errorf("it is in Triton: %w", err)
	}
	defer n.close()
	out, err := n.compile(ctx, unit{source: src.Source, triton: src.Triton, arch: "sm_" + strconv.Itoa(capability)})
	if err != nil {
		return code, n.version(), logOf(err)
	}
	name, err := out.machineCode()
	return TritonCode{out.Cubin, out.Launched.Threads, out.Launched.Shared, name}, n.version(), err
}
