//go:build linux

package cpu_test

import (
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/internal/longtest"
)

// noGain is the ratio to the baseline above which a kernel gains nothing: where a
// compiler puts the same loops in memory is worth a tenth.
const noGain = 0.8

// TestNothingRememberedNightly judges the red team's kernels that keep, steal or guess
// answers, and those that try to be timed in another way than they work. Who is
// not refused, in the finals at last, must not gain.
func TestNothingRememberedNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "judges many candidates")
	for _, f := range redFolders(t, "product", "softmax", "rowmax", "ordered", "mask") {
		o := zooOptions(t)
		o.Sanitizers = []string{"none"} // they say nothing of memory across calls
		ev := f.open(t, o)
		for _, c := range f.cases {
			if !strings.HasPrefix(c.Group, "1.") {
				continue
			}
			t.Run(f.name+"/"+c.Kernel, func(t *testing.T) {
				r, e := judge(t, ev, f.genome(t, c.Kernel, 0, false))
				t.Logf("%s at %s: fitness %.3f, at last %s: %.3f: %s", r.Verdict, r.Stage, r.Fitness, e.Verdict, e.Fitness, e.Reason)
				honest := strings.HasPrefix(c.Kernel, "honest")
				switch {
				case e.Verdict == evaluator.Infrastructure: // a busy machine, on which nobody is believed
				case honest && e.Verdict != evaluator.Correct, e.Verdict == evaluator.Compile:
					t.Errorf("%s, want %s", e.Verdict, c.Verdict)
				case !honest && e.Verdict == evaluator.Correct && e.Fitness < noGain:
					t.Errorf("believed with a fitness of %.3f, want %s", e.Fitness, c.Verdict)
				}
			})
		}
	}
}

// TestWorkLeftOutNightly judges the red team's kernels that leave out a part of a sum. Where the tolerance
// allows that at a tuned shape, winners are not proven. The honest ones are believed.
func TestWorkLeftOutNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "judges several candidates")
	for name, control := range map[string]string{
		"columns": "work left out along axis 0 of X", "weighted": "work left out along axis 1 of X",
		"norm": "", // an approximation within the tolerance: each element of X changes its own output most
	} {
		f := redFolders(t, name)[0]
		o := zooOptions(t)
		o.Sanitizers = []string{"none"}
		ev := f.open(t, o)
		if got := ev.Describe().NotProven(); control == "" && got != "" || !strings.Contains(got, control) {
			t.Errorf("%s: %q, want %q", name, got, control)
		}
		for _, c := range f.cases {
			r, err := ev.Evaluate(t.Context(), f.genome(t, c.Kernel, 0, false), 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s/%s: %s at %s, fitness %.3f: %s", name, c.Kernel, r.Verdict, r.Stage, r.Fitness, r.Reason)
			if r.Verdict != c.Verdict && !cpu.Disturbed(t, r) {
				t.Errorf("%s/%s: %s: %s", name, c.Kernel, r.Verdict, r.Reason)
			}
		}
	}
}

// TestBoundsNightly judges the red team's kernels that take time or memory without end. Honest ones that are slow
// or large are believed.
func TestBoundsNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "waits for kernels that sleep")
	f := redFolders(t, "product")[0]
	o := zooOptions(t)
	o.Timeout, o.Sanitizers = 20*time.Second, []string{"asan"}
	ev := f.open(t, o)
	for _, c := range f.cases {
		if !strings.HasPrefix(c.Group, "9.") {
			continue
		}
		begin := time.Now()
		r, err := ev.Evaluate(t.Context(), f.genome(t, c.Kernel, 0, false), 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s at %s after %s, fitness %.3f: %s", c.Kernel, r.Verdict, r.Stage, time.Since(begin).Round(time.Second), r.Fitness, r.Reason)
		if r.Verdict != c.Verdict && !cpu.Disturbed(t, r) { // on a busy machine launches may take longer, until a later stage
			t.Errorf("%s: %s at %s: %s", c.Kernel, r.Verdict, r.Stage, r.Reason)
		}
	}
}

// TestGuardPagesLong judges the red team's kernels that read outside of buffers, or take
// them to be aligned, where no sanitizer looks, and its honest kernels of that family.
func TestGuardPagesLong(t *testing.T) {
	longtest.Long(t, "judges several candidates")
	f := redFolders(t, "product")[0]
	o := zooOptions(t)
	o.Sanitizers = []string{"guards"}
	ev := f.open(t, o)
	for kernel, found := range map[string]string{
		"read-past-end-large": "with guard pages behind the buffers, at shape odd",
		"read-past-end-asm":   "with guard pages behind the buffers",
		"aligned-large":       "with buffers aligned for their elements alone, at shape square",
		"honest-masked-tail":  "", "honest-large-frame": "", "honest-aligned-tail": "",
	} {
		r, err := ev.Evaluate(t.Context(), f.genome(t, kernel, 0, false), 0)
		if err != nil {
			t.Fatal(err)
		}
		refused := r.Verdict == evaluator.Sanitizer
		if refused != (found != "") || !strings.Contains(r.Reason, found) || !refused && r.Stage != evaluator.StageBenchmark {
			t.Errorf("%s: %s at %s: %s; want %q", kernel, r.Verdict, r.Stage, r.Reason, found)
		}
	}
}

// TestHonestThroughToolsLong: honest kernels that a tool cannot handle are not refused.
func TestHonestThroughToolsLong(t *testing.T) {
	longtest.Long(t, "judges candidates with every tool")
	f := redFolders(t, "product")[0]
	ev := f.open(t, zooOptions(t))
	for _, kernel := range []string{"honest-openmp", "honest-large-frame"} {
		r, err := ev.Evaluate(t.Context(), f.genome(t, kernel, 0, false), 0)
		if err != nil {
			t.Fatal(err)
		}
		step, _ := r.Step(evaluator.StageSanitize)
		for _, e := range step.Evidence {
			t.Logf("%s: %s %s %s", kernel, e.Check, e.Outcome, e.Detail)
		}
		if r.Stage != evaluator.StageBenchmark || r.Verdict != evaluator.Correct && r.Verdict != evaluator.Infrastructure {
			t.Errorf("%s: %s at %s: %s", kernel, r.Verdict, r.Stage, r.Reason)
		}
	}
}
