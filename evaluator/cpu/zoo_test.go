//go:build linux

package cpu_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

const (
	zooDir   = "../testdata"
	verdicts = "../testdata/zoo/verdicts.toml"
)

// loadZoo loads the zoo's definition and its table of verdicts.
func loadZoo(tb testing.TB) (*kernels.Definition, []backendtest.Case) {
	tb.Helper()
	def, err := kernels.Load(os.DirFS(zooDir), "zoo")
	if err != nil {
		tb.Fatal(err)
	}
	cases, err := backendtest.LoadCases(verdicts)
	if err != nil {
		tb.Fatal(err)
	}
	return def, cases
}

// zooPlan is the plan under which the zoo is judged.
func zooPlan(tb testing.TB, def *kernels.Definition) evaluator.Plan {
	tb.Helper()
	plan := evaluator.Plan{
		Definition: def, Implementations: def.Implementations, Seed: 1,
		Samples: 5, SampleTime: 50 * time.Millisecond,
	}
	for _, s := range def.Problem.Shapes {
		switch s.Use {
		case kernels.Tune:
			plan.Tune = append(plan.Tune, s)
		case kernels.Verify:
			plan.Verify = append(plan.Verify, s)
		case kernels.Sanitize:
			plan.Sanitize = s
		}
	}
	return plan
}

// zooSpace is the space of the zoo: one genome for each kernel and salt.
func zooSpace(tb testing.TB, def *kernels.Definition) *genome.Space {
	tb.Helper()
	space, err := def.Space(def.Implementations, def.Problem.Shapes, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return space
}

// inmate returns the genome of one kernel of the zoo.
func inmate(tb testing.TB, space *genome.Space, kernel string, salt int) genome.Genome {
	tb.Helper()
	g, err := space.FromMap(map[string]any{"KERNEL": kernel, "SALT": salt})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// The next tests are for those of the ten ways in which an earlier effort fooled
// itself that no kernel of the zoo stands for: an oracle that everything passed
// (3), a sanitizer that was not on the PATH (4), compiler warnings as the proof
// that tensor cores were used (8). The others are, in the zoo:
//
//	1 timed from after the launch    work-after-return, clock-symbol, clock-patched
//	2 faster than the peak           forged-time
//	3 one input for all three        swapped-inputs
//	5 reads of what nobody wrote     uninitialised-heap, uninitialised-stack, nondeterministic
//	6 stack frames beside 0 spills   large-frame
//	7 a body that had become dead    never-written
//	8 some of the columns only       half-output, forbidden-instruction
//
// and for a build that is timed again and again (9) and candidates that are
// named by a number (10) backendtest asks in "shared binary".

// TestToleranceMustTellWrongFromRight: a definition by which a constant passes
// for the product is refused before any candidate is judged by it. An oracle that
// only asked whether the output was finite let everything pass once.
func TestToleranceMustTellWrongFromRight(t *testing.T) {
	const data, bland = `data = "uniform(-1,1)"`, `data = "uniform(0.999,1.001)"`
	def := alteredZoo(t, data, bland, data, bland, "f32 = 1e-4", "f32 = 1e-2")
	o := zooOptions(t)
	o.Sanitizers = []string{"none"}
	backend, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	bench, err := evaluator.Open(t.Context(), backend, zooPlan(t, def))
	if !errors.Is(err, evaluator.ErrControl) {
		t.Errorf("Open with data that hide what is wrong: error %v, want %v", err, evaluator.ErrControl)
	}
	if err == nil {
		_ = bench.Close()
	}
}

// TestRequiredInstructions: a candidate that claims an instruction must show it
// in its code, whatever its compiler said of it.
func TestRequiredInstructions(t *testing.T) {
	def := alteredZoo(t, `forbid = ["rdtsc"]`, `require = ["rdtsc"]`,
		// The baseline has to pass, too.
		`baseline]
genome = { KERNEL = "honest",`, `baseline]
genome = { KERNEL = "forbidden-instruction",`)
	space := zooSpace(t, def)
	o := zooOptions(t)
	o.Sanitizers = []string{"none"}
	ev := openPlan(t, zooPlan(t, def), o)
	for kernel, want := range map[string]evaluator.Verdict{
		"forbidden-instruction": "", // it passes
		"honest":                evaluator.Inspect,
	} {
		r, err := ev.Until(t.Context(), inmate(t, space, kernel, 1), evaluator.StageInspect)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != want {
			t.Errorf("%s, where rdtsc is required: %s (%s), want %s", kernel, r.Verdict, r.Reason, want)
		}
	}
}

// TestMissingToolIsNotRun: a sanitizer that is not on the PATH is "not run",
// said up front and in the evidence, and never "passed".
func TestMissingToolIsNotRun(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"gcc", "as", "ld", "objdump", "nm", "readelf"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("this test hides everything but gcc, and there is no gcc")
	}
	t.Setenv("PATH", bin)
	t.Setenv("CC", "")
	def, _ := loadZoo(t)
	o := zooOptions(t)
	o.Sanitizers, o.Compiler = []string{"memcheck"}, gcc
	ev := openPlan(t, zooPlan(t, def), o)
	i := slices.IndexFunc(ev.Describe().Tools, func(tool evaluator.Tool) bool { return tool.Name == "memcheck" })
	if i < 0 || ev.Describe().Tools[i].Missing == "" {
		t.Errorf("the description does not say that memcheck is missing: %+v", ev.Describe().Tools)
	}
	r, err := ev.Until(t.Context(), inmate(t, zooSpace(t, def), "honest", 1), evaluator.StageSanitize)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != "" {
		t.Fatalf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	step, _ := r.Step(evaluator.StageSanitize)
	i = slices.IndexFunc(step.Evidence, func(e evaluator.Evidence) bool { return e.Check == "memcheck" })
	if i < 0 || step.Evidence[i].Outcome != evaluator.NotRun || step.Evidence[i].Detail == "" {
		t.Errorf("evidence without valgrind: %+v, want memcheck not run, and why", step.Evidence)
	}
}

// alteredZoo loads the zoo after replacing text in its kernel.toml: old, new,
// old, new.
func alteredZoo(tb testing.TB, replace ...string) *kernels.Definition {
	tb.Helper()
	folder := fstest.MapFS{}
	files, err := filepath.Glob(filepath.Join(zooDir, "zoo", "*"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		if filepath.Base(f) == "kernel.toml" {
			for i := 0; i < len(replace); i += 2 {
				if !strings.Contains(string(text), replace[i]) {
					tb.Fatalf("%s holds no %q", f, replace[i])
				}
				text = []byte(strings.Replace(string(text), replace[i], replace[i+1], 1))
			}
		}
		folder["zoo/"+filepath.Base(f)] = &fstest.MapFile{Data: text}
	}
	def, err := kernels.Load(folder, "zoo")
	if err != nil {
		tb.Fatal(err)
	}
	return def
}
