package cuda

import (
	"bufio"
	"context"
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
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// stderrLimit bounds the text that is kept of what a worker writes for people.
const stderrLimit = 64 << 10

// helloTimeout is how long a worker may take to start; under a tool of
// compute-sanitizer, on a busy machine, that is seconds.
const helloTimeout = time.Minute

// A workerError says that a worker ended, or talked nonsense, in the middle of
// a request: nobody knows whose fault it was.
type workerError struct {
	reason string
	stderr string
}

func (e *workerError) Error() string {
	if s := plain.First(e.stderr); s != "" {
		return e.reason + ": " + s
	}
	return e.reason
}

// A timeoutError says that a worker did not answer and was killed.
type timeoutError struct {
	kind  wire.Kind
	after time.Duration
}

func (e *timeoutError) Error() string { return fmt.Sprintf("no answer within %v", e.after) }

// A refusal is a worker's Failure: the request could not be carried out.
type refusal struct {
	kind wire.Kind
	wire.Failure
}

func (e *refusal) Error() string { return fmt.Sprintf("the worker's %s: %s", e.kind, e.Failure.Error) }

// A worker is one process of tune-cuda. Its methods but for kill are for one
// goroutine at a time.
type worker struct {
	*process.Child
	hello   wire.HelloAnswer
	answers *bufio.Reader

	once sync.Once
	gone chan struct{} // closed when nothing is left of it
	// dead says that nothing more can be asked of it.
	dead bool
	// prepared holds the shapes and seeds whose inputs and reference it has, and
	// batches how long the baseline's take.
	prepared map[string]bool
	// settles how long one comparison with the reference, at most.
	batches, settles map[*shapeData]time.Duration
	// loaded counts the candidates that it has had.
	loaded int
	// faults is where a tool of compute-sanitizer writes what it finds.
	faults *faultLog
	// startup may make it stand still for as long as it is starting.
	startup  *startup
	starting atomic.Bool
}

// A workerSpec says how a worker is to be started.
type workerSpec struct {
	path    string
	wrapper []string // command line before it
	uuid    string   // of the GPU; "" for the first
	dir     string
	env     []string
	jail    *process.Jail // what it may reach besides dir; nil locks it into nothing
	startup *startup      // makes it stand still, while it starts, for what is timed; or nil
	// share is how many of a kind share the GPU. They sleep while they wait for
	// their turn, which leaves the cores to compilers, and keep no more than a
	// share of the memory. 0 is one whose launches are timed.
	share int
}

// startWorker starts a worker and waits for its hello.
func startWorker(ctx context.Context, l *process.Launcher, spec workerSpec) (*worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	args := append(slices.Clone(spec.wrapper), spec.path)
	if spec.share > 0 {
		args = append(args, "-share", strconv.Itoa(spec.share))
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = spec.dir
	cmd.Env = append(process.Environment(), "LC_ALL=C", "CUDA_CACHE_DISABLE=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	if spec.dir != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+spec.dir)
	}
	if spec.uuid != "" {
		cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES="+spec.uuid)
	}
	if spec.jail != nil {
		cmd.Env = append(cmd.Env, "HOME="+spec.dir) // the user's is out of reach
	}
	cmd.Env = append(cmd.Env, spec.env...)
	jail := spec.jail
	if jail != nil {
		jail = jail.With(nil, []string{spec.dir})
	}
	child, err := l.Talk(cmd, jail, stderrLimit)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	w := &worker{
		Child: child, answers: bufio.NewReaderSize(child.Out, 64<<10), gone: make(chan struct{}),
		prepared: map[string]bool{}, batches: map[*shapeData]time.Duration{}, settles: map[*shapeData]time.Duration{}, startup: spec.startup,
	}
	if w.startup != nil {
		w.starting.Store(true)
		w.startup.add(w)
	}
	if err := w.call(ctx, helloTimeout, wire.Hello, wire.HelloRequest{Version: wire.Version}, &w.hello); err != nil {
		w.kill()
		return nil, fmt.Errorf("%s: %w", filepath.Base(spec.path), err)
	}
	if w.hello.Version != wire.Version {
		w.kill()
		return nil, fmt.Errorf("%s speaks version %d of the protocol, evotune version %d: use those of one release", spec.path, w.hello.Version, wire.Version)
	}
	return w, nil
}

// call asks one request and waits for its answer. After any error but a refusal
// that is not fatal, the worker is dead. The error is a *workerError, a
// *timeoutError, a *refusal or the context's.
func (w *worker) call(ctx context.Context, timeout time.Duration, kind wire.Kind, request, answer any) error {
	if w.dead {
		return &workerError{"it had ended before", w.Stderr.Text()}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { process.KillGroup(w.PID) })
	defer stop()
	expired, answered := make(chan struct{}), make(chan struct{})
	go w.expire(timeout, expired, answered)
	err := w.exchange(kind, request, answer)
	close(answered)
	if err == nil {
		return nil
	}
	var refused *refusal
	if errors.As(err, &refused) && !refused.Fatal {
		return err
	}
	w.dead = true
	select {
	case <-expired:
		w.kill()
		return &timeoutError{kind, timeout}
	default:
	}
	if ctx.Err() != nil {
		w.kill()
		return ctx.Err()
	}
	if refused != nil {
		w.kill()
		return err
	}
	// One whose pipes are broken is ending, and how it ends is the reason. One that answered wrongly may live on.
	reason, wait := err.Error(), 100*time.Millisecond
	if errors.Is(err, errClosed) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) {
		wait = 2 * time.Second
	}
	select {
	case <-w.Exited:
		reason = endReason(w.State)
	case <-time.After(wait):
	}
	w.kill()
	return &workerError{reason, w.Stderr.Text()}
}

// expire kills a worker that has not answered in time. While it is made to stand
// still its time does, too.
func (w *worker) expire(timeout time.Duration, expired, answered chan struct{}) {
	lost := func() time.Duration { return 0 }
	if w.starting.Load() {
		lost = w.startup.lost
	}
	begin, before := time.Now(), lost()
	for {
		left := timeout + lost() - before - time.Since(begin)
		if left <= 0 {
			close(expired)
			process.KillGroup(w.PID)
			return
		}
		select {
		case <-answered:
			return
		case <-time.After(left):
		}
	}
}

// begun says that it has begun its problem, or never will.
func (w *worker) begun() {
	if w.starting.Swap(false) {
		w.startup.remove(w)
	}
}

var errClosed = errors.New("it closed its output")

// exchange writes the request and reads the answer.
func (w *worker) exchange(kind wire.Kind, request, answer any) error {
	if err := wire.Write(w.In, kind, request); err != nil {
		return fmt.Errorf("it takes no requests: %w", err)
	}
	got, body, err := wire.Read(w.answers)
	switch {
	case errors.Is(err, io.EOF):
		return errClosed
	case err != nil:
		return err
	case got == wire.Failed:
		f, err := wire.Decode[wire.Failure](body)
		if err != nil {
			return err
		}
		return &refusal{kind, f}
	case got != kind:
		return fmt.Errorf("it answered a request for %s with %s", kind, got)
	}
	if err := wire.DecodeInto(body, answer); err != nil {
		return fmt.Errorf("its answer cannot be read: %w", err)
	}
	return nil
}

func endReason(state *os.ProcessState) string {
	if state == nil {
		return "the worker ended"
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return "the worker ended: " + state.String()
	case status.Signaled():
		return "the worker was killed by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("the worker ended with status %d", status.ExitStatus())
}

// quit lets a worker end by itself, so that a tool around it can write its
// summary, and then makes sure.
func (w *worker) quit(timeout time.Duration) {
	if !w.dead {
		var a wire.QuitAnswer
		_ = w.call(context.Background(), timeout, wire.Quit, wire.QuitRequest{}, &a)
		select {
		case <-w.Exited:
		case <-time.After(timeout):
		}
	}
	w.kill()
}

// kill ends the process and all that came from it, and frees what evotune
// holds of it. It may be called again, and by others.
func (w *worker) kill() {
	w.once.Do(func() {
		w.begun()
		process.KillGroup(w.PID)
		<-w.Exited
		// A tool's child comes to us when the tool has ended.
		for {
			pid, err := unix.Wait4(-w.PID, nil, 0, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
		}
		w.Close()
		if w.faults != nil {
			w.faults.close()
		}
		close(w.gone)
	})
	<-w.gone
}

// faultText is what the driver said of a candidate, for people.
func faultText(f *wire.Fault) string {
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(f.Name, "CUDA_ERROR_"), "_", " "))
	text := fmt.Sprintf("%s failed: %s (%s, %d)", f.Call, name, f.Name, f.Code)
	if f.Why != "" {
		text += ": " + f.Why
	}
	return text
}

// faulted makes a candidate's fault of the driver's word and of what the process
// has written since it got the candidate: the text of an assert, say.
func (w *worker) faulted(f *wire.Fault) *evaluator.Fault {
	own := &evaluator.Fault{Hang: f.Name == "CUDA_ERROR_LAUNCH_TIMEOUT", Reason: faultText(f), Log: w.written()}
	if line := assertion(f, own.Log); line != "" {
		own.Reason += ": " + line
	}
	return own
}

// written is the worker's text for people since it got its last candidate, all
// of it when the worker is dead.
func (w *worker) written() string {
	if w.dead {
		w.kill()
	}
	return w.Stderr.Text()
}

// assertion is the first line by which an assert told of itself.
func assertion(f *wire.Fault, text string) string {
	if f.Name != "CUDA_ERROR_ASSERT" {
		return ""
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, " Assertion ") {
			return plain.Line(line)
		}
	}
	return ""
}
