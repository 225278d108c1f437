// Package turns shares what there is not enough of: a host's cores, a GPU, places among
// compilers. A caller enters with a part of it and gives the part back when it leaves; a caller that
// takes all parts is alone. All waiters are in one line.
//
// By default no waiter overtakes: the first in line enters as soon as its part is free, and
// those behind wait with it. Ranks change the order of the line. [Patience] changes whose turn it is, where
// changing between sharing and being alone is expensive.
//
// Time is the package time's, so tests with testing/synctest take none.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Many is a size with room for any number of parts of 1.
const Many = 1 << 30

// Patience collects the waiters that want to be alone into phases, since all sharers must leave
// before the first of them enters. In a phase they enter one after the other. It begins when Enough of them
// wait, when the first has waited for Patience, or when there are no sharers. It ends when none of
// them is left, or when it has lasted for Longest and sharers wait, which enter then.
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
	phase bool // only waiters that want to be alone enter
	began time.Time
	turn  bool // a phase ended by its length: sharers enter first
	timer *time.Timer

	alone           bool // a caller has all parts
	since           time.Time
	held            time.Duration
	phases, entries int
}

type waiter struct {
	part, rank int64
	since      time.Time
	in         chan struct{}
}

// New has size parts, which go to waiters in the order of the line.
func New(size int64) *Turns { return &Turns{size: size, free: size} }

// Patient has room for any number of sharers, or for one caller alone.
func Patient(p Patience) *Turns { return &Turns{size: Many, free: Many, patience: &p} }

// Enter waits for a part, behind waiters of the same or a lower rank, and returns what gives it
// back; calling that again does nothing. The error is ctx's, and the line then goes on without this waiter.
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
	} else { // it was admitted at the same moment
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

// A Usage says how Turns is used now, and was used since it was made.
type Usage struct {
	Alone   bool  // a caller is alone
	Sharing int64 // parts that sharers have
	Waiting int   // waiters that want to be alone
	// Held is the total time for which a caller was alone, Entries how often, and Phases in how many
	// phases.
	Held            time.Duration
	Entries, Phases int
}

// Usage returns the usage.
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

// Close stops the timer that [Patient] uses. Waiters go on waiting.
func (t *Turns) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

// let admits a waiter. The caller holds the lock, here and below.
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

// line splits the line into waiters that want to be alone and those that want to share.
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

// admit lets in all waiters whose turn it is.
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
			// The sharers have waited long enough.
			t.phase, t.turn = false, true
		case t.phase && sharing:
			return // until the sharers have left
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

// due says whether a phase should begin; if not, it sets a timer that asks again. Shared says
// whether there are sharers, inside or in the line.
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
