//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

func TestMain(m *testing.M) {
	CompileServerMain()
	if os.Getenv(fakeVariable) != "" {
		os.Exit(fakeWorker())
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left := family(os.Getpid(), ""); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "processes left behind: %v\n", left)
			code = 1
		}
		os.Exit(code)
	}))
}

// fakeKernel doubles its input; the gene DO says what the fake worker does when
// it gets the candidate.
const fakeKernel = `
format = 1
name = "fake"
description = "twice its input"
license = "Apache-2.0"

[problem]
dims = ["N"]
operations = "N"
bytes = "8*N"
pipe = "f32"

[problem.reference]
source = "reference.c"
entry = "reference"

[problem.reference.cuda]
source = "reference.cu"
entry = "reference"
grid = ["ceil(N/128)"]
block = ["128"]

[[problem.buffer]]
name = "x"
dtype = "f32"
role = "in"
shape = ["N"]
data = "uniform(-1,1)"

[[problem.buffer]]
name = "y"
dtype = "f32"
role = "out"
shape = ["N"]

[[problem.shape]]
name = "tuned"
dims = { N = 4096 }
use = "tune"

[[problem.shape]]
name = "odd"
dims = { N = 1001 }
use = "verify"

[[problem.shape]]
name = "tail"
dims = { N = 37 }
use = "verify"

[[problem.shape]]
name = "small"
dims = { N = 64 }
use = "sanitize"

[problem.tolerance]
f32 = 1e-5

[[problem.control]]
kind = "zeros"

[[problem.control]]
kind = "constant"

[[implementation]]
name = "fake"
backend = "cuda"
target = "sm_80"
template = "fake.cu.tmpl"
entry = "fake"
blocking = ['this must not be']

[[implementation.parameter]]
name = "DO"
values = [%s]

[[implementation.parameter]]
name = "SALT"
range = [0, 99]

[[implementation.parameter]]
name = "BLOCK"
values = [64, 128]

[[implementation.constraint]]
expr = "BLOCK == 64 or N != 37"
why = "only blocks of 64 know what to do with a tail"

[implementation.launch]
grid = ["ceil(N/BLOCK)"]
block = ["BLOCK"]

[implementation.baseline]
genome = { DO = "nothing", SALT = 0, BLOCK = 64 }

[implementation.binary]
max_stack = 0
`

// does lists what the fake worker can do.
var does = []string{
	"nothing", "slow", "parity=wrong", "parity=bitten", "parity=nan", "parity=unwritten", "parity=guard", "parity=input", "parity=different",
	"parity=fault", "parity=fatal", "parity=hang", "parity=die", "parity=garbage", "parity=otherkind", "parity=refuse",
	"load=fault", "memcheck=report", "memcheck=flood", "racecheck=report", "synccheck=fatal", "initcheck=hang", "memcheck=late",
	"guards=end-fatal", "guards=begin-fatal", "guards=end-fault", "guards=begin-wrong", "guards=end-guard", "guards=end-nowhere",
	"racecheck=die", "time=fault", "time=fast", "time=clock", "time=after", "time=last", "time=tires", "time=bitten", "time=grazed", "time=guard", "time=input", "time=fatal", "time=hang", "time=die", "time=faststart",
	"time=nosamples", "parity=assert", "parity=prints", "compile=error", "compile=block", "compile=wmma", "compile=stack", "worker=flaky", "memcheck=noise",
	"schedules=right", "schedules=wrong", "schedules=different", "schedules=large", "schedules=fatal", "schedules=hang", "schedules=waits", "schedules=broken",
	"schedules=unassembled", "schedules=unbearable", "schedules=numbered", "schedules=tight", "schedules=crowded", "schedules=cooperative", "schedules=serialized", "racecheck=alone",
	"racecheck=at-small", "memcheck=at-small-odd", "memcheck=at-72", "synccheck=at-136", "racecheck=dawdle", "parity=long", "memcheck=long", "schedules=long", "time=long",
}

func fakeDefinition(tb testing.TB) *kernels.Definition {
	tb.Helper()
	return fakeFrom(tb, fakeKernel, "y[i] = 2 * x[i]", "const double *x")
}

// fakeFrom is the fake kernel with another definition and another reference in C, and
// more kernels.
func fakeFrom(tb testing.TB, definition, computes, inputs string, more ...string) *kernels.Definition {
	tb.Helper()
	return fakeFiles(tb, definition, map[string]string{
		"reference.c": "#include <stdint.h>\nvoid reference(int64_t N, " + inputs + ", double *y)\n{\n\tfor (int64_t i = 0; i < N; i++)\n\t\t" + computes + ";\n}\n",
	}, more...)
}

// fakeFiles is the fake kernel with another definition and other files, and more kernels.
func fakeFiles(tb testing.TB, definition string, files map[string]string, more ...string) *kernels.Definition {
	tb.Helper()
	quoted := make([]string, len(does))
	for i, d := range does {
		quoted[i] = fmt.Sprintf("%q", d)
	}
	folder := fstest.MapFS{
		"fake/kernel.toml":  {Data: fmt.Appendf(nil, definition, strings.Join(quoted, ", "))},
		"fake/reference.cu": {Data: []byte("extern \"C\" __global__ void reference(int64_t N, const double *x, double *y)\n{\n\tconst int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;\n\tif (i < N)\n\t\ty[i] = 2 * x[i];\n}\n")},
		"fake/fake.cu.tmpl": {Data: []byte("// do: {{.DO}} {{.SALT}}\nextern \"C\" __global__ void fake(int64_t N, const float *x, float *y)\n{\n\tconst int64_t i = (int64_t)blockIdx.x * {{.BLOCK}} + threadIdx.x;\n\tif (i < N)\n\t\ty[i] = 2 * x[i] + 0 * {{.SALT}};\n}\n" + strings.Join(more, ""))},
	}
	for name, text := range files {
		folder["fake/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	d, err := kernels.Load(folder, "fake")
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func fakePlan(tb testing.TB) evaluator.Plan {
	tb.Helper()
	return planOf(fakeDefinition(tb))
}

func planOf(d *kernels.Definition) evaluator.Plan {
	plan := evaluator.Plan{Definition: d, Implementations: d.Implementations, Seed: 7}
	plan.Tune = d.Problem.ShapesFor(kernels.Tune)
	plan.Verify = d.Problem.ShapesFor(kernels.Verify)
	plan.Sanitize = d.Problem.ShapesFor(kernels.Sanitize)[0]
	return plan
}

func fakeGenome(tb testing.TB, do string, salt int) genome.Genome { return fakeBlock(tb, do, salt, 64) }

func fakeBlock(tb testing.TB, do string, salt, block int) genome.Genome {
	tb.Helper()
	d := fakeDefinition(tb)
	space, err := d.Space(d.Implementations, d.Problem.ShapesFor(kernels.Tune), nil)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := space.FromMap(map[string]any{"DO": do, "SALT": salt, "BLOCK": block})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// sanitizerScript stands in for compute-sanitizer: it tells the fake worker
// which tool it is under.
const sanitizerScript = `#!/bin/sh
if [ "$1" = --version ]; then echo "NVIDIA (R) Compute Sanitizer"; echo "Version 0.0 of the tests"; exit; fi
while [ $# -gt 0 ]; do
	case "$1" in
	--tool) EVOTUNE_FAKE_TOOL=$2; shift;;
	--log-file) EVOTUNE_FAKE_LOG=$2; shift;;
	/*) break;;
	esac
	shift
done
export EVOTUNE_FAKE_TOOL EVOTUNE_FAKE_LOG
"$@"
status=$?
echo "========= ERROR SUMMARY: 0 errors" >> "$EVOTUNE_FAKE_LOG"
exit $status
`

// fakeOptions are those of a backend with the fake worker. On a busy machine an honest answer may
// take long: who wants one that hangs cut off soon uses hanging.
func fakeOptions(tb testing.TB, env ...string) Options {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	bin := tb.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "compute-sanitizer"), []byte(sanitizerScript), 0o755); err != nil {
		tb.Fatal(err)
	}
	env = append([]string{fakeVariable + "=1", "EVOTUNE_FAKE_STATE=" + tb.TempDir()}, env...)
	var writes []string
	for _, e := range env {
		if _, path, _ := strings.Cut(e, "="); filepath.IsAbs(path) {
			writes = append(writes, path)
		}
	}
	return Options{
		Worker: self, CacheDir: filepath.Join(tb.TempDir(), "cache"), Timeout: time.Minute,
		CompileWorkers: 2, SanitizeWorkers: 1, compiler: fakeCompiler{}, programs: bin,
		workerEnv: env, workerWrites: writes,
	}
}

func openFake(tb testing.TB, o Options) (*lab, *evaluator.Ordeal) {
	tb.Helper()
	return openFakePlan(tb, o, fakePlan(tb))
}

// openFakePlan opens an ordeal, and checks at the end of the test that it left no
// process behind.
func openFakePlan(tb testing.TB, o Options, plan evaluator.Plan) (*lab, *evaluator.Ordeal) {
	tb.Helper()
	b, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	h, err := b.open(tb.Context(), plan)
	if err != nil {
		tb.Fatal(err)
	}
	ordeal, err := evaluator.NewOrdeal(tb.Context(), h, plan)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := ordeal.Close(); err != nil {
			tb.Error(err)
		}
		noneLeft(tb, o)
	})
	return h, ordeal
}

// noneLeft checks that no process of a backend is left: none that has the folder of its fake workers or of its
// cache in its environment, its command line or as where it runs. Two of one test that have these
// in common must not be open at once.
func noneLeft(tb testing.TB, o Options) {
	tb.Helper()
	left := append(family(os.Getpid(), stateOf(o)), family(os.Getpid(), o.CacheDir)...)
	if len(left) > 0 {
		tb.Errorf("processes left behind: %v", left)
	}
}

// family lists the living processes that come from one and name a folder; "" is in all of them.
func family(root int, folder string) (list []string) {
	parents := map[string]string{}
	names := map[string]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		text, err := os.ReadFile(filepath.Join(d, "stat"))
		if err != nil {
			continue
		}
		s := string(text)
		fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
		if len(fields) > 1 && fields[0] != "Z" {
			parents[filepath.Base(d)] = fields[1]
			names[filepath.Base(d)] = s[:min(len(s), 40)]
		}
	}
	for pid := range parents {
		for p := parents[pid]; p != "" && p != "1"; p = parents[p] {
			if p == fmt.Sprint(root) {
				if dir := filepath.Join("/proc", pid); folder == "" || strings.Contains(said(dir), folder) {
					list = append(list, names[pid])
				}
				break
			}
		}
	}
	return list
}

// said is what /proc has of a process that names the folders it works in.
func said(dir string) string {
	environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
	line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	where, _ := os.Readlink(filepath.Join(dir, "cwd"))
	return string(environment) + string(line) + where
}

func evaluate(tb testing.TB, ev evaluator.Evaluator, g genome.Genome) evaluator.Result {
	tb.Helper()
	r, err := ev.Evaluate(tb.Context(), g, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// build renders and compiles a candidate.
func build(tb testing.TB, h *lab, do string, salt int) evaluator.Artifact {
	tb.Helper()
	src, err := h.Plan.Implementations[0].Render(fakeGenome(tb, do, salt))
	if err != nil {
		tb.Fatal(err)
	}
	a, report, err := h.Build(tb.Context(), src)
	if err != nil || report.Refused != "" {
		tb.Fatal(report, err)
	}
	return a
}

// hanging evaluates a candidate that hangs at a check, with little time for its answers. On a busy
// machine that may be too little for what is honest of it: then it has more.
func hanging(tb testing.TB, h *lab, ev evaluator.Evaluator, check string, g func(try int) genome.Genome) evaluator.Result {
	tb.Helper()
	usual := h.options.Timeout
	defer func() { h.options.Timeout = usual }()
	h.options.Timeout = 500 * time.Millisecond
	for try := 0; ; try++ {
		r := evaluate(tb, ev, g(try))
		if r.Verdict != evaluator.Timeout || strings.HasPrefix(r.Reason, check+": ") || h.options.Timeout >= usual {
			return r
		}
		tb.Logf("within %v: %s", h.options.Timeout, r.Reason)
		h.options.Timeout *= 5
	}
}

func findEvidence(r evaluator.Result, check string) (evaluator.Evidence, bool) {
	for _, s := range r.Steps {
		i := slices.IndexFunc(s.Evidence, func(e evaluator.Evidence) bool { return e.Check == check })
		if i >= 0 {
			return s.Evidence[i], true
		}
	}
	return evaluator.Evidence{}, false
}

// TestVerdicts: TestHowCandidatesEndSessions has more faults.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	h, ev := openFake(t, fakeOptions(t))
	if len(h.sanitizers) != 4 {
		t.Fatalf("%d sanitizers work, want all: %+v", len(h.sanitizers), h.Desc.Tools)
	}
	for _, c := range []struct {
		do      string
		verdict evaluator.Verdict
		stage   evaluator.Stage
		reason  string
	}{
		{"nothing", evaluator.Correct, evaluator.StageBenchmark, ""},
		{"compile=error", evaluator.Compile, evaluator.StageCompile, "error: the fake refuses"},
		{"compile=block", evaluator.Compile, evaluator.StageCompile, "this must not be"},
		{"compile=wmma", evaluator.Compile, evaluator.StageCompile, "Cannot perform wmma load or store on local memory"},
		{"compile=stack", evaluator.Inspect, evaluator.StageInspect, "24 bytes per thread, allowed are 0"},
		{"parity=wrong", evaluator.Parity, evaluator.StageParity, "parity small seed 1: output y: error 0.5"},
		{"parity=bitten", evaluator.Parity, evaluator.StageParity, "parity small offset: output y: error 0.5"},
		{"parity=nan", evaluator.Parity, evaluator.StageParity, "3 of 64 elements are not finite"},
		{"parity=unwritten", evaluator.Parity, evaluator.StageParity, "5 of 64 elements were not written"},
		{"parity=guard", evaluator.Parity, evaluator.StageParity, "memory outside of buffer y was changed, at byte 260"},
		{"parity=input", evaluator.Parity, evaluator.StageParity, "input x was changed"},
		{"parity=different", evaluator.Parity, evaluator.StageParity, "not the same answer twice: 2 elements"},
		{"parity=fatal", evaluator.Launch, evaluator.StageParity, "illegal address"},
		{"parity=assert", evaluator.Correct, evaluator.StageBenchmark, ""}, // a release has no asserts
		{"parity=prints", evaluator.Correct, evaluator.StageBenchmark, ""},
		{"parity=hang", evaluator.Timeout, evaluator.StageParity, "parity small seed 1: no answer within"},
		{"parity=die", evaluator.Launch, evaluator.StageParity, "died, twice: the worker was killed by SIGKILL"},
		{"parity=garbage", evaluator.Launch, evaluator.StageParity, "died, twice: not a message"},
		{"parity=otherkind", evaluator.Launch, evaluator.StageParity, "answered a request for parity with launch"},
		{"parity=refuse", evaluator.Infrastructure, evaluator.StageParity, "the fake has no memory"},
		{"memcheck=report", evaluator.Sanitizer, evaluator.StageSanitize, "memcheck: Invalid __global__ write of size 4 bytes"},
		{"memcheck=flood", evaluator.Sanitizer, evaluator.StageSanitize, "memcheck: Invalid __global__ write of size 4 bytes"},
		{"memcheck=late", evaluator.Sanitizer, evaluator.StageSanitize, "memcheck: Invalid __global__ write"},
		{"memcheck=noise", evaluator.Correct, evaluator.StageBenchmark, ""},
		{"racecheck=report", evaluator.Sanitizer, evaluator.StageSanitize, "racecheck: Error: Race reported between Write access"},
		{"synccheck=fatal", evaluator.Sanitizer, evaluator.StageSanitize, "synccheck: cuCtxSynchronize failed: illegal address"},
		{"initcheck=hang", evaluator.Timeout, evaluator.StageSanitize, "initcheck: no answer within"},
		{"racecheck=die", evaluator.Sanitizer, evaluator.StageSanitize, "racecheck: the process that ran it died, twice"},
		{"time=fault", evaluator.Launch, evaluator.StageBenchmark, "cuLaunchKernel failed: invalid value"},
		{"time=fast", evaluator.Implausible, evaluator.StageBenchmark, "below the physical floor"},
		{"time=faststart", evaluator.Correct, evaluator.StageBenchmark, ""},
		{"time=clock", evaluator.Implausible, evaluator.StageBenchmark, "its clock disagrees"},
		{"time=after", evaluator.Parity, evaluator.StageBenchmark, "outputs after timing tuned: after timing: output y: error"},
		{"time=last", evaluator.Parity, evaluator.StageBenchmark, "outputs after timing tuned: after timing: output y: error"},
		{"time=tires", evaluator.Parity, evaluator.StageBenchmark, "outputs after timing tuned: after timing: output y: error"},
		{"time=guard", evaluator.Parity, evaluator.StageBenchmark, "after timing: memory outside of buffer y was changed, at byte -4"},
		{"time=input", evaluator.Parity, evaluator.StageBenchmark, "after timing: input x was changed"},
		{"time=die", evaluator.Launch, evaluator.StageBenchmark, "died, twice"},
		{"worker=flaky", evaluator.Correct, evaluator.StageBenchmark, ""},
		{"slow", evaluator.Correct, evaluator.StageBenchmark, ""},
	} {
		t.Run(c.do, func(t *testing.T) {
			var r evaluator.Result
			if check, _, hangs := strings.Cut(c.reason, ": no answer within"); hangs {
				r = hanging(t, h, ev, check, func(try int) genome.Genome { return fakeGenome(t, c.do, 1+try) })
			} else {
				r = evaluate(t, ev, fakeGenome(t, c.do, 1))
			}
			if r.Verdict != c.verdict || r.Stage != c.stage || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%s at %s: %s\nwant %s at %s: ...%s", r.Verdict, r.Stage, r.Reason, c.verdict, c.stage, c.reason)
			}
			// Whatever it did, the next one finds everything in order.
			if next := evaluate(t, ev, fakeGenome(t, "nothing", 2+slices.Index(does, c.do))); next.Verdict != evaluator.Correct {
				t.Errorf("the honest candidate after it: %s at %s: %s", next.Verdict, next.Stage, next.Reason)
			}
		})
	}
	t.Run("together", func(t *testing.T) { launchesTogether(t, h) })
}

// Every stage tells what launches took: those that take too long together are the candidate's fault.
func launchesTogether(t *testing.T, h *lab) {
	for _, stage := range []string{"parity", memcheck, schedules, "time"} {
		a := build(t, h, stage+"=long", 3)
		a.Allowed = evaluator.NewAllowance(20 * time.Second)
		var err error
		switch stage {
		case "parity", "time":
			purpose := map[string]evaluator.Purpose{"parity": evaluator.ForParity, "time": evaluator.ForTiming}[stage]
			s, opened := h.Open(t.Context(), purpose, a)
			if opened != nil {
				t.Fatal(opened)
			}
			if purpose == evaluator.ForParity {
				_, err = s.Compare(t.Context(), evaluator.CompareRequest{Shape: h.Plan.Sanitize})
			} else {
				var got evaluator.Sampled
				if got, err = sample(t, s, h, 1, false); err == nil && got.Series[0].Fault != nil {
					err = got.Series[0].Fault
				}
			}
			_, _ = s.Close()
		default:
			_, err = h.Launch(t.Context(), a, stage, h.Plan.Sanitize)
		}
		var own *evaluator.Fault
		if !errors.As(err, &own) || !own.Hang || own.Reason != "its launches took 21s together until now, and all of them may take 20s" {
			t.Errorf("%s: %v", stage, err)
		}
	}
}

// A debugCase is what the debug flavour says of a candidate, and the release.
type debugCase struct {
	do      string
	release evaluator.Verdict
	verdict evaluator.Verdict
	stage   evaluator.Stage
	reason  string
}

// TestDebugFlavour: asserts are alive, limits on the binary are not, nothing is
// timed, and neither flavour is taken for the other with one cache for both.
func TestDebugFlavour(t *testing.T) {
	t.Parallel()
	o := fakeOptions(t)
	o.ParityWorkers = 1 // for all of them, so that one meets what another left
	plan := fakePlan(t)
	plan.Debug = true
	list := []debugCase{
		{"nothing", evaluator.Correct, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"compile=stack", evaluator.Inspect, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"compile=block", evaluator.Compile, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"compile=wmma", evaluator.Compile, evaluator.Compile, evaluator.StageCompile, "Cannot perform wmma"},
		{"time=fast", evaluator.Implausible, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"memcheck=report", evaluator.Sanitizer, evaluator.Sanitizer, evaluator.StageSanitize, "memcheck: Invalid __global__ write"},
		{
			"parity=assert", evaluator.Correct, evaluator.Launch, evaluator.StageParity,
			"parity small seed 1: cuCtxSynchronize failed: assert (CUDA_ERROR_ASSERT, 710): kernel.cu:3: void fake(): block: [0,0,0], thread: [0,0,0] Assertion `i < N` failed.",
		},
		{"parity=prints", evaluator.Correct, evaluator.Correct, evaluator.StageBenchmark, ""},
		{"parity=fatal", evaluator.Launch, evaluator.Launch, evaluator.StageParity, "illegal address (CUDA_ERROR_ILLEGAL_ADDRESS, 700)"},
	}
	results := make([]evaluator.Result, len(list))
	t.Run("debug", func(t *testing.T) {
		_, debug := openFakePlan(t, o, plan)
		for i, c := range list {
			results[i] = evaluate(t, debug, fakeGenome(t, c.do, 1))
		}
	})
	_, release := openFake(t, o)
	for i, c := range list {
		t.Run(c.do, func(t *testing.T) {
			d, r := results[i], evaluate(t, release, fakeGenome(t, c.do, 1))
			if d.Verdict != c.verdict || d.Stage != c.stage || !strings.Contains(d.Reason, c.reason) {
				t.Errorf("debug: %s at %s: %s\nwant %s at %s: %s", d.Verdict, d.Stage, d.Reason, c.verdict, c.stage, c.reason)
			}
			if r.Verdict != c.release {
				t.Errorf("release: %s at %s: %s", r.Verdict, r.Stage, r.Reason)
			}
			if d.Fitness != 0 || len(d.Timings) != 0 {
				t.Errorf("debug: timed: %v", d.Timings)
			}
			if e, _ := findEvidence(d, "parity small seed 1"); strings.Contains(e.Detail, "Assertion of nothing") {
				t.Errorf("debug: another candidate's text is in its evidence: %+v", e)
			}
			if d.Source != r.Source || d.Binary != "" && (d.Binary == r.Binary || d.Key == r.Key) {
				t.Errorf("debug: source %s, binary %s, key %s; release: %s, %s, %s", d.Source, d.Binary, d.Key, r.Source, r.Binary, r.Key)
			}
		})
	}
	d := results[slices.IndexFunc(list, func(c debugCase) bool { return c.do == "parity=assert" })]
	if e, _ := findEvidence(d, "parity small seed 1"); strings.Count(e.Detail, "Assertion `i < N` failed.\n") < 2 {
		t.Errorf("the evidence has not all that was written: %+v", e)
	}
	if e, ok := findEvidence(d, memcheck); !ok || e.Outcome != evaluator.Passed {
		t.Errorf("memcheck did not look at it: %+v", e)
	}
}

func TestCorrectHasEvidence(t *testing.T) {
	t.Parallel()
	_, ev := openFake(t, fakeOptions(t))
	r := evaluate(t, ev, fakeBlock(t, "nothing", 3, 128))
	if r.Verdict != evaluator.Correct {
		t.Fatalf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	for check, want := range map[string]evaluator.Check{
		"compiler": evaluator.Passed, "blocking diagnostics": evaluator.Passed, "registers": evaluator.Passed, "stack frame": evaluator.Passed,
		"theoretical occupancy": evaluator.Passed,
		"parity small seed 3":   evaluator.Passed, "parity odd seed 1": evaluator.Passed, "parity tuned seed 1": evaluator.Passed,
		"parity small offset": evaluator.Passed, "parity odd zeros": evaluator.Passed,
		"parity tail": evaluator.NotRun, // blocks of 128 cannot
		"memcheck":    evaluator.Passed, "racecheck": evaluator.Passed, "synccheck": evaluator.Passed, "initcheck": evaluator.Passed,
		"floor tuned": evaluator.Passed, "clock tuned": evaluator.Passed, "outputs after timing tuned": evaluator.Passed,
		"latency tuned": evaluator.Passed, "conditions tuned": evaluator.Passed,
	} {
		e, ok := findEvidence(r, check)
		if !ok || e.Outcome != want {
			t.Errorf("%s: %+v, want %s", check, e, want)
		}
	}
	if e, _ := findEvidence(r, "parity odd seed 1"); e.Limit != 1e-5 || !(e.Value > 0 && e.Value < e.Limit) {
		t.Errorf("parity's evidence %+v", e)
	}
	if len(r.Timings) != 1 || len(r.Timings[0].SamplesNS) == 0 || len(r.Timings[0].SamplesNS) != len(r.Timings[0].BaselineNS) {
		t.Errorf("timings %+v", r.Timings)
	}
}

// TestBaselineSays: what a vendor's routine runs is evidence, in the finals too.
func TestBaselineSays(t *testing.T) {
	t.Parallel()
	const said = "cublasLt 12.9.1, best of 17 algorithms"
	_, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_SAID="+said))
	want := evaluator.Evidence{Check: "baseline tuned", Outcome: evaluator.Passed, Detail: said}
	if e, _ := findEvidence(evaluate(t, ev, fakeGenome(t, "nothing", 3)), want.Check); e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
	f, err := ev.Finals(t.Context(), []genome.Genome{fakeGenome(t, "nothing", 4), fakeGenome(t, "slow", 5)})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range f.Entries {
		n := 0
		for _, x := range e.Evidence {
			if x == want {
				n++
			}
		}
		if n != 1 {
			t.Errorf("entry %d has it %d times: %+v", i, n, e.Evidence)
		}
	}
}

// TestSameCode: the launch is part of what is timed, and comments are not.
func TestSameCode(t *testing.T) {
	t.Parallel()
	_, ev := openFake(t, fakeOptions(t))
	a := evaluate(t, ev, fakeBlock(t, "nothing", 5, 64))
	b := evaluate(t, ev, fakeBlock(t, "nothing", 5, 128))
	if a.Binary == b.Binary {
		t.Error("two launches of one code have one hash")
	}
}

// TestOutsideKill: a worker that somebody kills costs a retry and no verdict.
func TestOutsideKill(t *testing.T) {
	t.Parallel()
	h, ev := openFake(t, fakeOptions(t))
	for n := range 6 {
		done := make(chan evaluator.Result)
		go func() { done <- evaluate(t, ev, fakeGenome(t, "slow", 10+n)) }()
		time.Sleep(time.Duration(20+40*n) * time.Millisecond)
		g := h.gpus[0]
		for _, p := range g.pools() {
			p.mu.Lock()
			for w := range p.all {
				killOne(w.PID)
			}
			p.mu.Unlock()
		}
		if r := <-done; r.Verdict != evaluator.Correct {
			t.Errorf("kill %d: %s at %s: %s", n, r.Verdict, r.Stage, r.Reason)
		}
	}
}

func TestFinals(t *testing.T) {
	t.Parallel()
	_, ev := openFake(t, fakeOptions(t))
	finals := func(do ...string) evaluator.Finals {
		t.Helper()
		var list []genome.Genome
		for i, d := range do {
			list = append(list, fakeGenome(t, d, 20+i))
		}
		f, err := ev.Finals(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := finals("slow", "nothing")
	if f.Winner != 1 || f.VsRunnerUp == nil || !f.VsRunnerUp.Significant {
		t.Errorf("slow against fast: %+v", f)
	}
	for i, e := range f.Entries {
		if e.Verdict != evaluator.Correct || len(e.Timings) != 1 || len(e.HeldOut) != 2 {
			t.Errorf("entry %d: %s %s, %d timings, %d held out", i, e.Verdict, e.Reason, len(e.Timings), len(e.HeldOut))
		}
		if n := len(e.Timings[0].SamplesNS); n < 30 {
			t.Errorf("entry %d has %d samples", i, n)
		}
	}
	for do, want := range map[string]evaluator.Verdict{
		"time=fatal": evaluator.Launch, "time=after": evaluator.Parity, "time=die": evaluator.Launch, "time=fast": evaluator.Implausible,
		"load=fault": evaluator.Launch,
	} {
		f := finals(do, "nothing")
		if f.Winner != 1 || f.Entries[0].Verdict != want || f.Entries[1].Verdict != evaluator.Correct {
			t.Errorf("%s: winner %d, %s: %s; the other %s %s", do, f.Winner, f.Entries[0].Verdict, f.Entries[0].Reason, f.Entries[1].Verdict, f.Entries[1].Reason)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  string
		want error
	}{
		{"EVOTUNE_FAKE_CONTROL=passes", evaluator.ErrControl},
		{"EVOTUNE_FAKE_REFERENCE=wrong", ErrReference},
		{"EVOTUNE_FAKE_BASELINE=wrong", evaluator.ErrBaseline},
		{"EVOTUNE_FAKE_HELLO=fails", ErrWorker},
	} {
		t.Run(c.env, func(t *testing.T) {
			o := fakeOptions(t, c.env)
			b, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			h, err := evaluator.Open(t.Context(), b, fakePlan(t))
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if err == nil {
				_ = h.Close()
			}
			noneLeft(t, o)
		})
	}
}

// TestToolThatFindsNothing: a tool that does not find what was planted for it
// is missing, and its check is not run.
func TestToolThatFindsNothing(t *testing.T) {
	t.Parallel()
	h, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_BLIND=racecheck"))
	if len(h.sanitizers) != 3 {
		t.Fatalf("%d sanitizers work, want 3", len(h.sanitizers))
	}
	r := evaluate(t, ev, fakeGenome(t, "racecheck=report", 1))
	if e, _ := findEvidence(r, "racecheck"); e.Outcome != evaluator.NotRun || e.Detail == "" {
		t.Errorf("evidence %+v, want \"not run\" with the reason", e)
	}
}

// TestToolThatReported: a process in which a tool has reported a fault is not used again.
func TestToolThatReported(t *testing.T) {
	t.Parallel()
	h, ev := openFake(t, fakeOptions(t))
	p := h.gpus[0].tools[memcheck]
	workers := func() (pids []int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for w := range p.all {
			pids = append(pids, w.PID)
		}
		return pids
	}
	evaluate(t, ev, fakeGenome(t, "nothing", 1))
	before := workers()
	if r := evaluate(t, ev, fakeGenome(t, "memcheck=report", 1)); r.Verdict != evaluator.Sanitizer {
		t.Fatalf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	evaluate(t, ev, fakeGenome(t, "nothing", 2))
	if after := workers(); len(before) != 1 || slices.Contains(after, before[0]) {
		t.Errorf("workers %v, then %v", before, after)
	}
}

// TestToolThatReportsAtTheEnd: where reports come only when the process ends,
// every candidate has a process of its own.
func TestToolThatReportsAtTheEnd(t *testing.T) {
	t.Parallel()
	h, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_LATE=memcheck"))
	if i := slices.IndexFunc(h.sanitizers, func(s *sanitizer) bool { return s.name == memcheck }); i < 0 || !h.sanitizers[i].late {
		t.Fatalf("memcheck is not known to be late: %+v", h.Desc.Tools)
	}
	if r := evaluate(t, ev, fakeGenome(t, "memcheck=report", 1)); r.Verdict != evaluator.Sanitizer {
		t.Errorf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	if r := evaluate(t, ev, fakeGenome(t, "nothing", 1)); r.Verdict != evaluator.Correct {
		t.Errorf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
}

func TestCancelAndClose(t *testing.T) {
	h, ev := openFake(t, fakeOptions(t))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	begin := time.Now()
	if _, err := ev.Evaluate(ctx, fakeGenome(t, "parity=hang", 9), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
	if d := time.Since(begin); d > h.options.Timeout/2 {
		t.Errorf("it took %v to give up", d)
	}
	done := make(chan error)
	go func() {
		_, err := ev.Evaluate(t.Context(), fakeGenome(t, "parity=hang", 8), 0)
		done <- err
	}()
	time.Sleep(200 * time.Millisecond)
	if err := ev.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		if err == nil {
			t.Error("an evaluation survived Close")
		}
	case <-time.After(h.options.Timeout / 2):
		t.Error("an evaluation is still under way after Close")
	}
}

// TestTwoLabsOnOneGPU: labs of one process take turns on a GPU, as if they were one, also
// after one of them has closed.
func TestTwoLabsOnOneGPU(t *testing.T) {
	state := t.TempDir()
	o := fakeOptions(t, "EVOTUNE_FAKE_APART="+state)
	labs := make([]*lab, 3)
	ordeals := make([]*evaluator.Ordeal, len(labs))
	for i := range labs {
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		plan := fakePlan(t)
		if labs[i], err = b.open(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		if ordeals[i], err = evaluator.NewOrdeal(t.Context(), labs[i], plan); err != nil {
			t.Fatal(err)
		}
		defer ordeals[i].Close() //nolint:errcheck // as a rule it was closed before
	}
	evaluate := func(which ...int) {
		t.Helper()
		var wait sync.WaitGroup
		for _, i := range which {
			for worker := range 4 {
				wait.Go(func() {
					for n := range 3 {
						r, err := ordeals[i].Evaluate(t.Context(), fakeGenome(t, "nothing", 30+worker*3+n), 0)
						if err != nil || r.Verdict != evaluator.Correct {
							t.Errorf("lab %d: %s: %s, %v", i, r.Verdict, r.Reason, err)
						}
					}
				})
			}
		}
		wait.Wait()
	}
	evaluate(0, 1, 2)
	if err := ordeals[1].Close(); err != nil {
		t.Error(err)
	}
	evaluate(0, 2)
	if clash, _ := filepath.Glob(filepath.Join(state, "clash-*")); len(clash) > 0 {
		t.Errorf("timed work met other work: %v", clash)
	}
	for _, i := range []int{0, 2} {
		if u := labs[i].Usage(); !(u.Measuring > 0 && u.Measuring <= u.Reserved && u.Reserved < 1) {
			t.Errorf("lab %d: usage %+v", i, u)
		}
		if err := ordeals[i].Close(); err != nil {
			t.Error(err)
		}
	}
	if len(commons.of) != 0 {
		t.Errorf("all labs are closed, and GPUs are held for %d", len(commons.of))
	}
}

// TestManyAtOnce: many candidates, faulty ones among them, share the workers,
// and timed work never meets other work.
func TestManyAtOnce(t *testing.T) {
	state := t.TempDir()
	h, ev := openFake(t, fakeOptions(t, "EVOTUNE_FAKE_APART="+state))
	faulty := []string{"nothing", "slow", "nothing", "parity=wrong", "nothing", "parity=fatal", "memcheck=report", "nothing", "time=fatal", "racecheck=report"}
	begin := time.Now()
	var wait sync.WaitGroup
	const each = 5
	for worker := range 8 {
		wait.Go(func() {
			for n := range each {
				do := faulty[(worker+n*3)%len(faulty)]
				r, err := ev.Evaluate(t.Context(), fakeGenome(t, do, 30+worker*each+n), 0)
				if err != nil {
					t.Error(err)
					continue
				}
				want := evaluator.Correct
				switch {
				case do == "parity=wrong":
					want = evaluator.Parity
				case strings.HasSuffix(do, "=fatal"):
					want = evaluator.Launch
				case strings.HasSuffix(do, "=report"):
					want = evaluator.Sanitizer
				}
				if r.Verdict != want {
					t.Errorf("%s: %s at %s: %s", do, r.Verdict, r.Stage, r.Reason)
				}
			}
		})
	}
	wait.Wait()
	g := h.gpus[0].gate.Usage()
	u := h.Usage()
	t.Logf("%d candidates in %v: %d timed in %d phases, measuring %.1f%%, reserved %.1f%%",
		8*each, time.Since(begin).Round(time.Millisecond), g.Entries, g.Phases, 100*u.Measuring, 100*u.Reserved)
	if !(u.Measuring > 0 && u.Measuring <= u.Reserved && u.Reserved < 1) {
		t.Errorf("usage %+v", u)
	}
	if g.Phases >= g.Entries {
		t.Errorf("%d timings in %d phases: none came in together", g.Entries, g.Phases)
	}
	for stage, n := range u.Stages {
		if n != 0 {
			t.Errorf("%d candidates are still in %s", n, stage)
		}
	}
	if clash, _ := filepath.Glob(filepath.Join(state, "clash-*")); len(clash) > 0 {
		t.Errorf("timed work met other work: %v", clash)
	}
}
