package cuda

import (
	"context"
	"sync"
	"time"
)

// A gate says who may use a GPU: many at once who share it, or one alone.
//
// Changing over is expensive, since all that share must finish first, and a
// sanitized launch can take half a second. So those that want to be alone are
// let in several at a time, one after the other: a phase begins when enough of
// them wait, when the first has waited long enough, or when nobody shares. It
// ends when nobody waits any more or when it has lasted long enough; then those
// that want to share have their turn.
type gate struct {
	// enough is how many must wait for a phase to begin at once, patience how
	// long the first waits otherwise, and longest how long a phase may last
	// when others want to share.
	enough   int
	patience time.Duration
	longest  time.Duration

	mu      sync.Mutex
	sharing int
	alone   bool // somebody is in alone
	phase   bool // only those who want to be alone are let in
	began   time.Time
	turn    bool // the phase is over, and those who share go first
	sharers []*waiter
	loners  []*waiter
	timer   *time.Timer

	// What the gate has seen, for Usage.
	aloneTime  time.Duration
	aloneSince time.Time
	phases     int
	entries    int
}

type waiter struct {
	ready chan struct{}
	since time.Time
}

func newGate() *gate {
	return &gate{enough: 4, patience: 150 * time.Millisecond, longest: 2 * time.Second}
}

// share waits for a share and returns how to give it back.
func (g *gate) share(ctx context.Context) (func(), error) {
	return g.enter(ctx, &g.sharers, func() {
		g.sharing--
	})
}

// single waits to be alone and returns how to let others in.
func (g *gate) single(ctx context.Context) (func(), error) {
	return g.enter(ctx, &g.loners, func() {
		g.alone = false
		g.aloneTime += time.Since(g.aloneSince)
	})
}

func (g *gate) enter(ctx context.Context, queue *[]*waiter, leave func()) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{ready: make(chan struct{}), since: time.Now()}
	g.mu.Lock()
	*queue = append(*queue, w)
	g.admit()
	g.mu.Unlock()
	var once sync.Once
	release := func() {
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			leave()
			g.admit()
		})
	}
	select {
	case <-w.ready:
		return release, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.ready: // let in at the same moment
		leave()
	default:
		for i, other := range *queue {
			if other == w {
				*queue = append((*queue)[:i:i], (*queue)[i+1:]...)
				break
			}
		}
	}
	g.admit()
	return nil, ctx.Err()
}

// admit lets in whoever may come in. The caller holds the lock.
func (g *gate) admit() {
	for {
		switch {
		case g.alone:
			return
		case g.phase && len(g.loners) == 0:
			g.phase, g.turn = false, false
		case g.phase && len(g.sharers) > 0 && time.Since(g.began) > g.longest && g.sharing == 0:
			// Those who share have waited long enough.
			g.phase, g.turn = false, true
		case g.phase && g.sharing > 0:
			return // until they have come to an end
		case g.phase:
			w := g.loners[0]
			g.loners = g.loners[1:]
			g.alone, g.aloneSince = true, time.Now()
			g.entries++
			close(w.ready)
			return
		case len(g.loners) > 0 && (!g.turn || len(g.sharers) == 0) && g.due():
			g.phase, g.began = true, time.Now()
			g.phases++
		case len(g.sharers) > 0:
			for _, w := range g.sharers {
				g.sharing++
				close(w.ready)
			}
			g.sharers, g.turn = nil, false
		default:
			return
		}
	}
}

// due says whether a phase should begin; if not, it has the question asked again
// later.
func (g *gate) due() bool {
	waited := time.Since(g.loners[0].since)
	if len(g.loners) >= g.enough || waited >= g.patience || g.sharing == 0 && len(g.sharers) == 0 {
		return true
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer = time.AfterFunc(g.patience-waited, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.admit()
	})
	return false
}

// close ends what the gate has started.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
}

// held is the time for which somebody was alone since the gate was made, and how many
// wait to be.
func (g *gate) held() (alone time.Duration, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if alone = g.aloneTime; g.alone {
		alone += time.Since(g.aloneSince)
	}
	return alone, len(g.loners)
}
