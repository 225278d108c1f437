//go:build linux

package cpu_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// noGain is the ratio to the baseline above which a kernel gains nothing: where a
// compiler puts the same loops in memory is worth a tenth.
const noGain = 0.8

// TestNothingRemembered judges the red team's kernels that keep, steal or guess
// answers, and those that try to be timed in another way than they work. Who is
// not refused, in the finals at last, must not gain.
func TestNothingRemembered(t *testing.T) {
	longtest.Skip(t, "judges many candidates")
	const folder = "../testdata/redteam"
	for _, name := range []string{"product", "softmax", "rowmax"} {
		def, err := kernels.Load(os.DirFS(folder), name)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := backendtest.LoadCases(filepath.Join(folder, name, "verdicts.toml"))
		if err != nil {
			t.Fatal(err)
		}
		o := zooOptions(t)
		o.Sanitizers = []string{"none"} // they say nothing of memory across calls
		ev := opener(t, zooPlan(t, def), o)(t)
		space := zooSpace(t, def)
		for _, c := range cases {
			if !strings.HasPrefix(c.Group, "1.") {
				continue
			}
			t.Run(name+"/"+c.Kernel, func(t *testing.T) {
				g := redKernel(t, space, c.Kernel, 0)
				r, err := ev.Evaluate(t.Context(), g, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s at %s: fitness %.3f: %s", r.Verdict, r.Stage, r.Fitness, r.Reason)
				verdict, fitness := r.Verdict, r.Fitness
				if verdict == evaluator.Correct {
					f, err := ev.Finals(t.Context(), []genome.Genome{g})
					if err != nil {
						t.Fatal(err)
					}
					verdict, fitness = f.Entries[0].Verdict, f.Entries[0].Fitness
					t.Logf("in the finals %s: fitness %.3f: %s", verdict, fitness, f.Entries[0].Reason)
				}
				honest := strings.HasPrefix(c.Kernel, "honest")
				switch {
				case verdict == evaluator.Infrastructure: // a busy machine, on which nobody is believed
				case honest && verdict != evaluator.Correct:
					t.Errorf("%s, want %s", verdict, c.Verdict)
				case !honest && verdict == evaluator.Correct && fitness < noGain:
					t.Errorf("believed with a fitness of %.3f, want %s", fitness, c.Verdict)
				}
			})
		}
		if err := ev.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGuardPages judges the red team's kernels that read outside of buffers, or take
// them to be aligned, where no sanitizer looks, and its honest kernels of that family.
func TestGuardPages(t *testing.T) {
	longtest.Skip(t, "judges several candidates")
	def, err := kernels.Load(os.DirFS("../testdata/redteam"), "product")
	if err != nil {
		t.Fatal(err)
	}
	o := zooOptions(t)
	o.Sanitizers = []string{"guards"}
	ev := opener(t, zooPlan(t, def), o)(t)
	defer func() {
		if err := ev.Close(); err != nil {
			t.Error(err)
		}
	}()
	for kernel, found := range map[string]string{
		"read-past-end-large": "with guard pages behind the buffers, at shape odd",
		"read-past-end-asm":   "with guard pages behind the buffers",
		"aligned-large":       "with buffers aligned for their elements alone, at shape square",
		"honest-masked-tail":  "", "honest-large-frame": "", "honest-aligned-tail": "",
	} {
		r, err := ev.Evaluate(t.Context(), redKernel(t, zooSpace(t, def), kernel, 0), 0)
		if err != nil {
			t.Fatal(err)
		}
		refused := r.Verdict == evaluator.Sanitizer
		if refused != (found != "") || !strings.Contains(r.Reason, found) || !refused && r.Stage != evaluator.StageBenchmark {
			t.Errorf("%s: %s at %s: %s; want %q", kernel, r.Verdict, r.Stage, r.Reason, found)
		}
	}
}

// redKernel is the genome of one of the red team's kernels.
func redKernel(tb testing.TB, space *genome.Space, kernel string, salt int) genome.Genome {
	tb.Helper()
	values := map[string]any{"KERNEL": kernel, "SALT": salt}
	for _, g := range space.Genes() {
		if g.Name == "REPORT" {
			values["REPORT"] = false
		}
	}
	g, err := space.FromMap(values)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// TestHonestThroughTools: honest kernels that a tool cannot handle are not refused.
func TestHonestThroughTools(t *testing.T) {
	longtest.Skip(t, "judges candidates with every tool")
	def, err := kernels.Load(os.DirFS("../testdata/redteam"), "product")
	if err != nil {
		t.Fatal(err)
	}
	ev := opener(t, zooPlan(t, def), zooOptions(t))(t)
	defer func() {
		if err := ev.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, kernel := range []string{"honest-openmp", "honest-large-frame"} {
		r, err := ev.Evaluate(t.Context(), redKernel(t, zooSpace(t, def), kernel, 0), 0)
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
