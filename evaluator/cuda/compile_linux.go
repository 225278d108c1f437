package cuda

import (
	"cmp"
	"context"
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

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
)

const (
	// compilerLog bounds what is kept of a compiler's text.
	compilerLog = 256 << 10
	// compilerMemory bounds the address space of nvcc's processes: a candidate
	// that unrolls without end must not take the machine with it.
	compilerMemory = 16 << 30
	// cubinLimit bounds each file that a compiler writes, in bytes.
	cubinLimit = 256 << 20
)

// nvcc is the compiler driver, one process after another.
type nvcc struct {
	path     string
	text     string // its version
	archs    []int
	launcher *process.Launcher
	cache    *cache.Cache
	timeout  time.Duration
	jail     *process.Jail
}

func newNVCC(ctx context.Context, t *toolkit, l *process.Launcher, c *cache.Cache, timeout time.Duration) (*nvcc, error) {
	if t.nvcc == "" {
		return nil, fmt.Errorf("%w: nvcc was not found: install NVIDIA's CUDA toolkit, or name its nvcc", ErrNoCompiler)
	}
	n := &nvcc{path: t.nvcc, launcher: l, cache: c, timeout: timeout, jail: t.jail}
	var err error
	if n.text, err = labs.Version(ctx, l, t.nvcc); err != nil {
		return nil, fmt.Errorf("%w: %s does not run: %w", ErrNoCompiler, t.nvcc, err)
	}
	// Where an nvcc is too old to tell, it says so when it compiles.
	list, err := l.Run(ctx, process.Command{Path: t.nvcc, Args: []string{"--list-gpu-code"}, Timeout: 30 * time.Second, Output: 16 << 10})
	if err == nil {
		for word := range strings.FieldsSeq(string(list)) {
			if a, err := strconv.Atoi(strings.TrimPrefix(word, "sm_")); err == nil {
				n.archs = append(n.archs, a)
			}
		}
	}
	if n.jail != nil {
		arch := 80
		if len(n.archs) > 0 && !slices.Contains(n.archs, arch) {
			arch = slices.Max(n.archs)
		}
		_, err := n.compile(ctx, unit{source: "#include <cuda_fp16.h>\n__global__ void trial(__half *x) { *x = __float2half(1.0f); }\n", arch: "sm_" + strconv.Itoa(arch)})
		if err != nil {
			n.jail, t.jail = nil, nil
			t.unjailed = fmt.Sprintf("%s does not work with Landlock (%s): candidates can read the user's files when they are compiled", n.path, plain.Line(err.Error()))
		}
	}
	return n, nil
}

func (n *nvcc) version() string { return "nvcc: " + n.text }
func (n *nvcc) identity() string {
	return cache.Key("nvcc 2", n.path, n.text, strconv.FormatBool(n.jail != nil))
}
func (n *nvcc) architectures() []int { return n.archs }
func (n *nvcc) close()               {}

func (n *nvcc) compile(ctx context.Context, u unit) (out compiled, err error) {
	out.Cubin, out.Log, err = n.run(ctx, u.all(), "out.cubin", slices.Concat([]string{"-cubin", "-arch=" + u.arch, "-Xptxas", "-v", "-I."}, u.common(), u.own(), []string{sourceFile})...)
	return out, err
}

func (n *nvcc) ptx(ctx context.Context, u unit) (string, error) {
	text, _, err := n.run(ctx, u.all(), "out.ptx", slices.Concat([]string{"-ptx", "-arch=" + u.arch, "-I."}, u.common(), u.own(), []string{sourceFile})...)
	return string(text), err
}

// installation is what nvcc says that it would start, and where it would look.
func (n *nvcc) installation(ctx context.Context) (i labs.Installation, err error) {
	text, err := n.launcher.Run(ctx, process.Command{
		Path: n.path, Args: []string{"--dryrun", "-cubin", "-arch=sm_80", "-o", "out.cubin", sourceFile}, Dir: "/", Timeout: 30 * time.Second, Output: 64 << 10,
	})
	if err != nil {
		return i, fmt.Errorf("%s does not say what it starts: %w", n.path, err)
	}
	var dirs []string
	find := func(program string) string {
		if filepath.IsAbs(program) {
			return program
		}
		for _, d := range dirs {
			if path, err := exec.LookPath(filepath.Join(d, program)); err == nil {
				return path
			}
		}
		return ""
	}
	i.Programs, i.Files = []string{n.path}, []string{"/etc/nvcc.profile"}
	var host string
	for line := range strings.Lines(string(text)) {
		line, _ = strings.CutPrefix(strings.TrimSpace(line), "#$ ")
		name, value, variable := strings.Cut(line, "=")
		switch words := strings.Fields(strings.ReplaceAll(line, `"`, "")); {
		case variable && name == "_HERE_":
			i.Programs = append(i.Programs, filepath.Join(value, "nvcc"))
			i.Files = append(i.Files, filepath.Join(value, "nvcc.profile"), filepath.Join(value, "crt"))
		case variable && name == "PATH":
			dirs = filepath.SplitList(value)
		case variable && name == "NVVMIR_LIBRARY_DIR":
			i.Files = append(i.Files, filepath.Clean(value))
		case variable && name == "INCLUDES":
			for _, f := range strings.Fields(strings.ReplaceAll(value, `"`, "")) {
				i.Files = append(i.Files, filepath.Clean(strings.TrimPrefix(f, "-I")))
			}
		case len(words) > 0 && slices.Contains(words, "-E"):
			host = find(words[0])
		case len(words) > 0 && (words[0] == "cicc" || words[0] == "ptxas"):
			i.Programs = append(i.Programs, cmp.Or(find(words[0]), words[0]))
		}
	}
	if host == "" || slices.ContainsFunc(i.Programs, func(p string) bool { return !filepath.IsAbs(p) }) || !slices.ContainsFunc(i.Programs, func(p string) bool { return filepath.Base(p) == "cicc" }) {
		return i, fmt.Errorf("%s starts programs that were not found", n.path)
	}
	h, err := labs.HostCompiler(ctx, n.launcher, host, "c++")
	return i.With(h), err
}

// run starts nvcc once, in a folder with some files.
func (n *nvcc) run(ctx context.Context, files map[string]string, product string, args ...string) (made []byte, log string, err error) {
	return labs.Compilation{
		Command: process.Command{
			Path: n.path, Args: append(args, "-o", product),
			Jail:    n.jail,
			Timeout: n.timeout, Output: compilerLog, Memory: compilerMemory, FileSize: cubinLimit,
		},
		Files: files, Product: product, Marks: errorMarks, Crash: "Segmentation fault",
	}.Run(ctx, n.launcher, n.cache)
}

// Fatbin compiles one source with an nvcc, whose arguments say for which devices, in the
// jail of compilers where that works: a library holds what others wrote as candidates.
func Fatbin(path, source string, args []string) (code []byte, err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "evotune-fatbin-")
	if err != nil {
		return nil, err
	}
	defer remove(dir)
	base, err := labs.New(ctx, evaluator.Plan{}, slog.New(slog.DiscardHandler), dir, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, base.End(nil, nil)) }()
	t := findToolkit(ctx, Options{NVCC: path}, base.Launcher, process.FlagPaths(args)...)
	n, err := newNVCC(ctx, t, base.Launcher, base.Cache, fatbinTimeout)
	if err != nil {
		return nil, err
	}
	code, _, err = n.run(ctx, map[string]string{sourceFile: source}, "kernel.fatbin", append(slices.Clone(args), sourceFile)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return code, nil
}

// fatbinTimeout bounds one run of nvcc for a library, which compiles for several devices.
const fatbinTimeout = 30 * time.Minute
