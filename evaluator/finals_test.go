package evaluator

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// finals plays the finals of candidates 1, 2, ... in a bubble.
func finals(t *testing.T, l *scriptedLab, p Plan) (f Finals, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, err := newJudge(t.Context(), l, p)
		if err != nil {
			t.Fatal(err)
		}
		l.asked, l.log = 0, nil
		var list []genome.Genome
		for i := range len(l.actors) {
			list = append(list, labGenome(t, p, i+1))
		}
		begin := time.Now()
		if f, err = newOrdeal(b, p).Finals(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		took = time.Since(begin)
	})
	if l.open != 0 {
		t.Errorf("%d sessions are still open", l.open)
	}
	return f, took
}

// sets is how many sets of processes there are on a CPU.
var sets = rulesOf("cpu").Processes

// contest is a lab with honest candidates of these times.
func contest(ns ...float64) *scriptedLab {
	l := newLab()
	for i, x := range ns {
		l.actors[fmt.Sprint(i+1)] = &actor{ns: x, threads: 1}
	}
	return l
}

func verdicts(f Finals) (out []Verdict) {
	for _, e := range f.Entries {
		out = append(out, e.Verdict)
	}
	return out
}

func TestFinalsCalm(t *testing.T) {
	l := contest(80e3, 60e3, 90e3)
	f, _ := finals(t, l, twoShapes())
	if f.Winner != 1 || !f.VsBaseline.Significant || !f.VsRunnerUp.Significant || math.Abs(f.VsBaseline.Ratio-0.6) > 0.01 || math.Abs(f.VsRunnerUp.Ratio-0.75) > 0.01 {
		t.Errorf("winner %d, against the baseline %+v, against the runner-up %+v", f.Winner, f.VsBaseline, f.VsRunnerUp)
	}
	for i, e := range f.Entries {
		for _, tm := range slices.Concat(e.Timings, e.HeldOut) {
			if want := []string{"pool 1", "pool 2", "pool 3", "pool 4", "pool 5", "pool 6"}; !slices.Equal(tm.Pools, want) {
				t.Errorf("entry %d, %s: contents of %q, want %q", i, tm.Shape, tm.Pools, want)
			}
			if want := []int{4, 4, 4, 4, 4, 4}; !slices.Equal(tm.PerSet, want) {
				t.Errorf("entry %d, %s: samples of sets %v, want %v", i, tm.Shape, tm.PerSet, want)
			}
		}
		if len(e.Timings) != 2 || len(e.HeldOut) != 1 || e.HeldOut[0].Shape != "odd" {
			t.Errorf("entry %d has %d timings and %d at held-out shapes", i, len(e.Timings), len(e.HeldOut))
		}
		for _, tm := range slices.Concat(e.Timings, e.HeldOut) {
			if n := len(tm.SamplesNS); n != 24 { // of six sets of processes
				t.Errorf("entry %d, %s: %d samples", i, tm.Shape, n)
			}
		}
	}
	if n := l.calls("open 2 3"); n != sets || l.asked != 24*3 {
		t.Errorf("%d sets of processes, %d rounds", n, l.asked)
	}

	f, _ = finals(t, contest(100e3, 100e3), labPlan())
	if f.VsBaseline.String() != "~" || f.VsRunnerUp.String() != "~" {
		t.Errorf("no difference: %s and %s", f.VsBaseline, f.VsRunnerUp)
	}
	l = contest(80e3)
	l.baseline["odd"] = &actor{ns: 100, threads: 1} // 2000 launches last 0.2 ms
	if f, _ = finals(t, l, labPlan()); len(f.Entries[0].HeldOut) != 0 || l.calls("sample odd") != sets {
		t.Errorf("a held-out shape that is too short: %d timings after %d calls", len(f.Entries[0].HeldOut), l.calls("sample odd"))
	}
	l = contest(10e9)
	l.baseline[""].ns = 10e9
	if f, took := finals(t, l, labPlan()); len(f.Entries[0].Timings[0].SamplesNS) != finalsLeast*sets {
		t.Errorf("launches of 10 s: %d samples in %v", len(f.Entries[0].Timings[0].SamplesNS), took)
	}
	l = contest(80e3, 70e3)
	l.actors["1"].unsupported = map[string]string{"odd": "70 is odd"}
	if f, _ = finals(t, l, labPlan()); len(f.Entries[0].HeldOut) != 0 || len(f.Entries[1].HeldOut) != 1 {
		t.Error("a held-out shape that one cannot compute")
	}
}

// Who fails is out, with its verdict, and the others go on.
// A candidate that is faster in most sets of processes, and slower in others, is not faster: it came to lie
// otherwise.
func TestFinalsSetsDiffer(t *testing.T) {
	for slow, want := range map[float64]bool{101e3: false, 97e3: true} {
		l := contest(0)
		sets := 0
		l.actors["1"].open = func(p Purpose) error {
			if sets++; sets%3 != 0 {
				l.actors["1"].ns = 85e3
			} else {
				l.actors["1"].ns = slow
			}
			return nil
		}
		f, _ := finals(t, l, labPlan())
		if f.VsBaseline.Significant != want || f.VsBaseline.P > 0.05 {
			t.Errorf("%g us in every third set: P=%g, %v, want significant: %t", slow/1e3, f.VsBaseline.P, f.VsBaseline, want)
		}
	}
}

// A held-out shape that is too short in some sets of processes is not measured, and costs nobody the win.
func TestFinalsHeldOutTooShort(t *testing.T) {
	l := contest(80e3)
	sets := 0
	l.actors["1"].open = func(p Purpose) error {
		if p != ForFinals {
			return nil
		}
		l.baseline["odd"] = &actor{ns: 100, threads: 1} // 2000 launches last 0.2 ms
		if sets++; sets%4 == 0 {
			delete(l.baseline, "odd")
		}
		return nil
	}
	if f, _ := finals(t, l, labPlan()); f.Winner != 0 || len(f.Entries[0].HeldOut) != 0 {
		t.Errorf("winner %d, %+v", f.Winner, f.Entries[0])
	}
}

// Contents that are asked for are those of the sets of processes, in turn.
func TestFinalsPools(t *testing.T) {
	p := labPlan()
	p.Pools = []string{"x", "y"}
	f, _ := finals(t, contest(80e3, 60e3), p)
	for i, e := range f.Entries {
		if want := []string{"x", "y", "x", "y", "x", "y"}; !slices.Equal(e.Timings[0].Pools, want) {
			t.Errorf("entry %d: contents of %q, want %q", i, e.Timings[0].Pools, want)
		}
	}
}

func TestFinalsFaults(t *testing.T) {
	in := func(n int, f func(n int) error) func(Purpose, SampleRequest) error {
		calls := 0
		return func(_ Purpose, r SampleRequest) error {
			if calls++; calls >= n {
				return f(calls)
			}
			return nil
		}
	}
	crash := func(int) error { return &Fault{Reason: "SIGSEGV"} }
	lost := func(int) error { return &Lost{Reason: "killed"} }
	for _, c := range []struct {
		name   string
		change func(a *actor)
		want   Verdict
		reason string
	}{
		{"crash", func(a *actor) { a.fault = in(5, crash) }, Launch, "finals: main: SIGSEGV"},
		{"hang", func(a *actor) { a.fault = in(5, func(int) error { return &Fault{Hang: true, Reason: "no answer"} }) }, Timeout, "finals: main: no answer"},
		{"load", func(a *actor) { a.open = func(Purpose) error { return &Fault{Reason: "no entry"} } }, Launch, "finals: the process: no entry"},
		{"ends processes", func(a *actor) { a.fault = in(3, lost) }, Launch, "finals: the process: the process that ran it died, twice: killed"},
		{"ends processes late", func(a *actor) { a.fault = in(12, lost) }, Launch, "finals: the process: the process that ran it died, twice: killed"},
		{"a process is lost once", func(a *actor) {
			a.fault = in(4, func(n int) error {
				if n == 4 {
					return &Lost{Reason: "killed"}
				}
				return nil
			})
		}, Correct, ""},
		{"wrong", func(a *actor) {
			a.after = func(SampleRequest) Observation { return Observation{Outputs: []Output{{Name: "y", Error: 1}}} }
		}, Parity, "finals: outputs after timing main: after timing: output y"},
		{"input", func(a *actor) {
			a.after = func(r SampleRequest) Observation {
				o := Observation{Outputs: []Output{right}}
				if r.Last && r.Shape.Name == "odd" {
					o.InputChanged = "x changed"
				}
				return o
			}
		}, Parity, "finals: outputs after timing odd: after timing: x changed"},
		{"profile", func(a *actor) { a.profile = []Evidence{{Check: "SM busy", Outcome: Passed, Value: 3}} }, Inspect, "finals: requires SM busy: 3, at least 9 is required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := contest(80e3, 50e3, 90e3)
			c.change(l.actors["2"])
			p := labPlan()
			if c.name == "profile" {
				im := *p.Implementations[0]
				im.Profile = []kernels.Bound{{Counter: "SM busy", Min: at(9.0)}}
				d := *p.Definition
				d.Implementations = []*kernels.Implementation{&im}
				p.Definition, p.Implementations = &d, d.Implementations
			}
			f, _ := finals(t, l, p)
			e := f.Entries[1]
			if e.Verdict != c.want || !strings.HasPrefix(e.Reason, c.reason) {
				t.Errorf("%s: %q", e.Verdict, e.Reason)
			}
			winner := 0
			if c.want == Correct {
				winner = 1
			}
			if f.Winner != winner || f.Entries[0].Verdict != Correct || f.Entries[2].Verdict != Correct || len(f.Entries[0].Timings[0].SamplesNS) < 20 {
				t.Errorf("winner %d of %v, %d samples", f.Winner, verdicts(f), len(f.Entries[0].Timings[0].SamplesNS))
			}
		})
	}
	l := contest(80e3)
	l.actors["1"].end = func(Purpose) ([]Evidence, error) { return nil, &Fault{Reason: "status 3"} }
	l.actors["1"].compare = nil
	if f, _ := finals(t, l, labPlan()); f.Winner != -1 || f.Entries[0].Verdict != Launch || f.Entries[0].Reason != "finals: end of the process: status 3" {
		t.Errorf("a bad end: %+v", f.Entries[0])
	}
}

// The contender that crashes may take the session with it: nobody else is suspected.
func TestFinalsCrashEndsSession(t *testing.T) {
	l := contest(80e3, 50e3, 90e3)
	calls := 0
	l.actors["2"].fault = func(Purpose, SampleRequest) error {
		if calls++; calls == 5 {
			return &Fault{Reason: "an illegal address"}
		}
		return nil
	}
	after := 0
	l.actors["3"].fault = func(Purpose, SampleRequest) error {
		if calls == 5 {
			if after++; after == 2 {
				return &Lost{Reason: "the context is lost"}
			}
		}
		return nil
	}
	f, _ := finals(t, l, labPlan())
	if f.Winner != 0 || f.Entries[1].Verdict != Launch || f.Entries[2].Verdict != Correct || l.calls("open 2 1") != 0 {
		t.Errorf("winner %d of %v, %d sessions alone", f.Winner, verdicts(f), l.calls("open 2 1"))
	}
	if n := len(f.Entries[0].Timings[0].SamplesNS); n != 24 {
		t.Errorf("%d samples", n)
	}
}

// Of a contender that is not to be believed at one shape no time is kept.
func TestFinalsLoserHasNoTimes(t *testing.T) {
	l := contest(50e3, 90e3)
	l.actors["1"].claims = func(r Reading, _ float64, _ *rand.Rand) Reading {
		if strings.HasPrefix(l.last("sample"), "sample wide") {
			r.NS /= 1.5
		}
		return r
	}
	f, _ := finals(t, l, twoShapes())
	if e := f.Entries[0]; e.Verdict != Implausible || len(e.Timings)+len(e.HeldOut) > 0 || f.Winner != 1 {
		t.Errorf("%s with %d timings, winner %d", e.Verdict, len(e.Timings), f.Winner)
	}
}

// A clock that is wrong more often than not, and not certainly so, is doubted.
func TestFinalsDoubt(t *testing.T) {
	l := newLab()
	p := labPlan()
	j := &judge{lab: l, rules: rulesOf("cpu"), plan: p, spec: p.Definition.ProblemOn("cpu"), tuned: map[string]bool{"main": true}}
	tl := plain(j, 30, []float64{1}, 5e6)
	for i := range 27 {
		tl.pairs[i].candidate.CPUNS *= 2
	}
	c := &contender{entry: &Finalist{}, tallies: map[string]*tally{"main": tl}}
	out, err := j.settle(t.Context(), c, 6, false)
	if err != nil || out.Verdict != Infrastructure || !strings.Contains(out.Reason, "evotune's clock confirms only 3 of 30 readings") {
		t.Errorf("%s %q, %v", out.Verdict, out.Reason, err)
	}
}

// When processes keep ending and nobody does it alone, that is an error; and one
// of the machine's is not blamed on anyone.
func TestFinalsMachineFails(t *testing.T) {
	for _, failure := range []error{&Lost{Reason: "killed"}, errors.New("no space left")} {
		l := contest(80e3, 50e3)
		l.actors["1"].fault = func(Purpose, SampleRequest) error {
			if l.calls("open 2 2") > l.calls("open 2 1")/2 { // both are there
				return failure
			}
			return nil
		}
		synctest.Test(t, func(t *testing.T) {
			p := labPlan()
			b, err := newJudge(t.Context(), l, p)
			if err != nil {
				t.Fatal(err)
			}
			_, err = newOrdeal(b, p).Finals(t.Context(), []genome.Genome{labGenome(t, p, 1), labGenome(t, p, 2)})
			if err == nil || !errors.Is(err, failure) {
				t.Errorf("%v: %v", failure, err)
			}
		})
	}
}

// Who seems impossible, or was disturbed too much, gets exactly one second look,
// alone, after the peaks were measured again.
func TestFinalsSecondLook(t *testing.T) {
	// together says whether more than one contender is in the session.
	together := func(l *scriptedLab) bool { return strings.HasSuffix(l.last("open"), " 2") }
	for _, c := range []struct {
		name   string
		change func(l *scriptedLab, a *actor)
		want   Verdict
		first  Check
	}{
		{"below the floor", func(_ *scriptedLab, a *actor) { a.ns = 8.5e3 }, Implausible, Failed},
		{"a liar", func(_ *scriptedLab, a *actor) { a.claims = liar(1.3, 1) }, Implausible, Failed},
		{"a liar beside others", func(l *scriptedLab, a *actor) {
			a.claims = func(r Reading, _ float64, rng *rand.Rand) Reading {
				if together(l) {
					r.NS /= 1.5
				}
				return r
			}
		}, Correct, Passed},
		{"the peaks were too low", func(l *scriptedLab, a *actor) {
			a.ns = 8.5e3
			l.measure = func(p Peaks) Peaks { p.Rates["f32/1"] *= 1.2; return p }
		}, Correct, Passed},
		{"it waits for a core", func(l *scriptedLab, a *actor) { a.ns, a.threads, l.weather = 20e6, 2, busy }, Infrastructure, Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := contest(50e3, 90e3)
			c.change(l, l.actors["1"])
			p := labPlan()
			f, took := finals(t, l, p)
			e := f.Entries[0]
			if e.Verdict != c.want || c.want != Correct && len(e.Timings) > 0 {
				t.Errorf("%s: %q, %d timings", e.Verdict, e.Reason, len(e.Timings))
			}
			if f.Entries[1].Verdict != Correct || c.want != Correct && f.Winner != 1 {
				t.Errorf("winner %d of %v", f.Winner, verdicts(f))
			}
			if n := l.calls("open 2 1"); n != sets || l.calls("peaks") != 1 {
				t.Errorf("%d sessions alone, peaks measured %d times", n, l.calls("peaks"))
			}
			i := slices.IndexFunc(e.Evidence, func(e Evidence) bool { return e.Check == "first measurement" })
			if i < 0 || e.Evidence[i].Outcome != c.first {
				t.Errorf("%v", rows(e.Evidence))
			}
			if took > time.Duration(2*sets*2)*(settleTime+10*time.Second) {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Disturbed finals take more rounds, find the same winner, and end.
func TestFinalsBusy(t *testing.T) {
	for _, threads := range []int{1, 2} {
		for seed := range uint64(max(*measurements/3, 1)) {
			l := contest(80e3, 70e3, 90e3)
			l.rng = rand.New(rand.NewPCG(seed, 1))
			l.weather = busy
			for _, a := range l.actors {
				a.threads = threads
			}
			f, took := finals(t, l, labPlan())
			if seed == 0 {
				t.Logf("%d threads: %v, %d rounds", threads, took.Round(100*time.Millisecond), l.asked)
			}
			if f.Winner != 1 || !f.VsBaseline.Significant || !f.VsRunnerUp.Significant {
				t.Errorf("seed %d: winner %d of %v, against the baseline %v, against the runner-up %v", seed, f.Winner, verdicts(f), f.VsBaseline, f.VsRunnerUp)
			}
			if took > 2*time.Minute {
				t.Errorf("seed %d: it took %v", seed, took)
			}
			for i, e := range f.Entries {
				if n := len(e.Timings[0].SamplesNS); n < 20 {
					t.Errorf("seed %d, entry %d: %d samples", seed, i, n)
				}
			}
		}
	}
}

func TestHoldProfile(t *testing.T) {
	const tensor, conflicts = "tensor pipe active", "shared memory bank conflicts"
	read := []Evidence{
		{Check: tensor, Outcome: Passed, Value: 25, Unit: "%"},
		{Check: conflicts, Outcome: Passed, Value: 7},
		{Check: "DRAM throughput", Outcome: Passed, Value: 0, Unit: "%"},
		{Check: "SM busy", Outcome: NotRun, Detail: "no permission"},
	}
	for _, c := range []struct {
		name   string
		bounds []kernels.Bound
		rows   []string
		reason string
	}{
		{"no bound", nil, nil, ""},
		{"within", []kernels.Bound{{Counter: tensor, Min: at(1.0), Max: at(90.0)}}, []string{
			"requires tensor pipe active passed 25 % >= 1: ", "requires tensor pipe active passed 25 % <= 90: ",
		}, ""},
		{"at the bounds", []kernels.Bound{{Counter: tensor, Min: at(25.0), Max: at(25.0)}}, []string{
			"requires tensor pipe active passed 25 % >= 25: ", "requires tensor pipe active passed 25 % <= 25: ",
		}, ""},
		{"below", []kernels.Bound{{Counter: tensor, Min: at(25.5)}}, []string{
			"requires tensor pipe active failed 25 % >= 25.5: 25 %, at least 25.5 is required",
		}, "requires tensor pipe active: 25 %, at least 25.5 is required"},
		{"nothing at all", []kernels.Bound{{Counter: "DRAM throughput", Min: at(0.1)}}, []string{
			"requires DRAM throughput failed 0 % >= 0.1: 0 %, at least 0.1 is required",
		}, "requires DRAM throughput: 0 %, at least 0.1 is required"},
		{"above none", []kernels.Bound{{Counter: conflicts, Max: at(0.0)}}, []string{
			"requires shared memory bank conflicts failed 7  <= 0: 7, at most 0 is required",
		}, "requires shared memory bank conflicts: 7, at most 0 is required"},
		{"the first counts", []kernels.Bound{{Counter: conflicts, Max: at(7.0)}, {Counter: tensor, Max: at(3.0)}, {Counter: conflicts, Max: at(6.0)}}, []string{
			"requires shared memory bank conflicts passed 7  <= 7: ", "requires tensor pipe active failed 25 % <= 3: 25 %, at most 3 is required",
			"requires shared memory bank conflicts failed 7  <= 6: 7, at most 6 is required",
		}, "requires tensor pipe active: 25 %, at most 3 is required"},
		{"not read", []kernels.Bound{{Counter: "SM busy", Min: at(99.0), Max: at(100.0)}}, []string{
			"requires SM busy not run 0  <= 0: at least 99 is required: no permission", "requires SM busy not run 0  <= 0: at most 100 is required: no permission",
		}, ""},
		{"not profiled", []kernels.Bound{{Counter: "L2 throughput", Min: at(99.0)}}, []string{
			"requires L2 throughput not run 0  <= 0: at least 99 is required: profiling is switched off",
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, reason := holdProfile(c.bounds, read)
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

// TestFinalsAlone: one finalist whose process is lost once has a time all the same,
// or no verdict that says so.
func TestFinalsAlone(t *testing.T) {
	l := contest(20e3)
	calls := 0
	l.actors["1"].fault = func(Purpose, SampleRequest) error {
		if calls++; calls == 1 {
			return &Lost{Reason: "killed"}
		}
		return nil
	}
	f, _ := finals(t, l, labPlan())
	e := f.Entries[0]
	if e.Verdict != Correct || !(e.Fitness > 0) || len(e.Timings) == 0 || f.Winner != 0 {
		t.Errorf("%+v, winner %d", e, f.Winner)
	}
	for _, seen := range e.Evidence {
		if seen.Check == "first measurement" {
			t.Errorf("a lost process took its first look: %s", seen.Detail)
		}
	}
}

// TestFinalsNotes: what the lab says when a set of processes ends is evidence of all
// contenders, and what all sets say alike is there once.
func TestFinalsNotes(t *testing.T) {
	l := contest(80e3)
	n := 0
	l.actors["1"].end = func(Purpose) ([]Evidence, error) {
		n++
		return []Evidence{{Check: "baseline", Outcome: Passed, Detail: "alike"}, {Check: "baseline", Outcome: Passed, Detail: fmt.Sprint("set ", n)}}, nil
	}
	f, _ := finals(t, l, twoShapes())
	var said []string
	for _, e := range f.Entries[0].Evidence {
		if e.Check == "baseline" {
			said = append(said, e.Detail)
		}
	}
	if want := []string{"alike", "set 1", "set 2", "set 3", "set 4", "set 5", "set 6"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// alsoSanitized is the plan with further sanitize shapes.
func alsoSanitized() Plan {
	p := labPlan()
	for _, n := range []int64{5, 6} {
		p.SanitizeAlso = append(p.SanitizeAlso, kernels.Shape{Name: fmt.Sprintf("small-%d", n), Use: kernels.Sanitize, Dims: map[string]int64{"N": n}})
	}
	return p
}

// TestFinalsSanitize: finalists are launched under every tool at the sanitize shapes at which
// the search did not, as far as they can compute them, and one with a finding does not win.
func TestFinalsSanitize(t *testing.T) {
	own := kernels.Shape{Name: "3", Use: kernels.Sanitize, Dims: map[string]int64{"N": 3}}
	likeAlso := kernels.Shape{Name: "small", Dims: map[string]int64{"N": 5}} // a name proves nothing
	found := func(tool string) (Findings, error) {
		if tool == "racecheck" {
			return Findings{By: tool, Found: "a race", Log: "in k"}, nil
		}
		return Findings{Elapsed: time.Second}, nil
	}
	hangs := func(string) (Findings, error) { return Findings{}, &Fault{Hang: true, Reason: "no answer"} }
	for _, c := range []struct {
		name     string
		change   func(a *actor)
		searched string // where the search launches it
		finals   string // and the finals
		verdict  Verdict
		reason   string
	}{
		{"the usual shape", func(*actor) {}, "small", "small-5 small-6", Correct, ""},
		{"its own", func(a *actor) { a.sanitize = own }, "3", "small small-5 small-6", Correct, ""},
		{"its own, as small as another", func(a *actor) { a.sanitize = likeAlso }, "small", "small small-6", Correct, ""},
		{"unsupported", func(a *actor) { a.sanitize, a.unsupported = own, map[string]string{"small": "no", "small-6": "no"} }, "3", "small-5", Correct, ""},
		{"unsupported in the search", func(a *actor) { a.unsupported = map[string]string{"small": "no"} }, "none", "small-5 small-6", Correct, ""},
		{"a finding", func(a *actor) {
			a.sanitize, a.launchAt = own, map[string]func(string) (Findings, error){"small": found}
		}, "3", "small small-5 small-6", Sanitizer, "finals: racecheck: at shape small: a race"},
		{"a finding at a further shape", func(a *actor) { a.launchAt = map[string]func(string) (Findings, error){"small-6": found} }, "small", "small-5 small-6", Sanitizer, "finals: racecheck: at shape small-6: a race"},
		{"no answer", func(a *actor) { a.launchAt = map[string]func(string) (Findings, error){"small-5": hangs} }, "small", "small-5", Timeout, "finals: memcheck: at shape small-5: no answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := contest(60e3, 80e3)
			l.kind, l.tools = "cuda", []string{"memcheck", "racecheck", "schedules"}
			c.change(l.actors["1"])
			p := alsoSanitized()
			f, _ := finals(t, l, p)
			e := f.Entries[0]
			winner := 0
			if c.verdict != Correct {
				winner = 1
				if len(e.Timings)+len(e.HeldOut) > 0 || e.Fitness != 0 {
					t.Errorf("it has times: %+v", e)
				}
			}
			if e.Verdict != c.verdict || e.Reason != c.reason || f.Winner != winner || f.Entries[1].Verdict != Correct || f.VsBaseline == nil {
				t.Errorf("%s: %q, winner %d, want %s: %q, %d", e.Verdict, e.Reason, f.Winner, c.verdict, c.reason, winner)
			}
			for _, s := range []string{"3", "small", "small-5", "small-6"} {
				want := 0
				if slices.Contains(strings.Fields(c.finals), s) {
					want = 1
				}
				memcheck := l.calls("launch candidate 1 memcheck " + s)
				if s == "small" { // as others begin
					memcheck -= l.calls("launch candidate 1 memcheck small-")
				}
				if memcheck != want {
					t.Errorf("memcheck at %s: %d launches, want %d: %q", s, memcheck, want, l.log)
				}
			}
			if l.calls("launch candidate 1 schedules") > 0 {
				t.Error("the finals launch with delays")
			}
			all := slices.IndexFunc(e.Evidence, func(e Evidence) bool { return e.Check == SanitizeShapes && e.Outcome == Passed })
			if (all >= 0) != (c.verdict == Correct) || all >= 0 && e.Evidence[all].Detail != c.searched+" in the search, "+strings.ReplaceAll(c.finals, " ", ", ")+" in finals" {
				t.Errorf("evidence %+v", e.Evidence)
			}
			row := slices.IndexFunc(e.Evidence, func(e Evidence) bool { return e.Check == "racecheck" && strings.Contains(e.Detail, "in finals: ") })
			if row < 0 && c.verdict != Timeout || c.verdict == Sanitizer && !slices.ContainsFunc(e.Evidence, func(e Evidence) bool { return e.Outcome == Failed && strings.HasSuffix(e.Detail, "a race\nin k") }) {
				t.Errorf("evidence %+v", e.Evidence)
			}

			// The search looks once, where it is told to, and says what it left.
			l.log = nil
			r := judged(t, l, p)
			want, once := 3, 1
			if c.searched == "none" {
				want, once = 0, 0
			}
			if n, at := l.calls("launch candidate 1 "), l.calls("launch candidate 1 memcheck "+c.searched); r.Verdict != Correct || n != want || at != once {
				t.Errorf("%s: %s: %d launches in the search: %q", r.Verdict, r.Reason, n, l.log)
			}
			s, _ := r.Step(StageSanitize)
			left := slices.IndexFunc(s.Evidence, func(e Evidence) bool { return e.Check == SanitizeShapes })
			switch {
			case l.actors["1"].sanitize.Name == "" && left >= 0:
				t.Errorf("a launch at the usual shape leaves %+v", s.Evidence[left])
			case l.actors["1"].sanitize.Name != "" && (left < 0 || s.Evidence[left].Outcome != NotRun || s.Evidence[left].Detail != "the search launches it at "+c.searched+" alone, and the finals at "+strings.ReplaceAll(c.finals, " ", ", ")):
				t.Errorf("it does not say what it left: %+v", s.Evidence)
			}

			// A build for debugging meets no finals: what is found there is found now.
			l.log = nil
			p.Debug = true
			if r := judged(t, l, p); r.Verdict != c.verdict || !strings.Contains("finals: "+r.Reason, c.reason) {
				t.Errorf("debug: %s: %s", r.Verdict, r.Reason)
			}
		})
	}
}

// TestSearchSanitizesItsOwnShape: a finding in the search at a shape of its own says where.
func TestSearchSanitizesItsOwnShape(t *testing.T) {
	l := newLab()
	for _, name := range []string{"3", "small"} { // which may also be that of one that it cannot compute
		l.actors["1"].sanitize = kernels.Shape{Name: name, Dims: map[string]int64{"N": 3}}
		l.actors["1"].unsupported = map[string]string{"small": "no"}
		l.actors["1"].launchAt = map[string]func(string) (Findings, error){name: func(tool string) (Findings, error) {
			return Findings{By: tool, Found: "a write"}, nil
		}}
		if r := judged(t, l, labPlan()); r.Verdict != Sanitizer || !strings.HasSuffix(r.Reason, ": at shape "+name+": a write") {
			t.Errorf("%s: %s", r.Verdict, r.Reason)
		}
	}
}

// TestFinalsSanitizeMachineFails: a tool that fails is no word about the finalist.
func TestFinalsSanitizeMachineFails(t *testing.T) {
	l := contest(60e3)
	l.tools = []string{"asan"}
	times := 0
	l.actors["1"].launchAt = map[string]func(string) (Findings, error){"small-5": func(string) (Findings, error) {
		if times++; times < 3 {
			return Findings{}, errors.New("no memory")
		}
		return Findings{}, nil
	}}
	if f, _ := finals(t, l, alsoSanitized()); f.Winner != 0 || times != 3 || l.calls("open") != sets {
		t.Errorf("winner %d after %d tries and %d sessions: %+v", f.Winner, times, l.calls("open"), f.Entries)
	}
}

// TestGuardsOfFinalists: a tool that looks at finalists alone launches them at the tuned shapes, once, and a finding
// costs the win. The search does not call it, and a build for debugging has it with the other tools.
func TestGuardsOfFinalists(t *testing.T) {
	beyond := func(tool string) (Findings, error) {
		if tool == Guards {
			return Findings{By: Guards, Found: "it reads beyond", Log: "far"}, &Fault{Reason: "illegal address"}
		}
		return Findings{}, nil
	}
	wrong := func(tool string) (Findings, error) {
		if tool == Guards {
			o := right
			o.Error = 0.5
			return Findings{Ran: "two launches", Observed: map[string]Observation{"two, at the end": {Outputs: []Output{o}}}}, nil
		}
		return Findings{}, nil
	}
	p0 := twoShapes()
	for _, c := range []struct {
		name    string
		at      map[string]func(string) (Findings, error)
		verdict Verdict
		reason  string
	}{
		{"nothing", nil, Correct, ""},
		{"a fault", map[string]func(string) (Findings, error){p0.Tune[1].Name: beyond}, Sanitizer, "guards: at shape " + p0.Tune[1].Name + ": it reads beyond; illegal address"},
		{"a wrong answer", map[string]func(string) (Findings, error){p0.Tune[1].Name: wrong}, Sanitizer, "guards: shape two, at the end: output y: error 0.5"},
		{"at another shape", map[string]func(string) (Findings, error){"odd": beyond}, Correct, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := contest(60e3, 80e3)
			l.kind, l.tools = "cuda", []string{"memcheck", Guards}
			l.actors["1"].launchAt = c.at
			p := twoShapes()
			f, _ := finals(t, l, p)
			e := f.Entries[0]
			if reason, _ := strings.CutPrefix(e.Reason, "finals: "); e.Verdict != c.verdict || !strings.HasPrefix(reason, c.reason) || c.reason == "" && reason != "" || (f.Winner == 0) != (c.verdict == Correct) {
				t.Errorf("%s: %q, winner %d", e.Verdict, e.Reason, f.Winner)
			}
			if n := l.calls("launch candidate 1 guards"); n != 2 {
				t.Errorf("%d launches: %q", n, l.log)
			}
			rows := 0
			for _, e := range e.Evidence {
				if e.Check == Guards && strings.HasPrefix(e.Detail, "in finals: ") {
					rows++
				}
			}
			if rows != 2 {
				t.Errorf("%d rows: %+v", rows, e.Evidence)
			}
			l.log = nil
			if r := judged(t, l, p); r.Verdict != Correct || l.calls("launch candidate 1 guards") > 0 {
				t.Errorf("the search: %s %s, %q", r.Verdict, r.Reason, l.log)
			}
			p.Debug = true
			if r := judged(t, l, p); r.Verdict != c.verdict || !strings.HasPrefix(r.Reason, c.reason) {
				t.Errorf("debug: %s: %s", r.Verdict, r.Reason)
			}
		})
	}
}
