package fleettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evotune/evotune/internal/fleet"
)

// Faults say how often a link fails, as probabilities of each request. The zero value is a
// link without faults. More than one may strike a request.
type Faults struct {
	// Drop loses a request before the coordinator sees it.
	Drop float64
	// Cut loses the answer: the coordinator has done what was asked, and the worker does not
	// know.
	Cut float64
	// Late tells the worker that nobody answered, and delivers the request up to MaxDelay
	// later, when the worker may have asked again or done other things.
	Late float64
	// Twice delivers a second copy of a request, up to MaxDelay after the first.
	Twice float64
	// Hold keeps a request back until another has passed, or for MaxDelay.
	Hold float64
	// Delay lets a request wait for up to MaxDelay.
	Delay float64
	// MaxDelay; zero means 20 ms.
	MaxDelay time.Duration
	// Silent lets the worker wait for what is lost until its context ends. Otherwise it
	// learns at once that nobody answered.
	Silent bool
}

// A FaultyLink is a link that fails as its faults say. What strikes the n-th request depends
// on the seed and on n alone.
type FaultyLink struct {
	link fleet.Link

	mu     sync.Mutex
	chance *rand.Rand
	faults Faults
	passed chan struct{} // closed when the next request has passed
	struck map[string]int

	open  context.Context
	shut  context.CancelFunc
	after sync.WaitGroup // deliveries that nobody waits for
}

// Faulty wraps a link, which it closes when it is closed. It begins without faults.
func Faulty(link fleet.Link, seed uint64) *FaultyLink {
	f := &FaultyLink{link: link, chance: rand.New(rand.NewPCG(seed, 0)), passed: make(chan struct{}), struck: map[string]int{}}
	f.open, f.shut = context.WithCancel(context.Background())
	return f
}

// Set has other faults from now on.
func (f *FaultyLink) Set(faults Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = faults
}

// Struck says how often each fault has struck: "drop", "cut", "late", "twice", "hold" and
// "delay". A test that means to survive faults checks that there were some.
func (f *FaultyLink) Struck() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]int{}
	for k, n := range f.struck {
		out[k] = n
	}
	return out
}

// A fate is what happens to one request.
type fate struct {
	drop, cut, late, twice, hold, delay bool
	first, second, most                 time.Duration
	silent                              bool
}

func (f *FaultyLink) draw() fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := f.faults.MaxDelay
	if most <= 0 {
		most = 20 * time.Millisecond
	}
	// Every request draws the same number of times.
	strikes := func(name string, p float64) bool {
		hit := f.chance.Float64() < p
		if hit {
			f.struck[name]++
		}
		return hit
	}
	wait := func() time.Duration { return time.Duration(f.chance.Float64() * float64(most)) }
	return fate{
		drop: strikes("drop", f.faults.Drop), cut: strikes("cut", f.faults.Cut), late: strikes("late", f.faults.Late),
		twice: strikes("twice", f.faults.Twice), hold: strikes("hold", f.faults.Hold), delay: strikes("delay", f.faults.Delay),
		first: wait(), second: wait(), most: most, silent: f.faults.Silent,
	}
}

// Request implements [fleet.Link].
func (f *FaultyLink) Request(ctx context.Context, verb fleet.Verb, body []byte) ([]byte, error) {
	d := f.draw()
	if d.hold {
		f.mu.Lock()
		passed := f.passed
		f.mu.Unlock()
		if err := f.wait(ctx, d.most, passed); err != nil {
			return nil, err
		}
	}
	if d.delay {
		if err := f.wait(ctx, d.first, nil); err != nil {
			return nil, err
		}
	}
	if d.late || d.twice {
		f.later(d.second, verb, body)
	}
	if d.drop || d.late {
		return f.lost(ctx, d, "the request was lost")
	}
	out, err := f.link.Request(ctx, verb, body)
	f.mu.Lock()
	close(f.passed)
	f.passed = make(chan struct{})
	f.mu.Unlock()
	if d.cut {
		return f.lost(ctx, d, "the answer was lost")
	}
	return out, err
}

// wait ends after d, or when something is closed.
func (f *FaultyLink) wait(ctx context.Context, d time.Duration, passed <-chan struct{}) error {
	select {
	case <-time.After(d):
	case <-passed:
	case <-ctx.Done():
		return ctx.Err()
	case <-f.open.Done():
		return fmt.Errorf("%w: the link is closed", fleet.ErrUnreachable)
	}
	return nil
}

// lost is what the worker sees of a loss.
func (f *FaultyLink) lost(ctx context.Context, d fate, what string) ([]byte, error) {
	if d.silent {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.open.Done():
		}
	}
	return nil, fmt.Errorf("%w: %s", fleet.ErrUnreachable, what)
}

// later delivers a copy that nobody waits for.
func (f *FaultyLink) later(d time.Duration, verb fleet.Verb, body []byte) {
	copied := append([]byte(nil), body...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open.Err() != nil {
		return
	}
	f.after.Add(1)
	go func() {
		defer f.after.Done()
		if f.wait(f.open, d, nil) == nil {
			_, _ = f.link.Request(f.open, verb, copied) // nobody hears the answer
		}
	}()
}

// Close closes the link, and waits for deliveries under way.
func (f *FaultyLink) Close() error {
	f.mu.Lock()
	f.shut()
	f.mu.Unlock()
	f.after.Wait()
	return f.link.Close()
}
