package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/store"
)

// soon is how long the service may take for what waits for no worker.
const soon = 5 * time.Second

// A slow evaluator holds what it evaluates until it is let go.
type slow struct {
	finals bool // nothing but finals
	gate   chan struct{}
	holds  atomic.Int32 // how many it holds
	ended  atomic.Int32 // how many were cancelled
}

func newSlow(finals bool) *slow { return &slow{finals: finals, gate: make(chan struct{})} }

// let lets it go.
func (s *slow) let() { close(s.gate) }

func (s *slow) wrap(r fleet.Runner) fleet.Runner {
	return &slowRunner{r, s}
}

type slowRunner struct {
	fleet.Runner
	*slow
}

func (r *slowRunner) Describe() evaluator.Description { return r.Runner.Describe() }
func (r *slowRunner) Close() error                    { return r.Runner.Close() }

func (s *slow) wait(ctx context.Context) error {
	s.holds.Add(1)
	defer s.holds.Add(-1)
	select {
	case <-s.gate:
		return nil
	case <-ctx.Done():
		s.ended.Add(1)
		return ctx.Err()
	}
}

func (r *slowRunner) Evaluate(ctx context.Context, g string, incumbent float64) (evaluator.Result, error) {
	if !r.finals {
		if err := r.wait(ctx); err != nil {
			return evaluator.Result{}, err
		}
	}
	return r.Runner.Evaluate(ctx, g, incumbent)
}

func (r *slowRunner) Finals(ctx context.Context, g []string) (evaluator.Finals, error) {
	if err := r.wait(ctx); err != nil {
		return evaluator.Finals{}, err
	}
	return r.Runner.Finals(ctx, g)
}

// submitFleet submits a recorded campaign for the fleet.
func (f *fixture) submitFleet(seed int64, evaluations int) api.Campaign {
	f.Helper()
	var c api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Backend: "replay", Table: table(f), Device: "fleet", Seed: seed, Window: 8, Budget: api.Budget{Evaluations: evaluations}}, &c, 201)
	return c
}

// eventually waits for something, and fails the test when it does not come.
func eventually(t *testing.T, long time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(long); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", long, what)
		}
	}
}

// enrolled waits for a worker.
func (s *site) enrolled(name string) fleet.Status {
	s.Helper()
	var found fleet.Status
	eventually(s.T, soon, "the worker "+name+" has not enrolled", func() bool {
		for _, h := range s.service.fleet.hub.Hosts() {
			if h.Name == name && h.State != "lost" {
				found = h
				return true
			}
		}
		return false
	})
	return found
}

// fleetPath is what the log says of a search.
func fleetPath(t *testing.T, s *store.Store, id string) (path []string) {
	t.Helper()
	for e, err := range s.Events(id, 0) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Asked != nil:
			path = append(path, fmt.Sprint("asked ", e.Asked.Index, e.Asked.Genome))
		case e.Told != nil:
			path = append(path, fmt.Sprint("told ", e.Told.Index, e.Told.Verdict, e.Told.Fitness))
		}
	}
	return path
}

// ends says that something ends soon.
func ends(t *testing.T, what string, do func()) {
	t.Helper()
	done, began := make(chan struct{}), time.Now()
	go func() { do(); close(done) }()
	select {
	case <-done:
		t.Logf("%s took %s", what, time.Since(began).Round(time.Millisecond))
	case <-time.After(soon):
		t.Fatalf("%s has not ended after %s", what, soon)
	}
}

// TestFleetClose: a service ends soon whatever its workers do, or if there are none; and the next one
// goes on to the same log as a service that was never ended.
func TestFleetClose(t *testing.T) {
	const evaluations = 40
	whole := fleetSite(t)
	whole.work("one", 4, 0)
	whole.enrolled("one")
	c := whole.api().submitFleet(7, evaluations)
	whole.api().until(c.ID, api.Finished)
	want := fleetPath(t, whole.store, c.ID)
	for _, dead := range []bool{false, true} {
		for _, finals := range []bool{false, true} {
			t.Run(fmt.Sprintf("dead=%v,finals=%v", dead, finals), func(t *testing.T) {
				s, held := fleetSite(t), newSlow(finals)
				kill := s.workAs("one", 4, 0, held.wrap)
				s.enrolled("one")
				c := s.api().submitFleet(7, evaluations)
				eventually(t, soon, "nothing is evaluated", func() bool { return held.holds.Load() > 0 })
				if dead {
					kill()
				}
				ends(t, "the service", s.stop)
				if !dead && held.ended.Load() != 0 {
					t.Error("the end of the service ended what the worker does")
				}
				s.start()
				if dead {
					s.work("two", 4, 0)
				} else {
					held.let()
				}
				s.api().until(c.ID, api.Finished)
				if got := fleetPath(t, s.store, c.ID); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("the log is another: %v, want %v", got, want)
				}
			})
		}
	}
}

// TestFleetPause: a paused campaign gives its workers back, and loses nothing of what they finish;
// a cancelled one has them stop.
func TestFleetPause(t *testing.T) {
	for _, finals := range []bool{false, true} {
		t.Run(fmt.Sprintf("pause,finals=%v", finals), func(t *testing.T) {
			s, held := fleetSite(t), newSlow(finals)
			s.workAs("one", 2, 0, held.wrap)
			s.enrolled("one")
			f := s.api()
			c := f.submitFleet(7, 20)
			eventually(t, soon, "nothing is evaluated", func() bool { return held.holds.Load() > 0 })
			f.do("POST", "/v1/campaigns/"+c.ID+"/pause", nil, nil, 200)
			eventually(t, soon, "the paused campaign holds the fleet", func() bool { return s.runs() == 0 })
			held.let() // what the worker has finishes, and it is free
			other := f.submitFleet(8, 20)
			f.until(other.ID, api.Finished)
			f.until(c.ID, api.Paused)
			f.do("POST", "/v1/campaigns/"+c.ID+"/resume", nil, nil, 200)
			f.until(c.ID, api.Finished)
			if n := held.ended.Load(); n != 0 {
				t.Errorf("%d evaluations were cancelled", n)
			}
		})
	}
	t.Run("cancel", func(t *testing.T) {
		s, held := fleetSite(t), newSlow(false)
		s.workAs("one", 2, 0, held.wrap)
		s.enrolled("one")
		f := s.api()
		c := f.submitFleet(7, 20)
		eventually(t, soon, "nothing is evaluated", func() bool { return held.holds.Load() == 2 })
		f.do("POST", "/v1/campaigns/"+c.ID+"/cancel", nil, nil, 200)
		// A beat tells it so, every 7.5 s.
		eventually(t, 12*time.Second, "the worker goes on with a cancelled campaign", func() bool { return held.ended.Load() == 2 })
		held.let()
		f.until(f.submitFleet(8, 20).ID, api.Finished)
	})
	// Those that a pause has left with their workers are stopped, too.
	t.Run("pause and cancel", func(t *testing.T) {
		s, held := fleetSite(t), newSlow(false)
		s.workAs("one", 2, 0, held.wrap)
		s.enrolled("one")
		f := s.api()
		c := f.submitFleet(7, 20)
		eventually(t, soon, "nothing is evaluated", func() bool { return held.holds.Load() == 2 })
		f.do("POST", "/v1/campaigns/"+c.ID+"/pause", nil, nil, 200)
		eventually(t, soon, "the paused campaign holds the fleet", func() bool { return s.runs() == 0 })
		f.do("POST", "/v1/campaigns/"+c.ID+"/cancel", nil, nil, 200)
		eventually(t, 12*time.Second, "the worker goes on with a cancelled campaign", func() bool { return held.ended.Load() == 2 })
	})
	t.Run("no worker", func(t *testing.T) {
		s, held := fleetSite(t), newSlow(false)
		kill := s.workAs("one", 2, 0, held.wrap)
		s.enrolled("one")
		f := s.api()
		a, b := f.submitFleet(7, 20), f.submitFleet(8, 20)
		eventually(t, soon, "nothing is evaluated", func() bool { return held.holds.Load() == 2 })
		kill()
		for _, c := range []api.Campaign{a, b} { // one of them was never opened on a worker
			f.do("POST", "/v1/campaigns/"+c.ID+"/pause", nil, nil, 200)
		}
		eventually(t, soon, "paused campaigns hold the fleet", func() bool { return s.runs() == 0 })
		for _, c := range []api.Campaign{a, b} {
			f.do("POST", "/v1/campaigns/"+c.ID+"/resume", nil, nil, 200)
		}
		f.do("POST", "/v1/campaigns/"+b.ID+"/cancel", nil, nil, 200)
		s.work("two", 2, 0)
		f.until(b.ID, api.Cancelled)
		f.until(a.ID, api.Finished)
	})
}

// runs counts the campaigns that hold a device.
func (s *site) runs() int {
	s.service.jobs.mu.Lock()
	defer s.service.jobs.mu.Unlock()
	return len(s.service.jobs.runs)
}
