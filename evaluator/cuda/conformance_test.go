//go:build linux

package cuda_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cuda"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// workerVariable names the worker to the tests that need a GPU. The test's
// binary may be made elsewhere (go test -c) and run in this folder.
const workerVariable = "EVOTUNE_CUDA_WORKER"

// gpuBackend makes a backend on the GPU, or skips.
func gpuBackend(tb testing.TB, o cuda.Options) *cuda.Backend {
	tb.Helper()
	if o.Worker = os.Getenv(workerVariable); o.Worker == "" {
		tb.Skipf("%s does not name a worker: nothing is run on a GPU", workerVariable)
	}
	if testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(tb.Output(), nil))
	}
	b, err := cuda.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	if err := b.Available(tb.Context()); err != nil {
		tb.Skipf("no GPU can be used: %v", err)
	}
	return b
}

// TestConformance runs the suite that every backend passes, the zoo for GPUs
// included.
func TestConformance(t *testing.T) {
	o := cuda.Options{CacheDir: t.TempDir(), Timeout: 20 * time.Second}
	gpuBackend(t, o)
	plan, cases, inmate := loadZoo(t, "../testdata/zoo-cuda")
	backendtest.Run(t, backendtest.Harness{
		New: func(tb testing.TB) evaluator.Evaluator {
			tb.Helper()
			ordeal, err := evaluator.Open(tb.Context(), gpuBackend(tb, o), plan)
			if err != nil {
				tb.Fatal(err)
			}
			return ordeal
		},
		Honest:   func(n int) genome.Genome { return inmate("honest", n) },
		Twin:     inmate("honest-twin", 0),
		Slow:     inmate("honest-slow", 0),
		Zoo:      cases,
		Faulty:   func(c backendtest.Case, n int) genome.Genome { return inmate(c.Kernel, n) },
		Hang:     "infinite-loop",
		Mixed:    []string{"infinite-loop", "illegal-address", "never-written", "write-past-end", "shared-race", "syntax-error", "trap", "deadlock"},
		SameCode: 1.5,
		Grace:    10 * time.Second, // a GPU takes a while to get rid of a kernel
		// A compiler for each core, and twice the workers for parity and under tools,
		// as pools that lose some come to have, these with the tool's process; and
		// some that come and go. The zoo would leave hundreds.
		Keeps: runtime.NumCPU() + 2*(4+2*(3*2+4)) + 16,
	})
}

// TestHopperZoo gives every kernel of the zoo for Hopper its verdict. An honest one is seen
// under delays instead of by racecheck.
func TestHopperZoo(t *testing.T) {
	o := cuda.Options{CacheDir: t.TempDir(), Timeout: 20 * time.Second}
	d, err := gpuBackend(t, o).Device(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Facts["capability"] != "9.0" {
		t.Skipf("the GPU has capability %s, and the zoo for Hopper needs 9.0", d.Facts["capability"])
	}
	plan, cases, inmate := loadZoo(t, "../testdata/zoo-hopper")
	open := func(tb testing.TB) evaluator.Evaluator {
		tb.Helper()
		ordeal, err := evaluator.Open(tb.Context(), gpuBackend(tb, o), plan)
		if err != nil {
			tb.Fatal(err)
		}
		return ordeal
	}
	t.Run("verdicts", func(t *testing.T) {
		backendtest.Zoo(t, backendtest.Harness{
			New: open, Zoo: cases, SameCode: 1.5, Grace: 10 * time.Second, Keeps: runtime.NumCPU() + 2*(4+2*(3*2+4)) + 16,
			Honest: func(n int) genome.Genome { return inmate("honest", n) },
			Faulty: func(c backendtest.Case, n int) genome.Genome { return inmate(c.Kernel, n) },
		})
	})
	t.Run("evidence", func(t *testing.T) {
		ev := open(t)
		defer ev.Close() //nolint:errcheck // nothing is kept
		r, err := ev.Evaluate(t.Context(), inmate("honest-cluster", 999), 0)
		if err != nil {
			t.Fatal(err)
		}
		step, _ := r.Step(evaluator.StageSanitize)
		want := map[string]evaluator.Check{"schedules": evaluator.Passed, "racecheck": evaluator.NotRun}
		for _, e := range step.Evidence {
			t.Logf("%s: %s: %s", e.Check, e.Outcome, e.Detail)
			if outcome, ok := want[e.Check]; ok && outcome == e.Outcome {
				delete(want, e.Check)
			}
		}
		if r.Verdict != evaluator.Correct || len(want) > 0 {
			t.Errorf("%s: %s; not in the evidence: %v", r.Verdict, r.Reason, want)
		}
	})
}

// TestNeighborsOnGPU: what a candidate that faults costs the honest ones that are evaluated
// beside it. Eight at once, without and with it by turns, all of them compiled anew; the
// difference of the medians is less than a second. Kernels that hang are not here: they hold the GPU until
// their deadline, which is what bounds them.
func TestNeighborsOnGPU(t *testing.T) {
	o := cuda.Options{CacheDir: t.TempDir(), Timeout: 20 * time.Second}
	b := gpuBackend(t, o)
	plan, _, inmate := loadZoo(t, "../testdata/zoo-cuda")
	ev, err := evaluator.Open(t.Context(), b, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Close() //nolint:errcheck // nothing is kept
	var salt atomic.Int64
	var mu sync.Mutex
	longest := map[evaluator.Stage]time.Duration{} // of the honest ones
	evaluate := func(kernel string, want evaluator.Verdict) {
		r, err := ev.Evaluate(t.Context(), inmate(kernel, int(salt.Add(1))), 0)
		if err != nil || r.Verdict != want {
			t.Errorf("%s: %s at %s: %s (%v), want %s", kernel, r.Verdict, r.Stage, r.Reason, err, want)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, step := range r.Steps {
			if kernel == "honest" {
				longest[step.Stage] = max(longest[step.Stage], step.Elapsed)
			} else {
				t.Logf("%s: %s %v", kernel, step.Stage, step.Elapsed)
			}
		}
	}
	evaluate("honest", evaluator.Correct)
	eight := func(beside string) time.Duration {
		var all, one sync.WaitGroup
		if beside != "" {
			one.Go(func() { evaluate(beside, evaluator.Launch) })
		}
		clear(longest)
		begin := time.Now()
		for range 8 {
			all.Go(func() { evaluate("honest", evaluator.Correct) })
		}
		all.Wait()
		took := time.Since(begin)
		one.Wait()
		t.Logf("%s: %v %v", cmp.Or(beside, "alone"), took, longest)
		return took
	}
	eight("")
	for _, fault := range []string{"illegal-address", "trap", "write-far", "too-many-registers"} {
		var alone, beside []time.Duration
		for range 3 {
			alone, beside = append(alone, eight("")), append(beside, eight(fault))
		}
		slices.Sort(alone)
		slices.Sort(beside)
		cost := beside[1] - alone[1]
		t.Logf("%s: eight honest candidates take %v alone and %v beside it: %v more", fault, alone[1], beside[1], cost)
		if cost >= time.Second {
			t.Errorf("%s costs its neighbors %v", fault, cost)
		}
	}
}

// loadZoo loads a folder of kernels with verdicts: the plan under which they are judged, the verdicts, and the genomes.
func loadZoo(tb testing.TB, dir string) (evaluator.Plan, []backendtest.Case, func(kernel string, salt int) genome.Genome) {
	tb.Helper()
	def, err := kernels.LoadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	cases, err := backendtest.LoadCases(filepath.Join(dir, "verdicts.toml"))
	if err != nil {
		tb.Fatal(err)
	}
	plan := planOf(def)
	space, err := def.Space(def.Implementations, plan.Tune, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return plan, cases, func(kernel string, salt int) genome.Genome {
		g, err := space.FromMap(map[string]any{"KERNEL": kernel, "SALT": salt})
		if err != nil {
			tb.Error(err) // in another goroutine, maybe
		}
		return g
	}
}

func planOf(def *kernels.Definition) evaluator.Plan {
	p := def.ProblemOn("cuda")
	return evaluator.Plan{
		Definition: def, Implementations: def.Implementations, Seed: 1,
		Tune: p.ShapesFor(kernels.Tune), Verify: p.ShapesFor(kernels.Verify), Sanitize: p.ShapesFor(kernels.Sanitize)[0],
	}
}

// TestDebugOnGPU: the debug flavour tells of an assert that a release does not
// have, memcheck looks at what failed parity, and an honest candidate passes.
// Each compiler that works is tried.
func TestDebugOnGPU(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "zoo-cuda")
	if err := os.CopyFS(dir, os.DirFS("../testdata/zoo-cuda")); err != nil {
		t.Fatal(err)
	}
	twin := filepath.Join(dir, "honest-twin.cu")
	text, err := os.ReadFile(twin)
	if err != nil {
		t.Fatal(err)
	}
	asserting := strings.Replace(string(text), "\tmultiply(", "\tassert(threadIdx.x < 255 || K != 45);\n\tmultiply(", 1)
	if asserting == string(text) {
		t.Fatalf("%s has no place for an assert", twin)
	}
	if err := os.WriteFile(twin, []byte(asserting), 0o600); err != nil {
		t.Fatal(err)
	}
	def, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, compiler := range []string{"nvrtc", "nvcc"} {
		t.Run(compiler, func(t *testing.T) {
			b := gpuBackend(t, cuda.Options{CacheDir: t.TempDir(), Compiler: compiler})
			for _, debug := range []bool{false, true} {
				plan := planOf(def)
				plan.Debug = debug
				space, err := def.Space(def.Implementations, plan.Tune, nil)
				if err != nil {
					t.Fatal(err)
				}
				ev, err := evaluator.Open(t.Context(), b, plan)
				if errors.Is(err, cuda.ErrNoCompiler) {
					t.Skip(err)
				} else if err != nil {
					t.Fatal(err)
				}
				for _, c := range []struct {
					kernel         string
					release, debug evaluator.Verdict
					says           string // in debug, somewhere in the evidence
				}{
					{"honest", evaluator.Correct, evaluator.Correct, "is not timed"},
					{"honest-twin", evaluator.Correct, evaluator.Launch, "Assertion `threadIdx.x < 255 || K != 45` failed"},
					{"spills", evaluator.Inspect, evaluator.Correct, ""},
					{"illegal-address", evaluator.Launch, evaluator.Launch, "Invalid __global__ write"},
				} {
					g, err := space.FromMap(map[string]any{"KERNEL": c.kernel, "SALT": 1})
					if err != nil {
						t.Fatal(err)
					}
					r, err := ev.Evaluate(t.Context(), g, 0)
					if err != nil {
						t.Fatal(err)
					}
					want, says := c.release, ""
					if debug {
						want, says = c.debug, c.says
					}
					var all strings.Builder
					for _, s := range r.Steps {
						for _, e := range s.Evidence {
							if s.Outcome != evaluator.Passed {
								fmt.Fprintf(&all, "%s: %s %s\n", e.Check, e.Outcome, e.Detail)
							}
						}
					}
					t.Logf("debug %v, %s: %s at %s: %s\n%.4000s", debug, c.kernel, r.Verdict, r.Stage, r.Reason, all.String())
					if r.Verdict != want || debug && len(r.Timings) != 0 {
						t.Errorf("debug %v, %s: %s, %d timings, want %s", debug, c.kernel, r.Verdict, len(r.Timings), want)
					}
					if !strings.Contains(all.String(), says) {
						t.Errorf("debug %v, %s: %q is not in its evidence", debug, c.kernel, says)
					}
				}
				if err := ev.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestDoctor prints what was found of CUDA, which is read by people.
func TestDoctor(t *testing.T) {
	b := gpuBackend(t, cuda.Options{CacheDir: t.TempDir()})
	for _, tool := range b.Doctor(t.Context()) {
		t.Logf("%-18s %s %s %s", tool.Name, tool.Version, tool.Path, tool.Missing)
	}
	t.Logf("limits: %v", b.Limits())
}

// TestReferenceInCOnGPU judges a kernel whose only reference is in C: what is right has
// to pass, in finals too, and what is hardly wrong must not.
func TestReferenceInCOnGPU(t *testing.T) { judgeExample(t, "c-reference", "") }

// TestReferenceInPythonOnGPU is the same for one in Python, which makes an input, too.
func TestReferenceInPythonOnGPU(t *testing.T) {
	judgeExample(t, "python-reference", backendtest.Python(t, "numpy"))
}

func judgeExample(t *testing.T, name, python string) {
	b := gpuBackend(t, cuda.Options{CacheDir: t.TempDir(), Timeout: 20 * time.Second, Python: python})
	def, err := kernels.LoadDir(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	plan := planOf(def)
	ev, err := evaluator.Open(t.Context(), b, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Close() //nolint:errcheck // nothing is kept
	space, err := def.Space(def.Implementations, plan.Tune, nil)
	if err != nil {
		t.Fatal(err)
	}
	genomes := map[string]genome.Genome{}
	for fault, want := range map[string]evaluator.Verdict{"none": evaluator.Correct, "rare": evaluator.Parity} {
		g, err := space.FromMap(map[string]any{"THREADS": 256, "ITEMS": 2, "FAULT": fault})
		if err != nil {
			t.Fatal(err)
		}
		genomes[fault] = g
		r, err := ev.Evaluate(t.Context(), g, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s at %s: %s", fault, r.Verdict, r.Stage, r.Reason)
		if r.Verdict != want {
			t.Errorf("%s: %s at %s, want %s: %s", fault, r.Verdict, r.Stage, want, r.Reason)
		}
	}
	f, err := ev.Finals(t.Context(), []genome.Genome{genomes["none"]})
	if err != nil {
		t.Fatal(err)
	}
	if f.Winner != 0 {
		t.Errorf("the finals: %+v", f)
	}
}
