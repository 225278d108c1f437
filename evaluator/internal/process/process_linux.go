// Package process starts the programs that the backends of the evaluator need:
// each in a process group of its own, with a deadline, and with a death that
// follows evotune's own.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/plain"
)

// ErrTimeout is returned by Run when the program was killed at its deadline.
var ErrTimeout = errors.New("timeout")

// A Launcher starts processes from one operating system thread that lives as
// long as it does: the kernel kills a child with PR_SET_PDEATHSIG when the
// thread that started it ends, so that thread must not be one that Go may end.
// When the Launcher is closed, or evotune is killed, all its children die.
type Launcher struct {
	requests chan request
	once     sync.Once
	done     chan struct{}
	ended    chan struct{}
	jailed   sync.WaitGroup // threads of jailed programs
}

type request struct {
	cmd       *exec.Cmd
	fixedMaps bool
	jail      *Jail
	result    chan error
}

// NewLauncher returns a Launcher. Close ends it.
func NewLauncher() *Launcher {
	l := &Launcher{requests: make(chan request), done: make(chan struct{}), ended: make(chan struct{})}
	AdoptOrphans()
	go l.loop()
	return l
}

// AdoptOrphans makes this process the parent of every orphan among its descendants,
// in place of init: so one that left its group is still found.
func AdoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func (l *Launcher) loop() {
	defer close(l.ended)
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if unix.Gettid() == unix.Getpid() {
		// Go never ends the process's first thread. While this goroutine waits
		// on it, another one runs elsewhere.
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runtime.LockOSThread()
			l.serve()
		}()
		<-ended
		runtime.UnlockOSThread()
		return
	}
	l.serve()
}

func (l *Launcher) serve() {
	for {
		select {
		case <-l.done:
			return
		case r := <-l.requests:
			if r.jail != nil {
				l.jailed.Add(1)
				go l.jailer(r.cmd, r.jail, r.result)
				continue
			}
			if r.fixedMaps {
				setPersonality(addrNoRandomize)
			}
			err := r.cmd.Start()
			if r.fixedMaps {
				setPersonality(0)
			}
			r.result <- err
		}
	}
}

// Close ends the Launcher, and with it every process that it started.
func (l *Launcher) Close() {
	l.once.Do(func() { close(l.done) })
	<-l.ended
	l.jailed.Wait()
}

// Start starts a program in a process group of its own, unless cmd says
// otherwise, to be killed when the Launcher's thread ends. When the Launcher is
// closed the error is evaluator.ErrClosed.
func (l *Launcher) Start(cmd *exec.Cmd) error { return l.start(request{cmd: cmd}) }

// StartFixed is Start without randomisation of the address space.
func (l *Launcher) StartFixed(cmd *exec.Cmd) error {
	return l.start(request{cmd: cmd, fixedMaps: true})
}

func (l *Launcher) start(r request) error {
	if r.cmd.SysProcAttr == nil {
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	r.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := closeOnExec(); err != nil {
		return fmt.Errorf("keeping open files from %s: %w", r.cmd.Path, err)
	}
	r.result = make(chan error, 1)
	select {
	case l.requests <- r:
		return <-r.result
	case <-l.done:
		return evaluator.ErrClosed
	}
}

// closeOnExec keeps every open file but the standard ones from the programs that are
// started from now on, unless they are given it. Go does so with what it opens;
// whoever started evotune, and libraries of C, may have left others open.
func closeOnExec() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return err
	}
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

const addrNoRandomize = 0x0040000 // ADDR_NO_RANDOMIZE of personality(2)

// setPersonality sets the calling thread's; children inherit it.
func setPersonality(p uintptr) {
	_, _, _ = syscall.RawSyscall(unix.SYS_PERSONALITY, p, 0, 0)
}

// KillGroup kills a process that Start started and all of its group.
func KillGroup(pid int) {
	_ = unix.Kill(-pid, unix.SIGKILL)
	_ = unix.Kill(pid, unix.SIGKILL)
}

// A Child is a program that is spoken with over its streams.
type Child struct {
	PID int
	// In is what it reads, Out what it writes; Stderr is its text for people.
	In, Out *os.File
	Stderr  *Log
	// Exited is closed when it has ended; State says how.
	Exited chan struct{}
	State  *os.ProcessState
}

// Talk starts a program, in a jail where one is given, and keeps so many bytes of
// what it writes to its standard error.
func (l *Launcher) Talk(cmd *exec.Cmd, jail *Jail, kept int) (*Child, error) {
	var theirs, ours [3]*os.File
	closeAll := func(files [3]*os.File) {
		for _, f := range files {
			_ = f.Close() // of those that were not made, too
		}
	}
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(theirs)
			closeAll(ours)
			return nil, err
		}
		if theirs[i], ours[i] = w, r; i == 0 {
			theirs[i], ours[i] = r, w
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	err := l.start(request{cmd: cmd, jail: jail})
	closeAll(theirs) // the child has its own
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	c := &Child{PID: cmd.Process.Pid, In: ours[0], Out: ours[1], Stderr: NewLog(ours[2], kept), Exited: make(chan struct{})}
	go func() {
		// The exit status is in the state; an error of Wait adds nothing to it.
		c.State, _ = cmd.Process.Wait()
		close(c.Exited)
	}()
	return c, nil
}

// Ended says whether the program has ended.
func (c *Child) Ended() bool {
	select {
	case <-c.Exited:
		return true
	default:
		return false
	}
}

// Close gives up the streams of a program that has ended.
func (c *Child) Close() {
	_ = c.In.Close()
	_ = c.Out.Close()
	c.Stderr.Close()
}

// A Command is a program to Run.
type Command struct {
	Path string
	Args []string
	Dir  string
	Env  []string // added to [Made]
	// Timeout is its deadline; zero sets none.
	Timeout time.Duration
	// Memory bounds its address space in bytes; zero sets no bound.
	Memory uint64
	// CPU bounds the processor time of each of its processes, and FileSize the
	// size of each file that it writes, in bytes; zero sets no bound.
	CPU      time.Duration
	FileSize uint64
	// Jail is what it may reach, besides Dir, which it may change. Nil locks it
	// into nothing.
	Jail *Jail
	// Output bounds what is kept of both of its streams, in bytes.
	Output int
	Stdin  io.Reader
}

// Run runs a program to its end and returns what it wrote to both of its
// streams. It holds a share of the host. The error is ErrTimeout at the deadline, the
// context's when that ended first, and an *exec.ExitError when the program failed.
func (l *Launcher) Run(ctx context.Context, c Command) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, leave, err := ShareHost(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append(Made(), c.Env...)
	if c.Dir != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+c.Dir)
	}
	cmd.Stdin = c.Stdin
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	log := NewLog(r, c.Output)
	jail := c.Jail
	if jail != nil && c.Dir != "" {
		jail = jail.With(nil, []string{c.Dir})
	}
	if err := l.start(request{cmd: cmd, jail: jail}); err != nil {
		_ = w.Close()
		log.Close()
		return nil, err
	}
	_ = w.Close()
	pid := cmd.Process.Pid
	for resource, most := range map[int]uint64{
		unix.RLIMIT_AS: c.Memory, unix.RLIMIT_CPU: uint64(c.CPU / time.Second), unix.RLIMIT_FSIZE: c.FileSize,
	} {
		if most > 0 {
			bound := unix.Rlimit{Cur: most, Max: most + 1}
			_ = unix.Prlimit(pid, resource, &bound, nil)
		}
	}
	done := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(done)
	}()
	var deadline <-chan time.Time
	if c.Timeout > 0 {
		timer := time.NewTimer(c.Timeout)
		defer timer.Stop()
		deadline = timer.C
	}
	select {
	case <-done:
	case <-ctx.Done():
		KillGroup(pid)
		<-done
		ReapGroup(pid)
		err = ctx.Err()
	case <-deadline:
		KillGroup(pid)
		<-done
		ReapGroup(pid)
		err = ErrTimeout
	}
	log.Close()
	return []byte(log.Text()), err
}

// ReapGroup waits for the rest of a killed group once its first process was waited for:
// they are this process's children then (AdoptOrphans), and nobody else waits for them.
func ReapGroup(pid int) {
	for range 200 { // what the system does not let go of stays
		gone, err := unix.Wait4(-pid, nil, unix.WNOHANG, nil)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return // there are none
		case gone == 0:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// A Log keeps the first bytes of what is written to a pipe and throws away the
// rest.
type Log struct {
	pipe *os.File
	mu   sync.Mutex
	kept []byte
	cap  int
	done chan struct{}
}

// NewLog reads a pipe until it ends or the Log is closed.
func NewLog(pipe *os.File, limit int) *Log {
	l := &Log{pipe: pipe, cap: limit, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		_, _ = io.Copy(writer{l}, pipe)
	}()
	return l
}

type writer struct{ *Log }

func (w writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := w.cap - len(w.kept); room > 0 {
		w.kept = append(w.kept, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

// Text is what was written so far, without control characters. It may come from
// a candidate: text for people and nothing else.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return plain.Text(string(l.kept))
}

// Forget drops what was written so far.
func (l *Log) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = nil
}

// Close waits shortly for the rest of the text: whoever still holds the pipe's
// other end does not hold up evotune.
func (l *Log) Close() {
	select {
	case <-l.done:
	case <-time.After(200 * time.Millisecond):
	}
	_ = l.pipe.Close()
	<-l.done
}
