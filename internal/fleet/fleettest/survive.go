package fleettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// A Chaos breaks a fleet at random.
type Chaos struct {
	Faults int
	// Broker, when it is not nil, kills a broker and starts it again.
	Broker func()
}

// A mortal log is that of one life of a coordinator: what is appended after its end is lost.
type mortal struct {
	*Log
	mu   sync.Mutex
	dead bool
}

func (m *mortal) Append(events ...store.Event) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return 0, context.Canceled
	}
	return m.Log.Append(events...)
}

// TestSurvives tests that campaigns have the logs that they have alone, whatever is killed, stopped,
// cut, delayed, repeated and reordered.
func TestSurvives(t *testing.T, rig func() Rig, c Chaos) {
	t.Helper()
	const lease = time.Second
	rng := rand.New(rand.NewPCG(7, 7))
	f := NewFarm(t, rig(), lease, nil)
	var mu sync.Mutex // of what follows
	links := map[string]*FaultyLink{}
	members := map[string]*Member{}
	struck := map[string]int{}
	add := func(name string) {
		takes := func(ctx context.Context, g string) error {
			wait := 2 + time.Duration(len(g)*7919%17)
			select {
			case <-time.After(wait * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		m := f.Add(name, 4, func(context.Context) (fleet.Runner, error) { return NewSimulated(t, takes), nil }, func(l fleet.Link) fleet.Link {
			faulty := Faulty(l, uint64(len(name)))
			mu.Lock()
			links[name] = faulty
			mu.Unlock()
			return faulty
		})
		mu.Lock()
		members[name] = m
		mu.Unlock()
	}
	const workers = 8
	name := func() string { return fmt.Sprint("w", rng.IntN(workers)) }
	for i := range workers {
		add(fmt.Sprint("w", i))
	}
	// spoil gives a worker's connection faults for a while.
	var later sync.WaitGroup
	spoil := func(what string, with Faults, long time.Duration) {
		mu.Lock()
		l := links[name()]
		mu.Unlock()
		if l == nil {
			return
		}
		struck[what]++
		l.Set(with)
		later.Go(func() {
			time.Sleep(long)
			l.Set(Faults{})
		})
	}
	short := func() time.Duration { return time.Duration(50+rng.IntN(300)) * time.Millisecond }
	done := 0
	for seed := int64(1); done < c.Faults; seed++ {
		j := Job(1500, 32)
		j.ID, j.Strategy, j.Seed = fmt.Sprint("campaign-", seed), "hillclimb", new(seed)
		want := Alone(t, j).Path()
		l := &Log{}
		f.Told = l.Told
		for complete := false; !complete; {
			ctx, kill := context.WithCancel(t.Context())
			life := &mortal{Log: l}
			ended := make(chan error, 1)
			go func() {
				finished, err := f.Run(ctx, j, life, workers)
				complete = finished.Complete && err == nil
				ended <- err
			}()
			var err error
			killed := false
			for going := true; going; {
				select {
				case err = <-ended:
					going = false
					continue
				case <-time.After(time.Duration(5+rng.IntN(20)) * time.Millisecond):
				}
				if done >= c.Faults || killed {
					continue
				}
				done++
				switch k := rng.IntN(100); {
				case k < 3: // the coordinator
					struck["coordinator killed"]++
					life.mu.Lock()
					life.dead = true
					life.mu.Unlock()
					kill()
					f.Halt()
					f.Start()
					killed = true
				case k < 12:
					struck["worker killed"]++
					n := name()
					mu.Lock()
					m := members[n]
					delete(links, n)
					mu.Unlock()
					m.Kill()
					<-m.Ended //nolint:errcheck // it was killed
					m.Ended <- nil
					add(n)
				case k < 16 && c.Broker != nil:
					struck["broker killed"]++
					c.Broker()
				case k < 20:
					spoil("stopped and continued", Faults{Drop: 1, Silent: true}, lease+lease/3)
				case k < 35:
					spoil("cut", Faults{Drop: 1}, short())
				case k < 50:
					spoil("one way", Faults{Cut: 1}, short())
				case k < 65:
					spoil("delayed", Faults{Delay: 1, MaxDelay: 100 * time.Millisecond}, short())
				case k < 80:
					spoil("twice", Faults{Twice: 1, MaxDelay: 50 * time.Millisecond}, short())
				case k < 90:
					spoil("reordered", Faults{Hold: .5, Late: .3, MaxDelay: 50 * time.Millisecond}, short())
				default:
					spoil("lost here and there", Faults{Drop: .3, Cut: .3, Late: .2, Twice: .3}, short())
				}
			}
			kill()
			if err != nil && !killed {
				t.Fatal(err)
			}
			if killed {
				complete = false
			}
		}
		if diff := cmp.Diff(want, l.Path()); diff != "" {
			blamed(t, l)
			t.Fatalf("campaign %s: the path is another (-alone +fleet):\n%.2000s", j.ID, diff)
		}
		t.Logf("%s: %d faults so far; attempts lost %d, returned %d, late %d", j.ID, done, len(l.Attempts(fleet.EndLost)), len(l.Attempts(fleet.EndReturned)), len(l.Attempts(fleet.EndLate)))
	}
	later.Wait()
	t.Log(struck)
	for _, what := range []string{"coordinator killed", "worker killed", "stopped and continued", "cut", "one way", "delayed", "twice", "reordered", "lost here and there"} {
		if struck[what] == 0 {
			t.Errorf("there was no fault %q", what)
		}
	}
}

// blamed tells of candidates that are said to have taken workers down.
func blamed(t *testing.T, l *Log) {
	t.Helper()
	for _, e := range l.Past() {
		if e.Told == nil {
			continue
		}
		if r, err := record.ReadResult(e.Told); err == nil && r.Verdict == evaluator.Launch && r.Host == "" {
			t.Logf("proposal %d is blamed: %s", e.Told.Index, r.Reason)
		}
	}
}
