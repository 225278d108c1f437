package cpu

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	programs "github.com/evotune/evotune/evaluator/internal/process"
)

// runVariable marks the environment of a candidate, so that what it leaves
// behind can be told from other processes.
const runVariable = "EVOTUNE_RUN"

// logLimit bounds the text that is kept of what a candidate writes.
const logLimit = 64 << 10

// A failure is a candidate's own fault, met while it ran.
type failure struct {
	verdict evaluator.Verdict
	reason  string
	// log is what it wrote to standard error.
	log string
}

func (f *failure) Error() string { return f.reason }

// A runSpec says how a harness process is to be started.
type runSpec struct {
	harness   string   // path of the harness
	wrapper   []string // command line before it, for valgrind
	object    *os.File // shared object to load
	arena     *arena
	env       []string // added to a minimal environment
	scratch   string   // folder for temporary files of tools
	sandbox   bool
	limits    bool
	heap      bool
	fixedMaps bool
	memory    int64         // address space beyond the arena
	deadline  time.Duration // to start and load
	cpu       time.Duration // processor time, all in all
}

// A process is a harness with a candidate in it. Its methods are for one
// goroutine at a time.
type process struct {
	pid       int
	control   *os.File
	log       *programs.Log
	exited    chan struct{}
	state     *os.ProcessState
	token     string
	nonce     uint64
	seq       uint64
	sandboxed bool
	// noise counts packets that were no answers: the candidate wrote them.
	noise    int
	stopped  bool
	stop     func() bool // of the context's watcher
	ctx      context.Context
	ended    bool
	leftover int
}

// errProcess is returned for failures of the harness that are not the
// candidate's.
var errProcess = errors.New("the harness process failed")

// startProcess starts a harness and waits until it is ready to load.
func startProcess(ctx context.Context, l *programs.Launcher, spec runSpec) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: socketpair: %w", errProcess, err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer discard(theirs) // again, harmlessly, where nothing goes wrong
	if err := unix.SetNonblock(pair[0], true); err != nil {
		_ = unix.Close(pair[0])
		return nil, fmt.Errorf("%w: %w", errProcess, err)
	}
	control := os.NewFile(uintptr(pair[0]), "control")

	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		discard(control)
		return nil, fmt.Errorf("%w: %w", errProcess, err)
	}
	p := &process{
		control: control,
		exited:  make(chan struct{}),
		token:   hex.EncodeToString(secret[8:]),
		nonce:   binary.NativeEndian.Uint64(secret[:]),
		ctx:     ctx,
	}
	options := ""
	if spec.sandbox {
		options += "s"
	}
	if spec.limits {
		options += "l"
	}
	if spec.heap {
		options += "h"
	}
	args := append(append([]string{}, spec.wrapper...), spec.harness,
		strconv.FormatUint(p.nonce, 16),
		strconv.FormatInt(spec.arena.size(), 10),
		strconv.FormatInt(spec.memory, 10),
		strconv.FormatInt(int64(spec.cpu/time.Second)+1, 10),
		options+".")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", runVariable + "=" + p.token,
		"TMPDIR=" + spec.scratch,
	}, spec.env...)
	cmd.ExtraFiles = []*os.File{theirs, spec.arena.file, spec.object}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r, w, err := os.Pipe()
	if err != nil {
		discard(control)
		return nil, fmt.Errorf("%w: %w", errProcess, err)
	}
	cmd.Stderr = w
	p.log = programs.NewLog(r, logLimit)
	if spec.fixedMaps {
		err = l.StartFixed(cmd)
	} else {
		err = l.Start(cmd)
	}
	// While this end is open here, the death of the other would not be seen.
	discard(theirs)
	discard(w)
	if err != nil {
		discard(control)
		p.log.Close()
		return nil, fmt.Errorf("%w: starting %s: %w", errProcess, args[0], err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		// The exit status is in the state; an error of Wait adds nothing to it.
		p.state, _ = cmd.Process.Wait()
		close(p.exited)
	}()
	p.stop = context.AfterFunc(ctx, p.signalKill)
	a, err := p.receive(answerReady, spec.deadline)
	if err != nil {
		p.kill()
		var f *failure
		if errors.As(err, &f) {
			// Nothing of the candidate has been loaded yet.
			return nil, fmt.Errorf("%w before it was ready: %s %s", errProcess, f.reason, f.log)
		}
		return nil, err
	}
	p.sandboxed = spec.sandbox && a.Error == 0
	return p, nil
}

// send writes one command and lets the process go on if it is frozen: it has
// no time for anything else than what it is told.
func (p *process) send(c command) error {
	p.seq++
	c.nonce, c.seq = p.nonce, p.seq
	if err := p.control.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return fmt.Errorf("%w: %w", errProcess, err)
	}
	if _, err := p.control.Write(c.append(make([]byte, 0, 4096))); err != nil {
		if p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		return p.died("ended before it was asked")
	}
	return p.thaw()
}

// receive waits for the answer to the last command. What is no answer, or an
// answer to something else, was written by the candidate and is passed over.
func (p *process) receive(want answerKind, deadline time.Duration) (answer, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errProcess, err)
	}
	buffer := make([]byte, 4096)
	for {
		n, err := p.control.Read(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if p.ctx.Err() != nil {
				return answer{}, p.ctx.Err()
			}
			return answer{}, p.fail(evaluator.Timeout, fmt.Sprintf("no answer within %v", deadline))
		case err != nil || n == 0:
			if p.ctx.Err() != nil {
				return answer{}, p.ctx.Err()
			}
			return answer{}, p.died("")
		}
		a, err := parseAnswer(buffer[:n])
		if err != nil || a.Nonce != p.nonce || a.Seq != p.seq {
			p.noise++
			continue
		}
		switch a.Kind {
		case want:
			return a, nil
		case answerDenied:
			return answer{}, p.fail(evaluator.Launch, deniedReason(a.Value))
		case answerFailed:
			return answer{}, p.fail(evaluator.Launch, failedReason(a))
		default:
			p.noise++
		}
	}
}

func failedReason(a answer) string {
	if a.Error == 0 {
		return a.Text
	}
	return fmt.Sprintf("%s: %s", a.Text, syscall.Errno(a.Error))
}

// died says why the socket was closed: the process ended, or closed it.
func (p *process) died(hint string) error {
	select {
	case <-p.exited:
	case <-time.After(2 * time.Second):
		return p.fail(evaluator.Launch, "closed the harness's descriptors")
	}
	reason := exitReason(p.state)
	if hint != "" {
		reason += " (" + hint + ")"
	}
	verdict := evaluator.Launch
	if p.state != nil {
		if s, ok := p.state.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGXCPU {
			verdict = evaluator.Timeout
		}
	}
	return p.fail(verdict, reason)
}

// fail ends the process and makes the candidate's failure out of what it did.
func (p *process) fail(verdict evaluator.Verdict, reason string) *failure {
	p.kill()
	if p.leftover > 0 {
		reason += fmt.Sprintf("; left %d processes running", p.leftover)
	}
	return &failure{verdict, reason, p.log.Text()}
}

func exitReason(state *os.ProcessState) string {
	if state == nil {
		return "ended"
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return "ended: " + state.String()
	case status.Signaled():
		switch s := status.Signal(); s {
		case syscall.SIGSEGV:
			return "killed by SIGSEGV: it touched memory that it does not have, or overflowed the stack"
		case syscall.SIGXFSZ:
			return "killed by SIGXFSZ: it wrote to a file"
		case syscall.SIGXCPU:
			return "killed by SIGXCPU: it used up its processor time"
		case syscall.SIGSYS:
			return "killed by SIGSYS: a system call that is refused to candidates"
		default:
			return "killed by " + unix.SignalName(s)
		}
	case status.ExitStatus() == 71 || status.ExitStatus() == 73:
		return "closed the harness's descriptors"
	default:
		return fmt.Sprintf("called exit (status %d) instead of returning", status.ExitStatus())
	}
}

// ask sends a command and waits for its answer.
func (p *process) ask(c command, want answerKind, deadline time.Duration) (answer, error) {
	if err := p.send(c); err != nil {
		return answer{}, err
	}
	return p.receive(want, deadline)
}

// freeze stops every thread of the process and returns when they have stopped.
func (p *process) freeze() error {
	if p.stopped {
		return nil
	}
	if err := unix.Kill(p.pid, unix.SIGSTOP); err != nil {
		return p.died("")
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WSTOPPED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			if p.ctx.Err() != nil {
				return p.ctx.Err()
			}
			return p.died("")
		}
		p.stopped = true
		return nil
	}
}

// thaw lets it go on.
func (p *process) thaw() error {
	if !p.stopped {
		return nil
	}
	p.stopped = false
	if err := unix.Kill(p.pid, unix.SIGCONT); err != nil {
		return p.died("")
	}
	return nil
}

// cpuTime is the processor time that the kernel accounted to all threads of
// the process: a witness that the candidate cannot reach.
func (p *process) cpuTime() (time.Duration, error) {
	var t unix.Timespec
	clock := int32(^p.pid<<3 | 2) // CPUCLOCK_SCHED of the process, see clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, p.died("")
	}
	return time.Duration(t.Nano()), nil
}

// threads counts the threads of the process.
func (p *process) threads() int {
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.pid), "task"))
	if err != nil {
		return 0
	}
	return len(entries)
}

// quit asks the process to end and returns its exit status. Processes that it
// left are killed and counted.
func (p *process) quit(deadline time.Duration) (status int, err error) {
	if err := p.send(command{kind: commandQuit, junk: -1}); err != nil {
		return 0, err
	}
	select {
	case <-p.exited:
	case <-p.ctx.Done():
		p.kill()
		return 0, p.ctx.Err()
	case <-time.After(deadline):
		return 0, p.fail(evaluator.Timeout, fmt.Sprintf("did not end within %v", deadline))
	}
	p.kill()
	if p.leftover > 0 {
		return 0, &failure{evaluator.Launch, fmt.Sprintf("left %d processes running", p.leftover), p.log.Text()}
	}
	if p.state == nil {
		return 0, fmt.Errorf("%w: it ended without a status", errProcess)
	}
	if s, ok := p.state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 0, &failure{evaluator.Launch, exitReason(p.state) + " (while it ended)", p.log.Text()}
	}
	return p.state.ExitCode(), nil
}

func (p *process) signalKill() {
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	_ = unix.Kill(p.pid, unix.SIGKILL)
}

// kill ends the process and all that came from it, and frees what evotune
// holds of it. It may be called again.
func (p *process) kill() {
	if p.ended {
		return
	}
	p.ended = true
	p.stop()
	p.leftover += p.reap(false)
	p.signalKill()
	<-p.exited
	p.leftover += p.reap(true)
	discard(p.control)
	p.log.Close()
}

// reap looks for processes that the candidate started. Where the sandbox works
// there are none, and nothing is searched. With final set they are killed;
// otherwise those that still have the candidate for a parent are only counted.
func (p *process) reap(final bool) int {
	if p.sandboxed {
		return 0
	}
	if !final {
		found := 0
		for _, q := range processes() {
			if q.group == p.pid && q.pid != p.pid && q.state != 'Z' {
				found++
			}
		}
		return found
	}
	// The process table is read line by line while processes start and end: a
	// daemon can be missed in one reading while its parent goes away. Only two
	// readings in a row without a find are believed.
	counted := map[int]bool{}
	for tries, clean := 0, 0; clean < 2 && tries < 200; tries++ {
		clean++
		for _, q := range processes() {
			if q.pid == p.pid || q.pid == os.Getpid() {
				continue
			}
			if q.group != p.pid && !hasVariable(q.pid, runVariable+"="+p.token) {
				continue
			}
			if q.group != p.pid && q.state != 'Z' {
				counted[q.pid] = true
			}
			clean = 0
			_ = unix.Kill(q.pid, unix.SIGKILL)
			if q.parent == os.Getpid() {
				var status unix.WaitStatus
				_, _ = unix.Wait4(q.pid, &status, 0, nil)
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return len(counted)
}

// A processEntry is one line of the process table.
type processEntry struct {
	pid, parent, group int
	state              byte
}

func processes() []processEntry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer discard(dir)
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var list []processEntry
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// "pid (name) state ppid pgrp ...", where the name may hold anything.
		i := bytes.LastIndexByte(text, ')')
		if i < 0 {
			continue
		}
		fields := strings.Fields(string(text[i+1:]))
		if len(fields) < 3 {
			continue
		}
		parent, err1 := strconv.Atoi(fields[1])
		group, err2 := strconv.Atoi(fields[2])
		if err1 != nil || err2 != nil {
			continue
		}
		list = append(list, processEntry{pid, parent, group, fields[0][0]})
	}
	return list
}

func hasVariable(pid int, variable string) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(text, []byte{0}) {
		if string(v) == variable {
			return true
		}
	}
	return false
}
