package cpu

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	programs "github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/internal/words"
)

// compilerMemory bounds the address space of a compiler: a candidate that
// unrolls without end must not take the machine with it.
const compilerMemory = 6 << 30

// objectLimit bounds each file that a compiler writes, in bytes, and
// compilerCPU the processor time of each of its processes, however busy the
// machine is.
const (
	objectLimit = 64 << 20
	compilerCPU = 30 * time.Second
)

// A toolchain is one C compiler.
type toolchain struct {
	path    string
	clang   bool
	version string // its first line
	machine string // -dumpmachine
	// identity is what its output depends on beside its input.
	identity string

	launcher *programs.Launcher
	cache    *cache.Cache
	sharing  *labs.Sharing
	timeout  time.Duration
	// jail is what it may reach while it compiles; nil where it is not locked
	// in, and unjailed says why.
	jail     *programs.Jail
	unjailed string
}

// findCompiler resolves Options.Compiler.
func findCompiler(option string) (string, error) {
	var tries []string
	switch option {
	case "", "auto":
		if cc := os.Getenv("CC"); cc != "" && !strings.ContainsAny(cc, " \t") {
			tries = append(tries, cc)
		}
		tries = append(tries, "gcc", "clang", "cc")
	default:
		tries = []string{option}
	}
	for _, t := range tries {
		if path, err := exec.LookPath(t); err == nil {
			return path, nil
		}
	}
	if len(tries) == 1 {
		return "", fmt.Errorf("%w: %s was not found: name another with --compiler, or install gcc (apt-get install gcc libc6-dev)", ErrNoCompiler, option)
	}
	return "", fmt.Errorf("%w: neither gcc nor clang was found: install one (apt-get install gcc libc6-dev)", ErrNoCompiler)
}

func newToolchain(ctx context.Context, option string, l *programs.Launcher, c *cache.Cache, timeout time.Duration) (*toolchain, error) {
	path, err := findCompiler(option)
	if err != nil {
		return nil, err
	}
	t := &toolchain{path: path, launcher: l, cache: c, timeout: timeout}
	version, err := t.command(ctx, path, "--version")
	if err != nil {
		return nil, fmt.Errorf("%w: %s does not run: %w", ErrNoCompiler, path, err)
	}
	t.version, _, _ = strings.Cut(string(version), "\n")
	t.clang = strings.Contains(t.version, "clang")
	machine, err := t.command(ctx, path, "-dumpmachine")
	if err != nil {
		return nil, fmt.Errorf("%w: %s does not run: %w", ErrNoCompiler, path, err)
	}
	t.machine = strings.TrimSpace(string(machine))
	if !strings.Contains(t.machine, "linux") {
		return nil, fmt.Errorf("%w: %s %s", ErrNoCompiler, path, compilesFor(t.machine))
	}
	t.identity = cache.Key(path, t.version, t.machine, cpuFlags())
	t.sharing = &labs.Sharing{Launcher: l, Cache: c, Find: t.installation}
	return t, nil
}

// compilesFor says for what a compiler does, by its answer to -dumpmachine.
func compilesFor(machine string) string {
	if machine == "" {
		return "does not say with -dumpmachine for which machine it compiles"
	}
	return "compiles for " + words.OneLine(machine) + ", not for this machine"
}

// installation is what decides the code besides the arguments and the files. What -march=native
// means, and for which processor and caches the compiler schedules, follows from the device.
func (t *toolchain) installation(ctx context.Context) (labs.Installation, error) {
	i, err := labs.HostCompiler(ctx, t.launcher, t.path, "c")
	i.Facts = append(i.Facts, "cpu 1", t.version, t.machine, describeDevice().Fingerprint)
	return i, err
}

// lockIn has candidates compiled in a jail that holds the compiler's own folders
// and some more, if that works here.
func (t *toolchain) lockIn(ctx context.Context, more []string) {
	if programs.Landlock() == 0 {
		t.unjailed = programs.NoLandlock
		return
	}
	t.jail = programs.NewJail(append(programs.CompilerFolders(ctx, t.launcher, t.path), more...)...)
	identity := t.identity
	t.identity = cache.Key(identity, "jailed")
	trial := map[string]string{"trial.c": "#include <math.h>\n#include <stdio.h>\nint main(void) { return printf(\"%f\", cos(0)) < 0; }\n"}
	if _, err := t.compile(ctx, compilation{files: trial, args: []string{"-O2", "trial.c", "-lm", "-pthread"}}); err != nil {
		t.jail, t.identity = nil, identity
		t.unjailed = fmt.Sprintf("%s does not work with Landlock (%s): candidates can read the user's files when they run, and when they are compiled", t.path, plain.Line(err.Error()))
	}
}

// native spells out what -march=native means to the compiler on this machine, so
// that the same code can be made elsewhere. It is nil for machines whose
// instruction sets have no list, and when the compiler does not tell.
func (t *toolchain) native(ctx context.Context) []string {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	macros, err := t.command(ctx, t.path, "-march=native", "-dM", "-E", "-x", "c", os.DevNull)
	if err != nil {
		return nil
	}
	args := []string{"-march=x86-64"}
	for _, f := range append(evaluator.Features(), companions...) {
		if bytes.Contains(macros, []byte("#define "+f.Macro+" ")) {
			args = append(args, f.Flag)
		}
	}
	if t.clang {
		return args // its schedules for a processor are not to be had without its instruction set
	}
	help, err := t.command(ctx, t.path, "-march=native", "-Q", "--help=target")
	if m := tuneFor.FindSubmatch(help); err == nil && m != nil {
		args = append(args, "-mtune="+string(m[1]))
	}
	return args
}

// companions are the sets that come with another: the flag is given when the
// compiler defines the macro.
var companions = []evaluator.Feature{{Macro: "__F16C__", Flag: "-mf16c"}, {Macro: "__LZCNT__", Flag: "-mlzcnt"}, {Macro: "__MOVBE__", Flag: "-mmovbe"}}

// tuneFor finds the processor that gcc schedules for.
var tuneFor = regexp.MustCompile(`(?m)^\s*-mtune=\s+(\S+)\s*$`)

// A unit of work for the compiler: files, and the arguments that name them.
type compilation struct {
	files map[string]string
	args  []string
	// frames asks for the stack frames of the functions.
	frames bool
	// candidate says that other machines may compile it, or use what was compiled here.
	candidate bool
}

// own says whether the compilation is for this machine alone.
func (c compilation) own() bool { return !c.candidate || labs.Own(c.files, c.args) }

// compiled is what came out, and what is kept of it in the cache.
type compiled struct {
	Object []byte `json:"-"`
	Log    string `json:"log,omitempty"`
	// Frames holds the largest stack frames, "function bytes kind".
	Frame     int64  `json:"frame,omitempty"`
	FrameOf   string `json:"frame_of,omitempty"`
	FrameKind string `json:"frame_kind,omitempty"`
}

const compilerLog = 64 << 10

// key identifies the output.
func (t *toolchain) key(c compilation) string {
	parts := []string{"object 4", t.identity, strconv.FormatBool(c.frames)}
	parts = append(parts, strconv.Itoa(len(c.args)))
	parts = append(parts, c.args...)
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		parts = append(parts, name, c.files[name])
	}
	return cache.Key(parts...)
}

// compile runs the compiler, or takes the result from the cache. The error is
// a *[labs.Refusal] when the compiler refused.
func (t *toolchain) compile(ctx context.Context, c compilation) (compiled, error) {
	key := t.key(c)
	var out compiled
	if object, ok := t.sharing.Get(ctx, "objects", key, c.own(), &out); ok {
		out.Object = object
		return out, nil
	}
	out = compiled{} // of an entry that was damaged
	run := labs.Compilation{
		Command: programs.Command{
			Path: t.path, Args: append(slices.Clone(c.args), "-o", "out.so"), Jail: t.jail, Output: compilerLog,
			Timeout: t.timeout, CPU: compilerCPU, Memory: compilerMemory, FileSize: objectLimit,
		},
		Files: c.files, Product: "out.so", Marks: errorMarks,
	}
	if c.frames {
		run.Args = append(run.Args, "-fstack-usage")
		run.Also = func(dir string) { out.Frame, out.FrameOf, out.FrameKind = largestFrame(dir) }
	}
	var err error
	if out.Object, out.Log, err = run.Run(ctx, t.launcher, t.cache); err != nil {
		return out, err
	}
	t.sharing.Put(ctx, "objects", key, c.own(), out.Object, out)
	return out, nil
}

// errorMarks are in the lines of a compiler's log that say what is wrong, the first
// that occurs before the others.
var errorMarks = []string{"undefined reference", "multiple definition", "error: ", "error:", "Error: "}

// largestFrame reads what -fstack-usage wrote: "file:line:col:function bytes kind".
func largestFrame(dir string) (bytes int64, function, kind string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.su"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			if len(fields) != 3 {
				continue
			}
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil || n <= bytes {
				continue
			}
			name := fields[0]
			if i := strings.LastIndexByte(name, ':'); i >= 0 {
				name = name[i+1:]
			}
			bytes, function, kind = n, name, fields[2]
		}
	}
	return bytes, function, kind
}

// command runs one of our tools in a process group of its own and returns what
// it wrote, at most compilerLog bytes of it.
func (t *toolchain) command(ctx context.Context, path string, args ...string) ([]byte, error) {
	return runTool(ctx, t.launcher, t.timeout, "", compilerLog, path, args...)
}

// runTool runs a trusted program with a deadline; both of its streams go to
// one capped log.
func runTool(ctx context.Context, l *programs.Launcher, timeout time.Duration, dir string, limit int, path string, args ...string) ([]byte, error) {
	return l.Run(ctx, programs.Command{Path: path, Args: args, Dir: dir, Timeout: timeout, Memory: compilerMemory, Output: limit})
}
