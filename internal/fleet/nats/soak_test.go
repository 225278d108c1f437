package nats

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/fleet/fleettest"
	"github.com/evotune/evotune/internal/longtest"
)

// soakVariable is for how long TestSoakNightly runs.
const soakVariable = "EVOTUNE_FLEET_SOAK"

// TestSoakNightly has one campaign after the other on workers that come and go. What the coordinator, its
// broker and the workers hold must not grow: memory, goroutines, descriptors.
func TestSoakNightly(t *testing.T) {
	longtest.Nightly(t, "soak", "it takes three minutes")
	long := 3 * time.Minute
	if v := os.Getenv(soakVariable); v != "" {
		var err error
		if long, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	var current atomic.Int64 // campaign; what has come late of another is of no use
	f := fleettest.NewFarm(t, embeddedRig(EmbedOptions{}), time.Second, func(o *fleet.Options) {
		o.Wanted = func(campaign, _ string) bool { return campaign == fmt.Sprint("c", current.Load()) }
	})
	rng := rand.New(rand.NewPCG(1, 2))
	open := func(context.Context) (fleet.Runner, error) {
		return fleettest.NewSimulated(t, func(ctx context.Context, _ string) error {
			select {
			case <-time.After(3 * time.Millisecond):
			case <-ctx.Done():
			}
			return ctx.Err()
		}), nil
	}
	members := map[string]*fleettest.Member{}
	for i := range 8 {
		name := fmt.Sprint("w", i)
		members[name] = f.Add(name, 4, open, nil)
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	campaigns := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			current.Store(int64(n))
			j := fleettest.Job(500, 32)
			j.ID, j.Strategy, j.Seed = fmt.Sprint("c", n), "random", new(int64(n))
			if _, err := f.Run(ctx, j, &fleettest.Log{}, 8); err != nil && ctx.Err() == nil {
				t.Error(err)
				break
			}
		}
		campaigns <- n
	}()
	type held struct{ heap, goroutines, descriptors float64 }
	var seen []held
	for at := time.Now(); ctx.Err() == nil; {
		name := fmt.Sprint("w", rng.IntN(8))
		if m := members[name]; rng.IntN(2) == 0 {
			m.Kill()
			<-m.Ended //nolint:errcheck // it was killed
		} else {
			close(m.Drain)
			<-m.Ended //nolint:errcheck // it drained
		}
		members[name] = f.Add(name, 4, open, nil)
		if time.Since(at) > long/60 {
			at = time.Now()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fds, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				t.Skip("there is no /proc")
			}
			seen = append(seen, held{float64(m.HeapAlloc), float64(runtime.NumGoroutine()), float64(len(fds))})
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	n := <-campaigns
	if len(seen) < 12 {
		t.Skipf("%d looks are too few on this machine", len(seen))
	}
	median := func(list []held, of func(held) float64) float64 {
		var v []float64
		for _, h := range list {
			v = append(v, of(h))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	third := len(seen) / 3
	for what, of := range map[string]func(held) float64{
		"MB of memory": func(h held) float64 { return h.heap / 1e6 }, "goroutines": func(h held) float64 { return h.goroutines }, "descriptors": func(h held) float64 { return h.descriptors },
	} {
		first, last := median(seen[third/2:third+third/2], of), median(seen[len(seen)-third:], of)
		t.Logf("%s: %.1f, at the end %.1f", what, first, last)
		if last > 1.3*first+3 {
			t.Errorf("%s grew from %.1f to %.1f", what, first, last)
		}
	}
	t.Logf("%d campaigns of 500 candidates in %s", n, long)
}
