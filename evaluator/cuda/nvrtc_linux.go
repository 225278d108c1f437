package cuda

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator/cuda/ptx"
	"github.com/evotune/evotune/evaluator/internal/cache"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// serverVariable names the library to a child that is to compile.
const serverVariable = "EVOTUNE_NVRTC_SERVER"

// errNoLog says that diagnostics would be missed.
var errNoLog = errors.New("its log lacks what ptxas tells: does it keep what it compiled?")

// errNoServer says that children of this executable do not compile.
var errNoServer = errors.New("this program does not call cuda.CompileServerMain at its start")

// The messages between evotune and its compiling children, in gob.
type (
	serverHello struct {
		Error         string
		Major, Minor  int
		Architectures []int
	}
	serverRequest struct {
		Source  string
		Headers map[string]string
		Options []string
		PTX     bool // is wanted instead of a cubin
	}
	serverAnswer struct {
		Error string // the library's name for what went wrong
		Log   string
		Cubin []byte
		PTX   string // that it was made from, or alone
	}
)

// CompileServerMain makes a process that evotune has started for it a server
// that compiles with NVRTC, and does not return then. A program that opens the
// CUDA backend calls it before all else: NVRTC may crash, or never end, and
// compiles one source at a time in a process.
func CompileServerMain() {
	library := os.Getenv(serverVariable)
	if library == "" {
		return
	}
	// What the library prints must not come between the messages.
	out, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		os.Exit(3)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		os.Exit(3)
	}
	if err := serve(library, os.Stdin, os.NewFile(uintptr(out), "answers")); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve answers requests until there are no more.
func serve(library string, in io.Reader, out io.Writer) error {
	answers := gob.NewEncoder(out)
	lib, err := loadNVRTC(library)
	if err != nil {
		return answers.Encode(serverHello{Error: err.Error()})
	}
	if err := answers.Encode(lib.hello); err != nil {
		return err
	}
	requests := gob.NewDecoder(in)
	for {
		var r serverRequest
		if err := requests.Decode(&r); err != nil {
			return err
		}
		if err := answers.Encode(lib.compile(r)); err != nil {
			return err
		}
	}
}

// A server is a child that compiles with NVRTC.
type server struct {
	*child
	requests *gob.Encoder
	answers  *gob.Decoder
	hello    serverHello
}

func startServer(l *process.Launcher, library string, jail *process.Jail) (*server, error) {
	if os.Getenv(serverVariable) != "" {
		return nil, errNoServer
	}
	if jail != nil {
		jail = jail.With([]string{"/proc/self/exe"}, nil)
	}
	c, err := startChild(l, jail, unix.RLIMIT_AS, 16<<10, func(dir string) *exec.Cmd {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{os.Args[0]}
		// NVRTC opens the library of its builtins by name: that beside it, of its own release.
		beside := "LD_LIBRARY_PATH=" + filepath.Dir(library)
		if others := os.Getenv("LD_LIBRARY_PATH"); others != "" {
			beside += ":" + others
		}
		cmd.Env = append(process.Made(), serverVariable+"="+library, "TMPDIR="+dir, "CUDA_CACHE_DISABLE=1", beside)
		return cmd
	})
	if err != nil {
		return nil, err
	}
	s := &server{child: c, requests: gob.NewEncoder(c.In), answers: gob.NewDecoder(c.Out)}
	err = c.within(context.Background(), 20*time.Second, func() error { return s.answers.Decode(&s.hello) })
	if err != nil {
		s.kill() // its last words are read then
		text := plain.First(s.errors())
		if text != "" {
			return nil, fmt.Errorf("%w, or ended: %s", errNoServer, text)
		}
		return nil, errNoServer
	}
	if s.hello.Error != "" {
		s.kill()
		return nil, errors.New(s.hello.Error)
	}
	return s, nil
}

// nvrtc compiles in children of this executable.
type nvrtc struct {
	children[*server]
	library  string
	includes []string
	jailed   bool
	hello    serverHello
	timeout  time.Duration
}

// newNVRTC proves the first library that works by compiling with it, in the
// toolkit's jail unless it works only without.
func newNVRTC(ctx context.Context, t *toolkit, l *process.Launcher, timeout time.Duration) (*nvrtc, error) {
	n, failed := proveNVRTC(ctx, t, l, timeout)
	if failed == nil || t.jail == nil || len(t.libraries) == 0 || ctx.Err() != nil {
		return n, failed
	}
	free := *t
	free.jail = nil
	n, err := proveNVRTC(ctx, &free, l, timeout)
	if err == nil {
		t.jail, t.unjailed = nil, fmt.Sprintf("NVRTC does not work with Landlock (%s): candidates can read the user's files when they are compiled", plain.Line(failed.Error()))
	}
	return n, err
}

func proveNVRTC(ctx context.Context, t *toolkit, l *process.Launcher, timeout time.Duration) (*nvrtc, error) {
	if len(t.libraries) == 0 {
		return nil, fmt.Errorf("%w: libnvrtc.so was not found: install NVIDIA's CUDA toolkit, or its Python package nvidia-cuda-nvrtc", ErrNoCompiler)
	}
	var failures []error
	for _, library := range t.libraries {
		jail := t.jail
		start := func() (*server, error) { return startServer(l, library, jail) }
		s, err := start()
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", library, err))
			continue
		}
		n := &nvrtc{children: children[*server]{start: start, idle: []*server{s}}, library: library, includes: t.includes, jailed: t.jail != nil, hello: s.hello, timeout: timeout}
		arch := 80
		if len(n.hello.Architectures) > 0 && !slices.Contains(n.hello.Architectures, arch) {
			arch = slices.Max(n.hello.Architectures)
		}
		trial := unit{
			source: "#include <cuda_fp16.h>\n#include <mma.h>\nextern \"C\" __global__ void trial(__half *x) { x[threadIdx.x] = __float2half(1.0f); }\n",
			arch:   "sm_" + strconv.Itoa(arch),
		}
		if err := tellsTwice(func() (compiled, error) { return n.compile(ctx, trial) }); err != nil {
			n.close()
			failures = append(failures, fmt.Errorf("%s: %w", library, err))
			continue
		}
		return n, nil
	}
	return nil, fmt.Errorf("%w: %w", ErrNoCompiler, errors.Join(failures...))
}

// tellsTwice compiles the same twice and wants ptxas's text of both: the second
// could come from a cache.
func tellsTwice(compile func() (compiled, error)) error {
	for range 2 {
		out, err := compile()
		if err != nil {
			return err
		}
		var r resources
		if r.readLog(out.Log, ""); !r.told {
			return errNoLog
		}
	}
	return nil
}

func (n *nvrtc) version() string {
	return fmt.Sprintf("NVRTC %d.%d (%s)", n.hello.Major, n.hello.Minor, n.library)
}

func (n *nvrtc) identity() string {
	return cache.Key("nvrtc 4", strconv.FormatBool(n.jailed), n.library, fmt.Sprint(n.hello.Major, ".", n.hello.Minor), fmt.Sprint(n.includes))
}

// installation is the library with those that it opens beside it, and the headers.
func (n *nvrtc) installation(context.Context) (i labs.Installation, err error) {
	library, err := filepath.EvalSymlinks(n.library)
	if err != nil {
		return i, err
	}
	for _, dir := range []string{filepath.Dir(n.library), filepath.Dir(library)} {
		builtins, _ := filepath.Glob(filepath.Join(dir, "libnvrtc-builtins.so*"))
		i.Files = append(i.Files, builtins...)
	}
	if len(i.Files) == 0 {
		return i, fmt.Errorf("the builtins of %s were not found beside it", n.library)
	}
	i.Programs, i.Files = []string{n.library}, append(i.Files, n.includes...)
	return i, nil
}

func (n *nvrtc) architectures() []int { return n.hello.Architectures }

func (n *nvrtc) compile(ctx context.Context, u unit) (compiled, error) {
	out, err := n.make(ctx, u, false)
	if len(out.PTX) > cubinLimit {
		out.PTX = ""
	}
	out.PTX = ptx.Unnumbered(out.PTX)
	return out, err
}

func (n *nvrtc) ptx(ctx context.Context, u unit) (string, error) {
	out, err := n.make(ctx, u, true)
	return out.PTX, err
}

// make compiles to a cubin, or to PTX alone.
func (n *nvrtc) make(ctx context.Context, u unit, ptx bool) (compiled, error) {
	if !n.jailed {
		// NVRTC gets the files beside the source as they are, one of its name too.
		for _, files := range []map[string]string{u.files, {sourceFile: u.source}} {
			if err := labs.Outside(files); err != nil {
				return compiled{}, err
			}
		}
	}
	options := []string{"--gpu-architecture=" + u.arch, "--ptxas-options=-v"}
	if ptx {
		options[0] = "--gpu-architecture=compute_" + strings.TrimPrefix(u.arch, "sm_") // runs no ptxas
	}
	if n.hello.Major > 12 || n.hello.Major == 12 && n.hello.Minor >= 9 {
		// What comes from NVRTC's own cache comes without diagnostics, and some of
		// them reject a candidate.
		options = append(options, "--no-cache")
	}
	options = append(options, u.common()...)
	for _, d := range n.includes {
		options = append(options, "-I"+d)
	}
	request := serverRequest{Source: u.source, Headers: u.files, Options: append(options, rtcFlags(u.own())...), PTX: ptx}
	var answer serverAnswer
	text, err := n.ask(ctx, n.timeout, func(s *server) error {
		answer = serverAnswer{} // gob leaves a field alone that is zero
		if err := s.requests.Encode(request); err != nil {
			return err
		}
		return s.answers.Decode(&answer)
	})
	switch {
	case errors.Is(err, process.ErrTimeout):
		return compiled{}, &labs.Refusal{Summary: fmt.Sprintf("the compiler did not end within %v", n.timeout), Log: text}
	case errors.Is(err, errEnded):
		return compiled{}, &labs.Refusal{Summary: "the compiler crashes on it", Log: text, Crash: true}
	case err != nil:
		return compiled{}, err
	}
	out := compiled{Cubin: answer.Cubin, PTX: answer.PTX, Log: labs.OwnDiagnostics(plain.Text(answer.Log), "", u.all(), n.includes...)}
	if len(out.Cubin) > cubinLimit || ptx && len(out.PTX) > cubinLimit {
		return compiled{}, &labs.Refusal{Summary: fmt.Sprintf("the compiler writes a file of more than %d MiB", cubinLimit>>20), Log: out.Log}
	}
	if answer.Error != "" {
		if answer.Log == "" {
			out.Log = answer.Error
		}
		return out, &labs.Refusal{Summary: labs.FirstError(out.Log, errorMarks...), Log: out.Log}
	}
	return out, nil
}
