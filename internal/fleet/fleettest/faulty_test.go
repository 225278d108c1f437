package fleettest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
)

// A recorder is a link that notes what arrives.
type recorder struct {
	mu      sync.Mutex
	arrived []string
	closed  bool
}

func (r *recorder) Request(_ context.Context, _ fleet.Verb, body []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived = append(r.arrived, string(body))
	return body, nil
}

func (r *recorder) Close() error { r.closed = true; return nil }

// Each fault alone does what it says.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		faults  fleettest.Faults
		arrives int // at the latest when the link is closed
		fails   bool
		waits   bool
	}{
		{fleettest.Faults{}, 1, false, false},
		{fleettest.Faults{Drop: 1}, 0, true, false},
		{fleettest.Faults{Cut: 1}, 1, true, false},
		{fleettest.Faults{Late: 1}, 1, true, false},
		{fleettest.Faults{Twice: 1}, 2, false, false},
		{fleettest.Faults{Delay: 1}, 1, false, true},
		{fleettest.Faults{Hold: 1}, 1, false, true},
		{fleettest.Faults{Drop: 1, Silent: true}, 0, true, true},
		{fleettest.Faults{Cut: 1, Silent: true}, 1, true, true},
	} {
		t.Run(strings.Trim(fmt.Sprintf("%+v", c.faults), "{}"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				l := fleettest.Faulty(r, 1)
				l.Set(c.faults)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				begin := time.Now()
				got, err := l.Request(ctx, fleet.Done, []byte("x"))
				if (err != nil) != c.fails || (err == nil && string(got) != "x") {
					t.Errorf("got %q, %v", got, err)
				}
				want := fleet.ErrUnreachable
				if c.faults.Silent {
					want = context.DeadlineExceeded
				}
				if c.fails && !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				if waited := time.Since(begin); (waited > 0) != c.waits {
					t.Errorf("it took %v", waited)
				}
				time.Sleep(time.Second)
				if err := l.Close(); err != nil || !r.closed {
					t.Error("the link below stays open", err)
				}
				if len(r.arrived) != c.arrives {
					t.Errorf("%d requests arrive, want %d", len(r.arrived), c.arrives)
				}
			})
		})
	}
}

// A request that is held back goes when another has passed.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		l := fleettest.Faulty(r, 1)
		l.Set(fleettest.Faults{Hold: 1, MaxDelay: time.Hour})
		var held sync.WaitGroup
		held.Go(func() { _, _ = l.Request(t.Context(), fleet.Done, []byte("first")) })
		synctest.Wait()
		l.Set(fleettest.Faults{})
		begin := time.Now()
		if _, err := l.Request(t.Context(), fleet.Done, []byte("second")); err != nil {
			t.Error(err)
		}
		held.Wait()
		if want := []string{"second", "first"}; !slices.Equal(r.arrived, want) || time.Since(begin) > 0 {
			t.Errorf("%q arrive after %v, want %q", r.arrived, time.Since(begin), want)
		}
		l.Close()
	})
}

// One seed strikes the same requests, whatever the faults of others.
func TestSeed(t *testing.T) {
	strikes := func(seed uint64, f fleettest.Faults) (out string) {
		l := fleettest.Faulty(&recorder{}, seed)
		l.Set(f)
		for range 100 {
			if _, err := l.Request(t.Context(), fleet.Done, nil); err != nil {
				out += "x"
			} else {
				out += "."
			}
		}
		l.Close()
		return out
	}
	drop := fleettest.Faults{Drop: .3}
	a, b, c := strikes(1, drop), strikes(1, drop), strikes(2, drop)
	if a != b || a == c || strings.Count(a, "x") < 10 || strings.Count(a, "x") > 60 {
		t.Errorf("seeds 1, 1 and 2:\n%s\n%s\n%s", a, b, c)
	}
	if d := strikes(1, fleettest.Faults{Drop: .3, Twice: .5, MaxDelay: time.Nanosecond}); d != a {
		t.Errorf("with another fault:\n%s, want\n%s", d, a)
	}
}
