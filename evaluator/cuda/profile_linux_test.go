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

func TestHold(t *testing.T) {
	x := func(v float64) *float64 { return &v }
	const tensor, conflicts = "tensor pipe active", "shared memory bank conflicts"
	read := []evaluator.Evidence{
		{Check: tensor, Outcome: evaluator.Passed, Value: 25, Unit: "%"},
		{Check: conflicts, Outcome: evaluator.Passed, Value: 7},
		{Check: "DRAM throughput", Outcome: evaluator.Passed, Value: 0, Unit: "%"},
		{Check: "SM busy", Outcome: evaluator.NotRun, Detail: "no permission"},
	}
	for _, c := range []struct {
		name   string
		bounds []kernels.Bound
		rows   []string
		reason string
	}{
		{"no bound", nil, nil, ""},
		{"within", []kernels.Bound{{Counter: tensor, Min: x(1), Max: x(90)}}, []string{
			"requires tensor pipe active passed 25 % >= 1: ", "requires tensor pipe active passed 25 % <= 90: ",
		}, ""},
		{"at the bounds", []kernels.Bound{{Counter: tensor, Min: x(25), Max: x(25)}}, []string{
			"requires tensor pipe active passed 25 % >= 25: ", "requires tensor pipe active passed 25 % <= 25: ",
		}, ""},
		{"below", []kernels.Bound{{Counter: tensor, Min: x(25.5)}}, []string{
			"requires tensor pipe active failed 25 % >= 25.5: 25 %, at least 25.5 is required",
		}, "requires tensor pipe active: 25 %, at least 25.5 is required"},
		{"nothing at all", []kernels.Bound{{Counter: "DRAM throughput", Min: x(0.1)}}, []string{
			"requires DRAM throughput failed 0 % >= 0.1: 0 %, at least 0.1 is required",
		}, "requires DRAM throughput: 0 %, at least 0.1 is required"},
		{"above none", []kernels.Bound{{Counter: conflicts, Max: x(0)}}, []string{
			"requires shared memory bank conflicts failed 7  <= 0: 7, at most 0 is required",
		}, "requires shared memory bank conflicts: 7, at most 0 is required"},
		{"the first counts", []kernels.Bound{{Counter: conflicts, Max: x(7)}, {Counter: tensor, Max: x(3)}, {Counter: conflicts, Max: x(6)}}, []string{
			"requires shared memory bank conflicts passed 7  <= 7: ", "requires tensor pipe active failed 25 % <= 3: 25 %, at most 3 is required",
			"requires shared memory bank conflicts failed 7  <= 6: 7, at most 6 is required",
		}, "requires tensor pipe active: 25 %, at most 3 is required"},
		{"not read", []kernels.Bound{{Counter: "SM busy", Min: x(99), Max: x(100)}}, []string{
			"requires SM busy not run 0  <= 0: at least 99 is required: no permission", "requires SM busy not run 0  <= 0: at most 100 is required: no permission",
		}, ""},
		{"not profiled", []kernels.Bound{{Counter: "L2 throughput", Min: x(99)}}, []string{
			"requires L2 throughput not run 0  <= 0: at least 99 is required: profiling is switched off",
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, reason := hold(c.bounds, read)
			var rows []string
			for _, e := range got {
				side := "<="
				if e.AtLeast {
					side = ">="
				}
				rows = append(rows, fmt.Sprintf("%s %s %g %s %s %g: %s", e.Check, e.Outcome, e.Value, e.Unit, side, e.Limit, e.Detail))
			}
			if diff := cmp.Diff(c.rows, rows); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if reason != c.reason {
				t.Errorf("reason %q, want %q", reason, c.reason)
			}
		})
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
	o := fakeOptions(t, "GORACE=atexit_sleep_ms=0") // each process of the finals would sleep for a second
	bin, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	if err := os.WriteFile(filepath.Join(bin, "ncu"), []byte(ncuScript), 0o755); err != nil {
		t.Fatal(err)
	}
	h, ev := openFake(t, o)
	least := 1.0
	h.plan.Implementations[0].Profile = []kernels.Bound{{Counter: "tensor pipe active", Min: &least}}
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
				want := 1
				if c.profile {
					want += len(kernels.Counters())
				}
				if n := len(e.Evidence); n != want {
					t.Fatalf("%s: %d rows, want %d", c.do[i], n, want)
				}
				if row := e.Evidence[want-1]; row.Check != "requires tensor pipe active" || row.Outcome != c.outcomes[i] {
					t.Errorf("%s: %+v, want it %s", c.do[i], row, c.outcomes[i])
				}
			}
		})
	}
}
