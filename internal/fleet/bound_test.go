package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A compiling evaluator calls before while a candidate is compiled.
type compiling struct {
	*fleettest.Simulated
	before func(ctx context.Context, genome string) error
}

func (c compiling) Evaluate(ctx context.Context, g string, incumbent float64) (evaluator.Result, error) {
	evaluator.Enter(ctx, evaluator.StageCompile)
	if err := c.before(ctx, g); err != nil {
		return evaluator.Result{}, err
	}
	return c.Simulated.Evaluate(ctx, g, incumbent)
}

// TestCompileBomb: a candidate that takes down the worker that compiles it gets the verdict compile,
// after three hosts, or after five workers where there are no three; those beside it are not blamed.
func TestCompileBomb(t *testing.T) {
	for hosts, most := range map[int]int32{4: 3, 1: 5} {
		t.Run(fmt.Sprint(hosts, " hosts"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := fleettest.Job(60, 8)
				want := fleettest.Alone(t, j)
				bomb := want.Path()[genomeLine(want, 12)].Genome
				f := fleettest.NewFarm(t, fleettest.InMemory(), 200*time.Millisecond, nil)
				var lost atomic.Int32
				var add func(n int)
				add = func(n int) {
					var m *fleettest.Member
					made, dead, once := make(chan struct{}), make(chan struct{}), sync.Once{}
					ev := compiling{fleettest.NewSimulated(t, nil), func(ctx context.Context, g string) error {
						if g != bomb {
							return nil
						}
						<-made
						time.Sleep(60 * time.Millisecond) // long enough for a beat
						lost.Add(1)
						m.Kill()
						<-ctx.Done()
						once.Do(func() { close(dead) })
						return ctx.Err()
					}}
					m = f.Add(fmt.Sprint("w", n), 4, func(context.Context) (fleet.Runner, error) { return ev, nil }, nil)
					close(made)
					go func() {
						select {
						case <-dead:
							time.Sleep(20 * time.Millisecond)
							add(n)
						case <-t.Context().Done():
						}
					}()
				}
				for n := range hosts {
					add(n)
				}
				l := &fleettest.Log{}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if done, err := f.Run(ctx, j, l, 8); err != nil || !done.Complete {
					t.Fatal(done, err, "lost ", lost.Load())
				}
				if n := lost.Load(); n != most {
					t.Errorf("it cost %d workers, want %d", n, most)
				}
				for _, e := range l.Past() {
					if e.Told == nil {
						continue
					}
					r, err := record.ReadResult(e.Told)
					if err != nil {
						t.Fatal(err)
					}
					if blamed, it := r.Host == "", l.Path()[genomeLine(l, e.Told.Index)].Genome == bomb; blamed != it {
						t.Errorf("candidate %d: %+v", e.Told.Index, r)
					} else if it {
						t.Log(r.Reason)
						if r.Verdict != evaluator.Compile || r.Stage != evaluator.StageCompile || len(r.Steps) != 1 || len(r.Steps[0].Evidence) != 1 {
							t.Errorf("the bomb: %+v", r)
						}
					}
				}
			})
		})
	}
}

// TestGreedy: a worker has no more candidates than it enrolled for, whatever it asks for or says that
// it does.
func TestGreedy(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), 5*time.Second, nil)
	p := &puppet{t: t, hub: f.Hub(), name: "w", session: "1"}
	j := fleettest.Job(1000, 64)
	go f.Run(t.Context(), j, &fleettest.Log{}, 4) //nolint:errcheck // it ends with the test
	p.settle(j.ID)
	have := map[any]bool{}
	for range 10 {
		time.Sleep(5 * time.Millisecond) // for the campaign to ask for more
		p.number++
		out, err := p.ask(fleet.Take, map[string]any{"number": p.number, "place": j.ID, "class": p.class(), "free": 1_000_000, "wait_ns": 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks(out) {
			have[task["id"]] = true
		}
	}
	if len(have) != 4 {
		t.Errorf("it has %d candidates and enrolled for 4", len(have))
	}
}

// TestHang: a candidate whose evaluation comes to no end, on a worker that goes on to say that it has it,
// goes elsewhere; the worker has a slot less, and says why, until the evaluation ends. Where nobody else is
// there the campaign says so, and takes the result that comes late.
func TestHang(t *testing.T) {
	for _, others := range []bool{true, false} {
		t.Run(fmt.Sprint("others=", others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := fleettest.Job(30, 8)
				want := fleettest.Alone(t, j)
				hangs := want.Path()[genomeLine(want, 12)].Genome
				f := fleettest.NewFarm(t, fleettest.InMemory(), 400*time.Millisecond, func(o *fleet.Options) { o.Hang = 600 * time.Millisecond })
				end, began := make(chan struct{}), make(chan struct{})
				release := sync.OnceFunc(func() { close(end) })
				t.Cleanup(release)
				begin := sync.OnceFunc(func() { close(began) })
				f.Add("deaf", 1, func(context.Context) (fleet.Runner, error) {
					return fleettest.NewSimulated(t, func(_ context.Context, g string) error {
						if g == hangs {
							begin()
							<-end // whatever becomes of its context
						}
						return nil
					}), nil
				}, nil)
				l := &fleettest.Log{}
				done := make(chan error, 1)
				go func() { _, err := f.Run(t.Context(), j, l, 1); done <- err }()
				<-began
				if others {
					f.Add("other", 1, simulated(t), nil)
				} else {
					for h := hostOf(f, "deaf"); h.State != "troubled" || !strings.Contains(h.Reason, "made no progress"); h = hostOf(f, "deaf") {
						time.Sleep(5 * time.Millisecond)
					}
					if why := f.Hub().Waiting()[j.ID]; !strings.Contains(why, "made no progress on deaf") {
						t.Errorf("the campaign waits: %q", why)
					}
					release()
				}
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("it does not go on: %+v, %v", f.Hub().Hosts(), f.Hub().Waiting())
				}
				if fmt.Sprint(l.Path()) != fmt.Sprint(want.Path()) {
					t.Error("the log differs from that of one process")
				}
				if lost := l.Attempts(fleet.EndLost); len(lost) != 1 || !strings.Contains(string(lost[0].Detail), "made no progress") {
					t.Errorf("attempts: %v", lost)
				}
				release()
				for h := hostOf(f, "deaf"); h.Reason != ""; h = hostOf(f, "deaf") {
					time.Sleep(5 * time.Millisecond)
				}
			})
		})
	}
}

// TestVacant: the name of a worker that is there is refused to another process, and that of one that was
// killed, or has left, is free soon.
func TestVacant(t *testing.T) { synctest.Test(t, testVacant) }

func testVacant(t *testing.T) {
	f := fleettest.NewFarm(t, fleettest.InMemory(), time.Second, nil)
	vacant := func(name string) error { return f.Hub().Vacant(t.Context(), name) }
	if err := vacant("one"); err != nil {
		t.Error(err)
	}
	var members []*fleettest.Member
	for _, name := range []string{"one", "two"} {
		members = append(members, f.Add(name, 1, simulated(t), nil))
		for hostOf(f, name).State == "" {
			time.Sleep(time.Millisecond)
		}
	}
	var refused fleet.Refusal
	if err := vacant("one"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "--name") {
		t.Errorf("the name of a worker that is there: %v", err)
	}
	members[0].Kill()
	began := time.Now()
	if err := vacant("one"); err != nil || time.Since(began) > 900*time.Millisecond {
		t.Errorf("a killed worker's name after %s: %v", time.Since(began), err)
	}
	close(members[1].Drain)
	if err := <-members[1].Ended; err != nil {
		t.Fatal(err)
	}
	members[1].Ended <- nil
	began = time.Now()
	if err := vacant("two"); err != nil || time.Since(began) > 200*time.Millisecond {
		t.Errorf("the name of one that has left after %s: %v", time.Since(began), err)
	}
}

// TestWorkersKnowTheOrder: an evaluator of a fleet learns the number of each proposal, in the order
// of which the campaign waits for them.
func TestWorkersKnowTheOrder(t *testing.T) {
	var known sync.Map // by genome
	ev := fleettest.NewSimulated(t, func(ctx context.Context, genome string) error {
		who, _ := evaluator.CandidateOf(ctx)
		known.Store(genome, who.Index)
		return nil
	})
	f := fleettest.NewFarm(t, fleettest.InMemory(), 200*time.Millisecond, nil)
	f.Add("w", 4, func(context.Context) (fleet.Runner, error) { return ev, nil }, nil)
	l := &fleettest.Log{}
	if done, err := f.Run(t.Context(), fleettest.Job(20, 8), l, 8); err != nil || !done.Complete {
		t.Fatal(done, err)
	}
	for _, p := range l.Path() {
		if p.Kind != store.KindAsked {
			continue
		}
		if index, ok := known.Load(p.Genome); !ok || index != p.Index {
			t.Errorf("proposal %d came as number %v", p.Index, index)
		}
	}
}

// An ending evaluator notes when its finals have to be over.
type ending struct {
	*fleettest.Simulated
	left chan time.Duration
}

func (e ending) Finals(ctx context.Context, genomes []string) (evaluator.Finals, error) {
	end, limited := evaluator.EndOf(ctx)
	if !limited {
		end.By = time.Now()
	}
	e.left <- time.Until(end.By)
	return e.Simulated.Finals(ctx, genomes)
}

// TestFinalsEnd: a worker that holds finals knows how long they have.
func TestFinalsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Duration, 1)
		f := fleettest.NewFarm(t, fleettest.InMemory(), 2*time.Second, nil)
		f.Add("w", 4, func(context.Context) (fleet.Runner, error) {
			return ending{fleettest.NewSimulated(t, nil), left}, nil
		}, nil)
		j := fleettest.Job(20, 8)
		j.Budget.Time = time.Hour
		if done, err := f.Run(t.Context(), j, &fleettest.Log{}, 4); err != nil || !done.Complete {
			t.Fatal(done, err)
		}
		if d := <-left; d < 50*time.Minute || d > time.Hour {
			t.Errorf("finals have %s", d)
		}
	})
}
