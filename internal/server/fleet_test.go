package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/store"
)

// soon is less than a lease: how long the service may take for what waits for no worker, or
// for its next beat.
const soon = 20 * time.Second

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
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Backend: "replay", Table: table(f), Seed: &seed, Window: 8, Budget: evotune.Budget{Evaluations: evaluations}}, Device: "fleet"}, &c, 201)
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
	t.Parallel()
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
	t.Parallel()
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
	for _, paused := range []bool{false, true} { // those that a pause has left with their workers are stopped, too
		t.Run(fmt.Sprintf("cancel,paused=%v", paused), func(t *testing.T) {
			t.Parallel()
			s, held := fleetSite(t), newSlow(false)
			s.workAs("one", 2, 0, held.wrap)
			s.enrolled("one")
			f := s.api()
			c := f.submitFleet(7, 20)
			eventually(t, soon, "nothing is evaluated", func() bool { return held.holds.Load() == 2 })
			if paused {
				f.do("POST", "/v1/campaigns/"+c.ID+"/pause", nil, nil, 200)
				eventually(t, soon, "the paused campaign holds the fleet", func() bool { return s.runs() == 0 })
			}
			f.do("POST", "/v1/campaigns/"+c.ID+"/cancel", nil, nil, 200)
			// A beat tells it so, every 7.5 s.
			eventually(t, soon, "the worker goes on with a cancelled campaign", func() bool { return held.ended.Load() == 2 })
			held.let()
			f.until(f.submitFleet(8, 20).ID, api.Finished)
		})
	}
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

// TestFleetDrainKept: a worker that was drained is drained still when the service was started again, and
// when the worker was, until somebody lets it go on.
func TestFleetDrainKept(t *testing.T) {
	s := fleetSite(t)
	kill := s.workAs("bad", 1, 0, func(r fleet.Runner) fleet.Runner { return r })
	s.enrolled("bad")
	f := s.api()
	f.do("POST", "/v1/fleet/workers/bad/drain", api.Drain{Reason: "its fan is loud"}, nil, 204)
	kill()
	s.stop()
	s.start()
	s.work("bad", 1, 0)
	if h := s.enrolled("bad"); h.State != "drained" || h.Reason != "its fan is loud" {
		t.Errorf("it is %s: %q", h.State, h.Reason)
	}
	f = s.api()
	f.do("POST", "/v1/fleet/workers/bad/drain", api.Drain{}, nil, 204)
	f.until(f.submitFleet(7, 5).ID, api.Finished)
	s.stop()
	s.start()
	eventually(t, soon, "it has not enrolled", func() bool { hosts := s.service.fleet.hub.Hosts(); return len(hosts) == 1 && hosts[0].State == "idle" })
}

// TestWorkerName: a host does not get the name of a worker that runs on another one; that one gets a new
// credential when it asks for one.
func TestWorkerName(t *testing.T) {
	t.Parallel()
	s := fleetSite(t)
	f := s.api()
	var first, again evotune.FleetAccess
	f.do("POST", "/v1/fleet/workers", api.NewWorker{Name: "one"}, &first, 200)
	s.work("one", 1, 0)
	s.enrolled("one")
	f.do("POST", "/v1/fleet/workers", api.NewWorker{Name: "one", Secret: first.Secret}, nil, 409)
	access := s.access.Load()
	f.do("POST", "/v1/fleet/workers", api.NewWorker{Name: "one", Secret: access.Secret}, &again, 200)
	if again.Secret == access.Secret || again.Secret == "" {
		t.Error("it has no new credential")
	}
}

// A gpu evaluates like one, for a service that has none.
type gpu struct {
	device evaluator.Device
	job    evotune.Job
}

func (g gpu) Describe() evaluator.Description {
	return evaluator.Description{Backend: evotune.CUDA, Device: g.device, Kernel: g.job.Kernel, Shapes: g.job.Shapes, Harness: "1"}
}

func (g gpu) Evaluate(_ context.Context, genome string, _ float64) (evaluator.Result, error) {
	return evaluator.Result{Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark, Fitness: 1 / float64(len(genome))}, nil
}

func (g gpu) Time(ctx context.Context, genome string) (evaluator.Result, error) {
	return g.Evaluate(ctx, genome, 0)
}

func (g gpu) Finals(_ context.Context, genomes []string) (evaluator.Finals, error) {
	f := evaluator.Finals{Winner: -1}
	for range genomes {
		f.Entries = append(f.Entries, evaluator.Finalist{Verdict: evaluator.Correct, Fitness: .5})
	}
	return f, nil
}

func (gpu) Close() error { return nil }

// TestFleetGoesOn: a campaign that GPUs of workers evaluated goes on at a service that has none, with a
// larger budget and after a pause.
func TestFleetGoesOn(t *testing.T) {
	s := fleetSite(t)
	device := evaluator.Device{Name: "H200", Kind: evotune.CUDA, Fingerprint: "gpu"}
	s.workWith(fleet.WorkerOptions{
		Host: fleet.Host{Name: "gpu", Backend: evotune.CUDA, Device: device, Slots: 4, Limits: map[string]int64{"device_capability": 90, "device_cores": 132, "device_warp": 32, "device_max_threads": 1024, "device_max_shared_bytes": 227 << 10, "device_registers": 64 << 10}},
		Open: func(_ context.Context, p fleet.Place, _ func(context.Context, fleet.File, io.Writer) error) (fleet.Runner, error) {
			g := &gpu{device: device}
			return g, json.Unmarshal(p.Job, &g.job)
		},
	})
	s.enrolled("gpu")
	f := s.api()
	var c api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Kernel: "attention", Shapes: []string{"2x8x512x64"}, Budget: evotune.Budget{Evaluations: 10}}}, &c, 201)
	if c.Backend != evotune.CUDA {
		t.Fatalf("the campaign is for the backend %s", c.Backend)
	}
	f.until(c.ID, api.Finished)
	// A kernel for processors alone is none for these workers.
	var local api.Campaign
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Kernel: "sgemm", Budget: evotune.Budget{Evaluations: 1}}, Priority: -1}, &local, 201)
	s.service.jobs.mu.Lock()
	if j := s.service.jobs.jobs[local.ID]; j.Elsewhere != nil || j.Job.Backend != evotune.CPU {
		t.Errorf("it is for the backend %s, elsewhere %v", j.Job.Backend, j.Elsewhere)
	}
	s.service.jobs.mu.Unlock()
	f.do("POST", "/v1/campaigns/"+local.ID+"/cancel", nil, nil, 200)
	f.do("POST", "/v1/campaigns", api.Submission{Job: evotune.Job{Kernel: "sgemm", Budget: evotune.Budget{Evaluations: 1}}, Device: "fleet"}, nil, 422)
	for n, restart := range []bool{false, true} {
		if restart {
			s.stop()
			s.start()
			f = s.api()
		}
		f.do("PATCH", "/v1/campaigns/"+c.ID, api.Change{Budget: &evotune.Budget{Evaluations: 20 * (n + 1)}}, nil, 200)
		eventually(t, 12*time.Second, "it does not go on", func() bool {
			f.do("GET", "/v1/campaigns/"+c.ID, nil, &c, 200)
			return c.State == api.Finished && c.Evaluated == 20*(n+1) || c.State == api.Failed
		})
		if c.State == api.Failed {
			t.Fatal(c.Reason)
		}
	}
}

// runs counts the campaigns that hold a device.
func (s *site) runs() int {
	s.service.jobs.mu.Lock()
	defer s.service.jobs.mu.Unlock()
	return len(s.service.jobs.runs)
}
