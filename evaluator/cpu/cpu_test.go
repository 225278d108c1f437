//go:build linux

package cpu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/internal/longtest"
)

// sin is a candidate's fault and what must come of it.
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
	} else if failed := step.Outcome == evaluator.Failed; failed != (s.verdict != evaluator.Correct) {
		t.Errorf("%s: the last step is %q", s.wrong, step.Outcome)
	}
}

func TestVerdicts(t *testing.T) {
	s := open(t, load(t, "scale"), quick())
	for _, c := range []sin{
		{"nothing", 1, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"nothing", 2, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"noise", 1, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"block", 1, evaluator.Compile, evaluator.StageCompile, "this line blocks"},
		{"segfault", 1, evaluator.Launch, evaluator.StageParity, "SIGSEGV"},
		{"exit", 1, evaluator.Launch, evaluator.StageParity, "exit (status 0)"},
		{"constructor", 1, evaluator.Launch, evaluator.StageParity, "load: called exit (status 0)"},
		{"late", 1, evaluator.Launch, evaluator.StageParity, "SIGABRT (while it ended)"},
		{"descriptors", 1, evaluator.Launch, evaluator.StageParity, "closed the harness's descriptors"},
		{"input", 1, evaluator.Parity, evaluator.StageParity, "wrote to input x at element 33"},
		{"zone", 1, evaluator.Parity, evaluator.StageParity, "guard: wrote byte 0 behind the end of y"},
	} {
		c.check(t, s.evaluate(t, "WRONG", c.wrong, "THREADS", c.threads))
	}
	if left := children(os.Getpid()); len(left) > 2 { // the baseline waits for the next candidate, in two processes
		t.Errorf("processes are left: %v", left)
	}
}

func TestInspection(t *testing.T) {
	if labs.Find("objdump") == "" {
		t.Skip("skipped: objdump is not installed")
	}
	s := open(t, load(t, "scale"), quick())
	sin{"forbidden", 1, evaluator.Inspect, evaluator.StageInspect, "forbids ^cpuid$"}.check(t, s.evaluate(t, "WRONG", "forbidden"))
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
	debug := openPlan(t, plan, quick("asan"))
	works := map[string]bool{}
	for _, tool := range debug.Describe().Tools {
		works[tool.Name] = tool.Missing == ""
	}
	for _, c := range []struct {
		unroll int
		sin
		says string // in the failed evidence
		tool string // without which it shows nothing
	}{
		{1, sin{"nothing", 1, evaluator.Correct, evaluator.StageBenchmark, ""}, "", ""},
		{1, sin{"forbidden", 1, evaluator.Correct, evaluator.StageBenchmark, ""}, "", ""},
		{4, sin{"nothing", 1, evaluator.Launch, evaluator.StageParity, "SIGABRT"}, "Assertion `UNROLL < 4 || to % 2 == 0' failed", ""},
		{2, sin{"nothing", 1, evaluator.Sanitizer, evaluator.StageSanitize, "kernel.c:"}, "insufficient space", asanName},
	} {
		if c.tool != "" && !works[c.tool] {
			t.Logf("left out: %s does not work here", c.tool)
			continue
		}
		r := debug.evaluate(t, "UNROLL", c.unroll, "WRONG", c.wrong)
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
	g, r := debug.evaluate(t, "UNROLL", 4), release.evaluate(t, "UNROLL", 4)
	if r.Verdict != evaluator.Correct && !disturbed(t, r) {
		t.Errorf("release: %s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	if g.Key == r.Key || g.Binary == r.Binary || g.Source != r.Source {
		t.Errorf("debug: key %s, binary %s, source %s; release: %s, %s, %s", g.Key, g.Binary, g.Source, r.Key, r.Binary, r.Source)
	}
}

func TestSandbox(t *testing.T) {
	s := open(t, load(t, "scale"), quick())
	if i := slices.IndexFunc(s.Describe().Tools, func(t evaluator.Tool) bool { return t.Name == "seccomp" }); s.Describe().Tools[i].Missing != "" {
		t.Skipf("skipped: %s", s.Describe().Tools[i].Missing)
	}
	for _, c := range []sin{
		{"fork", 1, evaluator.Launch, evaluator.StageParity, "tried to start a process"},
		{"daemon", 1, evaluator.Launch, evaluator.StageParity, "tried to start a process"},
		{"file", 1, evaluator.Launch, evaluator.StageParity, "tried to write a file"},
	} {
		c.check(t, s.evaluate(t, "WRONG", c.wrong))
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
		{"nothing", 1, evaluator.Correct, evaluator.StageBenchmark, ""},
	} {
		c.check(t, s.evaluate(t, "WRONG", c.wrong))
	}
	_ = os.Remove("/tmp/evotune-scale") // an empty file is all that the limit lets it write
	if left := children(os.Getpid()); len(left) > 2 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestSanitizers(t *testing.T) {
	longtest.Short(t, "waits for compilers")
	s := open(t, load(t, "scale"), Options{CacheDir: testCache})
	works := map[string]bool{}
	for _, tool := range s.Describe().Tools {
		works[tool.Name] = tool.Missing == ""
	}
	for _, c := range []struct {
		sin
		tool string
	}{
		{sin{"nothing", 2, evaluator.Correct, evaluator.StageBenchmark, ""}, ""},
		{sin{"undefined", 1, evaluator.Sanitizer, evaluator.StageSanitize, "ubsan: "}, asanName},
		{sin{"race", 2, evaluator.Sanitizer, evaluator.StageSanitize, "tsan: data race"}, tsanName},
	} {
		if c.tool != "" && !works[c.tool] {
			t.Logf("%s left out: %s does not work here", c.wrong, c.tool)
			continue
		}
		r := s.evaluate(t, "WRONG", c.wrong, "THREADS", c.threads)
		c.check(t, r)
		step, _ := r.Step(evaluator.StageSanitize)
		for name, ok := range works {
			if !slices.Contains([]string{asanName, tsanName, memcheckName}, name) {
				continue
			}
			i := slices.IndexFunc(step.Evidence, func(e evaluator.Evidence) bool { return e.Check == name || e.Check == "ubsan" && name == asanName })
			if i < 0 {
				t.Errorf("%s: nothing is said of %s", c.wrong, name)
			} else if !ok && step.Evidence[i].Outcome != evaluator.NotRun {
				t.Errorf("%s: %s does not work and is %q", c.wrong, name, step.Evidence[i].Outcome)
			}
		}
	}
}

// TestShapeLeftOut: a shape that an implementation leaves out is "not run", and nothing is launched at it,
// between guard pages either.
func TestShapeLeftOut(t *testing.T) {
	longtest.Short(t, "computes for long")
	d := changed(t, "kernel.toml", "[[implementation.parameter]]\nname = \"UNROLL\"", "[[implementation.constraint]]\nexpr = \"N != 1237\"\nwhy = \"it is odd\"\n\n[[implementation.parameter]]\nname = \"UNROLL\"")
	r := open(t, d, quick(guardsName)).evaluate(t, "WRONG", "nothing")
	outcomes := map[string]evaluator.Check{}
	for _, step := range r.Steps {
		for _, e := range step.Evidence {
			outcomes[e.Check] = e.Outcome
		}
	}
	if outcomes["parity odd"] != evaluator.NotRun || outcomes[guardsName] != evaluator.Passed {
		t.Errorf("%s: %s: %+v", r.Verdict, r.Reason, outcomes)
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
	if slices.ContainsFunc(s.Describe().Tools, func(tool evaluator.Tool) bool { return tool.Name == tsanName && tool.Missing != "" }) {
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
		r := s.evaluate(t, "WRONG", c.wrong, "THREADS", 2)
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
	longtest.Short(t, "computes for long")
	s := open(t, load(t, "mixed"), quick("guards"))
	for _, c := range []sin{
		{"nothing", 0, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"assign", 0, evaluator.Parity, evaluator.StageParity, "output sum"},
		{"total", 0, evaluator.Parity, evaluator.StageParity, "output total: 1 of 15 elements were not written, such as element 7"},
		{"truncate", 0, evaluator.Parity, evaluator.StageParity, "output half"},
	} {
		c.check(t, s.evaluate(t, "WRONG", c.wrong, "BACKWARDS", true))
	}
}

func TestSharing(t *testing.T) {
	s := open(t, load(t, "scale"), quick())
	var group sync.WaitGroup
	results := make([]evaluator.Result, 4)
	wrong := []string{"nothing", "twin", "nothing", "twin"}
	for i := range results {
		group.Go(func() {
			var err error
			if results[i], err = s.Evaluate(t.Context(), s.genome(t, "WRONG", wrong[i]), 0); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	shared := 0
	for _, r := range results {
		if disturbed(t, r) {
			t.Skip("skipped: what could not be timed is not shared")
		}
		if r.Verdict != evaluator.Correct || r.Binary != results[0].Binary || r.Fitness != results[0].Fitness {
			t.Errorf("%s %s %v", r.Verdict, r.Binary, r.Fitness)
		}
		if r.SharedWith != "" {
			shared++
		}
	}
	if shared != 2 { // the two of the other name
		t.Errorf("%d results are shared with another genome", shared)
	}
	if results[0].Key == results[1].Key {
		t.Error("two sources have one key")
	}
}

func TestCancel(t *testing.T) {
	s := open(t, load(t, "scale"), quick())
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
	if !wait(time.Minute, func() bool { return len(children(os.Getpid())) <= 1 }) {
		t.Errorf("processes are left: %v", children(os.Getpid()))
	}
	if r := s.evaluate(t); r.Verdict != evaluator.Correct && !disturbed(t, r) {
		t.Errorf("after a cancelled evaluation: %s (%s)", r.Verdict, r.Reason)
	}
}

func TestTimeout(t *testing.T) {
	o := quick()
	o.Timeout = 3 * time.Second
	s := open(t, load(t, "scale"), o)
	sin{"hang", 1, evaluator.Timeout, evaluator.StageParity, "no answer within 3s"}.check(t, s.evaluate(t, "WRONG", "hang"))
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
	b, err := New(quick(memcheckName))
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
	needCompiler(t)
	o := quick()
	o.CacheDir = t.TempDir()
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
		if d := b.Device(); d.Fingerprint == "" || d.Fingerprint != h.Describe().Device.Fingerprint {
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
		if info, err := d.Info(); err == nil && !d.IsDir() {
			return os.Truncate(path, info.Size()*2/3)
		}
		return nil
	})
	openOnce()
	if left, _ := os.ReadDir(filepath.Join(o.CacheDir, "tmp")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

// A kernel that rightly leaves its output as it was in every second launch is right in stopped batches too.
func TestNothingToDo(t *testing.T) {
	longtest.Short(t, "computes for long")
	d := changed(t,
		"kernel.toml", `role = "out"`, "role = \"inout\"\ndata = \"normal(0,1)\"",
		"reference.c", "y[i] = factor * x[i];", "y[i] *= x[0] > 1 ? factor : 1;",
		"scale.c.tmpl", "\t\t\ty[i + u] = factor * x[i + u];", "\t\t\ty[i + u] *= x[0] > 1 ? factor : 1;",
		"scale.c.tmpl", "\t\ty[i] = factor * x[i];", "\t\ty[i] *= x[0] > 1 ? factor : 1;",
	)
	if r := open(t, d, quick()).evaluate(t, "WRONG", "nothing"); r.Verdict != evaluator.Correct {
		t.Errorf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
}
