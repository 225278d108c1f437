package fleet_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// TestPath: whoever evaluates, and however many there are, the log says the same.
func TestPath(t *testing.T) { fleettest.TestPath(t, fleettest.InMemory) }

// TestSurvives: nothing is lost and nothing recorded twice, whatever happens to workers, connections
// and the coordinator.
func TestSurvives(t *testing.T) {
	fleettest.TestSurvives(t, fleettest.InMemory, fleettest.Chaos{Faults: 60})
}

func TestSurvivesNightly(t *testing.T) {
	longtest.Nightly(t, "soak", "it has 500 faults")
	fleettest.TestSurvives(t, fleettest.InMemory, fleettest.Chaos{Faults: 500})
}

// TestPoison: candidates that take their workers down are found out, with at most three workers lost
// for each; those that ran beside them are not blamed, and the campaign finishes.
func TestPoison(t *testing.T) { synctest.Test(t, testPoison) }

func testPoison(t *testing.T) {
	j := fleettest.Job(300, 32)
	want := fleettest.Alone(t, j)
	poisoned := map[string]bool{}
	for _, i := range []int{20, 21, 130} {
		poisoned[want.Path()[genomeLine(want, i)].Genome] = true
	}
	f := fleettest.NewFarm(t, fleettest.InMemory(), 300*time.Millisecond, nil)
	var lost atomic.Int32
	var add func(n int)
	add = func(n int) {
		name := fmt.Sprint("w", n%8)
		var m *fleettest.Member
		added, dead, once := make(chan struct{}), make(chan struct{}), sync.Once{}
		ev := fleettest.NewSimulated(t, func(ctx context.Context, g string) error {
			if poisoned[g] {
				<-added
				lost.Add(1)
				m.Kill()
				<-ctx.Done()
				once.Do(func() { close(dead) })
				return ctx.Err()
			}
			return nil
		})
		m = f.Add(name, 4, func(context.Context) (fleet.Runner, error) { return ev, nil }, nil)
		close(added)
		go func() {
			select {
			case <-dead:
				time.Sleep(20 * time.Millisecond)
				add(n) // it is started again, as a service of the host would
			case <-t.Context().Done():
			}
		}()
	}
	for n := range 8 {
		add(n)
	}
	l := &fleettest.Log{}
	done, err := f.Run(t.Context(), j, l, 8)
	if err != nil || !done.Complete {
		t.Fatal(done, err)
	}
	found := 0
	for _, e := range l.Past() {
		if e.Told == nil {
			continue
		}
		g := l.Path()[genomeLine(l, e.Told.Index)].Genome
		if poisoned[g] {
			found++
			r, err := record.ReadResult(e.Told)
			if err != nil || r.Verdict != evaluator.Launch || len(r.Steps) != 1 || len(r.Steps[0].Evidence) != 1 {
				t.Errorf("the poisoned candidate %d: %+v, %v", e.Told.Index, r, err)
			}
			t.Log(r.Reason)
		} else if r, err := record.ReadResult(e.Told); err != nil || r.Host == "" {
			t.Errorf("candidate %d is blamed: %+v, %v", e.Told.Index, r, err)
		}
	}
	if n := int(lost.Load()); n > 3*found || found == 0 {
		t.Errorf("%d poisoned candidates cost %d workers", found, n)
	}
}

// genomeLine is where the path has proposal i.
func genomeLine(l *fleettest.Log, i int) int {
	for k, p := range l.Path() {
		if p.Kind == store.KindAsked && p.Index == i {
			return k
		}
	}
	return -1
}

// BenchmarkCoordinator is what an evaluation costs besides the search and the evaluation itself.
func BenchmarkCoordinator(b *testing.B) { fleettest.BenchmarkCoordinator(b, fleettest.InMemory) }

// TestLostSoon: with the lease that a service has, the candidate of a worker that is silent runs on
// another within 35 s.
func TestLostSoon(t *testing.T) { synctest.Test(t, testLostSoon) }

func testLostSoon(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), fleet.DefaultLease, nil)
	var began atomic.Int64
	var silent *fleettest.FaultyLink
	hang := func(ctx context.Context, _ string) error {
		silent.Set(fleettest.Faults{Drop: 1, Silent: true})
		began.CompareAndSwap(0, time.Now().UnixNano())
		<-ctx.Done()
		return ctx.Err()
	}
	f.Add("lost", 1, func(context.Context) (fleet.Runner, error) { return fleettest.NewSimulated(t, hang), nil }, func(l fleet.Link) fleet.Link {
		silent = fleettest.Faulty(l, 1)
		return silent
	})
	done := make(chan error, 1)
	go func() {
		_, err := f.Run(t.Context(), fleettest.Job(1, 1), &fleettest.Log{}, 2)
		done <- err
	}()
	for began.Load() == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	f.Add("other", 1, func(context.Context) (fleet.Runner, error) { return fleettest.NewSimulated(t, nil), nil }, nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	took := time.Since(time.Unix(0, began.Load()))
	t.Logf("it was evaluated elsewhere after %s", took.Round(time.Millisecond))
	if took < fleet.DefaultLease/2 || took > 35*time.Second {
		t.Errorf("it took %s", took)
	}
	if h := hostOf(f, "lost"); h.State != "lost" {
		t.Errorf("the silent worker is %s", h.State)
	}
}
