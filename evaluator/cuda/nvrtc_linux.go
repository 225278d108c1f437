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
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
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
		Cubin []byte // or the text of PTX
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

// A server is one compiling child.
type server struct {
	*process.Child
	requests *gob.Encoder
	answers  *gob.Decoder
	hello    serverHello
	// dir is where NVRTC puts its temporary files, which it leaves behind when
	// it is killed.
	dir string
}

func startServer(l *process.Launcher, library string, jail *process.Jail) (*server, error) {
	if os.Getenv(serverVariable) != "" {
		return nil, errNoServer
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0]}
	dir, err := os.MkdirTemp("", "evotune-nvrtc-")
	if err != nil {
		return nil, err
	}
	// NVRTC opens the library of its builtins by name: that beside it, of its own release.
	beside := "LD_LIBRARY_PATH=" + filepath.Dir(library)
	if others := os.Getenv("LD_LIBRARY_PATH"); others != "" {
		beside += ":" + others
	}
	cmd.Env = append(process.Environment(), "LC_ALL=C", serverVariable+"="+library, "TMPDIR="+dir, "CUDA_CACHE_DISABLE=1", beside)
	cmd.Dir = dir // a source includes nothing from where evotune was started
	if jail != nil {
		jail = jail.With([]string{"/proc/self/exe"}, []string{dir})
	}
	child, err := l.Talk(cmd, jail, 16<<10)
	if err != nil {
		_ = os.Remove(dir)
		return nil, err
	}
	for resource, most := range map[int]uint64{unix.RLIMIT_AS: compilerMemory, unix.RLIMIT_FSIZE: cubinLimit} {
		_ = unix.Prlimit(child.PID, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	s := &server{Child: child, dir: dir, requests: gob.NewEncoder(child.In), answers: gob.NewDecoder(child.Out)}
	timer := time.AfterFunc(20*time.Second, func() { process.KillGroup(s.PID) })
	err = s.answers.Decode(&s.hello)
	timer.Stop()
	if err != nil {
		s.kill()
		if text := plain.First(s.Stderr.Text()); text != "" {
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

func (s *server) kill() {
	process.KillGroup(s.PID)
	<-s.Exited
	s.Close()
	_ = os.RemoveAll(s.dir)
}

// nvrtc compiles in children of this executable.
type nvrtc struct {
	library  string
	includes []string
	jail     *process.Jail
	hello    serverHello
	launcher *process.Launcher
	timeout  time.Duration

	mu     sync.Mutex
	idle   []*server
	closed bool
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
		s, err := startServer(l, library, t.jail)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", library, err))
			continue
		}
		n := &nvrtc{library: library, includes: t.includes, jail: t.jail, hello: s.hello, launcher: l, timeout: timeout, idle: []*server{s}}
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
	return cache.Key("nvrtc 3", strconv.FormatBool(n.jail != nil), n.library, fmt.Sprint(n.hello.Major, ".", n.hello.Minor), fmt.Sprint(n.includes))
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

// acquire takes an idle child or starts one.
func (n *nvrtc) acquire() (*server, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, evaluator.ErrClosed
	}
	if k := len(n.idle); k > 0 {
		s := n.idle[k-1]
		n.idle = n.idle[:k-1]
		n.mu.Unlock()
		return s, nil
	}
	n.mu.Unlock()
	return startServer(n.launcher, n.library, n.jail)
}

func (n *nvrtc) release(s *server) {
	n.mu.Lock()
	if !n.closed {
		n.idle = append(n.idle, s)
		n.mu.Unlock()
		return
	}
	n.mu.Unlock()
	s.kill()
}

func (n *nvrtc) close() {
	n.mu.Lock()
	idle := n.idle
	n.idle, n.closed = nil, true
	n.mu.Unlock()
	for _, s := range idle {
		s.kill()
	}
}

func (n *nvrtc) compile(ctx context.Context, u unit) (compiled, error) {
	return n.make(ctx, u, false)
}

func (n *nvrtc) ptx(ctx context.Context, u unit) (string, error) {
	out, err := n.make(ctx, u, true)
	return string(out.Cubin), err
}

// make compiles to a cubin, or to PTX alone.
func (n *nvrtc) make(ctx context.Context, u unit, ptx bool) (compiled, error) {
	if n.jail == nil {
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
	ctx, leave, err := process.ShareHost(ctx)
	if err != nil {
		return compiled{}, err
	}
	defer leave()
	request := serverRequest{Source: u.source, Headers: u.files, Options: append(options, rtcFlags(u.own())...), PTX: ptx}
	for try := 0; ; try++ {
		s, err := n.acquire()
		if err != nil {
			return compiled{}, err
		}
		answer, err := s.ask(ctx, n.timeout, request)
		if err == nil {
			n.release(s)
			out := compiled{Cubin: answer.Cubin, Log: plain.Text(answer.Log)}
			if len(out.Cubin) > cubinLimit {
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
		text := s.Stderr.Text()
		s.kill()
		switch {
		case ctx.Err() != nil:
			return compiled{}, ctx.Err()
		case errors.Is(err, process.ErrTimeout):
			return compiled{}, &labs.Refusal{Summary: fmt.Sprintf("the compiler did not end within %v", n.timeout), Log: text}
		case try > 0:
			return compiled{}, &labs.Refusal{Summary: "the compiler crashes on it", Log: text, Crash: true}
		}
		// Somebody may have killed the child: a source that crashes the
		// compiler does so again.
	}
}

// ask sends one request. After an error the child is of no more use.
func (s *server) ask(ctx context.Context, timeout time.Duration, r serverRequest) (serverAnswer, error) {
	var a serverAnswer
	if err := ctx.Err(); err != nil {
		return a, err
	}
	stop := context.AfterFunc(ctx, func() { process.KillGroup(s.PID) })
	defer stop()
	expired := make(chan struct{})
	timer := time.AfterFunc(timeout, func() {
		close(expired)
		process.KillGroup(s.PID)
	})
	defer timer.Stop()
	err := s.requests.Encode(r)
	if err == nil {
		err = s.answers.Decode(&a)
	}
	if err != nil {
		select {
		case <-expired:
			return a, process.ErrTimeout
		default:
		}
	}
	return a, err
}
