package fleettest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/internal/fleet"
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
			j.Strategy, j.Finalists = "random", -1
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
