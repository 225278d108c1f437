package fleettest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/fleet"
	"github.com/evotune/evotune/internal/record"
)

// TestPath tests that 1, 8 and 1,000 workers give a campaign the log that it has without any.
func TestPath(t *testing.T, rig func() Rig) {
	t.Helper()
	const window = 1024
	j := Job(2*window, window)
	j.Strategy = "hillclimb" // whose path depends on every result, and which takes little time
	want := Alone(t, j).Path()
	for _, n := range []int{1, 8, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := NewFarm(t, rig(), 20*time.Second, nil)
			for i := range n {
				f.Add(fmt.Sprint("w", i), max(1, 8/n), func(context.Context) (fleet.Runner, error) { return NewSimulated(t, nil), nil }, nil)
			}
			l := &Log{}
			begin := time.Now()
			done, err := f.Run(t.Context(), j, l, n)
			if err != nil || !done.Complete {
				t.Fatal(done, err)
			}
			t.Logf("%d workers: %.0f evaluations a second", n, float64(j.Budget.Evaluations)/time.Since(begin).Seconds())
			if diff := cmp.Diff(want, l.Path()); diff != "" {
				t.Errorf("the path is another (-alone +fleet):\n%.2000s", diff)
			}
		})
	}
}

// BenchmarkCoordinator measures what an evaluation costs besides the search and the evaluation, with
// the workers in this process; MB is what the whole process holds then.
func BenchmarkCoordinator(b *testing.B, rig func() Rig) {
	b.Helper()
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := NewFarm(b, rig(), time.Minute, nil)
			for i := range n {
				f.Add(fmt.Sprint("w", i), 1, func(context.Context) (fleet.Runner, error) { return NewSimulated(b, nil), nil }, nil)
			}
			for here := 0; here < n; time.Sleep(time.Millisecond) {
				here = len(f.Hub().Hosts())
			}
			j := Job(max(b.N, n), 1024)
			j.Strategy, j.Finalists = "random", new(0)
			b.ResetTimer()
			if _, err := f.Run(b.Context(), j, &Log{}, n); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "evaluations/s")
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/1e6, "MB")
		})
	}
}

// BenchmarkPace measures two campaigns at once, each on a device of its own, beside the same two
// in processes without a fleet: "of-local" is how many evaluations a second of them are left. A
// device makes about 1,000 a minute, as a GPU does: 32 candidates are compiled and compared at
// once, which takes most of their time, and one at a time is measured.
func BenchmarkPace(b *testing.B, rig func() Rig) {
	b.Helper()
	const slots = 32
	device := func() *Simulated {
		var measures sync.Mutex
		return NewSimulated(b, func(ctx context.Context, _ string) error {
			time.Sleep(1800 * time.Millisecond)
			measures.Lock()
			defer measures.Unlock()
			evaluator.Enter(ctx, evaluator.StageBenchmark)
			time.Sleep(12 * time.Millisecond)
			return nil
		})
	}
	job := func(k int) record.Job {
		j := Job(b.N, slots)
		j.ID, j.Finalists, j.Seed = fmt.Sprint("test-", k), new(0), new(int64(k))
		return j
	}
	both := func(run func(k int) error) time.Duration {
		begin := time.Now()
		var group errgroup.Group
		for k := range 2 {
			group.Go(func() error { return run(k) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	local := both(func(k int) error {
		ev := device()
		_, err := campaign.Run(b.Context(), campaign.Problem{Space: ev.Space(), Evaluator: inProcess{ev}}, job(k), campaign.Options{Workers: slots, Log: &Log{}})
		return err
	})
	f := NewFarm(b, rig(), time.Minute, nil)
	for k := range 2 {
		f.Add(fmt.Sprint("w", k), slots, func(context.Context) (fleet.Runner, error) { return device(), nil }, nil)
	}
	for len(f.Hub().Hosts()) < 2 {
		time.Sleep(time.Millisecond)
	}
	b.ResetTimer()
	elsewhere := both(func(k int) error {
		_, err := f.RunAs(b.Context(), job(k), &Log{}, 1, 0)
		return err
	})
	b.ReportMetric(2*float64(b.N)/elsewhere.Minutes(), "evaluations/min")
	b.ReportMetric(local.Seconds()/elsewhere.Seconds(), "of-local")
}

// inProcess is a simulated evaluator for a campaign without a fleet.
type inProcess struct{ *Simulated }

// Evaluate implements [evaluator.Evaluator].
func (p inProcess) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (evaluator.Result, error) {
	return p.Simulated.Evaluate(ctx, g.String(), incumbent)
}

// Finals implements [evaluator.Evaluator].
func (p inProcess) Finals(ctx context.Context, list []genome.Genome) (evaluator.Finals, error) {
	return p.Evaluator.Finals(ctx, list)
}
