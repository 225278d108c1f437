package turns

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A line notes when each waiter enters.
type line struct {
	*Turns
	t     *testing.T
	begin time.Time
	mu    sync.Mutex
	all   sync.WaitGroup
	in    map[string]time.Duration
}

func newLine(t *testing.T, turns *Turns) *line {
	return &line{Turns: turns, t: t, begin: time.Now(), in: map[string]time.Duration{}}
}

// come puts a waiter into the line, or in, before it returns.
func (l *line) come(ctx context.Context, name string, part, rank int64, stays time.Duration) {
	l.all.Go(func() {
		leave, err := l.Enter(ctx, part, rank)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				l.t.Errorf("%s: %v", name, err)
			}
			return
		}
		l.mu.Lock()
		l.in[name] = time.Since(l.begin)
		l.mu.Unlock()
		time.Sleep(stays)
		leave()
		leave() // again, harmlessly
	})
	synctest.Wait()
}

// want says when each waiter should have entered; one that is not named should not have.
func (l *line) want(want map[string]time.Duration) {
	l.t.Helper()
	l.all.Wait()
	for name, at := range want {
		if got, ok := l.in[name]; !ok || got != at {
			l.t.Errorf("%s went in after %v (%v), want %v", name, got, ok, at)
		}
	}
	if len(l.in) != len(want) {
		l.t.Errorf("%v went in, want %v", l.in, want)
	}
	if u := l.Usage(); u.Alone || u.Sharing != 0 || u.Waiting != 0 || len(l.waiting) != 0 {
		l.t.Errorf("parts or waiters are left: %+v", u)
	}
}

// No waiter overtakes, whether it shares or wants to be alone, and one that gives up lets those behind enter.
func TestInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, New(10))
		ctx, cancel := context.WithCancel(t.Context())
		l.come(t.Context(), "first", 1, 0, time.Second)
		l.come(t.Context(), "alone", 10, 0, time.Second)
		l.come(t.Context(), "second", 1, 0, time.Second)
		l.come(t.Context(), "third", 9, 0, time.Second)
		l.come(ctx, "gives up", 10, 0, time.Second)
		l.come(t.Context(), "fourth", 1, 0, time.Second)
		l.come(t.Context(), "alone again", 10, 0, time.Second)
		cancel()
		l.want(map[string]time.Duration{"first": 0, "alone": time.Second, "second": 2 * time.Second, "third": 2 * time.Second, "fourth": 3 * time.Second, "alone again": 4 * time.Second})
		if u := l.Usage(); u.Held != 2*time.Second || u.Entries != 2 {
			t.Errorf("%+v, want two entries and 2s alone", u)
		}
	})
}

// A waiter that gives up at the head of the line lets those behind enter at once.
func TestHeadGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, New(10))
		ctx, cancel := context.WithCancel(t.Context())
		l.come(t.Context(), "inside", 1, 0, time.Second)
		l.come(ctx, "alone", 10, 0, time.Second)
		l.come(t.Context(), "behind", 1, 0, time.Second)
		time.Sleep(ms)
		cancel()
		l.want(map[string]time.Duration{"inside": 0, "behind": ms})
	})
}

// The lowest rank enters first, equals in the order in which they came.
func TestRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, New(1))
		ctx, cancel := context.WithCancel(t.Context())
		l.come(t.Context(), "inside", 1, 9, time.Second)
		for _, c := range []struct {
			name string
			rank int64
		}{{"seven", 7}, {"three", 3}, {"nine", 9}, {"three again", 3}, {"zero", 0}} {
			l.come(t.Context(), c.name, 1, c.rank, time.Second)
		}
		l.come(ctx, "gives up", 1, 0, time.Second)
		cancel()
		l.want(map[string]time.Duration{"inside": 0, "zero": time.Second, "three": 2 * time.Second, "three again": 3 * time.Second, "seven": 4 * time.Second, "nine": 5 * time.Second})
	})
}

// A context that is over does not enter, also where there is room.
func TestOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	turns := New(1)
	if _, err := turns.Share(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if leave, err := turns.Alone(t.Context()); err != nil {
		t.Error(err)
	} else {
		leave()
	}
}

const ms = time.Millisecond

// With patience, a waiter that wants to be alone waits while others share, until it has waited long
// enough; sharers that come meanwhile enter.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Patient(Patience{Enough: 3, Patience: 150 * ms, Longest: 2 * time.Second}))
		l.come(t.Context(), "shares", 1, 0, 400*ms)
		l.come(t.Context(), "alone", Many, 0, 10*ms)
		time.Sleep(100 * ms)
		l.come(t.Context(), "shares too", 1, 0, 100*ms)
		time.Sleep(100 * ms) // the phase has begun, and waits for the first to leave
		l.come(t.Context(), "comes late", 1, 0, 10*ms)
		l.want(map[string]time.Duration{"shares": 0, "shares too": 100 * ms, "alone": 400 * ms, "comes late": 410 * ms})
		if u := l.Usage(); u.Phases != 1 || u.Entries != 1 || u.Held != 10*ms {
			t.Errorf("%+v", u)
		}
	})
}

// Enough waiters begin a phase at once, and enter one after the other before sharers.
func TestEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Patient(Patience{Enough: 3, Patience: time.Hour, Longest: 2 * time.Second}))
		l.come(t.Context(), "shares", 1, 0, 100*ms)
		for _, name := range []string{"one", "two", "three"} {
			l.come(t.Context(), name, Many, 0, 10*ms)
		}
		l.come(t.Context(), "shares later", 1, 0, 10*ms)
		l.want(map[string]time.Duration{"shares": 0, "one": 100 * ms, "two": 110 * ms, "three": 120 * ms, "shares later": 130 * ms})
		if u := l.Usage(); u.Phases != 1 || u.Entries != 3 {
			t.Errorf("%+v, want one phase of three", u)
		}
	})
}

// A phase ends when it has lasted long enough and sharers wait: all of those enter, and a new phase
// begins when its first waiter has waited.
func TestLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Patient(Patience{Enough: 10, Patience: 50 * ms, Longest: 100 * ms}))
		for _, name := range []string{"one", "two", "three", "four"} {
			l.come(t.Context(), name, Many, 0, 60*ms)
		}
		l.come(t.Context(), "shares", 1, 0, 20*ms)
		l.come(t.Context(), "shares too", 1, 0, 30*ms)
		l.want(map[string]time.Duration{"one": 0, "two": 60 * ms, "shares": 120 * ms, "shares too": 120 * ms, "three": 150 * ms, "four": 210 * ms})
		if u := l.Usage(); u.Phases != 2 {
			t.Errorf("%+v, want two phases", u)
		}
	})
}

// When a waiter gives up, the phase that it began ends; when it is admitted at the same moment, its
// part is free again.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, Patient(Patience{Enough: 1, Patience: time.Hour, Longest: time.Hour}))
		ctx, cancel := context.WithTimeout(t.Context(), 20*ms)
		defer cancel()
		l.come(t.Context(), "shares", 1, 0, 100*ms)
		if leave, err := l.Alone(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("alone while another shares: %v, %v", leave != nil, err)
		}
		l.come(t.Context(), "shares too", 1, 0, ms)
		l.want(map[string]time.Duration{"shares": 0, "shares too": 20 * ms})
	})
	synctest.Test(t, func(t *testing.T) {
		turns := New(1)
		if _, err := turns.Share(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := turns.Share(ctx)
			failed <- err
		}()
		synctest.Wait()
		turns.mu.Lock()
		cancel() // and before that is noticed the first leaves
		turns.give(1)
		turns.admit()
		turns.mu.Unlock()
		if err := <-failed; !errors.Is(err, context.Canceled) || turns.free != 1 || len(turns.waiting) != 0 {
			t.Errorf("%v, %d free, %d waiting", err, turns.free, len(turns.waiting))
		}
	})
}

// In any order of coming, there are no sharers while a caller is alone, all get their turn, and with patience
// several are alone in one phase.
func TestKeepsApart(t *testing.T) {
	for name, make := range map[string]func() *Turns{
		"in turn":  func() *Turns { return New(Many) },
		"patience": func() *Turns { return Patient(Patience{Enough: 4, Patience: 5 * ms, Longest: 10 * ms}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := make()
				var mu sync.Mutex
				var sharing, alone, together int
				var wrong []string
				var all sync.WaitGroup
				for i := range 40 {
					all.Go(func() {
						for n := range 25 {
							mine, enter := &sharing, turns.Share
							if i%4 == 0 {
								mine, enter = &alone, turns.Alone
							}
							ctx, cancel := context.WithCancel(t.Context())
							if n%7 == 6 { // some give up
								ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*50*time.Microsecond)
							}
							leave, err := enter(ctx)
							cancel()
							if err != nil {
								continue
							}
							mu.Lock()
							*mine++
							if alone > 1 || alone == 1 && sharing > 0 {
								wrong = append(wrong, name)
							}
							if sharing > 1 {
								together++
							}
							mu.Unlock()
							time.Sleep(time.Duration(50+i) * time.Microsecond)
							mu.Lock()
							*mine--
							mu.Unlock()
							leave()
						}
					})
				}
				all.Wait()
				u := turns.Usage()
				if len(wrong) > 0 || together == 0 || u.Waiting != 0 || turns.free != Many {
					t.Errorf("%d times callers that exclude each other were in, %d times two shared: %+v", len(wrong), together, u)
				}
				if name == "patience" && (u.Phases == 0 || u.Phases > u.Entries/2) {
					t.Errorf("%d entries in %d phases, want fewer than half as many", u.Entries, u.Phases)
				}
				turns.Close()
			})
		})
	}
}

// BenchmarkShare is what a share costs without others.
func BenchmarkShare(b *testing.B) {
	turns := New(Many)
	for b.Loop() {
		leave, _ := turns.Share(b.Context())
		leave()
	}
}
