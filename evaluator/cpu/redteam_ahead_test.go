//go:build linux

package cpu_test

import (
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
)

// TestNothingAheadNightly judges the red team's kernels that compute several launches at once, by turns with their honest
// twin. Who is not refused must not be faster, in searches and finals.
func TestNothingAheadNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "judges four kernels twelve times, and in finals")
	f := redFolders(t, "recurrence")[0]
	ev := f.open(t, cpu.Options{CacheDir: cpu.NeedCompiler(t), Sanitizers: []string{"none"}})
	const most = 1.05
	cheats := []string{"told-at-once", "any-at-once", "takes-turns"}
	faster := map[string][]float64{}
	for turn := range 12 {
		twin, err := ev.Evaluate(t.Context(), f.genome(t, "honest-twin", turn, false), 0)
		if err != nil {
			t.Fatal(err)
		}
		if twin.Verdict != evaluator.Correct {
			if !cpu.Disturbed(t, twin) {
				t.Errorf("honest-twin: %s: %s", twin.Verdict, twin.Reason)
			}
			continue
		}
		for _, kernel := range cheats {
			r, err := ev.Evaluate(t.Context(), f.genome(t, kernel, turn, false), 0)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict == evaluator.Correct {
				faster[kernel] = append(faster[kernel], twin.Fitness/r.Fitness)
			}
		}
	}
	genomes := []genome.Genome{f.genome(t, "honest-twin", 0, false)}
	for _, kernel := range cheats {
		genomes = append(genomes, f.genome(t, kernel, 0, false))
		median, low, high := evaluator.Interval(faster[kernel])
		t.Logf("%s: %.3f times as fast as its twin, %.3f to %.3f, believed %d times", kernel, median, low, high, len(faster[kernel]))
		if low > most {
			t.Errorf("%s is %.2f times as fast as its twin at least", kernel, low)
		}
	}
	finals, err := ev.Finals(t.Context(), genomes)
	if err != nil {
		t.Fatal(err)
	}
	twin := finals.Entries[0]
	for i, e := range finals.Entries[1:] {
		t.Logf("%s in finals: %s %s, %.3f, its twin %s %.3f", cheats[i], e.Verdict, e.Reason, e.Fitness, twin.Verdict, twin.Fitness)
		if twin.Verdict == evaluator.Correct && e.Verdict == evaluator.Correct && twin.Fitness > most*e.Fitness {
			t.Errorf("%s is %.2f times as fast as its twin in finals", cheats[i], twin.Fitness/e.Fitness)
		}
	}
}
