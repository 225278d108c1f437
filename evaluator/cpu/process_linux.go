package cpu

import (
	"bytes"
	"cmp"
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

// A runSpec says how a harness process is to be started.
type runSpec struct {
	harness   string   // path of the harness
	wrapper   []string // command line before it, for valgrind
	object    *os.File // shared object to load
	arena     *arena
	env       []string // added to a minimal environment
	scratch   string   // folder for temporary files of tools
	sandbox   bool
	jail      *programs.Jail // paths, where the harness locks itself in
	limits    bool
	heap      bool
	guards    bool
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
	turns     *os.File // the sets of launches
	log       *programs.Log
	exited    chan struct{}
	state     *os.ProcessState
	token     string
	nonce     uint64
	seq       uint64
	sandboxed bool
	// shape is the one that it knows, with buffers at base.
	shape *shapeData
	base  span
	// noise counts packets that were not answers: the candidate wrote them.
	noise int
	// sent is when the last command was sent.
	sent time.Time
	// together counts the launches of the candidate here and in other processes. spent is what those here took until
	// now, excused how much of what they took until weighed is known not to count, and billed what together was told of.
	together                        *evaluator.Allowance
	spent, weighed, excused, billed time.Duration
	// idle is how long its threads had waited for a core before its first launch, and started the processor time that it
	// had used, if it has been begun.
	idle     time.Duration
	started  time.Duration
	begun    bool
	declared int           // threads
	allowed  time.Duration // of processor time, all in all
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
	// Where the kernel does not stamp packets, their arrival has to do.
	_ = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
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
		allowed: spec.cpu,
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
	if spec.wrapper != nil {
		options += "v"
		if programs.ConfinesSignals() {
			options += "c"
		}
	}
	if spec.guards {
		options += "g"
	}
	args := append(append([]string{}, spec.wrapper...), spec.harness,
		strconv.FormatUint(p.nonce, 16),
		strconv.Itoa(len(spec.arena.mem[writable])),
		strconv.Itoa(len(spec.arena.mem[readOnly])),
		strconv.FormatInt(spec.memory, 10),
		strconv.FormatInt(int64(spec.cpu/time.Second)+1, 10),
		options+".")
	if spec.jail != nil {
		args = append(args, spec.jail.List())
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", runVariable + "=" + p.token,
		"TMPDIR=" + spec.scratch,
	}, spec.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	turns, ours, err := os.Pipe()
	if err != nil {
		discard(control)
		return nil, fmt.Errorf("%w: %w", errProcess, err)
	}
	defer discard(turns)
	p.turns = ours
	if err := widen(ours); err != nil {
		discard(control)
		discard(ours)
		return nil, fmt.Errorf("%w: a pipe for %d turns: %w", errProcess, maxLaunches, err)
	}
	cmd.ExtraFiles = []*os.File{theirs, spec.arena.files[writable], spec.arena.files[readOnly], spec.object, turns}
	r, w, err := os.Pipe()
	if err != nil {
		discard(control)
		discard(ours)
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
		discard(ours)
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
		var f *evaluator.Fault
		if errors.As(err, &f) {
			// Nothing of the candidate has been loaded yet.
			return nil, fmt.Errorf("%w before it was ready: %s %s", errProcess, f.Reason, f.Log)
		}
		return nil, err
	}
	p.sandboxed = spec.sandbox && a.Error == 0
	if spec.sandbox {
		if err := limitThreads(p.pid); err != nil {
			p.kill()
			return nil, fmt.Errorf("%w: limiting its threads: %w", errProcess, err)
		}
	}
	if spec.heap {
		if err := limitData(p.pid, spec.memory+int64(len(spec.arena.mem[writable])+len(spec.arena.mem[readOnly]))); err != nil {
			p.kill()
			return nil, fmt.Errorf("%w: limiting its memory: %w", errProcess, err)
		}
	}
	return p, nil
}

// widen makes room in a pipe for all turns of a batch.
func widen(pipe *os.File) error {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	var widened error
	err = raw.Control(func(fd uintptr) {
		_, widened = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 8*maxLaunches)
	})
	return errors.Join(err, widened)
}

// taken is how many of a batch's n turns the process has taken from its pipe; the end counts as one.
// More are there than it was given where it answered the batch before in the harness's name.
func (p *process) taken(n int) (int, error) {
	raw, err := p.turns.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errProcess, err)
	}
	var left int
	var asked error
	err = raw.Control(func(fd uintptr) { left, asked = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if err := errors.Join(err, asked); err != nil {
		return 0, fmt.Errorf("%w: what is left in the pipe: %w", errProcess, err)
	}
	if left/4 > n+1 {
		return 0, p.fail(false, otherLaunches)
	}
	return min(n, n+1-left/4), nil
}

// moreThreads is how many threads a user's processes may start while a candidate runs
// before the candidate can start no more: far more than honest ones and others need.
const moreThreads = 4096

// limitThreads leaves a process so many threads that it cannot keep evotune, which is
// the same user's, from starting its own: half of what the user may have at most. The
// system has no such limit for root.
func limitThreads(pid int) error {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil {
		return err
	}
	now := uint64(programs.UserThreads())
	most := now + moreThreads
	if own.Cur > now {
		most = min(most, now+(own.Cur-now)/2)
	}
	most = min(most, own.Max)
	return unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most}, nil)
}

// toolMemory is how many times as much memory a candidate may take under a tool, which adds its own to each block.
const toolMemory = 4

// limitData leaves a process under a tool so much more memory than the tool has reserved. The address space of
// sanitizers is terabytes, so the harness limits nothing there.
func limitData(pid int, more int64) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return err
	}
	var size, resident, shared, code, library, data uint64 // in pages
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared, &code, &library, &data); err != nil {
		return fmt.Errorf("memory of process %d: %w", pid, err)
	}
	most := data*uint64(os.Getpagesize()) + toolMemory*uint64(more)
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil)
}

// send writes one command and lets the process go on if it is frozen: it has
// no time for anything else than what it is told.
func (p *process) send(c command) error {
	p.seq++
	c.nonce, c.seq = p.nonce, p.seq
	for _, f := range []*os.File{p.control, p.turns} {
		if err := f.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return fmt.Errorf("%w: %w", errProcess, err)
		}
	}
	packet := c.append(make([]byte, 0, 4096))
	var err error
	if c.kind == commandRun {
		if !p.begun {
			p.idle, p.begun = p.waited(), true
			p.started, _ = processorTime(p.pid) // if it has gone, the next command says so
		}
		_, err = p.turns.Write(c.turns())
	}
	p.sent = time.Now()
	if err == nil {
		_, err = p.control.Write(packet)
	}
	if err != nil {
		if p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		return p.died("ended before it was asked")
	}
	return p.thaw()
}

// receive waits for the answer to the last command. What is not an answer, or an
// answer to something else, was written by the candidate and is passed over.
func (p *process) receive(want answerKind, deadline time.Duration) (answer, error) {
	end := time.Now().Add(deadline)
	until := end
	if want == answerDone && p.together.Limit() > 0 {
		until = p.patient(end)
	}
	if err := p.control.SetReadDeadline(until); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errProcess, err)
	}
	buffer := make([]byte, 4096)
	for {
		n, stamp, err := p.read(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if p.ctx.Err() != nil {
				return answer{}, p.ctx.Err()
			}
			if until.Equal(end) {
				return answer{}, p.fail(true, fmt.Sprintf("no answer within %v", deadline))
			}
			took := p.spent + time.Since(p.sent)
			if own := p.bill(took); own != nil {
				return answer{}, own
			}
			if took >= mostWaiting*p.together.Limit() {
				p.kill()
				return answer{}, fmt.Errorf("%w: its launches took %s, most of which they waited for a core", errProcess, took.Round(time.Second))
			}
			until = p.patient(end)
			if err := p.control.SetReadDeadline(until); err != nil {
				return answer{}, fmt.Errorf("%w: %w", errProcess, err)
			}
		case err != nil || n == 0:
			if p.ctx.Err() != nil {
				return answer{}, p.ctx.Err()
			}
			return answer{}, p.died("")
		}
		a, err := parseAnswer(buffer[:n])
		if err == nil && a.Nonce == p.nonce {
			if a.Seq == p.seq && a.Kind == want {
				a.wall = between(p.sent, stamp, time.Now())
				if want == answerDone {
					p.spent += a.wall
					if own := p.bill(p.spent); own != nil {
						return answer{}, own
					}
				}
				return a, nil
			}
			if f := p.told(a); f != nil { // whatever it is the answer to: a thread may do so at any time
				return answer{}, f
			}
		}
		p.noise++
	}
}

// mostWaiting is how many times as long as they may take launches are waited for, if they wait for a
// core meanwhile: a thread that the candidate does not declare may be what they wait for.
const mostWaiting = 4

// patient is when launches will have taken as long as they may, if they wait for no core; at the latest the end.
func (p *process) patient(end time.Time) time.Time {
	const look = time.Millisecond // not more often
	if until := time.Now().Add(max(p.together.Limit()-p.together.Spent(), look)); until.Before(end) {
		return until
	}
	return end
}

// bill tells of launches here, which took so long together until now, and ends the process if all launches of
// the candidate have taken too long. How long short ones waited for a core is looked up now and then, and when
// it matters.
func (p *process) bill(took time.Duration) *evaluator.Fault {
	const short = 20 * time.Millisecond
	tell := p.tell
	if took-p.weighed > short {
		tell = p.weigh
	}
	err := tell(took)
	if err != nil {
		err = p.weigh(took)
	}
	var own *evaluator.Fault
	if errors.As(err, &own) {
		return p.fail(true, own.Reason)
	}
	return nil
}

// weigh finds out which part of what launches took is their own.
func (p *process) weigh(took time.Duration) error {
	used, _ := processorTime(p.pid) // a process that has gone has closed the socket
	p.weighed, p.excused = took, took-charge(took, max(p.waited(), 0), used-p.started, p.declared)
	return p.tell(took)
}

func (p *process) tell(took time.Duration) error {
	more := took - p.excused - p.billed
	p.billed += more
	return p.together.Spend(more)
}

// waited is how long the declared threads have waited for a core since the first launch: as long as the one that
// waited most, though the others may have worked meanwhile.
func (p *process) waited() time.Duration {
	most := 0.0
	for _, ns := range p.waits(p.declared) {
		most = max(most, ns)
	}
	return time.Duration(most) - p.idle
}

// charge is which part of the time that launches took is their own: without waits for a core, which undeclared
// threads can cause, and at least the processor time of each declared thread.
func charge(took, waited, used time.Duration, threads int) time.Duration {
	return max(took-waited, used/time.Duration(max(threads, 1)))
}

// told ends the process where an answer says that it has ended for a fault of the candidate, and gives
// that; else nil.
func (p *process) told(a answer) *evaluator.Fault {
	switch a.Kind {
	case answerDenied:
		return p.fail(false, deniedReason(a.Value))
	case answerFailed:
		return p.fail(false, failedReason(a))
	case answerWrote:
		reason := "wrote to memory that it may only read"
		if p.shape != nil {
			reason = p.shape.layout.written(p.base, a.Value)
		}
		own := p.fail(false, reason)
		own.Wrote = true
		return own
	default:
		return nil
	}
}

// read takes one packet, with the time at which the kernel says it was sent; zero
// when it does not say.
func (p *process) read(buffer []byte) (n int, stamp time.Time, err error) {
	raw, err := p.control.SyscallConn()
	if err != nil {
		return 0, stamp, err
	}
	var from error
	var more [128]byte
	used := 0
	err = raw.Read(func(fd uintptr) bool {
		n, used, _, _, from = unix.Recvmsg(int(fd), buffer, more[:], unix.MSG_DONTWAIT)
		return !errors.Is(from, unix.EAGAIN) && !errors.Is(from, unix.EINTR)
	})
	if err = errors.Join(err, from); err != nil {
		return 0, stamp, err
	}
	messages, _ := unix.ParseSocketControlMessage(more[:used])
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			order := binary.NativeEndian
			stamp = time.Unix(int64(order.Uint64(m.Data)), int64(order.Uint64(m.Data[8:])))
		}
	}
	return n, stamp, nil
}

// clockStep is by how much the wall clock may differ from the monotonic one
// while an answer is waited for before it was set meanwhile: reading one after the
// other takes some time.
const clockStep = 10 * time.Microsecond

// between is the time from sending a command until the kernel saw the answer: on
// a busy machine evotune itself may wait for a core before it can read it. Without
// a stamp, or when the clock was set meanwhile, it lasts until the answer was read.
func between(sent, stamp, received time.Time) time.Duration {
	most := received.Sub(sent) // monotonic
	if step := received.Round(0).Sub(sent.Round(0)) - most; stamp.IsZero() || step.Abs() > clockStep {
		return most
	}
	d := stamp.Sub(sent.Round(0))
	if d <= 0 || d > most {
		return most
	}
	return d
}

func failedReason(a answer) string {
	text := cmp.Or(a.Text, "the harness failed and does not say why") // as it never does itself
	if a.Error == 0 {
		return text
	}
	return fmt.Sprintf("%s: %s", text, syscall.Errno(a.Error))
}

// died says why the socket was closed: the process ended, or closed it.
func (p *process) died(hint string) error {
	select {
	case <-p.exited:
	case <-time.After(2 * time.Second):
		return p.fail(false, "closed the harness's descriptors")
	}
	if f := p.lastWords(); f != nil {
		return f
	}
	reason := exitReason(p.state)
	if hint != "" {
		reason += " (" + hint + ")"
	}
	hang := false
	if p.state != nil {
		s, ok := p.state.Sys().(syscall.WaitStatus)
		hang = ok && s.Signaled() && s.Signal() == syscall.SIGXCPU
		if ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
			// It may have done so itself, or the system, which had no memory left.
			f := p.fail(false, reason)
			return &evaluator.Lost{Reason: f.Reason, Log: f.Log}
		}
	}
	return p.fail(hang, reason)
}

// lastWords is the fault that the process told of before it ended, where nobody has read it: it may end
// while evotune stops it, and not while an answer is waited for.
func (p *process) lastWords() *evaluator.Fault {
	// What it left running may hold the other end open.
	_ = p.control.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // reading fails too, where this does
	buffer := make([]byte, 4096)
	for open := true; open; {
		n, _, err := p.read(buffer)
		open = err == nil && n > 0 || errors.Is(err, unix.ECONNRESET) // said once: it has not read its last command
		if a, err := parseAnswer(buffer[:max(n, 0)]); err == nil && a.Nonce == p.nonce {
			if f := p.told(a); f != nil {
				return f
			}
		}
	}
	return nil
}

// fail ends the process and makes the candidate's fault out of what it did.
func (p *process) fail(hang bool, reason string) *evaluator.Fault {
	p.kill()
	if p.leftover > 0 {
		reason += fmt.Sprintf("; left %d processes running", p.leftover)
	}
	return &evaluator.Fault{Hang: hang, Reason: reason, Log: p.log.Text()}
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

// freeze stops every thread of the process and returns when they have stopped. One
// that does not let itself be stopped is killed.
func (p *process) freeze() error {
	if p.stopped {
		return nil
	}
	late := time.AfterFunc(stopLimit, func() { programs.KillGroup(p.pid) })
	defer late.Stop()
	if err := p.halt(); err != nil {
		return p.died("")
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.pid, &info, unix.WSTOPPED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			switch {
			case p.ctx.Err() != nil:
				return p.ctx.Err()
			case !late.Stop():
				return p.fail(true, "it does not let itself be stopped")
			}
			return p.died("")
		}
		p.stopped = true
		return nil
	}
}

// halt tells every thread to stop. The system has one take the process's signal, and that one stop the others. It may
// be where nothing but the end of another thread lets it take signals: then that one would go on.
func (p *process) halt() error {
	if err := unix.Kill(p.pid, unix.SIGSTOP); err != nil {
		return err
	}
	tasks := p.tasks()
	for _, name := range tasks {
		if tid, err := strconv.Atoi(name); err == nil && len(tasks) > 1 {
			_ = unix.Tgkill(p.pid, tid, unix.SIGSTOP) // thaw takes back what was not needed
		}
	}
	return nil
}

// stopLimit is how long a process may take to stop: far longer than one on a busy
// machine needs.
const stopLimit = 10 * time.Second

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
//
// It is exact while the process is frozen. While it runs the kernel may give a
// sum that is up to a tick old, since the limit on processor time is set.
func (p *process) cpuTime() (time.Duration, error) {
	t, err := processorTime(p.pid)
	if err != nil {
		return 0, p.died("")
	}
	return t, nil
}

// worn says that a process has used half of the processor time that it may use. It may be called on nil.
func (p *process) worn() bool {
	if p == nil {
		return false
	}
	used, err := processorTime(p.pid)
	return err == nil && used > p.allowed/2
}

func processorTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	clock := int32(^pid<<3 | 2) // CPUCLOCK_SCHED of the process, see clock_getcpuclockid(3)
	err := unix.ClockGettime(clock, &t)
	return time.Duration(t.Nano()), err
}

// anyCore stands for all cores that evotune may use.
const anyCore = -1

// core is the core on which the process ran last; anyCore where the system does not tell.
func (p *process) core() int {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/stat")
	// The name of the program, in parentheses, may have spaces; the core is the 39th field, and the third is behind the name.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 37 {
		return anyCore
	}
	core, err := strconv.Atoi(string(f[36]))
	if err != nil {
		return anyCore
	}
	return core
}

// bind has the first thread of the process run on one core. Where the system refuses, it runs where it did.
func (p *process) bind(core int) {
	var set unix.CPUSet
	if core == anyCore {
		if unix.SchedGetaffinity(0, &set) != nil {
			return
		}
	} else {
		set.Set(core)
	}
	_ = unix.SchedSetaffinity(p.pid, &set)
}

// tasks lists the threads of the process.
func (p *process) tasks() []string {
	dir, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.pid), "task"))
	if err != nil {
		return nil
	}
	defer discard(dir)
	names, _ := dir.Readdirnames(-1)
	return names
}

// threadGrace is how long threads that a launch joined may still be seen.
const threadGrace = 100 * time.Millisecond

// threads counts the threads of the frozen process. When there are more than it
// declares it is let go on for a little, since a thread that was joined may
// still be on its way out; not one that works.
func (p *process) threads(declared int) (int, error) {
	used, err := p.cpuTime()
	if err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(threadGrace); ; {
		n := len(p.tasks())
		if n <= max(declared, 1) || time.Now().After(deadline) {
			return n, nil
		}
		if now, err := p.cpuTime(); err != nil || now > used+time.Millisecond {
			return n, err
		}
		if err := p.thaw(); err != nil {
			return 0, err
		}
		time.Sleep(2 * time.Millisecond)
		if err := p.freeze(); err != nil {
			return 0, err
		}
	}
}

// waits is for how long each thread of the process was ready to run and had no
// core, in nanoseconds. It is empty where the kernel does not tell. Only the
// first thread is looked at when no other is declared.
func (p *process) waits(declared int) map[string]float64 {
	names := []string{strconv.Itoa(p.pid)}
	if declared > 1 {
		names = p.tasks()
	}
	found := make(map[string]float64, len(names))
	var buffer [128]byte
	for _, name := range names {
		fd, err := unix.Open("/proc/"+strconv.Itoa(p.pid)+"/task/"+name+"/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		n, err := unix.Read(fd, buffer[:])
		_ = unix.Close(fd)
		// "time on a core, time waiting, times that it got one"
		if f := bytes.Fields(buffer[:max(n, 0)]); err == nil && len(f) == 3 {
			found[name], _ = strconv.ParseFloat(string(f[1]), 64)
		}
	}
	return found
}

// waitedSince is how long the threads that are still there waited since before.
func waitedSince(before, after map[string]float64) float64 {
	sum := 0.0
	for name, t := range after {
		sum += max(0, t-before[name])
	}
	return sum
}

// quit asks the process to end. Processes that it left are killed and counted.
// It is the candidate's fault when there are any, or when its status is not 0.
func (p *process) quit(deadline time.Duration) error {
	if p.begun {
		_ = p.weigh(p.spent) // for the next stage: nothing runs any more
	}
	if err := p.send(command{kind: commandQuit, junk: -1}); err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-p.ctx.Done():
		p.kill()
		return p.ctx.Err()
	case <-time.After(deadline):
		return p.fail(true, fmt.Sprintf("did not end within %v", deadline))
	}
	p.kill()
	if p.state == nil {
		return fmt.Errorf("%w: it ended without a status", errProcess)
	}
	var reason string
	switch s, ok := p.state.Sys().(syscall.WaitStatus); {
	case p.leftover > 0:
		reason = fmt.Sprintf("left %d processes running", p.leftover)
	case ok && s.Signaled():
		reason = exitReason(p.state) + " (while it ended)"
	case p.state.ExitCode() != 0:
		reason = fmt.Sprintf("ended with status %d", p.state.ExitCode())
	default:
		return nil
	}
	return &evaluator.Fault{Reason: reason, Log: p.log.Text()}
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
	discard(p.turns)
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
		for _, q := range programs.Table() {
			if q.Group == p.pid && q.PID != p.pid && q.State != 'Z' {
				found++
			}
		}
		return found
	}
	// The process table is read line by line while processes start and end: a
	// daemon can be missed in one reading while its parent goes away. Only two
	// readings in a row without a find are believed.
	counted, pending := 0, map[int]bool{} // pending were killed, and not yet waited for
	for tries, clean := 0, 0; clean < 2 && tries < 200; tries++ {
		clean++
		for _, q := range programs.Table() {
			if q.PID == p.pid || q.PID == os.Getpid() {
				continue
			}
			if pending[q.PID] {
				// It was killed and is not gone yet; its environment may be. Once it was
				// waited for, its number may be that of another child.
				if q.State == 'Z' && q.Parent == os.Getpid() {
					if pid, _ := unix.Wait4(q.PID, nil, unix.WNOHANG, nil); pid == q.PID {
						delete(pending, q.PID)
					}
				}
				clean = 0
				continue
			}
			if q.Group != p.pid && !hasVariable(q.PID, runVariable+"="+p.token) {
				continue
			}
			if q.Group != p.pid && q.State != 'Z' {
				counted++
			}
			clean = 0
			pending[q.PID] = true
			_ = unix.Kill(q.PID, unix.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return counted
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
