package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
)

const (
	// openTimeout bounds what a worker needs to begin a problem.
	openTimeout = 2 * time.Minute
	// recycleAfter is how many candidates a worker sees before it is replaced,
	// so that what the driver or a tool does not give back stays little.
	recycleAfter = 2000
)

// A gpu is one device with its workers.
type gpu struct {
	device wire.Device
	gate   *gate
	parity *pool
	timing *pool
	tools  map[string]*pool
	active atomic.Int64 // candidates that are on it now
	// measured is the time in nanoseconds that it spent in timed launches.
	measured atomic.Int64
}

// A pool holds workers of one kind on one GPU.
type pool struct {
	h    *bench
	gpu  *gpu
	name string // for the log: "parity", "timing", "memcheck"
	tool *sanitizer
	// alone says that its work is timed.
	alone bool
	slots *semaphore.Weighted

	mu     sync.Mutex
	idle   []*worker
	all    map[*worker]bool
	closed bool
	busy   atomic.Int64
	queued atomic.Int64
}

func (h *bench) newPool(g *gpu, name string, size int) *pool {
	return &pool{h: h, gpu: g, name: name, slots: semaphore.NewWeighted(int64(size)), all: map[*worker]bool{}}
}

// run does something with a worker, while the GPU is shared or, for timed work,
// while nobody else is on it. When the worker ends in the middle without
// saying why, it is done once more with a fresh one: the error is then a
// *workerError that is the work's own doing.
func (p *pool) run(ctx context.Context, do func(w *worker) error) error {
	return p.enter(ctx, func() error {
		w, err := p.take(ctx)
		if err != nil {
			return err
		}
		err = do(w)
		p.put(w)
		return err
	})
}

// fresh is run in a worker that has seen nothing else and ends afterwards.
func (p *pool) fresh(ctx context.Context, do func(w *worker) error) error {
	return p.enter(ctx, func() error { return p.freshAlone(ctx, do) })
}

// freshAlone is fresh for who has the GPU already.
func (p *pool) freshAlone(ctx context.Context, do func(w *worker) error) error {
	w, err := p.start(ctx)
	if err != nil {
		return err
	}
	if err = p.register(w); err != nil {
		return err
	}
	err = do(w)
	w.dead = w.dead || err != nil
	w.loaded = recycleAfter
	p.put(w)
	return err
}

// enter waits for a place and for the GPU.
func (p *pool) enter(ctx context.Context, do func() error) error {
	p.queued.Add(1)
	err := p.slots.Acquire(ctx, 1)
	p.queued.Add(-1)
	if err != nil {
		return err
	}
	defer p.slots.Release(1)
	p.busy.Add(1)
	defer p.busy.Add(-1)
	for try := 0; ; try++ {
		err := p.once(ctx, do)
		var died *workerError
		if !errors.As(err, &died) || try > 0 {
			return err
		}
		p.h.log.Warn("a worker died, and the candidate is tried again", "stage", p.name, "reason", died.reason, "stderr", firstLine(died.stderr))
	}
}

func (p *pool) once(ctx context.Context, do func() error) error {
	// A process that starts disturbs what is timed, so timing's own starts
	// while it is alone and all others while they share.
	enter := p.gpu.gate.share
	if p.alone {
		enter = p.gpu.gate.single
	}
	release, err := enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	return do()
}

// register notes a worker that was started, so that close ends it.
func (p *pool) register(w *worker) error {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.all[w] = true
	}
	p.mu.Unlock()
	if closed {
		w.kill()
		return evaluator.ErrBenchClosed
	}
	return nil
}

// take gives an idle worker, or a new one that has begun the problem.
func (p *pool) take(ctx context.Context) (*worker, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, evaluator.ErrBenchClosed
	}
	for n := len(p.idle); n > 0; n = len(p.idle) {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		if !w.ended() {
			p.mu.Unlock()
			return w, nil
		}
		// It was killed while it had nothing to do.
		delete(p.all, w)
		p.mu.Unlock()
		w.kill()
		p.mu.Lock()
	}
	p.mu.Unlock()
	w, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	return w, p.register(w)
}

// start starts a worker and begins the problem in it.
func (p *pool) start(ctx context.Context) (*worker, error) {
	w, err := p.h.startWorker(ctx, p.gpu.device.UUID, p.tool, p.h.problem.open)
	if err != nil && ctx.Err() == nil {
		// How it died says nothing of a candidate.
		return nil, fmt.Errorf("a worker for %s does not start: %s", p.name, err.Error())
	}
	return w, err
}

// startWorker starts a worker, under a tool if one is given, and begins a
// problem in it.
func (h *bench) startWorker(ctx context.Context, uuid string, tool *sanitizer, open wire.OpenRequest) (*worker, error) {
	spec := workerSpec{path: h.workerPath, uuid: uuid, dir: h.scratch, env: h.options.workerEnv}
	var faults *faultLog
	if tool != nil {
		path := filepath.Join(h.scratch, fmt.Sprintf("%s-%d.log", tool.name, h.serial.Add(1)))
		spec.wrapper = tool.command(path)
		faults = newFaultLog(path)
	}
	w, err := startWorker(ctx, h.launcher, spec)
	if err != nil {
		if faults != nil {
			if text := faults.text(); text != "" {
				err = fmt.Errorf("%w: %s", err, printable(text))
			}
			faults.close()
		}
		return nil, err
	}
	w.faults = faults
	var opened wire.OpenAnswer
	if err := w.call(ctx, openTimeout, wire.Open, open, &opened); err != nil {
		w.kill()
		return nil, err
	}
	return w, nil
}

// put gives a worker back. One that is dead, or old, is replaced when the next
// is asked for.
func (p *pool) put(w *worker) {
	p.mu.Lock()
	keep := !p.closed && !w.dead && w.loaded < recycleAfter
	if keep {
		p.idle = append(p.idle, w)
	} else {
		delete(p.all, w)
	}
	p.mu.Unlock()
	if keep {
		return
	}
	if w.dead {
		w.kill()
		return
	}
	w.quit(10 * time.Second)
	if text := w.lateFaults(); text != "" {
		p.h.log.Error("a sanitizer told of faults when its process ended", "tool", p.name, "report", text)
	}
}

// close ends all workers, those at work too.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	all := p.all
	p.all, p.idle = map[*worker]bool{}, nil
	p.mu.Unlock()
	var done sync.WaitGroup
	for w := range all {
		done.Go(w.kill)
	}
	done.Wait()
}

// place chooses the GPU with the fewest candidates.
func (h *bench) place() (*gpu, func()) {
	best := h.gpus[0]
	for _, g := range h.gpus[1:] {
		if g.active.Load() < best.active.Load() {
			best = g
		}
	}
	best.active.Add(1)
	return best, func() { best.active.Add(-1) }
}

// load brings a candidate to a worker. The outcome is empty when it is there.
func (h *bench) load(ctx context.Context, w *worker, c *candidate) (wire.LoadAnswer, error) {
	var a wire.LoadAnswer
	w.loaded++
	w.stderr.Forget()
	err := w.call(ctx, h.options.Timeout, wire.Load, c.load(), &a)
	if a.Fault != nil && a.Fault.Fatal {
		w.dead = true
	}
	return a, err
}

// unload makes room. A worker that cannot is no longer trusted.
func (h *bench) unload(w *worker, c *candidate) {
	if w.dead {
		return
	}
	var a wire.UnloadAnswer
	if err := w.call(h.ctx, h.options.Timeout, wire.Unload, wire.UnloadRequest{Name: c.name}, &a); err != nil {
		w.dead = true
	}
}

func remove(path string) { _ = os.RemoveAll(path) }
