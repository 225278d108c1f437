package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// Definitions bound what is read, and nothing else.
func TestCounters(t *testing.T) {
	var names []string
	for _, p := range profiled {
		names = append(names, p.name)
	}
	if diff := cmp.Diff(kernels.Counters(), names); diff != "" {
		t.Errorf("counters (-kernels +profiled):\n%s", diff)
	}
}

// ncu prints nan where a ratio has nothing below it, and inf.
func TestProfileWithoutNumbers(t *testing.T) {
	for _, said := range []string{"nan", "-nan", "inf", ""} {
		text := "\"ID\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n" + fmt.Sprintf("\"0\",\"%s\",\"%%\",\"%s\"\n", profiled[1].metric, said)
		if e := readProfile(text)[1]; e.Outcome != evaluator.NotRun || e.Value != 0 || !strings.Contains(e.Detail, `ncu says "`+said+`"`) {
			t.Errorf("%q gives %+v", said, e)
		}
	}
}

// ncuScript stands in for Nsight Compute: it finds the candidate's binary in
// what the worker would be told, and says how busy the tensor pipe was by what
// that is to do.
const ncuScript = `#!/bin/sh
if [ "$1" = --version ]; then echo "Version 0.0 of the tests"; exit; fi
while [ $# -gt 1 ]; do
	if [ "$1" = --log-file ]; then log=$2; shift; fi
	shift
done
cubin=$(grep -ao '/[^"]*/candidate-[0-9]*\.cubin')
busy=0
grep -aq 'do: slow' "$cubin" && busy=25
grep -aq 'do: memcheck=noise' "$cubin" && busy=n/a
printf '"ID","Metric Name","Metric Unit","Metric Value"\n"0","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","%%","%s"\n' $busy > "$log"
`

// A finalist that breaks a bound loses, and the best of the others wins. Who
// could not be profiled is not held to it.
func TestBoundsInFinals(t *testing.T) {
	t.Parallel()
	o := fakeOptions(t, "GORACE=atexit_sleep_ms=0") // each process of the finals would sleep for a second
	if err := os.WriteFile(filepath.Join(o.programs, "ncu"), []byte(ncuScript), 0o755); err != nil {
		t.Fatal(err)
	}
	h, ev := openFake(t, o)
	least := 1.0
	h.Plan.Implementations[0].Profile = []kernels.Bound{{Counter: "tensor pipe active", Min: &least}}
	for _, c := range []struct {
		name     string
		profile  bool
		do       []string
		winner   int
		outcomes []evaluator.Check // of the bound
	}{
		{"the fastest breaks it", true, []string{"nothing", "slow"}, 1, []evaluator.Check{evaluator.Failed, evaluator.Passed}},
		{"the fastest cannot be read", true, []string{"slow", "memcheck=noise"}, 1, []evaluator.Check{evaluator.Passed, evaluator.NotRun}},
		{"nobody is profiled", false, []string{"slow", "nothing"}, 1, []evaluator.Check{evaluator.NotRun, evaluator.NotRun}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.options.Profile = c.profile
			var list []genome.Genome
			for i, d := range c.do {
				list = append(list, fakeGenome(t, d, 40+i))
			}
			f, err := ev.Finals(t.Context(), list)
			if err != nil {
				t.Fatal(err)
			}
			if f.Winner != c.winner {
				t.Errorf("the winner is %d, want %d: %+v", f.Winner, c.winner, f.Entries)
			}
			for i, e := range f.Entries {
				verdict, reason := evaluator.Correct, ""
				if c.outcomes[i] == evaluator.Failed {
					verdict, reason = evaluator.Inspect, "finals: requires tensor pipe active: 0 %, at least 1 is required"
				}
				if e.Verdict != verdict || e.Reason != reason || (e.Fitness > 0) != (verdict == evaluator.Correct) || len(e.Timings) != 1 {
					t.Errorf("%s: %s %q, fitness %g of %d timings", c.do[i], e.Verdict, e.Reason, e.Fitness, len(e.Timings))
				}
				want := 5 // with guards, and edge cases at three shapes
				if c.profile {
					want += len(kernels.Counters())
				}
				if n := len(e.Evidence); n != want {
					t.Fatalf("%s: %d rows, want %d: %+v", c.do[i], n, want, e.Evidence)
				}
				if row := e.Evidence[want-1]; row.Check != "requires tensor pipe active" || row.Outcome != c.outcomes[i] {
					t.Errorf("%s: %+v, want it %s", c.do[i], row, c.outcomes[i])
				}
			}
		})
	}
}
