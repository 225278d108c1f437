//go:build linux

package cpu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/internal/longtest"
)

// sin is a candidate's fault and what must come of it: no verdict where the candidate passes up to a stage.
type sin struct {
	wrong   string
	threads int
	verdict evaluator.Verdict
	stage   evaluator.Stage
	reason  string // part of it
}

// disturbed says that other processes kept the machine so busy that a candidate,
// which is right, could not be timed.
func disturbed(t *testing.T, r evaluator.Result) bool {
	t.Helper()
	if r.Verdict != evaluator.Infrastructure || r.Stage != evaluator.StageBenchmark || r.Disturbed == "" {
		return false
	}
	t.Logf("not timed: %s", r.Disturbed)
	return true
}

func (s sin) check(t *testing.T, r evaluator.Result) {
	t.Helper()
	if s.verdict == evaluator.Correct && disturbed(t, r) {
		return
	}
	if r.Verdict != s.verdict || r.Stage != s.stage || !strings.Contains(r.Reason, s.reason) {
		t.Errorf("%s: got %s at %s (%s), want %s at %s (%s)", s.wrong, r.Verdict, r.Stage, r.Reason, s.verdict, s.stage, s.reason)
	}
	if step, ok := r.Step(r.Stage); !ok {
		t.Errorf("%s: no step for the stage of the verdict", s.wrong)
	} else if failed := step.Outcome == evaluator.Failed; failed != (s.verdict != evaluator.Correct && s.verdict != "") {
		t.Errorf("%s: the last step is %q", s.wrong, step.Outcome)
	}
}

// TestVerdicts: one candidate is timed. TestSampleSession times others; TestCompareSession and TestFaults have more faults.
func TestVerdicts(t *testing.T) {
	s := sharedLab(t, "scale")
	sin{"nothing", 1, evaluator.Correct, evaluator.StageBenchmark, ""}.check(t, s.evaluate(t))
	for _, c := range []sin{
		{"nothing", 2, "", evaluator.StageParity, ""},
		{"noise", 1, "", evaluator.StageParity, ""},
		{"block", 1, evaluator.Compile, evaluator.StageCompile, "this line blocks"},
		{"segfault", 1, evaluator.Launch, evaluator.StageParity, "SIGSEGV"},
		{"exit", 1, evaluator.Launch, evaluator.StageParity, "exit (status 0)"},
		{"late", 1, evaluator.Launch, evaluator.StageParity, "SIGABRT (while it ended)"},
		{"descriptors", 1, evaluator.Launch, evaluator.StageParity, "closed the harness's descriptors"},
		{"zone", 1, evaluator.Parity, evaluator.StageParity, "guard: wrote byte 0 behind the end of y"},
	} {
		c.check(t, s.until(t, evaluator.StageParity, "WRONG", c.wrong, "THREADS", c.threads))
	}
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// What needs an executable stack, which candidates may not have, is refused before it runs.
func TestExecutableStack(t *testing.T) {
	s := sharedLab(t, "scale")
	if s.lab.tool.clang {
		t.Skip("skipped: clang has no nested functions")
	}
	sin{"nested", 1, evaluator.Compile, evaluator.StageCompile, "it needs an executable stack"}.check(t, s.until(t, evaluator.StageCompile, "WRONG", "nested"))
}

func TestInspection(t *testing.T) {
	if labs.Find("objdump") == "" {
		t.Skip("skipped: objdump is not installed")
	}
	s := sharedLab(t, "scale")
	sin{"forbidden", 1, evaluator.Inspect, evaluator.StageInspect, "forbids ^cpuid$"}.check(t, s.until(t, evaluator.StageInspect, "WRONG", "forbidden"))
}

// TestDebugFlavour: asserts are alive, also under the sanitizers, limits on the
// binary are not, and nothing is timed.
func TestDebugFlavour(t *testing.T) {
	longtest.Short(t, "waits for compilers")
	d := changed(t, "scale.c.tmpl", "#include <fcntl.h>", "#include <assert.h>\n#include <fcntl.h>",
		"scale.c.tmpl", "enum { UNROLL", "#ifdef NDEBUG\nenum { RELEASE = 1 };\n#else\nenum { RELEASE = 0 };\n#endif\nenum { UNROLL",
		"scale.c.tmpl", "\tint64_t i = from;", "\tassert(UNROLL < 4 || to % 2 == 0);\n\tif (UNROLL == 2 && !RELEASE)\n\t\t*(char *)malloc(1) = ((volatile char *)malloc(1))[1];\n\tint64_t i = from;",
		"kernel.toml", `flags = ["-O2",`, `flags = ["-O2", "-DNDEBUG",`)
	release := open(t, d, quick())
	plan := planOf(d)
	plan.Debug = true
	debug := openPlan(t, plan, quick(asanName))
	for _, c := range []struct {
		unroll int
		sin
		says string // in the failed evidence
		tool string // without which it shows nothing
	}{
		{1, sin{"nothing", 1, evaluator.Correct, evaluator.StageBenchmark, ""}, "", ""},
		{1, sin{"forbidden", 1, "", evaluator.StageInspect, ""}, "", ""},
		{4, sin{"nothing", 1, evaluator.Launch, evaluator.StageParity, "SIGABRT"}, "Assertion `UNROLL < 4 || to % 2 == 0' failed", ""},
		{2, sin{"nothing", 1, evaluator.Sanitizer, evaluator.StageSanitize, "kernel.c:"}, "insufficient space", asanName},
	} {
		if c.tool != "" && !debug.works(t, c.tool) {
			continue
		}
		var r evaluator.Result
		if pairs := []any{"UNROLL", c.unroll, "WRONG", c.wrong}; c.verdict == "" {
			r = debug.until(t, c.stage, pairs...)
		} else {
			r = debug.evaluate(t, pairs...)
		}
		c.check(t, r)
		if len(r.Timings) != 0 || r.Fitness != 0 {
			t.Errorf("unroll %d, %s: timed: %v", c.unroll, c.wrong, r.Timings)
		}
		said := ""
		for _, s := range r.Steps {
			for _, e := range s.Evidence {
				if e.Outcome == evaluator.Failed {
					said += e.Detail
				}
			}
		}
		if !strings.Contains(said, c.says) {
			t.Errorf("unroll %d, %s: %q is not in what was written: %s", c.unroll, c.wrong, c.says, said)
		}
	}
	g, r := debug.until(t, evaluator.StageCompile, "UNROLL", 4), release.until(t, evaluator.StageParity, "UNROLL", 4)
	sin{"nothing", 1, "", evaluator.StageParity, ""}.check(t, r)
	if g.Key == r.Key || g.Binary == r.Binary || g.Source != r.Source {
		t.Errorf("debug: key %s, binary %s, source %s; release: %s, %s, %s", g.Key, g.Binary, g.Source, r.Key, r.Binary, r.Source)
	}
}

func TestSandbox(t *testing.T) {
	s := sharedLab(t, "scale")
	if !s.works(t, "seccomp") {
		t.Skip("skipped: candidates are not filtered here")
	}
	for _, c := range []sin{
		{"fork", 1, evaluator.Launch, evaluator.StageParity, "tried to start a process"},
		{"daemon", 1, evaluator.Launch, evaluator.StageParity, "tried to start a process"},
		{"file", 1, evaluator.Launch, evaluator.StageParity, "tried to write a file"},
	} {
		c.check(t, s.until(t, evaluator.StageParity, "WRONG", c.wrong))
	}
}

// Without the filter candidates can start processes; what they leave is found
// and killed, daemons included.
func TestWithoutSandbox(t *testing.T) {
	o := quick()
	o.noSandbox = true
	s := open(t, load(t, "scale"), o)
	for _, c := range []sin{
		{"fork", 1, evaluator.Launch, evaluator.StageParity, "left 1 processes running"},
		{"daemon", 1, evaluator.Launch, evaluator.StageParity, "processes running"}, // the daemon, and its parent if that is slow to end
		{"file", 1, evaluator.Launch, evaluator.StageParity, "SIGXFSZ"},
		{"nothing", 1, "", evaluator.StageParity, ""},
	} {
		c.check(t, s.until(t, evaluator.StageParity, "WRONG", c.wrong))
	}
	_ = os.Remove("/tmp/evotune-scale") // an empty file is all that the limit lets it write
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestSanitizers(t *testing.T) {
	longtest.Short(t, "waits for compilers")
	s := sharedLab(t, "scale", asanName, tsanName, guardsName)
	for _, c := range []struct {
		sin
		tool string
	}{
		{sin{"nothing", 2, "", evaluator.StageSanitize, ""}, ""},
		{sin{"undefined", 1, evaluator.Sanitizer, evaluator.StageSanitize, "ubsan: "}, asanName},
		{sin{"race", 2, evaluator.Sanitizer, evaluator.StageSanitize, "tsan: data race"}, tsanName},
	} {
		if c.tool != "" && !s.works(t, c.tool) {
			continue
		}
		r := s.until(t, evaluator.StageSanitize, "WRONG", c.wrong, "THREADS", c.threads)
		c.check(t, r)
		step, _ := r.Step(evaluator.StageSanitize)
		for _, name := range []string{asanName, tsanName, memcheckName, guardsName} {
			i := slices.IndexFunc(step.Evidence, func(e evaluator.Evidence) bool { return e.Check == name || e.Check == "ubsan" && name == asanName })
			if i < 0 {
				t.Errorf("%s: nothing is said of %s", c.wrong, name)
			} else if !s.works(t, name) && step.Evidence[i].Outcome != evaluator.NotRun {
				t.Errorf("%s: %s does not work and is %q", c.wrong, name, step.Evidence[i].Outcome)
			}
		}
	}
}

// TestShapeLeftOut: where a constraint over the dimensions excludes a shape, its reference is not asked for,
// nothing is launched there, between guard pages either, and the evidence says so.
func TestShapeLeftOut(t *testing.T) {
	d := changed(t,
		"kernel.toml", "[implementation.baseline]", "[[implementation.constraint]]\nexpr = \"N != 1237\"\nwhy = \"it is for other sizes\"\n\n[implementation.baseline]",
		"reference.c", "{\n", "{\n\tif (N == 1237)\n\t\t__builtin_trap();\n")
	r := open(t, d, quick(guardsName)).until(t, evaluator.StageSanitize, "UNROLL", 4)
	sin{"nothing", 1, "", evaluator.StageSanitize, ""}.check(t, r)
	evidence := map[string]evaluator.Evidence{}
	for _, step := range r.Steps {
		for _, e := range step.Evidence {
			evidence[e.Check] = e
		}
	}
	if odd := evidence["parity odd"]; odd.Outcome != evaluator.NotRun || !strings.Contains(odd.Detail, "it is for other sizes") {
		t.Errorf("%+v", odd)
	}
	if e := evidence[guardsName]; e.Outcome != evaluator.Passed {
		t.Errorf("%+v", e)
	}
}

// TestOpenMP: the thread sanitizer takes OpenMP's own order for order, finds races beside
// it, and is "not run" where it cannot be told of the order.
func TestOpenMP(t *testing.T) {
	longtest.Short(t, "waits for compilers")
	if path, _ := findCompiler("auto"); strings.Contains(path, "clang") {
		t.Skip("skipped: clang's library for OpenMP is another")
	}
	const region = `
	static int64_t entered, left;
	#pragma omp parallel num_threads(2)
	{
		#pragma omp critical
		entered++;
		#pragma omp for schedule(dynamic, 5)
		for (int64_t i = 0; i < N; i++)
			y[i] = factor * x[N - 1 - i];
		#pragma omp for schedule(static)
		for (int64_t i = 0; i < N; i++)
			y[i] = factor * x[i];
		DISORDER
	}
	left += entered;`
	honest, race := strings.Replace(region, "DISORDER", "", 1), strings.Replace(region, "DISORDER", "left++;", 1)
	tasks := `
	#pragma omp parallel num_threads(2)
	#pragma omp single
	for (int64_t i = 0; i < N; i++) {
		#pragma omp task
		y[i] = factor * x[i];
	}`
	s := open(t, changed(t, "kernel.toml", `"-O2",`, `"-O2", "-fopenmp",`,
		"scale.c.tmpl", "*(volatile int *)16 = 0;", honest,
		"scale.c.tmpl", "y[N] = 1;", race,
		"scale.c.tmpl", "exit(0);", tasks,
	), quick(tsanName))
	if !s.works(t, tsanName) {
		t.Skip("skipped: the thread sanitizer does not work here")
	}
	for _, c := range []struct {
		wrong, says string
		outcome     evaluator.Check
	}{
		{"segfault", "no fault", evaluator.Passed},
		{"zone", "data race", evaluator.Failed},
		{"exit", "GOMP_task", evaluator.NotRun},
	} {
		r := s.until(t, evaluator.StageSanitize, "WRONG", c.wrong, "THREADS", 2)
		step, _ := r.Step(evaluator.StageSanitize)
		i := slices.IndexFunc(step.Evidence, func(e evaluator.Evidence) bool { return e.Check == tsanName })
		if i < 0 || step.Evidence[i].Outcome != c.outcome || !strings.Contains(step.Evidence[i].Detail, c.says) {
			t.Errorf("%s: %s: %s; evidence %+v, want %s with %q", c.wrong, r.Verdict, r.Reason, step.Evidence, c.outcome, c.says)
		}
	}
}

// Every type of element, scalars of three types, a buffer that is read and
// written.
func TestMixedTypes(t *testing.T) {
	s := sharedLab(t, "mixed", guardsName)
	for _, c := range []sin{
		{"nothing", 0, "", evaluator.StageSanitize, ""},
		{"assign", 0, evaluator.Parity, evaluator.StageParity, "output sum"},
		{"total", 0, evaluator.Parity, evaluator.StageParity, "output total: 1 of 15 elements were not written, such as element 7"},
		{"truncate", 0, evaluator.Parity, evaluator.StageParity, "output half"},
	} {
		c.check(t, s.until(t, evaluator.StageSanitize, "WRONG", c.wrong, "BACKWARDS", true))
	}
}

// TestTwins: two sources with the same code have one binary, by which the ordeal knows that they share a result.
func TestTwins(t *testing.T) {
	s := sharedLab(t, "scale")
	a, b := s.until(t, evaluator.StageCompile), s.until(t, evaluator.StageCompile, "WRONG", "twin")
	if a.Binary != b.Binary || len(a.Binary) != 64 {
		t.Errorf("the binaries of twins are %q and %q", a.Binary, b.Binary)
	}
	if a.Key == b.Key || a.Source == b.Source {
		t.Error("two sources have one key")
	}
}

func TestCancel(t *testing.T) {
	s := sharedLab(t, "scale")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := s.genome(t, "WRONG", "hang")
	errs := make(chan error, 1)
	go func() {
		_, err := s.Evaluate(ctx, g, 0)
		errs <- err
	}()
	if len(hanging(os.Getpid())) == 0 {
		t.Error("the hanging candidate was never seen")
	}
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if !wait(time.Minute, func() bool { return len(children(os.Getpid())) == 0 }) {
		t.Errorf("processes are left: %v", children(os.Getpid()))
	}
	sin{"nothing", 1, "", evaluator.StageParity, ""}.check(t, s.until(t, evaluator.StageParity))
}

func TestCloseEndsWhatRuns(t *testing.T) {
	s := open(t, load(t, "scale"), quick())
	errs := make(chan error, 1)
	g := s.genome(t, "WRONG", "hang")
	go func() {
		_, err := s.Evaluate(context.Background(), g, 0)
		errs <- err
	}()
	if len(hanging(os.Getpid())) == 0 {
		t.Error("the hanging candidate was never seen")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-errs; !errors.Is(err, evaluator.ErrClosed) {
		t.Errorf("the evaluation ended with %v", err)
	}
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if _, err := s.Evaluate(context.Background(), g, 0); !errors.Is(err, evaluator.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	needCompiler(t)
	for _, c := range []struct {
		name   string
		kernel func(t *testing.T) evaluator.Plan
		option func(*Options)
		want   error
		text   string
	}{
		{
			name: "a reference that does not compile",
			kernel: func(t *testing.T) evaluator.Plan {
				return planOf(changed(t, "reference.c", "factor * x[i]", "factor * z[i]"))
			},
			want: ErrReference, text: "'z' undeclared",
		},
		{
			name: "a reference that crashes",
			kernel: func(t *testing.T) evaluator.Plan {
				return planOf(changed(t, "reference.c", "y[i] = factor", "*(volatile int *)8 = 0, y[i] = factor"))
			},
			want: ErrReference, text: "SIGSEGV",
		},
		{
			name: "a reference that cannot compute the shape for the sanitizers",
			kernel: func(t *testing.T) evaluator.Plan {
				return planOf(changed(t, "reference.c", "y[i] = factor", "N == 67 ? *(volatile int *)8 = 0 : 0, y[i] = factor"))
			},
			want: ErrReference, text: `; if it cannot compute N = 67, set other dims in kernel.toml, [[problem.shape]] with name = "small" and use = "sanitize"`,
		},
		{
			name: "a reference that leaves the last element",
			kernel: func(t *testing.T) evaluator.Plan {
				return planOf(changed(t, "reference.c", "i < N", "i < N - 1"))
			},
			want: ErrReference, text: "NaN",
		},
		{
			name: "a baseline that is wrong",
			kernel: func(t *testing.T) evaluator.Plan {
				return planOf(changed(t, "kernel.toml", `THREADS = 1, WRONG = "nothing"`, `THREADS = 1, WRONG = "zone"`))
			},
			want: evaluator.ErrBaseline, text: "guard: wrote",
		},
		{
			name:   "no compiler",
			kernel: func(t *testing.T) evaluator.Plan { return planOf(load(t, "scale")) },
			option: func(o *Options) { o.Compiler = "/nowhere/gcc" },
			want:   ErrNoCompiler, text: "apt-get install gcc",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := quick()
			if c.option != nil {
				c.option(&o)
			}
			b, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			h, err := evaluator.Open(t.Context(), b, c.kernel(t))
			if err == nil {
				_ = h.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %q", err)
			}
		})
	}
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{Sanitizers: []string{"asan", "magic"}}); !errors.Is(err, ErrOptions) {
		t.Errorf("got %v", err)
	}
	if _, err := New(Options{Timeout: -1}); !errors.Is(err, ErrOptions) {
		t.Errorf("got %v", err)
	}
}

func TestDoctor(t *testing.T) {
	needCompiler(t)
	b, err := New(quick())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]evaluator.Tool{}
	for _, tool := range b.Doctor(t.Context()) {
		names[tool.Name] = tool
		if tool.Missing == "" && tool.Version == "" {
			t.Errorf("%s was found and has no version", tool.Name)
		}
	}
	for _, name := range []string{"compiler", "objdump", "seccomp", asanName, tsanName, memcheckName} {
		if _, ok := names[name]; !ok {
			t.Errorf("nothing is said of %s", name)
		}
	}
	if names[asanName].Missing == "" {
		t.Error("asan was switched off and is not missing")
	}
}

// A second opening takes everything from the cache, and a damaged cache is
// made again.
func TestCacheOfOpen(t *testing.T) {
	sharedLab(t, "scale")
	o := quick()
	o.CacheDir = t.TempDir()
	for _, kind := range cached(t) { // what the shared lab has made
		if err := os.CopyFS(filepath.Join(o.CacheDir, kind), os.DirFS(filepath.Join(testCache, kind))); err != nil {
			t.Fatal(err)
		}
	}
	openOnce := func() evaluator.Description {
		t.Helper()
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		h, err := evaluator.Open(t.Context(), b, planOf(load(t, "scale")))
		if err != nil {
			t.Fatal(err)
		}
		defer discard(h)
		if d, _ := b.Device(t.Context()); d.Fingerprint == "" || d.Fingerprint != h.Describe().Device.Fingerprint {
			t.Errorf("the backend is on %s, its problem on %s", d.Fingerprint, h.Describe().Device.Fingerprint)
		}
		return h.Describe()
	}
	first := openOnce()
	count := func() (n int) {
		_ = filepath.WalkDir(o.CacheDir, func(_ string, d os.DirEntry, _ error) error {
			if !d.IsDir() {
				n++
			}
			return nil
		})
		return n
	}
	before := count()
	second := openOnce()
	if after := count(); after != before {
		t.Errorf("the cache had %d files and has %d", before, after)
	}
	if first.Device.Fingerprint != second.Device.Fingerprint || first.Device.Peaks["f32/1"] != second.Device.Peaks["f32/1"] || first.Device.Peaks["f32/1"] <= 0 {
		t.Errorf("%v then %v", first.Device.Peaks, second.Device.Peaks)
	}
	_ = filepath.WalkDir(o.CacheDir, func(path string, d os.DirEntry, _ error) error {
		// But for a harness, which takes a second to compile; the other objects are smaller.
		if info, err := d.Info(); err == nil && !d.IsDir() && info.Size() < 100<<10 {
			return os.Truncate(path, info.Size()*2/3)
		}
		return nil
	})
	openOnce()
	if left, _ := os.ReadDir(filepath.Join(o.CacheDir, "tmp")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

// cached lists the kinds of what the tests' cache keeps.
func cached(t *testing.T) (kinds []string) {
	t.Helper()
	folders, err := os.ReadDir(testCache)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.Name() != "tmp" {
			kinds = append(kinds, f.Name())
		}
	}
	return kinds
}

// A kernel that rightly leaves its output as it was in every second launch is right in stopped batches too.
func TestNothingToDo(t *testing.T) {
	d := changed(t,
		"kernel.toml", `role = "out"`, "role = \"inout\"\ndata = \"normal(0,1)\"",
		"reference.c", "y[i] = factor * x[i];", "y[i] *= x[0] > 1 ? factor : 1;",
		"scale.c.tmpl", "\t\t\ty[i + u] = factor * x[i + u];", "\t\t\ty[i + u] *= x[0] > 1 ? factor : 1;",
		"scale.c.tmpl", "\t\ty[i] = factor * x[i];", "\t\ty[i] *= x[0] > 1 ? factor : 1;",
	)
	b := bareOf(t, open(t, d, quick()))
	s := b.open(evaluator.ForTiming, b.build("nothing", 1))
	defer s.Close() //nolint:errcheck // another test's
	for range 8 {
		r := b.request(0, true)
		r.Batch = 2 * time.Millisecond // as usual: a shorter one is over before it is stopped
		got, err := s.Sample(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if series := got.Series[0]; series.Batch < 4 || series.Fault != nil || series.After.Guard != "" || len(series.After.Outputs) != 1 || series.After.Outputs[0].Error > 1e-6 {
			t.Errorf("batch of %d, fault %v, %+v", series.Batch, series.Fault, series.After)
		}
	}
}
