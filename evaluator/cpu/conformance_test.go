//go:build linux

package cpu_test

import (
	"sync"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
)

// TestConformanceLong runs the suite that every backend passes, the zoo included.
func TestConformanceLong(t *testing.T) {
	longtest.Long(t, "measures, and runs the whole zoo")
	def, cases := loadZoo(t)
	space := zooSpace(t, def)
	plan := zooPlan(t, def)
	backendtest.Run(t, backendtest.Harness{
		New:    opener(t, plan, zooOptions(t)),
		Honest: func(n int) genome.Genome { return inmate(t, space, "honest", n) },
		Twin:   inmate(t, space, "honest-twin", 0),
		Slow:   inmate(t, space, "honest-slow", 0),

		Threaded: inmate(t, space, "honest-threads", 0),

		Zoo:    cases,
		Faulty: func(c backendtest.Case, n int) genome.Genome { return inmate(t, space, c.Kernel, n) },
		Hang:   "sleep-forever",
		Mixed: []string{
			"segfault", "infinite-loop", "never-written", "write-past-end",
			"signed-overflow", "syntax-error", "fork-children", "forged-time",
		},
		Brief:    true,
		SameCode: 2,
		Keeps:    2, // the baseline's
	})
}

// zooOptions are those under which the zoo is quick: a short deadline, and a
// cache that all tests share.
func zooOptions(tb testing.TB) cpu.Options {
	tb.Helper()
	return cpu.Options{
		CacheDir: cpu.NeedCompiler(tb),
		Timeout:  3 * time.Second,
		// Touching all of the memory that it may have must not take a
		// candidate longer than its deadline.
		MemoryLimit: 256 << 20,
	}
}

// opener returns a function that opens a plan in a backend of its own.
func opener(tb testing.TB, plan evaluator.Plan, o cpu.Options) func(testing.TB) evaluator.Evaluator {
	tb.Helper()
	return func(tb testing.TB) evaluator.Evaluator {
		tb.Helper()
		backend, err := cpu.New(o)
		if err != nil {
			tb.Fatal(err)
		}
		ordeal, err := evaluator.Open(tb.Context(), backend, plan)
		if err != nil {
			tb.Fatal(err)
		}
		return ordeal
	}
}

// openPlan opens a plan, and closes it when the test ends.
func openPlan(t *testing.T, plan evaluator.Plan, o cpu.Options) *evaluator.Ordeal {
	t.Helper()
	ev := opener(t, plan, o)(t)
	t.Cleanup(func() {
		if err := ev.Close(); err != nil {
			t.Error(err)
		}
	})
	return ev.(*evaluator.Ordeal)
}

// TestZoo judges one kernel of the zoo for each verdict.
func TestZoo(t *testing.T) {
	def, cases := loadZoo(t)
	space := zooSpace(t, def)
	o := zooOptions(t)
	o.Sanitizers = []string{"asan"}
	ev := openPlan(t, zooPlan(t, def), o)
	want := map[evaluator.Verdict]string{
		evaluator.Render: "missing-key", evaluator.Compile: "syntax-error", evaluator.Inspect: "forbidden-instruction",
		evaluator.Launch: "segfault", evaluator.Timeout: "sleep-forever", evaluator.Parity: "never-written",
		evaluator.Sanitizer: "signed-overflow", evaluator.Implausible: "forged-time",
	}
	var sleeping sync.WaitGroup
	for _, c := range cases {
		if want[c.Verdict] != c.Kernel {
			continue
		}
		delete(want, c.Verdict)
		g := inmate(t, space, c.Kernel, 0)
		judge := func() {
			r, err := ev.Evaluate(t.Context(), g, 0)
			if err != nil {
				t.Error(err)
			} else if wrong := c.Judge(r); wrong != "" && !backendtest.Missing(ev.Describe(), c.Needs) && !cpu.Disturbed(t, r) {
				t.Errorf("%s: %s", c.Kernel, wrong)
			}
		}
		if c.Verdict == evaluator.Timeout { // others are judged meanwhile
			sleeping.Go(judge)
			continue
		}
		judge()
	}
	sleeping.Wait()
	if len(want) > 0 {
		t.Errorf("nothing of the zoo has the verdicts %v", want)
	}
}

// TestZooWithoutSandboxNightly: where the system has no filters for system calls, what
// candidates may not do is found out afterwards, and undone.
func TestZooWithoutSandboxNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "judges honest candidates to the end")
	def, cases := loadZoo(t)
	space := zooSpace(t, def)
	var kept []backendtest.Case
	for _, c := range cases {
		switch c.Kernel {
		case "exec-program":
			c.Check = "exit" // all that can be seen of it afterwards
			kept = append(kept, c)
		case "fork-children", "fork-daemon", "huge-file", "forged-output-and-exit":
			kept = append(kept, c)
		}
	}
	o := zooOptions(t)
	cpu.WithoutSandbox(&o)
	backendtest.Zoo(t, backendtest.Harness{
		New:      opener(t, zooPlan(t, def), o),
		Honest:   func(n int) genome.Genome { return inmate(t, space, "honest", n) },
		Zoo:      kept,
		Faulty:   func(c backendtest.Case, n int) genome.Genome { return inmate(t, space, c.Kernel, n) },
		SameCode: 2,
		Keeps:    2, // the baseline's
	})
}
