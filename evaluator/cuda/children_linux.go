package cuda

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/process"
)

// A child is a process that compiles one source at a time.
type child struct {
	*process.Child
	// dir has its temporary files, which a compiler leaves behind when it is killed.
	dir string
}

// startChild starts the command that it is given a new folder for, in that folder.
// memory is the limit that bounds its memory: RLIMIT_AS or RLIMIT_DATA.
func startChild(l *process.Launcher, jail *process.Jail, memory, kept int, command func(dir string) *exec.Cmd) (*child, error) {
	dir, err := os.MkdirTemp("", "evotune-compiler-")
	if err != nil {
		return nil, err
	}
	cmd := command(dir)
	cmd.Dir = dir // a source includes nothing from where evotune was started
	if jail != nil {
		jail = jail.With(nil, []string{dir})
	}
	talks, err := l.Talk(cmd, jail, kept)
	if err != nil {
		_ = os.Remove(dir)
		return nil, err
	}
	for resource, most := range map[int]uint64{memory: compilerMemory, unix.RLIMIT_FSIZE: cubinLimit, unix.RLIMIT_CORE: 0} {
		_ = unix.Prlimit(talks.PID, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	return &child{talks, dir}, nil
}

// within does what exchanges a message with the child, and kills it when ctx ends or
// the time is over: that is [process.ErrTimeout]. After an error it is of no more use.
func (c *child) within(ctx context.Context, timeout time.Duration, exchange func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Stderr.Forget()
	stop := context.AfterFunc(ctx, func() { process.KillGroup(c.PID) })
	defer stop()
	expired := make(chan struct{})
	timer := time.AfterFunc(timeout, func() {
		close(expired)
		process.KillGroup(c.PID)
	})
	defer timer.Stop()
	err := exchange()
	if err != nil {
		select {
		case <-expired:
			return process.ErrTimeout
		default:
		}
	}
	return err
}

// errors is what it has written to standard error during the last exchange.
func (c *child) errors() string { return c.Stderr.Text() }

func (c *child) kill() {
	process.KillGroup(c.PID)
	<-c.Exited
	process.ReapGroup(c.PID)
	c.Close()
	_ = os.RemoveAll(c.dir)
}

// children are compiling children of one kind; those that are idle wait for the next
// source.
type children[C interface {
	within(ctx context.Context, timeout time.Duration, exchange func() error) error
	errors() string
	kill()
}] struct {
	start func() (C, error)

	mu     sync.Mutex
	idle   []C
	closed bool
}

// errEnded says that a child ended instead of giving an answer, twice.
var errEnded = errors.New("the compiling process ended")

// ask has an idle child, or a new one, exchange messages. One that ends meanwhile is
// replaced once: somebody may have killed it, and a source that ends a compiler does so
// again. The text is what the child wrote to standard error before an error: of
// [process.ErrTimeout], of errEnded, or of ctx.
func (p *children[C]) ask(ctx context.Context, timeout time.Duration, exchange func(C) error) (text string, err error) {
	ctx, leave, err := process.ShareHost(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	for range 2 {
		c, err := p.acquire()
		if err != nil {
			return "", err
		}
		if err = c.within(ctx, timeout, func() error { return exchange(c) }); err == nil {
			p.release(c)
			return "", nil
		}
		c.kill() // its last words are read then
		text = c.errors()
		if err := ctx.Err(); err != nil {
			return text, err
		}
		if errors.Is(err, process.ErrTimeout) {
			return text, err
		}
	}
	return text, errEnded
}

func (p *children[C]) acquire() (C, error) {
	p.mu.Lock()
	if k := len(p.idle); k > 0 || p.closed {
		defer p.mu.Unlock()
		if p.closed {
			var none C
			return none, evaluator.ErrClosed
		}
		c := p.idle[k-1]
		p.idle = p.idle[:k-1]
		return c, nil
	}
	p.mu.Unlock()
	return p.start()
}

func (p *children[C]) release(c C) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if closed {
		c.kill()
	}
}

func (p *children[C]) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.kill()
	}
}
