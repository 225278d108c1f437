package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/internal/turns"
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
	device  wire.Device
	gate    *turns.Turns // as startup, of all labs on it
	startup *startup
	before  time.Duration // for which it was kept free before the lab was open
	parity  *pool
	timing  *pool
	tools   map[string]*pool
	active  atomic.Int64 // candidates that are on it now
	// measured is the time in nanoseconds that it spent in timed launches.
	measured atomic.Int64
}

// A pool holds workers of one kind on one GPU. They are started in the
// background, when a request waits for one and when one was lost.
type pool struct {
	h    *lab
	gpu  *gpu
	name string // for the log: "parity", "timing", "memcheck"
	tool *sanitizer
	// alone says that its work is timed.
	alone bool
	size  int
	slots queue

	mu       sync.Mutex
	idle     []*worker
	all      map[*worker]bool
	starting int
	// lost counts the workers that ended before their time, and full says that
	// the machine has no room for more of them than there are.
	lost     int
	full     bool
	failures int
	failed   error
	// changed is closed, and made anew, when a worker comes, goes or fails to
	// start.
	changed chan struct{}
	closed  bool
	queued  atomic.Int64
	// first is what a worker does before it is idle for the first time; nil for nothing.
	first func(context.Context, *worker) error
}

func (h *lab) newPool(g *gpu, name string, size int) *pool {
	return &pool{h: h, gpu: g, name: name, size: size, slots: newQueue(size), all: map[*worker]bool{}, changed: make(chan struct{})}
}

// own does evotune's own work with a worker. When that ends in the middle without
// saying why, it is done once more with a fresh one.
func (p *pool) own(ctx context.Context, do func(w *worker) error) error {
	err := p.run(ctx, false, do)
	var died *workerError
	if errors.As(err, &died) && ctx.Err() == nil {
		p.h.Log.Warn("a worker died, and its work is done again", "stage", p.name, "reason", died.reason, "stderr", plain.First(died.stderr))
		err = p.run(ctx, true, do)
	}
	return notOurs(err)
}

// run does something with a worker, while the GPU is shared or, for timed work,
// while no other process uses it.
func (p *pool) run(ctx context.Context, fresh bool, do func(w *worker) error) error {
	var w *worker
	w, leave, err := p.enter(ctx, p.gpu.gate.Share, func() bool { return fresh }, func() { p.put(w) })
	if err != nil {
		return err
	}
	defer leave()
	return do(w)
}

// enter waits for a worker and for the GPU: for a share of it or, for timed work, to
// have it alone. How says which, where nothing is timed. Leave opens the GPU to others, and has the
// worker given back before: a process that ends disturbs what is timed.
func (p *pool) enter(ctx context.Context, how func(context.Context) (func(), error), fresh func() bool, giveBack func()) (w *worker, _ func(), err error) {
	var undo []func()
	leave := func() {
		for _, do := range slices.Backward(undo) {
			do()
		}
	}
	defer func() {
		if err != nil {
			leave()
		}
	}()
	free, err := p.slot(ctx)
	if err != nil {
		return nil, nil, err
	}
	undo = append(undo, free)
	if p.alone {
		open, err := p.gpu.gate.Alone(ctx)
		if err != nil {
			return nil, nil, err
		}
		undo = append(undo, open)
		if w, err = p.take(ctx, fresh()); err != nil {
			return nil, nil, err
		}
		// No process of ours starts on the GPU meanwhile.
		p.gpu.startup.pause()
		undo = append(undo, giveBack, p.gpu.startup.resume)
		return w, leave, nil
	}
	// No request on the GPU waits for a worker that starts.
	if w, err = p.take(ctx, fresh()); err != nil {
		return nil, nil, err
	}
	open, err := how(ctx)
	if err != nil {
		p.put(w)
		return nil, nil, err
	}
	undo = append(undo, open, giveBack)
	return w, leave, nil
}

// slot waits for a place and returns how to leave it.
func (p *pool) slot(ctx context.Context) (func(), error) {
	p.queued.Add(1)
	defer p.queued.Add(-1)
	return p.slots.enter(ctx)
}

// take waits for an idle worker that has begun the problem, or starts a fresh one.
func (p *pool) take(ctx context.Context, fresh bool) (*worker, error) {
	if fresh {
		if p.alone {
			return p.start(ctx, nil) // a request that is alone would stop itself
		}
		return p.start(ctx, p.gpu.startup)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.failures
	for {
		for n := len(p.idle); n > 0; n = len(p.idle) {
			w := p.idle[n-1]
			p.idle = p.idle[:n-1]
			if !w.Ended() {
				return w, nil
			}
			// It was killed while it had nothing to do.
			p.drop(w, true)
			p.mu.Unlock()
			w.kill()
			p.mu.Lock()
		}
		switch {
		case p.closed:
			return nil, evaluator.ErrClosed
		case p.failures > seen && len(p.all) == 0 && p.starting == 0:
			return nil, p.failed
		}
		if p.failures == seen {
			p.grow()
		}
		changed := p.changed
		p.mu.Unlock()
		p.queued.Add(1)
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.queued.Add(-1)
		p.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// room is how many workers there should be. A pool that has lost some to
// candidates has others to spare. The caller holds the lock.
func (p *pool) room() int {
	if p.alone {
		return 1
	}
	return p.size + min(p.lost, p.size)
}

// grow starts one more worker in the background where there is room for it. The
// caller holds the lock.
func (p *pool) grow() {
	if p.closed || p.full || len(p.all)+p.starting >= p.room() {
		return
	}
	p.starting++
	p.h.Calls.Go(func() {
		w, err := p.start(p.h.Life, p.gpu.startup)
		if err == nil {
			p.prepare(w)
			defer p.put(w)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.starting--
		if err != nil && p.h.Life.Err() == nil {
			p.failed = err
			p.failures++
			p.full = len(p.all) > 0
			p.h.Log.Warn("no further worker", "error", err)
		}
		p.tell()
	})
}

// warm starts workers before they are needed: the first of each kind, and before a search the
// others too. These come when the first ones are there: a device may not have memory for all.
func (h *lab) warm(search bool) {
	var pools []*pool
	for _, g := range h.gpus {
		pools = append(pools, g.pools()...)
	}
	for _, p := range pools {
		p.fill(1)
	}
	if search {
		h.Calls.Go(func() {
			for _, p := range pools {
				if !p.hasOne(h.Life) {
					return
				}
			}
			for _, p := range pools {
				p.fill(p.size)
			}
		})
	}
}

// fill starts so many more workers, or as many as there is room for.
func (p *pool) fill(workers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range min(workers, p.room()) {
		p.grow()
	}
}

// rehearse has the workers of a search do what each does once, in the time in which the first
// candidates are compiled: these would wait for it.
func (h *lab) rehearse() {
	for _, g := range h.gpus {
		h.Calls.Go(func() {
			err := g.timing.run(h.Life, false, func(w *worker) error {
				for _, d := range h.problem.Tune {
					if h.baselineOf(d) == nil {
						continue
					}
					if err := h.prepareTiming(h.Life, w, d, h.problem.seedOf(variants), batchTime); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil { // whoever is timed first sees it, too
				h.Log.Debug("not ready to time", "reason", err)
			}
			g.parity.rehearse(h.prepareContents)
		})
	}
}

// rehearse has all workers, and those to come, do something before they are idle.
func (p *pool) rehearse(first func(context.Context, *worker) error) {
	p.mu.Lock()
	p.first = first
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, w := range idle {
		p.h.Calls.Go(func() {
			p.prepare(w)
			p.put(w)
		})
	}
}

// prepare has a worker do what comes first. After an error no other does: whoever needs
// it sees the error, and workers that it costs would be replaced for ever.
func (p *pool) prepare(w *worker) {
	p.mu.Lock()
	first := p.first
	p.mu.Unlock()
	if first == nil {
		return
	}
	leave, err := p.gpu.gate.Share(p.h.Life)
	if err != nil {
		return
	}
	defer leave()
	if err := first(p.h.Life, w); err != nil {
		p.h.Log.Debug("a worker is not prepared", "stage", p.name, "reason", err)
		p.mu.Lock()
		p.first = nil
		p.mu.Unlock()
	}
}

// hasOne waits for the first worker and says whether it came.
func (p *pool) hasOne(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.starting > 0 && len(p.idle) == 0 {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			return false
		}
	}
	return len(p.all) > 0
}

// tell wakes the requests that wait for a worker. The caller holds the lock.
func (p *pool) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// drop forgets a worker, and starts another in its place. Lost says that it
// ended before its time. The caller holds the lock.
func (p *pool) drop(w *worker, lost bool) {
	delete(p.all, w)
	p.full = false
	if lost {
		p.lost++
	}
	if !p.alone {
		p.grow()
	}
	p.tell()
}

// start starts a worker and begins the problem in it.
func (p *pool) start(ctx context.Context, during *startup) (*worker, error) {
	spec := workerSpec{uuid: p.gpu.device.UUID, startup: during}
	if !p.alone {
		spec.share = p.size
	}
	w, err := p.h.startWorker(ctx, spec, p.tool, p.h.problem.open)
	if err != nil && ctx.Err() == nil {
		// How it died says nothing of a candidate.
		return nil, fmt.Errorf("a worker for %s does not start: %s", p.name, err.Error())
	} else if err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.all[w] = true // so that close ends it
	}
	p.mu.Unlock()
	if closed {
		w.kill()
		return nil, evaluator.ErrClosed
	}
	return w, nil
}

// startWorker starts a worker, under a tool if one is given, and begins a
// problem in it.
func (h *lab) startWorker(ctx context.Context, spec workerSpec, tool *sanitizer, open wire.OpenRequest) (*worker, error) {
	spec.path, spec.dir, spec.env, spec.jail = h.workerPath, h.Scratch, h.options.workerEnv, h.jail
	var faults *faultLog
	if tool != nil {
		path := filepath.Join(h.Scratch, fmt.Sprintf("%s-%d.log", tool.name, h.serial.Add(1)))
		spec.wrapper, spec.jail = tool.command(path), tool.jail
		faults = newFaultLog(path)
	}
	w, err := startWorker(ctx, h.Launcher, spec)
	if err != nil {
		if faults != nil {
			if text := faults.text(); text != "" {
				err = fmt.Errorf("%w: %s", err, plain.Line(text))
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
	w.begun()
	return w, nil
}

// put gives a worker back. One that is dead, or old, is replaced.
func (p *pool) put(w *worker) {
	p.mu.Lock()
	gone := w.dead || w.Ended()
	keep := !p.closed && !gone && w.loaded < recycleAfter && len(p.all) <= p.room()
	if keep {
		p.idle = append(p.idle, w)
		p.tell()
	} else {
		p.drop(w, gone)
	}
	p.mu.Unlock()
	if keep {
		return
	}
	if gone {
		w.kill()
		return
	}
	w.quit(10 * time.Second)
	if text := w.lateFaults(); text != "" {
		p.h.Log.Error("a sanitizer told of faults when its process ended", "tool", p.name, "report", text)
	}
}

// close ends all workers, those at work too.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	all := p.all
	p.all, p.idle = map[*worker]bool{}, nil
	p.tell()
	p.mu.Unlock()
	var done sync.WaitGroup
	for w := range all {
		done.Go(w.kill)
	}
	done.Wait()
}

// place chooses the GPU with the fewest candidates.
func (h *lab) place() (*gpu, func()) {
	best := h.gpus[0]
	for _, g := range h.gpus[1:] {
		if g.active.Load() < best.active.Load() {
			best = g
		}
	}
	best.active.Add(1)
	return best, func() { best.active.Add(-1) }
}

// load brings a candidate to a worker. The answer has no fault when it is there.
func (h *lab) load(ctx context.Context, w *worker, c *candidate) (wire.LoadAnswer, error) {
	var a wire.LoadAnswer
	w.loaded++
	w.Stderr.Forget()
	err := w.call(ctx, h.within(w), wire.Load, c.load(), &a)
	if a.Fault != nil && a.Fault.Fatal {
		w.dead = true
	}
	return a, err
}

// had notes that the worker has run a candidate. One that leaves memory behind is
// its last.
func (w *worker) had(c *candidate) {
	if c.heap {
		w.loaded = recycleAfter
	}
}

// unload makes room. A worker that cannot is no longer trusted.
func (h *lab) unload(w *worker, c *candidate) {
	if w.dead {
		return
	}
	var a wire.UnloadAnswer
	if err := w.call(h.Life, h.options.Timeout, wire.Unload, wire.UnloadRequest{Name: c.name}, &a); err != nil {
		w.dead = true
	}
}

func remove(path string) { _ = os.RemoveAll(path) }
