// Package turns says who may use what there is not enough of: a host's cores, a GPU, a place
// among compilers. Who comes takes a part of it and gives it back; one who takes all of it is
// alone. Everybody waits in one line.
//
// By default nobody overtakes: the first in line goes in as soon as there is enough for it, and
// those behind wait with it. Ranks change the order of the line, and [Patience] who goes first where
// changing over between those who share and those who are alone costs much.
//
// Time is the package time's, so tests with testing/synctest take none.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Many is a size with room for any number that take a part of 1.
const Many = 1 << 30

// Patience lets those who want to be alone in several at a time, one after the other, since all
// who share must finish first. Such a phase begins when Enough of them wait, when the first has
// waited for Patience, or when nobody shares. It ends when nobody waits to be alone any more, or when it has lasted for
// Longest and others want to share; then those have their turn.
type Patience struct {
	Enough   int
	Patience time.Duration
	Longest  time.Duration
}

// Turns has parts to give, as many as its size. It is safe for concurrent use.
type Turns struct {
	size     int64
	patience *Patience

	mu      sync.Mutex
	free    int64
	waiting []*waiter // by rank; of equals by when they came

	// With patience.
	phase bool // only those who want to be alone are let in
	began time.Time
	turn  bool // the phase is over, and those who share go first
	timer *time.Timer

	alone           bool // one has all parts
	since           time.Time
	held            time.Duration
	phases, entries int
}

type waiter struct {
	part, rank int64
	since      time.Time
	in         chan struct{}
}

// New has size parts, which go to those who come in the order of the line.
func New(size int64) *Turns { return &Turns{size: size, free: size} }

// Patient has room for any number that share, or for one alone.
func Patient(p Patience) *Turns { return &Turns{size: Many, free: Many, patience: &p} }

// Enter waits for a part, behind those of the same or a lower rank, and returns how to give it back,
// which may be called again. The error is ctx's: who gives up leaves no gap.
func (t *Turns) Enter(ctx context.Context, part, rank int64) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{part, rank, time.Now(), make(chan struct{})}
	t.mu.Lock()
	at := len(t.waiting)
	for at > 0 && t.waiting[at-1].rank > rank {
		at--
	}
	t.waiting = slices.Insert(t.waiting, at, w)
	t.admit()
	t.mu.Unlock()
	select {
	case <-w.in:
		return sync.OnceFunc(func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.give(part)
			t.admit()
		}), nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // let in at the same moment
		t.give(part)
	}
	t.admit()
	return nil, ctx.Err()
}

// Share is Enter with a part of 1.
func (t *Turns) Share(ctx context.Context) (leave func(), err error) { return t.Enter(ctx, 1, 0) }

// Alone is Enter with all parts.
func (t *Turns) Alone(ctx context.Context) (leave func(), err error) {
	return t.Enter(ctx, t.size, 0)
}

// A Usage is what Turns has seen, and who is in.
type Usage struct {
	Alone   bool  // one is alone
	Sharing int64 // the parts that others have
	Waiting int   // those who wait to be alone
	// Held is the time for which one was alone, ever; Entries counts how often one was, Phases the
	// phases in which they were.
	Held            time.Duration
	Entries, Phases int
}

// Usage tells.
func (t *Turns) Usage() Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	loners, _ := t.line()
	u := Usage{Alone: t.alone, Waiting: len(loners), Held: t.held, Entries: t.entries, Phases: t.phases}
	if t.alone {
		u.Held += time.Since(t.since)
	} else {
		u.Sharing = t.size - t.free
	}
	return u
}

// Close ends the timer of a patient one. It lets nobody in or out.
func (t *Turns) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

// let lets one in. The caller holds the lock, here and below.
func (t *Turns) let(w *waiter) {
	i := slices.Index(t.waiting, w)
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if t.free -= w.part; w.part == t.size {
		t.alone, t.since = true, time.Now()
		t.entries++
	}
	close(w.in)
}

func (t *Turns) give(part int64) {
	if t.free += part; part == t.size {
		t.alone = false
		t.held += time.Since(t.since)
	}
}

// line is who waits to be alone, and who to share.
func (t *Turns) line() (loners, sharers []*waiter) {
	for _, w := range t.waiting {
		if w.part == t.size {
			loners = append(loners, w)
		} else {
			sharers = append(sharers, w)
		}
	}
	return loners, sharers
}

// admit lets in whoever may come in.
func (t *Turns) admit() {
	if t.patience != nil {
		t.admitPatiently()
		return
	}
	for len(t.waiting) > 0 && t.waiting[0].part <= t.free {
		t.let(t.waiting[0])
	}
}

func (t *Turns) admitPatiently() {
	for t.free > 0 {
		loners, sharers := t.line()
		sharing := t.free < t.size
		switch {
		case t.phase && len(loners) == 0:
			t.phase, t.turn = false, false
		case t.phase && len(sharers) > 0 && time.Since(t.began) > t.patience.Longest && !sharing:
			// Those who share have waited long enough.
			t.phase, t.turn = false, true
		case t.phase && sharing:
			return // until they have come to an end
		case t.phase:
			t.let(loners[0])
		case len(loners) > 0 && (!t.turn || len(sharers) == 0) && t.due(loners, sharing || len(sharers) > 0):
			t.phase, t.began = true, time.Now()
			t.phases++
		case len(sharers) > 0:
			for _, w := range sharers {
				t.let(w)
			}
			t.turn = false
		default:
			return
		}
	}
}

// due says whether a phase should begin; if not, it has the question asked again later. Shared says
// whether anybody shares, or wants to.
func (t *Turns) due(loners []*waiter, shared bool) bool {
	waited := time.Since(loners[0].since)
	if len(loners) >= t.patience.Enough || waited >= t.patience.Patience || !shared {
		return true
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(t.patience.Patience-waited, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.admit()
	})
	return false
}
