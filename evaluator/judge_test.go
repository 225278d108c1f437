package evaluator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// rows writes evidence as "check outcome".
func rows(list []Evidence) (out []string) {
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s %s", e.Check, e.Outcome))
	}
	return out
}

func at[T any](x T) *T { return &x }

// times makes a function that fails with err the first n times.
func times(n int, err error) func() error {
	return func() error {
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

// What an honest candidate's evidence looks like, check by check.
func TestEvidence(t *testing.T) {
	l := newLab()
	l.missing = []Tool{{Name: "tsan", Missing: "install it"}, {Name: "objdump", Missing: "no"}, {Name: "asan"}}
	r := judged(t, l, labPlan())
	if r.Verdict != Correct || math.Abs(r.Fitness-0.8) > 0.02 || len(r.Timings) != 1 {
		t.Fatalf("%s %s, fitness %g", r.Verdict, r.Reason, r.Fitness)
	}
	var got []string
	for _, s := range r.Steps {
		got = append(got, fmt.Sprintf("%s %s", s.Stage, s.Outcome))
		for _, row := range rows(s.Evidence) {
			got = append(got, "  "+row)
		}
	}
	bites := func(shape string) (list []string) {
		for _, name := range strings.Fields("offset ramp outliers constant ties negative positive ends tiny sparse zeros somewhere") {
			list = append(list, "  parity "+shape+" "+name+" passed")
		}
		return list
	}
	want := slices.Concat([]string{
		"render passed",
		"compile passed", "  compiler passed", "  blocking diagnostics passed", "  binary passed",
		"inspect passed", "  requires ^vfm passed", "  forbids ^div passed",
		"parity passed", "  parity small seed 1 passed", "  parity small seed 2 passed", "  parity small seed 3 passed",
	}, bites("small"), []string{
		"  parity odd seed 1 passed", "  parity odd seed 2 passed", "  parity odd seed 3 passed",
	}, bites("odd"), []string{
		"  parity main seed 1 passed",
		"sanitize passed", "  asan passed", "  memcheck passed", "  tsan not run",
		"benchmark passed", "  outputs after timing main passed", "  clock main passed", "  floor main passed", "  conditions main passed",
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if pools := r.Timings[0].Pools; !slices.Equal(pools, []string{"pool 1"}) {
		t.Errorf("timed on contents of %q", pools)
	}
	if l.open != 0 {
		t.Errorf("%d sessions are still open", l.open)
	}
}

// Each way of failing gives its verdict, in its stage, with the name of its check.
func TestVerdicts(t *testing.T) {
	seen := func(change func(*Observation)) func(CompareRequest) (Observation, error) {
		return func(r CompareRequest) (Observation, error) {
			o := Observation{Outputs: []Output{right}, Threads: 1}
			if r.Shape.Name == "odd" && r.Contents == 1 {
				change(&o)
			}
			return o, nil
		}
	}
	output := func(w Output) func(*Observation) {
		return func(o *Observation) { w.Name, w.Elements = "y", 70; o.Outputs = []Output{right, w} }
	}
	comparing := func(err error) func(CompareRequest) (Observation, error) {
		return func(r CompareRequest) (Observation, error) {
			if r.Shape.Name == "main" {
				return Observation{}, err
			}
			return Observation{Outputs: []Output{right}}, nil
		}
	}
	tool := func(name string, f Findings, err error) func(string) (Findings, error) {
		return func(t string) (Findings, error) {
			if t != name {
				return Findings{Outputs: []Output{right}}, nil
			}
			return f, err
		}
	}
	after := func(change func(*Observation)) func(SampleRequest) Observation {
		n := 0
		return func(SampleRequest) Observation {
			o := Observation{Outputs: []Output{right}, Threads: 1}
			if n++; n == 4 {
				change(&o)
			}
			return o
		}
	}
	last := func(change func(*Observation)) func(SampleRequest) Observation {
		return func(r SampleRequest) Observation {
			o := Observation{Outputs: []Output{right}, Threads: 1}
			if r.Last {
				change(&o)
			}
			return o
		}
	}
	lost := &Lost{Reason: "killed"}
	const odd, tuned = "parity odd seed 2: ", "parity main seed 1: "
	for _, c := range []struct {
		name    string
		change  func(l *scriptedLab, a *actor)
		stage   Stage
		verdict Verdict
		reason  string // begins so
		check   string // of the evidence that failed, or was not run
	}{
		{"refused", func(_ *scriptedLab, a *actor) { a.build = BuildReport{Refused: "k.c:1: error: no", Log: "much"} }, StageCompile, Compile, "k.c:1: error: no", "compiler"},
		{"geometry", func(_ *scriptedLab, a *actor) { a.build.Geometry = "2048 threads in a block" }, StageCompile, Render, "2048 threads", "launch geometry"},
		{"blocking", func(_ *scriptedLab, a *actor) { a.build.Log = "fine\nit spills badly here\n" }, StageCompile, Compile, "a diagnostic that blocks: it spills badly here", "blocking diagnostics"},
		{"blocking on a GPU", func(l *scriptedLab, a *actor) {
			l.kind, a.build.Log = "cuda", "warning: Cannot perform wmma load or store on local memory"
		}, StageCompile, Compile, "a diagnostic that blocks: warning: Cannot", "blocking diagnostics"},
		{"registers that ptxas does not move", func(l *scriptedLab, a *actor) {
			l.kind, a.build.Log = "cuda", "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry."
		}, StageCompile, Compile, "a diagnostic that blocks: ptxas info : (C7508) Potential", "blocking diagnostics"},
		{"products that ptxas serializes", func(l *scriptedLab, a *actor) {
			l.kind, a.build.Log = "cuda", "fine\nptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'k'\n"
		}, StageCompile, Compile, "a diagnostic that blocks: ptxas info : (C7510) Potential", "blocking diagnostics"},
		{"no entry", func(_ *scriptedLab, a *actor) { a.inspection.Refused = "there is no entry" }, StageInspect, Inspect, "entry: there is no entry", "entry"},
		{"lacks", func(_ *scriptedLab, a *actor) { a.inspection.Instructions = Instructions{"ret": 1} }, StageInspect, Inspect, "requires ^vfm: no instruction", "requires ^vfm"},
		{"has", func(_ *scriptedLab, a *actor) { a.inspection.Instructions = Instructions{"vfma": 1, "divps": 2} }, StageInspect, Inspect, "forbids ^div: 2 instructions of the binary match ^div (divps)", "forbids ^div"},

		{"guard", func(_ *scriptedLab, a *actor) { a.compare = seen(func(o *Observation) { o.Guard = "wrote behind y" }) }, StageParity, Parity, odd + "wrote behind y", "parity odd seed 2"},
		{"input", func(_ *scriptedLab, a *actor) {
			a.compare = seen(func(o *Observation) { o.InputChanged = "x changed" })
		}, StageParity, Parity, odd + "x changed", "parity odd seed 2"},
		{"error", func(_ *scriptedLab, a *actor) { a.compare = seen(output(Output{Error: 2e-3})) }, StageParity, Parity, odd + "output y: error 0.002", "parity odd seed 2"},
		{"NaN error", func(_ *scriptedLab, a *actor) { a.compare = seen(output(Output{Error: math.NaN()})) }, StageParity, Parity, odd + "output y: error NaN", "parity odd seed 2"},
		{"not finite", func(_ *scriptedLab, a *actor) { a.compare = seen(output(Output{NotFinite: 2})) }, StageParity, Parity, odd + "output y: 2 of 70 elements are not finite", "parity odd seed 2"},
		{"unwritten", func(_ *scriptedLab, a *actor) { a.compare = seen(output(Output{Unwritten: 3})) }, StageParity, Parity, odd + "output y: 3 of 70 elements were not written", "parity odd seed 2"},
		{"nothing compared", func(_ *scriptedLab, a *actor) { a.compare = seen(func(o *Observation) { o.Outputs = nil }) }, StageParity, Parity, odd + "no output was compared", "parity odd seed 2"},
		{"different", func(_ *scriptedLab, a *actor) { a.compare = seen(func(o *Observation) { o.Different = "y[1]" }) }, StageParity, Parity, odd + "not the same answer twice: y[1]", "parity odd seed 2"},
		{"threads", func(_ *scriptedLab, a *actor) { a.compare = seen(func(o *Observation) { o.Threads = 2 }) }, StageParity, Launch, odd + "left threads running: 2 where its definition declares 1", "parity odd seed 2"},
		{"crash", func(_ *scriptedLab, a *actor) { a.compare = comparing(&Fault{Reason: "SIGSEGV"}) }, StageParity, Launch, tuned + "SIGSEGV", "parity main seed 1"},
		{"hang", func(_ *scriptedLab, a *actor) { a.compare = comparing(&Fault{Hang: true, Reason: "no answer"}) }, StageParity, Timeout, tuned + "no answer", "parity main seed 1"},
		{"write to an input", func(_ *scriptedLab, a *actor) { a.compare = comparing(&Fault{Wrote: true, Reason: "wrote to x"}) }, StageParity, Parity, tuned + "wrote to x", "parity main seed 1"},
		{"lost, always", func(_ *scriptedLab, a *actor) { a.compare = comparing(lost) }, StageParity, Launch, tuned + "the process that ran it died, twice: killed", "parity main seed 1"},
		{"load", func(_ *scriptedLab, a *actor) {
			a.open = func(Purpose) error { return &Fault{Reason: "undefined symbol"} }
		}, StageParity, Launch, "load: undefined symbol", "load"},
		{"end", func(_ *scriptedLab, a *actor) {
			a.end = func(Purpose) ([]Evidence, error) { return nil, &Fault{Reason: "left a process"} }
		}, StageParity, Launch, "end of the process: left a process", "end of the process"},

		{"finding", func(_ *scriptedLab, a *actor) {
			a.launch = tool("asan", Findings{By: "ubsan", Found: "overflow"}, nil)
		}, StageSanitize, Sanitizer, "ubsan: overflow", "ubsan"},
		{"finding and crash", func(_ *scriptedLab, a *actor) {
			a.launch = tool("asan", Findings{By: "asan", Found: "overflow"}, &Fault{Reason: "SIGABRT"})
		}, StageSanitize, Sanitizer, "asan: overflow; SIGABRT", "asan"},
		{"crash under a tool", func(_ *scriptedLab, a *actor) { a.launch = tool("memcheck", Findings{}, &Fault{Reason: "SIGILL"}) }, StageSanitize, Sanitizer, "memcheck: SIGILL", "memcheck"},
		{"hang under a tool", func(_ *scriptedLab, a *actor) {
			a.launch = tool("memcheck", Findings{}, &Fault{Hang: true, Reason: "no answer"})
		}, StageSanitize, Timeout, "memcheck: no answer", "memcheck"},
		{"lost under a tool, always", func(_ *scriptedLab, a *actor) { a.launch = tool("asan", Findings{}, lost) }, StageSanitize, Sanitizer, "asan: the process that ran it died, twice", "asan"},
		{"wrong under a tool", func(_ *scriptedLab, a *actor) {
			a.launch = tool("asan", Findings{Outputs: []Output{{Name: "y", Error: 1}}}, nil)
		}, StageSanitize, Sanitizer, "asan: in this build, where memory that was not written holds junk, output y", "asan"},
		{"wrong in one of several launches", func(_ *scriptedLab, a *actor) {
			a.launch = tool("asan", Findings{Ran: "20 launches", Observed: map[string]Observation{
				"small": {Outputs: []Output{right}}, "odd": {Outputs: []Output{right}, Different: "3 elements differ"},
			}}, nil)
		}, StageSanitize, Sanitizer, "asan: shape odd: not the same answer twice: 3 elements differ", "asan"},
		{"wrong in all of several launches", func(_ *scriptedLab, a *actor) {
			a.launch = tool("asan", Findings{Ran: "20 launches", Observed: map[string]Observation{"small": {Outputs: []Output{{Name: "y", Error: 1}}}}}, nil)
		}, StageSanitize, Sanitizer, "asan: shape small: output y: error 1", "asan"},
		{"several launches without an output", func(_ *scriptedLab, a *actor) {
			a.launch = tool("asan", Findings{Ran: "20 launches", Observed: map[string]Observation{"small": {}}}, nil)
		}, StageSanitize, Sanitizer, "asan: shape small: no output was compared", "asan"},

		{"wrong after timing", func(_ *scriptedLab, a *actor) { a.after = after(output(Output{Error: 1})) }, StageBenchmark, Parity, "outputs after timing main: after timing: output y: error 1", "outputs after timing main"},
		{"guard after timing", func(_ *scriptedLab, a *actor) { a.after = last(func(o *Observation) { o.Guard = "wrote" }) }, StageBenchmark, Parity, "outputs after timing main: after timing: wrote", "outputs after timing main"},
		{"input after timing", func(_ *scriptedLab, a *actor) { a.after = last(func(o *Observation) { o.InputChanged = "x" }) }, StageBenchmark, Parity, "outputs after timing main: after timing: x", "outputs after timing main"},
		{"threads after timing", func(_ *scriptedLab, a *actor) { a.after = last(func(o *Observation) { o.Threads = 3 }) }, StageBenchmark, Launch, "outputs after timing main: after timing: left threads running: 3", "outputs after timing main"},
		{"nothing compared after timing", func(_ *scriptedLab, a *actor) {
			a.after = func(SampleRequest) Observation { return Observation{} }
		}, StageBenchmark, Parity, "outputs after timing main: no output was compared", "outputs after timing main"},
		{"clock", func(_ *scriptedLab, a *actor) { a.claims = liar(1.3, 1) }, StageBenchmark, Implausible, "clock main: its clock disagrees with evotune's: of ", "clock main"},
		{"no clock", func(l *scriptedLab, a *actor) {
			l.kind = "cuda"
			a.claims = func(r Reading, _ float64, _ *rand.Rand) Reading { r.WallNS = 0; return r }
		}, StageBenchmark, Implausible, "clock main: ", "clock main"},
		{"work elsewhere", func(l *scriptedLab, a *actor) { l.kind, a.claims = "cuda", liar(1.5, 1) }, StageBenchmark, Implausible, "clock main: ", "clock main"},
		{"undeclared threads", func(_ *scriptedLab, a *actor) { a.ns, a.working = 30e3, 4 }, StageBenchmark, Implausible, "clock main: ", "clock main"},
		{"floor", func(_ *scriptedLab, a *actor) { a.ns = 8.5e3 }, StageBenchmark, Implausible, "floor main: a launch took ", "floor main"},
		{"no time", func(_ *scriptedLab, a *actor) {
			a.claims = func(r Reading, _ float64, _ *rand.Rand) Reading { r.NS = 0; r.CPUNS, r.WallNS = 1, 1; return r }
		}, StageBenchmark, Implausible, "", ""},
		{"crash while timed", func(_ *scriptedLab, a *actor) {
			a.fault = func(Purpose, SampleRequest) error { return &Fault{Reason: "SIGBUS"} }
		}, StageBenchmark, Launch, "benchmark main: SIGBUS", "benchmark main"},
		{"write to an input while timed", func(_ *scriptedLab, a *actor) {
			a.fault = func(Purpose, SampleRequest) error { return &Fault{Wrote: true, Reason: "wrote to x"} }
		}, StageBenchmark, Parity, "benchmark main: wrote to x", "benchmark main"},
		{"hang while timed", func(_ *scriptedLab, a *actor) {
			a.fault = func(_ Purpose, r SampleRequest) error {
				if r.Last {
					return &Fault{Hang: true, Reason: "no answer"}
				}
				return nil
			}
		}, StageBenchmark, Timeout, "benchmark main: no answer", "benchmark main"},
		{"lost while timed, always", func(_ *scriptedLab, a *actor) {
			a.fault = func(Purpose, SampleRequest) error { return lost }
		}, StageBenchmark, Launch, "benchmark main: the process that ran it died, twice", "benchmark main"},
		{"bad end", func(_ *scriptedLab, a *actor) {
			a.end = func(p Purpose) ([]Evidence, error) {
				if p == ForTiming {
					return nil, &Fault{Reason: "status 3"}
				}
				return nil, nil
			}
		}, StageBenchmark, Launch, "end of the process: status 3", "end of the process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab()
			c.change(l, l.actors["1"])
			r := judged(t, l, labPlan())
			if r.Verdict != c.verdict || r.Stage != c.stage || !strings.HasPrefix(r.Reason, c.reason) || r.Fitness != 0 {
				t.Errorf("%s in %s: %q", r.Verdict, r.Stage, r.Reason)
			}
			s := r.Steps[len(r.Steps)-1]
			i := slices.IndexFunc(s.Evidence, func(e Evidence) bool { return e.Check == c.check && e.Outcome == Failed })
			if s.Outcome != Failed || i < 0 && c.check != "" {
				t.Errorf("the last step is %s: %v", s.Outcome, rows(s.Evidence))
			}
			if _, err := json.Marshal(r); err != nil {
				t.Errorf("the result cannot be stored: %v", err)
			}
			if l.open != 0 {
				t.Errorf("%d sessions are still open", l.open)
			}
		})
	}
}

// twoOutputs is the definition with another output, whose tolerance is its own, and outputs are
// their errors.
var twoOutputs = strings.Replace(labDefinition, "[problem.tolerance]",
	"[[problem.buffer]]\nname = \"z\"\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"out\"\ntolerance = 1e-1\n[problem.tolerance]", 1)

func outputs(y, z float64) []Output { return []Output{{Name: "y", Error: y}, {Name: "z", Error: z}} }

// An output with a tolerance of its own is held to it, and the others to that of their
// type; so are the controls and what a timed launch left.
func TestOwnTolerance(t *testing.T) {
	p := planOf(twoOutputs)
	for _, c := range []struct {
		y, z, after float64
		verdict     Verdict
		reason      string
	}{
		{1e-4, 5e-2, 5e-2, Correct, ""},
		{5e-2, 1e-4, 1e-4, Parity, "output y: error 0.05 of the reference's scale at element 0 (0 where 0 is right), allowed is 0.001"},
		{1e-4, 5e-1, 1e-4, Parity, "output z: error 0.5 of the reference's scale at element 0 (0 where 0 is right), allowed is 0.1"},
		{1e-4, 5e-2, 5e-1, Parity, "output z: error 0.5"},
	} {
		l := newLab()
		a := l.actors["1"]
		a.compare = func(CompareRequest) (Observation, error) {
			return Observation{Outputs: outputs(c.y, c.z), Threads: 1}, nil
		}
		a.after = func(SampleRequest) Observation { return Observation{Outputs: outputs(c.y, c.after), Threads: 1} }
		a.launch = func(string) (Findings, error) { return Findings{Outputs: outputs(c.y, c.z)}, nil }
		r := judged(t, l, p)
		if r.Verdict != c.verdict || !strings.Contains(r.Reason, c.reason) {
			t.Errorf("errors of %g and %g, then %g: %s, %q, want %s, %q", c.y, c.z, c.after, r.Verdict, r.Reason, c.verdict, c.reason)
		}
	}
	// A control that z alone passes is refused by y, and one that both pass is not.
	for y, want := range map[float64]bool{1: true, 5e-4: false} {
		l := newLab()
		l.control = func(kernels.Control, kernels.Shape) ([]Output, error) { return outputs(y, 5e-2), nil }
		if _, err := newJudge(t.Context(), l, p); (err == nil) != want {
			t.Errorf("a control with an error of %g: %v", y, err)
		}
	}
}

// Who is implausible is looked at again: peaks measured again, a fresh session
// and no incumbent; and never more than once.
func TestSecondLook(t *testing.T) {
	higher := func(p Peaks) Peaks { p.Rates["f32/1"] *= 1.2; return p }
	for _, c := range []struct {
		name    string
		change  func(l *scriptedLab, a *actor)
		verdict Verdict
		first   Check
	}{
		{"below the floor", func(_ *scriptedLab, a *actor) { a.ns = 8.5e3 }, Implausible, Failed},
		{"the peaks were too low", func(l *scriptedLab, a *actor) { a.ns = 8.5e3; l.measure = higher }, Correct, Passed},
		{"its first reading only", func(l *scriptedLab, a *actor) {
			first := true
			a.open = func(p Purpose) error { first = p != ForFinals; return nil }
			a.claims = func(r Reading, _ float64, _ *rand.Rand) Reading {
				if first {
					r.NS, r.CPUNS, r.WallNS = r.NS/10, r.CPUNS/10, r.WallNS/10
				}
				return r
			}
		}, Correct, Passed},
		{"a liar in its first session only", func(l *scriptedLab, a *actor) {
			fresh := false
			a.open = func(p Purpose) error { fresh = p == ForFinals; return nil }
			a.claims = func(r Reading, _ float64, rng *rand.Rand) Reading {
				if fresh {
					return r
				}
				return liar(1.5, 1)(r, 1, rng)
			}
		}, Correct, Passed},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab()
			c.change(l, l.actors["1"])
			r := judged(t, l, labPlan())
			if r.Verdict != c.verdict {
				t.Errorf("%s: %s", r.Verdict, r.Reason)
			}
			if e := r.Steps[len(r.Steps)-1].Evidence[0]; e.Check != "first measurement" || e.Outcome != c.first {
				t.Errorf("%+v", e)
			}
			if p, first, again := l.calls("peaks"), l.calls("open 1"), l.calls("open 2"); p != 1 || first != 1 || again != 1 {
				t.Errorf("peaks measured %d times, %d sessions and %d fresh ones", p, first, again)
			}
		})
	}
}

// What is wrong after a batch ends the sampling at once.
func TestWrongEndsSampling(t *testing.T) {
	l := newLab()
	l.actors["1"].after = func(SampleRequest) Observation {
		if l.asked < 4 {
			return Observation{Outputs: []Output{right}}
		}
		return Observation{Outputs: []Output{right}, Guard: "wrote behind y"}
	}
	if r := judged(t, l, labPlan()); r.Verdict != Parity || l.asked != 4 {
		t.Errorf("%s after %d rounds", r.Verdict, l.asked)
	}
}

// What is compared with the baseline's answer may be farther from it by the error
// that the baseline has; what is compared with the reference may not.
func TestLimitAfterTiming(t *testing.T) {
	for _, against := range []bool{false, true} {
		l := newLab()
		own := right
		own.Error = 1e-4
		l.baseline[""].compare = func(CompareRequest) (Observation, error) {
			return Observation{Outputs: []Output{own}, Threads: 1}, nil
		}
		far := right
		far.Error = 1.1e-3 // of 1e-3
		l.actors["1"].after = func(SampleRequest) Observation {
			return Observation{Outputs: []Output{far}, Threads: 1, AgainstBaseline: against}
		}
		if r := judged(t, l, labPlan()); (r.Verdict == Correct) != against {
			t.Errorf("against the baseline %t: %s: %s", against, r.Verdict, r.Reason)
		}
	}
}

// A process that was lost once is started again, at every stage.
func TestLostOnce(t *testing.T) {
	l := newLab()
	a := l.actors["1"]
	gone := &Lost{Reason: "killed"}
	comparing, launching, sampling := times(1, gone), times(1, gone), times(1, gone)
	a.compare = func(r CompareRequest) (Observation, error) {
		o := Observation{Outputs: []Output{right}}
		if r.Shape.Name == "main" {
			return o, comparing()
		}
		return o, nil
	}
	a.launch = func(tool string) (Findings, error) {
		if tool == "asan" {
			return Findings{Outputs: []Output{right}}, launching()
		}
		return Findings{Outputs: []Output{right}}, nil
	}
	a.fault = func(_ Purpose, r SampleRequest) error {
		if r.Last {
			return sampling()
		}
		return nil
	}
	r := judged(t, l, labPlan())
	if r.Verdict != Correct {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	if s, _ := r.Step(StageParity); len(s.Evidence) != 7+2*12 {
		t.Errorf("evidence of the lost process is kept: %v", rows(s.Evidence))
	}
}

// What cannot be run is "not run", which is never "passed".
// Who does not answer in time has more of it once, where the machine is busy.
func TestPatience(t *testing.T) {
	for _, say := range []string{"", "others use 95% of the cores"} {
		l := newLab()
		l.weather.say = say
		var comparisons, samples []time.Duration
		slow := func(limit time.Duration, seen *[]time.Duration) error {
			*seen = append(*seen, limit)
			if limit < 20*time.Second {
				return &Fault{Hang: true, Reason: "no answer"}
			}
			return nil
		}
		l.actors["1"].compare = func(r CompareRequest) (Observation, error) {
			return Observation{Outputs: []Output{right}}, slow(r.Limit, &comparisons)
		}
		l.actors["1"].fault = func(_ Purpose, r SampleRequest) error { return slow(r.Limit, &samples) }
		r := judged(t, l, labPlan())
		if say == "" {
			if r.Verdict != Timeout || len(comparisons) != 1 {
				t.Errorf("calm: %s after %v", r.Verdict, comparisons)
			}
			continue
		}
		if r.Verdict != Correct || comparisons[0] != 5*time.Second || comparisons[1] != 20*time.Second || samples[0] != 5*time.Second || samples[1] != 20*time.Second {
			t.Errorf("busy: %s: %s, after %v and %v", r.Verdict, r.Reason, comparisons, samples)
		}
	}
}

// A candidate none of whose launches takes too long may still take too long as a whole. On a
// busy machine it gets more time, once.
func TestAllowance(t *testing.T) {
	for _, c := range []struct {
		name           string
		each, baseline time.Duration
		say            string
		verdict        Verdict
		reason         string
		compared       int
	}{
		{"honest", 500 * time.Millisecond, 0, "", Correct, "", 31},
		{"sleeps", 4 * time.Second, 0, "", Timeout, "its launches took 24s together until now, and all of them may take 20s", 6},
		{"on a busy machine", 2 * time.Second, 0, "others use 95% of the cores", Correct, "", 11 + 31},
		{"sleeps on a busy machine", 4 * time.Second, 0, "others use 95% of the cores", Timeout, "took 1m24s together until now, and all of them may take 1m20s", 6 + 21},
		{"beside a slow baseline", 4 * time.Second, 100 * time.Millisecond, "", Correct, "", 31},
	} {
		l := newLab()
		l.weather.say = c.say
		n := 0
		l.actors["1"].compare = func(CompareRequest) (Observation, error) {
			n++
			return Observation{Outputs: []Output{right}, Elapsed: c.each}, nil
		}
		l.baseline[""].compare = func(CompareRequest) (Observation, error) {
			return Observation{Outputs: []Output{right}, Elapsed: c.baseline}, nil
		}
		if r := judged(t, l, labPlan()); r.Verdict != c.verdict || !strings.Contains(r.Reason, c.reason) || n != c.compared {
			t.Errorf("%s: %s after %d comparisons: %s", c.name, r.Verdict, n, r.Reason)
		}
	}
}

// What launches of all stages take adds up, in the search and in finals.
func TestAllowanceOfAllStages(t *testing.T) {
	l := newLab()
	a := l.actors["1"]
	const each = 290 * time.Millisecond
	a.compare = func(CompareRequest) (Observation, error) {
		return Observation{Outputs: []Output{right}, Elapsed: each}, nil
	}
	a.launch = func(string) (Findings, error) {
		return Findings{Outputs: []Output{right}, Elapsed: 4 * time.Second}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			launch  float64 // nanoseconds, while it is timed
			verdict Verdict
			finals  string // the reason
		}{
			{1e6, Correct, ""},
			{1.5e9, Timeout, "took 21."}, // in the second set of processes, which begins anew
		} {
			a.ns = c.launch
			j, err := newJudge(t.Context(), l, labPlan())
			if err != nil {
				t.Fatal(err)
			}
			o := newOrdeal(j, labPlan())
			g := labGenome(t, labPlan(), 1)
			if r, err := o.Evaluate(t.Context(), g, 0); err != nil || r.Verdict != c.verdict || r.Stage != StageBenchmark || r.Verdict == Timeout && !strings.Contains(r.Reason, "and all of them may take 20s") {
				t.Errorf("%g: %s of %s: %s, %v", c.launch, r.Verdict, r.Stage, r.Reason, err)
			}
			f, err := o.Finals(t.Context(), []genome.Genome{g})
			if err != nil || f.Entries[0].Verdict != c.verdict || !strings.Contains(f.Entries[0].Reason, c.finals) {
				t.Errorf("%g: finals: %+v, %v", c.launch, f.Entries[0], err)
			}
		}
	})
}

// What is left of one stage is of no use in the next.
func TestAllowanceLapses(t *testing.T) {
	a := NewAllowance(20)
	a.grant(100)
	if err := a.Spend(60); err != nil || a.Limit() != 100 {
		t.Error(err, a.Limit())
	}
	a.grant(5)
	a.extend(2)
	if err := a.Spend(7); err != nil || a.Limit() != 67 {
		t.Error(err, a.Limit())
	}
	var own *Fault
	if err := a.Spend(1); !errors.As(err, &own) || !own.Hang {
		t.Error(err)
	}
	if err := a.Spend(-1); err != nil {
		t.Error(err)
	}
	var none *Allowance
	none.grant(1)
	none.again(0)
	if err := errors.Join(none.Spend(2), new(Allowance).Spend(2)); err != nil || none.Limit() != 0 {
		t.Error(err)
	}
}

// On a disturbed machine an attempt may take longer. That neither holds for later stages nor multiplies what
// earlier ones took.
func TestAllowanceOfPatience(t *testing.T) {
	const s = time.Second
	a := NewAllowance(20 * s)
	limit := func(want time.Duration) {
		t.Helper()
		if got := a.Limit(); got != want {
			t.Errorf("limit %s, want %s", got, want)
		}
	}
	a.grant(5 * s)
	limit(20 * s)
	a.again(0)
	limit(80 * s)
	if err := a.Spend(60 * s); err != nil {
		t.Error(err)
	}
	a.calm()
	a.grant(2 * s)
	limit(62 * s)
	a.extend(1 * s)
	limit(63 * s)
	a.again(60 * s)
	limit(80 * s) // 20 s four times
	a.extend(3 * s)
	limit(84 * s) // 60 s, and 6 s four times
	if err := a.Spend(25 * s); err == nil {
		t.Error("more was spent than allowed")
	}
}

// Every stage that launches a candidate bounds its launches together, and none those of the baseline.
func TestAllowedInEachStage(t *testing.T) {
	l := newLab()
	l.baseline[""].compare = func(r CompareRequest) (Observation, error) {
		took := time.Millisecond
		if r.Shape.Name == labPlan().Tune[0].Name {
			took = 30 * time.Millisecond
		}
		return Observation{Outputs: []Output{right}, Elapsed: took}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		j, err := newJudge(t.Context(), l, labPlan())
		if err != nil {
			t.Fatal(err)
		}
		o := newOrdeal(j, labPlan())
		g := labGenome(t, labPlan(), 1)
		if r, err := o.Evaluate(t.Context(), g, 0); err != nil || r.Verdict != Correct {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := o.Finals(t.Context(), []genome.Genome{g}); err != nil {
			t.Fatal(err)
		}
		launch := func(n int) time.Duration { return allowance * time.Duration(n) * 30 * time.Millisecond }
		for key, allowed := range l.allowed {
			switch {
			case strings.HasPrefix(key, "baseline"):
				if allowed != 0 {
					t.Errorf("%s: %s", key, allowed)
				}
			case strings.Contains(key, "parity"):
				if allowed != leastAllowed {
					t.Errorf("%s: %s", key, allowed)
				}
			case allowed < launch(20) || allowed > launch(200):
				t.Errorf("%s: %s", key, allowed)
			}
		}
		for _, key := range []string{"baseline  parity", "candidate 1 parity", "candidate 1 asan", "candidate 1 timing", "candidate 1 finals"} {
			if _, ok := l.allowed[key]; !ok {
				t.Errorf("nothing is known of %q: %v", key, l.allowed)
			}
		}
	})
}

func TestUnsupported(t *testing.T) {
	l := newLab()
	a := l.actors["1"]
	a.unsupported = map[string]string{"small": "too small for its tiles"}
	a.inspection = Inspection{NotCounted: "objdump is not installed", Measures: []Measure{{Check: "stack frame", NotRead: "the compiler does not tell"}}}
	r := judged(t, l, labPlan())
	if r.Verdict != Correct {
		t.Fatalf("%s: %s", r.Verdict, r.Reason)
	}
	var got []string
	for _, s := range r.Steps {
		if s.Outcome == NotRun {
			got = append(got, string(s.Stage))
		}
		for _, e := range s.Evidence {
			if e.Outcome == NotRun {
				got = append(got, e.Check+": "+e.Detail)
			}
		}
	}
	want := []string{
		"inspect", "stack frame: the compiler does not tell", "instructions: objdump is not installed",
		"mnemonic ^vfm: objdump is not installed", "mnemonic ^div: objdump is not installed",
		"parity small: too small for its tiles", "sanitize", "asan: too small for its tiles", "memcheck: too small for its tiles",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	l = newLab()
	l.actors["1"].launch = func(string) (Findings, error) { return Findings{NotRun: "AVX-512"}, nil }
	if s, _ := judged(t, l, labPlan()).Step(StageSanitize); s.Outcome != NotRun {
		t.Errorf("sanitizers that did not run: %s", s.Outcome)
	}
}

// What no tool looks at is told in every result, and does not hide what others saw.
func TestUnseen(t *testing.T) {
	l := newLab()
	l.kind, l.actors["1"].threads, l.baseline[""].threads = "cuda", 0, 0
	s, _ := judged(t, l, labPlan()).Step(StageSanitize)
	told := slices.ContainsFunc(s.Evidence, func(e Evidence) bool {
		return e.Check == "races in global memory" && e.Outcome == NotRun && e.Detail != ""
	})
	if !told || s.Outcome != Passed {
		t.Errorf("%+v", s)
	}
}

func TestInspectionBounds(t *testing.T) {
	measures := []Measure{
		{Check: "stack frame", Value: 64, Unit: "bytes", Bound: MaxStack, Detail: "f"},
		{Check: "registers", Value: 128, Bound: MaxRegisters},
		{Check: "spills", Value: 8, Unit: "bytes", Bound: MaxSpill},
		{Check: "local memory", Value: 4, Unit: "instructions", Bound: LocalMemory},
		{Check: "shared memory", Value: 1e6, Unit: "bytes"},
	}
	for _, c := range []struct {
		name   string
		bounds kernels.Binary
		failed []string
		reason string
	}{
		{"none", kernels.Binary{}, nil, ""},
		{"kept", kernels.Binary{MaxStack: at[int64](64), MaxRegisters: at[int64](128), MaxSpill: at[int64](8)}, nil, ""},
		{"stack", kernels.Binary{MaxStack: at[int64](63)}, []string{"stack frame"}, "stack frame: f 64 bytes, allowed are 63"},
		{"no stack", kernels.Binary{MaxStack: at[int64](0)}, []string{"stack frame", "local memory"}, "stack frame: f 64 bytes, allowed are 0"},
		{"registers", kernels.Binary{MaxRegisters: at[int64](127)}, []string{"registers"}, "registers: 128 , allowed are 127"},
		{"spills", kernels.Binary{MaxSpill: at[int64](0)}, []string{"spills"}, "spills: 8 bytes, allowed are 0"},
	} {
		l := newLab()
		l.actors["1"].inspection = Inspection{Measures: measures}
		j := &judge{lab: l, rules: rulesOf("cpu")}
		a := l.artifact("candidate 1", l.actors["1"])
		a.Source.Implementation = &kernels.Implementation{Binary: c.bounds}
		out, err := j.Inspect(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range out.Evidence {
			if e.Outcome == Failed {
				got = append(got, e.Check)
			}
		}
		if !slices.Equal(got, c.failed) || out.Reason != c.reason || (out.Verdict == Inspect) != (c.reason != "") {
			t.Errorf("%s: %v, %s %q", c.name, got, out.Verdict, out.Reason)
		}
	}
}

// What is wrong must fail the tolerance; what happens to be right says nothing.
func TestControls(t *testing.T) {
	answer := func(errors map[string]float64) func(kernels.Control, kernels.Shape) ([]Output, error) {
		return func(c kernels.Control, s kernels.Shape) ([]Output, error) {
			e, ok := errors[s.Name]
			if !ok || c.Kind != kernels.Mean {
				e = 1
			}
			if e < 0 {
				return nil, nil
			}
			return []Output{{Name: "y", Error: e}}, nil
		}
	}
	for _, c := range []struct {
		name   string
		kind   string
		errors map[string]float64
		want   string
	}{
		{"refused", "cpu", nil, ""},
		{"passes", "cpu", map[string]float64{"odd": 1e-4}, `kernel scripted: the control "constant" passes at shape odd with an error of 0.0001`},
		{"the right answer at one shape", "cpu", map[string]float64{"small": 1e-15}, ""},
		{"not made at one shape", "cpu", map[string]float64{"small": -1}, ""},
		{"the right answer everywhere", "cpu", map[string]float64{"small": 0, "odd": 0, "main": 0}, `the control "constant" says nothing at any of the shapes small, odd, main:`},
		{"not made anywhere", "cpu", map[string]float64{"small": -1, "odd": -1, "main": -1}, `the control "constant" says nothing at any of the shapes small, odd, main:`},
		{"NaN is refused", "cpu", map[string]float64{"odd": math.NaN()}, ""},
		{"at the tuned shape of a CPU", "cpu", map[string]float64{"main": 1e-4}, "passes at shape main"},
		{"at the tuned shape of a GPU", "cuda", map[string]float64{"main": 1e-4}, "passes at shape main"},
	} {
		l := newLab()
		l.kind, l.control = c.kind, answer(c.errors)
		_, err := newJudge(t.Context(), l, labPlan())
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!errors.Is(err, ErrControl) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A file of one kernel may leave out shapes: the others must say something.
	for where, want := range map[string]string{"N >= 1000": "passes at shape main", "N >= 70": "any of the shapes odd, main:"} {
		l := newLab()
		p := planOf(strings.Replace(labDefinition, "[implementation.baseline]", "[[implementation.constraint]]\nexpr = \""+where+"\"\nwhy = \"it is written so\"\n[implementation.baseline]", 1))
		l.control = answer(map[string]float64{"odd": 0, "main": map[bool]float64{true: 1e-4, false: 0}[where == "N >= 1000"]})
		if _, err := newJudge(t.Context(), l, p); !errors.Is(err, ErrControl) || !strings.Contains(err.Error(), want) {
			t.Errorf("where %s: %v", where, err)
		}
	}
	l := newLab()
	broken := errors.New("no space left")
	l.control = func(kernels.Control, kernels.Shape) ([]Output, error) { return nil, broken }
	if _, err := newJudge(t.Context(), l, labPlan()); !errors.Is(err, broken) || errors.Is(err, ErrControl) {
		t.Errorf("a failure of the machine: %v", err)
	}
}

// The controls that every definition has are tried at tuned shapes. One that passes there is told,
// and refuses the problem if the plan is strict.
func TestUndeclaredControls(t *testing.T) {
	returned := func(out string) kernels.Control {
		return kernels.Control{Kind: kernels.Returned, Buffers: []string{"x", out}}
	}
	left := kernels.Control{Kind: kernels.LeftOut}
	for _, c := range []struct {
		name    string
		control kernels.Control
		outputs []Output
		want    []Unproven
	}{
		{"refused", left, outputs(2e-3, 1), nil},
		{"work left out of one output", left, outputs(1, 0.05), []Unproven{{"work left out", "main", "z", 0.5}}},
		{"the same answer without the work", left, outputs(0, 1), []Unproven{{"work left out", "main", "y", 0}}},
		{"not made", left, nil, nil},
		{"an input returned", returned("y"), outputs(1e-3, 0)[:1], []Unproven{{"x returned as y", "main", "y", 1}}},
		{"an input that is the answer", returned("z"), outputs(0, 0)[1:], nil},
		{"an input that is not", returned("z"), outputs(0, 0.2)[1:], nil},
		{"not finite", left, []Output{{Name: "y", NotFinite: 1}}, nil},
		{"NaN", left, outputs(math.NaN(), 1), nil},
	} {
		l := newLab()
		l.control = func(asked kernels.Control, s kernels.Shape) ([]Output, error) {
			if s.Name == "main" && reflect.DeepEqual(asked, c.control) {
				return c.outputs, nil
			}
			return outputs(1, 1), nil
		}
		p := planOf(twoOutputs)
		o, err := NewOrdeal(t.Context(), l, p)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, o.Describe().Unproven); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		doubts, err := o.Doubts(t.Context())
		if len(doubts) != len(c.want) || err != nil {
			t.Errorf("%s: doubts %q, %v", c.name, doubts, err)
		}
		p.Strict = true
		_, err = newJudge(t.Context(), l, p)
		if len(c.want) == 0 && err != nil || len(c.want) > 0 && (!errors.Is(err, ErrControl) || !strings.Contains(err.Error(), c.want[0].String())) {
			t.Errorf("%s, strictly: %v", c.name, err)
		}
	}
	for d, want := range map[*Description]string{
		{}: "",
		{Shapes: []string{"main"}, Unproven: []Unproven{{"work left out", "main", "y", 0.5}}}:           `not proven: the control "work left out" passes here`,
		{Shapes: []string{"wide", "main"}, Unproven: []Unproven{{"x returned as y", "main", "y", 0.5}}}: `not proven: the control "x returned as y" passes at main`,
	} {
		if got := d.NotProven(); got != want {
			t.Errorf("%+v: %q, want %q", d, got, want)
		}
	}
}

// Where the reference leaves elements unwritten, at most half of an output may be passed
// over: else the definition is at fault, and no candidate.
func TestUnwritten(t *testing.T) {
	outputs := func(skipped int64) []Output {
		return []Output{{Name: "y", Error: 1e-7, Elements: 71, Skipped: skipped}}
	}
	compare := func(skipped int64, only func(CompareRequest) bool) func(CompareRequest) (Observation, error) {
		return func(r CompareRequest) (Observation, error) {
			if !only(r) {
				return Observation{Outputs: outputs(0)}, nil
			}
			return Observation{Outputs: outputs(skipped)}, nil
		}
	}
	declared := func(r CompareRequest) bool { return r.Further == "" && r.Shape.Name == "odd" && r.Contents == 1 }
	const want = "36 of 71 elements of output y are not compared, and at most half may be"
	for _, c := range []struct {
		name   string
		change func(l *scriptedLab)
		want   string
	}{
		{"half", func(l *scriptedLab) { l.baseline[""].compare = compare(35, declared) }, ""},
		{"more", func(l *scriptedLab) { l.baseline[""].compare = compare(36, declared) }, "kernel scripted, parity odd seed 2: " + want},
		{"in a control", func(l *scriptedLab) {
			l.control = func(kernels.Control, kernels.Shape) ([]Output, error) {
				o := outputs(36)
				o[0].Error = 1
				return o, nil
			}
		}, "kernel scripted, shape small: " + want},
		{"edge-case inputs", func(l *scriptedLab) {
			l.baseline[""].compare = compare(71, func(r CompareRequest) bool { return r.Further != "" })
		}, ""},
	} {
		l := newLab()
		c.change(l)
		j, err := newJudge(t.Context(), l, labPlan())
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!errors.Is(err, ErrUnwritten) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name == "edge-case inputs" && (len(j.further) == 0 || len(j.silent) == 0) {
			t.Errorf("edge-case inputs on which nothing is compared are not silent: %v of %v", j.silent, j.further)
		}
	}
}

// The baseline must leave what the reference leaves: timed launches are compared with it.
// A candidate, and the baseline on contents that nobody is timed with, may write there.
func TestSurplus(t *testing.T) {
	writes := func(only func(CompareRequest) bool) func(CompareRequest) (Observation, error) {
		return func(r CompareRequest) (Observation, error) {
			o := Output{Name: "y", Error: 1e-7, Elements: 71, Skipped: 35}
			if only(r) {
				o.Surplus = 3
			}
			return Observation{Outputs: []Output{o}}, nil
		}
	}
	l := newLab()
	l.baseline[""].compare = writes(func(r CompareRequest) bool { return r.Further != "" })
	l.actors["1"].compare = writes(func(CompareRequest) bool { return true })
	if r := judged(t, l, labPlan()); r.Verdict != Correct {
		t.Errorf("a candidate that writes what it need not: %s: %s", r.Verdict, r.Reason)
	}
	l = newLab()
	l.baseline[""].compare = writes(func(r CompareRequest) bool { return r.Shape.Name == "odd" && r.Contents == 2 })
	const want = "kernel scripted, the scripted baseline, parity odd seed 3: it writes 3 of the 35 elements of output y that the reference leaves NaN"
	if _, err := newJudge(t.Context(), l, labPlan()); !errors.Is(err, ErrBaseline) || !strings.Contains(err.Error(), want) {
		t.Errorf("a baseline that writes them: %v", err)
	}
}

// At most half of an output is passed over in timed launches, too, whose contents are
// others than parity's: alone, though other rounds were worse otherwise, and in the finals.
func TestUnwrittenWhileTimed(t *testing.T) {
	for _, c := range []struct {
		skipped int64
		want    string
	}{{50, ""}, {51, "kernel scripted, while it is timed at shape main: 51 of 100 elements of output y are not compared"}} {
		l := newLab()
		l.actors["1"].after = func(r SampleRequest) Observation {
			o, more := right, right
			o.Error *= 2
			more.Skipped = c.skipped
			if r.Last {
				o = more
			}
			return Observation{Outputs: []Output{o}, Threads: 1}
		}
		synctest.Test(t, func(t *testing.T) {
			j, err := newJudge(t.Context(), l, labPlan())
			if err != nil {
				t.Fatal(err)
			}
			r, err := newOrdeal(j, labPlan()).Evaluate(t.Context(), labGenome(t, labPlan(), 1), 0)
			switch {
			case err != nil:
				t.Error(err)
			case c.want == "" && r.Verdict != Correct, c.want != "" && (r.Verdict != Infrastructure || !strings.Contains(r.Reason, c.want)):
				t.Errorf("%d of 100: %s: %s", c.skipped, r.Verdict, r.Reason)
			}
			_, err = newOrdeal(j, labPlan()).Finals(t.Context(), []genome.Genome{labGenome(t, labPlan(), 1)})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrUnwritten) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d of 100 in the finals: %v", c.skipped, err)
			}
		})
	}
}

// A panic costs one candidate its verdict: in a stage, and in a sanitizer's goroutine. In the
// finals it is an error.
func TestPanic(t *testing.T) {
	const want = "evotune failed at judge_test.go:"
	for stage, spoil := range map[Stage]func(a *actor){
		StageParity:   func(a *actor) { a.compare = func(CompareRequest) (Observation, error) { panic("no shape") } },
		StageSanitize: func(a *actor) { a.launch = func(string) (Findings, error) { panic("no shape") } },
		StageFinals:   func(a *actor) { a.open = func(p Purpose) error { panic(p) } },
	} {
		l := newLab()
		j, err := newJudge(t.Context(), l, labPlan())
		if err != nil {
			t.Fatal(err)
		}
		spoil(l.actors["1"])
		g := labGenome(t, labPlan(), 1)
		if stage == StageFinals {
			if _, err := newOrdeal(j, labPlan()).Finals(t.Context(), []genome.Genome{g}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("in the finals: %v", err)
			}
			continue
		}
		r, err := newOrdeal(j, labPlan()).Evaluate(t.Context(), g, 0)
		if err != nil || r.Verdict != Infrastructure || r.Stage != stage || !strings.Contains(r.Reason, want) {
			t.Errorf("in %s: %s at %s: %s, %v", stage, r.Verdict, r.Stage, r.Reason, err)
		}
	}
}

// How far apart launches were, where they may be, is in the evidence.
func TestRepeats(t *testing.T) {
	l := newLab()
	l.actors["1"].compare = func(CompareRequest) (Observation, error) {
		return Observation{Outputs: []Output{{Name: "y", Error: 1e-7, Elements: 70}}, Repeats: "reproducible to 3.1e-07 of the RMS from the first launch, as declared"}, nil
	}
	s, _ := judged(t, l, labPlan()).Step(StageParity)
	i := slices.IndexFunc(s.Evidence, func(e Evidence) bool { return e.Check == "parity odd seed 2" })
	if s.Outcome != Passed || i < 0 || s.Evidence[i].Detail != "reproducible to 3.1e-07 of the RMS from the first launch, as declared" {
		t.Errorf("%s: %+v", s.Outcome, s.Evidence)
	}
}

// The baseline is proven before anything rests on it.
func TestBaselines(t *testing.T) {
	wrong := func(CompareRequest) (Observation, error) {
		return Observation{Outputs: []Output{{Name: "y", Error: 1}}}, nil
	}
	for _, c := range []struct {
		name   string
		change func(l *scriptedLab)
		want   string
	}{
		{"right", func(*scriptedLab) {}, ""},
		{"wrong", func(l *scriptedLab) { l.baseline[""].compare = wrong }, "kernel scripted, the scripted baseline: parity: parity small seed 1: output y"},
		{"refused", func(l *scriptedLab) { l.baseline[""].build.Refused = "error: no" }, "compile: at shape small: error: no"},
		{"sanitizer", func(l *scriptedLab) {
			l.baseline[""].launch = func(string) (Findings, error) { return Findings{By: "asan", Found: "overflow"}, nil }
		}, "sanitizer: asan: overflow"},
		{"a vendor's routine is not sanitized", func(l *scriptedLab) {
			l.vendor = true
			l.baseline[""].launch = func(string) (Findings, error) { return Findings{By: "asan", Found: "overflow"}, nil }
		}, ""},
		{"cannot compute a verify shape", func(l *scriptedLab) { l.baseline[""].unsupported = map[string]string{"odd": "70 is odd"} }, ""},
		{"cannot compute a tuned shape", func(l *scriptedLab) { l.baseline[""].unsupported = map[string]string{"main": "1000"} }, "compile: it cannot compute the tuned shape main: 1000"},
		{"another is wrong, at its shape", func(l *scriptedLab) {
			l.baseline["main"] = &actor{ns: 100e3, threads: 1, compare: wrong}
		}, "parity: parity main seed 1: output y"},
		{"another would be wrong where it is not used", func(l *scriptedLab) {
			l.baseline["main"] = &actor{ns: 100e3, threads: 1, compare: func(r CompareRequest) (Observation, error) {
				if r.Shape.Name != "main" {
					return wrong(r)
				}
				return Observation{Outputs: []Output{right}}, nil
			}}
		}, ""},
	} {
		l := newLab()
		c.change(l)
		_, err := newJudge(t.Context(), l, labPlan())
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!errors.Is(err, ErrBaseline) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	l := newLab()
	for range 2 {
		if _, err := newJudge(t.Context(), l, labPlan()); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.calls("launch"); n != len(l.tools) {
		t.Errorf("a baseline that passed is sanitized again: %d launches", n)
	}
	l.tools = append(l.tools, "tsan")
	if _, err := newJudge(t.Context(), l, labPlan()); err != nil || l.calls("launch") != 5 {
		t.Errorf("with another tool: %d launches, %v", l.calls("launch"), err)
	}
}

// Edge-case contents fail a candidate; where it is the baseline that they fail, or the
// reference has no answer, they are silent.
func TestFurther(t *testing.T) {
	wrong := func(name string) func(CompareRequest) (Observation, error) {
		return func(r CompareRequest) (Observation, error) {
			o := Observation{Outputs: []Output{right}, Threads: 1}
			if r.Further == name {
				o.Outputs = []Output{{Name: "y", Error: 0.5, Elements: 70}}
			}
			return o, nil
		}
	}
	check := func(r Result, name string) Evidence {
		s, _ := r.Step(StageParity)
		for _, e := range s.Evidence {
			if e.Check == name {
				return e
			}
		}
		return Evidence{}
	}
	l := newLab()
	l.actors["1"].compare = wrong("outliers")
	if r := judged(t, l, labPlan()); r.Verdict != Parity || !strings.HasPrefix(r.Reason, "parity small outliers: output y: error 0.5") {
		t.Errorf("a candidate that is wrong with outliers: %s %s", r.Verdict, r.Reason)
	}

	l.baseline[""].compare = wrong("outliers")
	r := judged(t, l, labPlan())
	e := check(r, "parity odd outliers")
	if r.Verdict != Correct || e.Outcome != NotRun || !strings.HasPrefix(e.Detail, "the baseline is wrong there: output y: error 0.5") {
		t.Errorf("where the baseline is wrong, too: %s %s, %+v", r.Verdict, r.Reason, e)
	}
	if n := l.calls("compare candidate 1 odd outliers"); n != 0 {
		t.Errorf("silent contents were compared: %d", n)
	}

	l = newLab()
	silent := func(r CompareRequest) (Observation, error) {
		if r.Further == "ends" {
			return Observation{NotCompared: "infinite"}, nil
		}
		return Observation{Outputs: []Output{right}, Threads: 1}, nil
	}
	l.actors["1"].compare, l.baseline[""].compare = silent, silent
	r = judged(t, l, labPlan())
	if e := check(r, "parity odd ends"); r.Verdict != Correct || e.Outcome != NotRun || e.Detail != "infinite" {
		t.Errorf("a reference without an answer: %s %s, %+v", r.Verdict, r.Reason, e)
	}

	// A baseline that is wrong in any other way is wrong.
	l = newLab()
	l.baseline[""].compare = func(r CompareRequest) (Observation, error) {
		o := Observation{Outputs: []Output{right}, Threads: 1}
		if r.Further == "ties" {
			o.Guard = "wrote behind y"
		}
		return o, nil
	}
	if _, err := newJudge(t.Context(), l, labPlan()); !errors.Is(err, ErrBaseline) || !strings.Contains(err.Error(), "parity small ties: wrote behind y") {
		t.Errorf("a baseline that writes elsewhere: %v", err)
	}
}

// A candidate meets edge-case contents at the sanitize shape and at the first verify
// shape that it can compute, and the baseline, which answers for them, at all.
func TestFurtherShapes(t *testing.T) {
	l := newLab()
	plan := labPlan()
	second := plan.Verify[0]
	second.Name = "second"
	same := plan.Sanitize
	same.Name, same.Use = "same", kernels.Verify // contents that were met at the sanitize shape
	plan.Verify = append([]kernels.Shape{same}, append(slices.Clone(plan.Verify), second)...)
	judged(t, l, plan)
	for call, want := range map[string]int{
		"compare candidate 1 small ramp": 1, "compare candidate 1 odd ramp": 1, "compare candidate 1 second ramp": 0,
		"compare baseline  small ramp": 1, "compare baseline  odd ramp": 1, "compare baseline  second ramp": 1,
		"compare candidate 1 main ramp": 0, "compare baseline  main ramp": 0,
		"compare candidate 1 same ramp": 0, "compare baseline  same ramp": 0, "compare candidate 1 same": 3,
	} {
		if n := l.calls(call); n != want {
			t.Errorf("%s: %d times, want %d", call, n, want)
		}
	}
	l = newLab()
	l.actors["1"].unsupported = map[string]string{"odd": "70 is odd"}
	judged(t, l, plan)
	if n := l.calls("compare candidate 1 second ramp"); n != 1 {
		t.Errorf("a candidate that cannot compute the first verify shape: %d at the second", n)
	}
}

// Doubts are what lint asks: contents that are silent, and a tolerance that hides half of
// an output.
func TestDoubts(t *testing.T) {
	l := newLab()
	l.baseline[""].compare = func(r CompareRequest) (Observation, error) {
		o := Observation{Outputs: []Output{right}, Threads: 1}
		if r.Further == "offset" && r.Shape.Name == "odd" {
			o.Outputs = []Output{{Name: "y", Error: 0.5}}
		}
		return o, nil
	}
	l.control = func(c kernels.Control, s kernels.Shape) ([]Output, error) {
		if c.Kind == kernels.Halved && s.Name == "small" {
			return []Output{{Name: "y", Error: 1e-4}}, nil
		}
		return []Output{{Name: "y", Error: 1}}, nil
	}
	o, err := NewOrdeal(t.Context(), l, labPlan())
	if err != nil {
		t.Fatal(err)
	}
	got, err := o.Doubts(t.Context())
	want := []string{
		"parity odd offset says nothing: the baseline is wrong there: output y: error 0.5 of the reference's scale at element 0 (0 where 0 is right), allowed is 0.001: " +
			"narrow the domain of an input, or correct the baseline",
		"the tolerance of 0.001 hides half of output y at shape small: with the smaller half of it zero the error is 0.0001: lower the tolerance, or choose data for which the outputs are alike in size",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// The limits follow what the baseline takes.
func TestLimit(t *testing.T) {
	l := newLab()
	l.baseline[""].ns = 100e6
	b, err := newJudge(t.Context(), l, labPlan())
	if err != nil {
		t.Fatal(err)
	}
	j := b
	if got := j.limit(kernels.Shape{Name: "main"}); got != 20*time.Second {
		t.Errorf("a launch may take %v", got)
	}
	j.usual["main"] = time.Microsecond
	if got := j.limit(kernels.Shape{Name: "main"}); got != 5*time.Second {
		t.Errorf("a short launch may take %v", got)
	}
	if got := j.limit(kernels.Shape{Name: "unknown"}); got != 0 {
		t.Errorf("without a baseline a launch may take %v", got)
	}
}

// A measurement that never settles ends in time, is told with what disturbed it,
// is not tried again, and is not the answer for another genome of the binary.
func TestUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab()
		l.weather = busy
		l.actors["1"] = &actor{ns: 20e6, threads: 2} // it waits in each of its batches
		p := labPlan()
		b, err := newJudge(t.Context(), l, p)
		if err != nil {
			t.Fatal(err)
		}
		o := newOrdeal(b, p)
		for range 2 {
			l.log = nil
			begin := time.Now()
			r, err := o.Evaluate(t.Context(), labGenome(t, p, 1), 0)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != Infrastructure || r.Stage != StageBenchmark || r.SharedWith != "" ||
				!strings.Contains(r.Disturbed, "others use 95% of the cores") || r.Reason != "time main: "+r.Disturbed {
				t.Errorf("%s in %s: %q, disturbed by %q", r.Verdict, r.Stage, r.Reason, r.Disturbed)
			}
			if took := time.Since(begin); took < settleTime || took > settleTime+10*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := l.calls("open 1"); n != 1 || l.calls("peaks") > 0 {
				t.Errorf("measured %d times, peaks %d times", n, l.calls("peaks"))
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		}
	})
}

// Below the floor on a busy machine: what the peaks of that machine may explain
// is nobody's fault, after a second look; what they cannot explain is.
func TestFloorOnABusyMachine(t *testing.T) {
	for _, c := range []struct {
		ns   float64
		say  string
		want Verdict
	}{{7e3, "others use a core", Infrastructure}, {5e3, "others use a core", Implausible}, {7e3, "", Implausible}} {
		l := newLab()
		l.actors["1"].ns = c.ns
		l.weather.say = c.say
		l.weather.slices = 0
		r := judged(t, l, labPlan())
		if r.Verdict != c.want || (r.Disturbed != "") != (c.want == Infrastructure) || l.calls("peaks") != 1 || l.calls("open 2") != 1 {
			t.Errorf("%g ns, %q: %s %q, disturbed by %q", c.ns, c.say, r.Verdict, r.Reason, r.Disturbed)
		}
		if e := r.Steps[len(r.Steps)-1].Evidence; e[0].Check != "first measurement" || e[0].Outcome != Failed {
			t.Errorf("the first look: %v", rows(e))
		}
	}
}

// A failure of the machine at any step is an error, and retried.
func TestMachineFails(t *testing.T) {
	broken := errors.New("no space left")
	l := newLab()
	fail := times(2, broken)
	l.actors["1"].fault = func(Purpose, SampleRequest) error { return fail() }
	if r := judged(t, l, labPlan()); r.Verdict != Correct || l.calls("open 1") != 3 {
		t.Errorf("%s %q after %d sessions", r.Verdict, r.Reason, l.calls("open 1"))
	}
	l = newLab()
	l.actors["1"].fault = func(Purpose, SampleRequest) error { return broken }
	if r := judged(t, l, labPlan()); r.Verdict != Infrastructure || r.Disturbed != "" || !strings.Contains(r.Reason, "no space left") {
		t.Errorf("%s %q, disturbed by %q", r.Verdict, r.Reason, r.Disturbed)
	}
}

func TestMergeObservations(t *testing.T) {
	bad := []Output{{Name: "y", Error: math.NaN(), NotFinite: 1}, {Name: "y", Unwritten: 1}, {Name: "y", Error: 0.5}}
	part := right
	part.Skipped = 7
	for _, b := range bad {
		for _, first := range []bool{true, false} {
			var o Observation
			for _, x := range []bool{first, !first} {
				if x {
					o.merge(Observation{Outputs: []Output{b}, Guard: "g", Threads: 3})
				} else {
					o.merge(Observation{Outputs: []Output{part}, InputChanged: "i", Different: "d", Threads: 1})
				}
			}
			got := o.Outputs[0]
			if len(o.Outputs) != 1 || got.NotFinite != b.NotFinite || got.Unwritten != b.Unwritten || b.Error == 0.5 && got.Error != 0.5 || got.Skipped != 7 {
				t.Errorf("%+v is forgotten: %+v", b, o.Outputs)
			}
			if o.Guard != "g" || o.InputChanged != "i" || o.Different != "d" || o.Threads != 3 {
				t.Errorf("%+v", o)
			}
		}
	}
}

// A kind of device without rules is not judged by another kind's.
func TestUnknownKind(t *testing.T) {
	l := newLab()
	l.kind = "abacus"
	if _, err := newJudge(t.Context(), l, labPlan()); err == nil || !strings.Contains(err.Error(), `no rules for devices of the kind "abacus"`) {
		t.Error(err)
	}
}

// TestDebugIsNotOptimized: a debug flavour is not rejected for what only optimized code
// must have, and is for the rest.
func TestDebugIsNotOptimized(t *testing.T) {
	const lost = "ptxas info    : (C7505) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging.\n"
	for log, want := range map[string]Verdict{lost: Correct, lost + "Cannot perform wmma load or store on local memory\n": Compile} {
		l, plan := newLab(), labPlan()
		l.kind, plan.Debug = "cuda", true
		l.actors["1"].build.Log = log
		if r := judged(t, l, plan); r.Verdict != want {
			t.Errorf("%q: %s: %s, want %s", log, r.Verdict, r.Reason, want)
		}
	}
}

// TestLaunchesOfABuild: several launches that are right pass, with the worst of their
// errors and with what was run.
func TestLaunchesOfABuild(t *testing.T) {
	l := newLab()
	l.actors["1"].launch = func(string) (Findings, error) {
		return Findings{Ran: "20 launches of a build", Observed: map[string]Observation{
			"small": {Outputs: []Output{{Name: "y", Error: 3e-5}}}, "odd": {Outputs: []Output{right}},
		}}, nil
	}
	s, _ := judged(t, l, labPlan()).Step(StageSanitize)
	for _, e := range s.Evidence {
		if e.Outcome != Passed || e.Value != 3e-5 || e.Limit == 0 || e.Detail != "no fault in 20 launches of a build" {
			t.Errorf("%+v", e)
		}
	}
}
