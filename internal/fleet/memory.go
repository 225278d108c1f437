package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxAtOnce is how many requests of one worker are answered at the same time: more of
	// them come from a worker that does not wait.
	maxAtOnce = 256
	// closeWait is how long a coordinator that closes waits for handlers whose contexts
	// have ended.
	closeWait = 5 * time.Second
)

// A Wire carries requests within one process. It outlives coordinators: the newest that
// serves on it gets the requests. Other transports bring what they receive to a wire, so that
// what a worker sees does not depend on how it is connected.
type Wire struct {
	roster *Roster

	mu      sync.Mutex
	serving *end
}

// NewWire makes a wire for the workers of a roster. A nil roster is a new one.
func NewWire(roster *Roster) *Wire {
	if roster == nil {
		roster = NewRoster(nil, nil)
	}
	return &Wire{roster: roster}
}

// Transport makes the end of a coordinator. When it serves, it takes the place of an older
// one.
func (w *Wire) Transport() Transport {
	e := &end{wire: w, busy: map[string]int{}, gone: make(chan struct{})}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Dial makes the end of a worker.
func (w *Wire) Dial(a Access) Link {
	l := &memoryLink{wire: w, access: a}
	l.open, l.shut = context.WithCancel(context.Background())
	return l
}

// An end is the coordinator's.
type end struct {
	wire   *Wire
	ctx    context.Context // of handlers
	cancel context.CancelFunc
	gone   chan struct{} // closed when no answer comes any more

	mu      sync.Mutex
	handler Handler // nil before Serve and after Close
	busy    map[string]int
	running sync.WaitGroup
	once    sync.Once
}

func (e *end) Serve(h Handler) error {
	e.mu.Lock()
	e.handler = h
	e.mu.Unlock()
	e.wire.mu.Lock()
	old := e.wire.serving
	e.wire.serving = e
	e.wire.mu.Unlock()
	if old != nil {
		old.cut()
	}
	return nil
}

func (e *end) Admit(worker string) (Access, error) {
	secret, err := e.wire.roster.Admit(worker)
	if err != nil {
		return Access{}, err
	}
	return Access{Worker: worker, User: worker, Secret: secret}, nil
}

func (e *end) Expel(worker string) error { return e.wire.roster.Expel(worker) }

func (e *end) Close() error {
	e.mu.Lock()
	e.handler = nil
	e.mu.Unlock()
	e.cancel()
	defer e.cut()
	done := make(chan struct{})
	go func() { e.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(closeWait):
		return fmt.Errorf("requests were still being answered %v after their end", closeWait)
	}
}

// cut ends whatever waits for an answer.
func (e *end) cut() {
	e.cancel()
	e.once.Do(func() { close(e.gone) })
}

// begin counts a request, unless nobody may answer it.
func (e *end) begin(worker, secret string) (Handler, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handler == nil {
		return nil, fmt.Errorf("%w: it has stopped", ErrUnreachable)
	}
	if err := e.wire.roster.Check(worker, secret); err != nil {
		return nil, err
	}
	if e.busy[worker] >= maxAtOnce {
		return nil, fmt.Errorf("%w: %d requests of worker %s wait already", ErrUnreachable, maxAtOnce, worker)
	}
	e.busy[worker]++
	e.running.Add(1)
	return e.handler, nil
}

func (e *end) finish(worker string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy[worker]--; e.busy[worker] == 0 {
		delete(e.busy, worker)
	}
	e.running.Done()
}

type memoryLink struct {
	wire   *Wire
	access Access
	open   context.Context
	shut   context.CancelFunc
}

type answer struct {
	body []byte
	err  error
}

func (l *memoryLink) Request(ctx context.Context, verb Verb, body []byte) ([]byte, error) {
	if l.open.Err() != nil {
		return nil, fmt.Errorf("%w: the link is closed", ErrUnreachable)
	}
	l.wire.mu.Lock()
	e := l.wire.serving
	l.wire.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("%w: none has started", ErrUnreachable)
	}
	worker := l.access.Worker
	h, err := e.begin(worker, l.access.Secret)
	if err != nil {
		return nil, err
	}
	body = bytes.Clone(body) // the worker may use its own again before the coordinator is done
	got := make(chan answer, 1)
	go func() {
		defer e.finish(worker)
		out, err := h(e.ctx, worker, verb, body)
		got <- answer{bytes.Clone(out), err}
	}()
	select {
	case a := <-got:
		return a.seen()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.open.Done():
		return nil, fmt.Errorf("%w: the link is closed", ErrUnreachable)
	case <-e.gone:
		select {
		case a := <-got: // it came just before
			return a.seen()
		default:
		}
		return nil, fmt.Errorf("%w: it stopped before it had answered", ErrUnreachable)
	}
}

// seen is what the worker learns of an answer.
func (a answer) seen() ([]byte, error) {
	var refusal Refusal
	switch {
	case a.err == nil:
		return a.body, nil
	case errors.As(a.err, &refusal):
		return nil, refusal
	}
	return nil, fmt.Errorf("%w: it failed on this request, and its log says why", ErrUnreachable)
}

func (l *memoryLink) Close() error {
	l.shut()
	return nil
}
