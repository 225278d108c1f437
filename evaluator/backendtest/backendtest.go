// Package backendtest is the conformance suite that every evaluator passes,
// whatever it runs candidates on.
//
// A backend's test calls Run with a Harness, which makes fresh evaluators and
// names the candidates to try: honest ones, and the zoo of those that are wrong
// or dishonest on purpose. The suite asks for what the Evaluator interface
// promises and for what the ordeal is there for: every verdict right, by the
// check that is meant to give it; no candidate harms the one after it or the
// one beside it; nothing is left when an evaluator is closed.
//
// Fields of the Harness that are left empty switch off the parts that have no
// meaning for a backend, and the suite says so: a recorded backend has no zoo,
// since nothing runs.
//
// The suite redirects TMPDIR while it runs, to see what is left in it, so the
// test that calls it must not be parallel.
package backendtest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/internal/process"
	"github.com/evotune/evotune/genome"
)

// A Harness tells the suite what to try.
type Harness struct {
	// New returns an evaluator that nothing was asked of yet. The suite closes
	// it. New is called several times; what one evaluator learned must not be
	// needed by the next.
	New func(tb testing.TB) evaluator.Evaluator

	// Honest returns the n-th of many honest candidates that do the same work
	// in the same way but have binaries of their own, so that the evaluator
	// cannot answer for one with what it knows of another. Required.
	Honest func(n int) genome.Genome
	// Twin compiles to the same binary as Honest(0); the zero Genome if the
	// backend cannot tell.
	Twin genome.Genome
	// Slow is honest and takes at least twice the time of Honest; the zero
	// Genome leaves out what needs it.
	Slow genome.Genome
	// Threaded is honest with more than one thread; the zero Genome if the
	// backend has no such thing.
	Threaded genome.Genome

	// Zoo lists the faulty candidates; empty for a backend that runs nothing.
	Zoo []Case
	// Faulty returns the genome of a case. Different n must give binaries of
	// their own, as for Honest. Required with Zoo.
	Faulty func(c Case, n int) genome.Genome
	// Brief has honest candidates after most cases of the zoo judged to the end of parity only, by evaluators
	// with a method Until: after those that were not timed, but for every eighth.
	Brief bool
	// Hang names the case of the zoo that never answers, for the test of
	// cancellation; empty leaves that test with an honest candidate.
	Hang string
	// Mixed names eight or so cases that are evaluated all at once.
	Mixed []string

	// Stages are the steps that a correct candidate must show, all with
	// evidence but for rendering. Empty means every stage of the ordeal.
	Stages []evaluator.Stage

	// Repeatable says that the same question always has the same answer, to
	// the last bit: true for recorded results, false for measured ones.
	Repeatable bool
	// SameCode is how far the median ratio to the baseline of an honest
	// candidate may be from 1 (a factor) when Honest and the baseline are the
	// same code. Zero means that they are not.
	SameCode float64
	// Grace is how long an evaluator may take to return once its context has
	// ended. Zero means 2 seconds.
	Grace time.Duration
	// Keeps is how many processes an evaluator may hold between candidates, and
	// replace when one of them dies. Zero means those that it holds when it has
	// judged one, and no others.
	Keeps int
}

// withDefaults fills in what was left empty.
func (h Harness) withDefaults() Harness {
	if h.Grace == 0 {
		h.Grace = 2 * time.Second
	}
	if h.Stages == nil {
		h.Stages = evaluator.Stages()
	}
	return h
}

// Zoo runs the suite's test of the zoo alone.
func Zoo(t *testing.T, h Harness) {
	process.AdoptOrphans()
	zoo(t, h.withDefaults())
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	h = h.withDefaults()
	process.AdoptOrphans()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"describe", describe},
		{"honest", honest},
		{"repeat", repeat},
		{"shared binary", sharedBinary},
		{"incumbent", incumbent},
		{"zoo", zoo},
		{"concurrency", concurrency},
		{"cancel", cancel},
		{"finals", finals},
		{"nothing to judge", nothingToJudge},
		{"close", closing},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, h) })
	}
}

// open makes an evaluator whose remains are looked for when the test ends.
func open(t *testing.T, h Harness) evaluator.Evaluator {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	known, _ := descendants()
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	t.Cleanup(func() { // runs after the evaluator was closed
		noProcesses(t, known, 0, h.Grace)
		noFiles(t, scratch)
		if err := goleak.Find(ignore); err != nil {
			t.Errorf("after Close: %v", err)
		}
	})
	ev := h.New(t)
	t.Cleanup(func() {
		if err := ev.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return ev
}

// evaluate asks for one candidate; an error ends the test.
func evaluate(t *testing.T, ev evaluator.Evaluator, g genome.Genome) evaluator.Result {
	t.Helper()
	r, err := ev.Evaluate(t.Context(), g, 0)
	if err != nil {
		t.Fatalf("Evaluate(%s): %v", g, err)
	}
	return r
}

// describe: a description is complete, can be stored, and does not change.
func describe(t *testing.T, h Harness) {
	ev := open(t, h)
	d := ev.Describe()
	for what, got := range map[string]string{
		"Backend":            d.Backend,
		"Device.Name":        d.Device.Name,
		"Device.Kind":        d.Device.Kind,
		"Device.Fingerprint": d.Device.Fingerprint,
		"Kernel":             d.Kernel,
		"Harness":            d.Harness,
	} {
		if got == "" {
			t.Errorf("Describe().%s is empty", what)
		}
	}
	if len(d.Shapes) == 0 || slices.Contains(d.Shapes, "") {
		t.Errorf("Describe().Shapes = %q, want the names of the tuned shapes", d.Shapes)
	}
	for _, tool := range d.Tools {
		if tool.Name == "" || (tool.Path == "" && tool.Version == "" && tool.Missing == "") {
			t.Errorf("tool %+v: found tools have a path or a version, missing ones say what is lost", tool)
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var back evaluator.Description
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back); diff != "" {
		t.Errorf("the description changes on its way through JSON:\n%s", diff)
	}

	evaluate(t, ev, h.Honest(0))
	if diff := cmp.Diff(d, ev.Describe()); diff != "" {
		t.Errorf("the description changed during the life of the evaluator:\n%s", diff)
	}
	other := h.New(t)
	if diff := cmp.Diff(d.Device.Fingerprint, other.Describe().Device.Fingerprint); diff != "" {
		t.Errorf("two evaluators on one device disagree on its fingerprint:\n%s", diff)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// honest: a right candidate is correct, with every step, evidence for each, and
// timings that are what their comments say.
func honest(t *testing.T, h Harness) {
	ev := open(t, h)
	candidates := map[string]genome.Genome{"honest": h.Honest(0)}
	if !h.Slow.IsZero() {
		candidates["slow"] = h.Slow
	}
	if !h.Threaded.IsZero() {
		candidates["threaded"] = h.Threaded
	}
	for name, g := range candidates {
		t.Run(name, func(t *testing.T) {
			r := evaluate(t, ev, g)
			wholesome(t, h, ev.Describe(), r)
			if name == "honest" {
				plausible(t, h, ev, r, func(try int) genome.Genome { return h.Honest(1 + try) })
			}
			if name == "slow" && r.Fitness < 1.5 {
				t.Errorf("fitness %.3g of a candidate that is at least twice as slow", r.Fitness)
			}
		})
	}
}

// wholesome checks all that a correct result promises.
func wholesome(t *testing.T, h Harness, d evaluator.Description, r evaluator.Result) {
	t.Helper()
	if r.Verdict != evaluator.Correct {
		t.Fatalf("an honest candidate: %s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	if r.Reason != "" {
		t.Errorf("a correct result has a reason: %s", r.Reason)
	}
	if r.Cost <= 0 {
		t.Errorf("cost %v, want more than nothing", r.Cost)
	}
	for what, hash := range map[string]string{"key": r.Key, "source": r.Source, "binary": r.Binary} {
		if raw, err := hex.DecodeString(hash); err != nil || len(raw) != 32 {
			t.Errorf("%s %q is no SHA-256 in hex", what, hash)
		}
	}

	var stages []evaluator.Stage
	for _, s := range r.Steps {
		stages = append(stages, s.Stage)
		if s.Outcome == evaluator.Failed || s.Outcome == "" {
			t.Errorf("step %s of a correct candidate says %q", s.Stage, s.Outcome)
		}
		if s.Outcome == evaluator.Passed && s.Elapsed <= 0 {
			t.Errorf("step %s took %v", s.Stage, s.Elapsed)
		}
		if s.Stage != evaluator.StageRender && len(s.Evidence) == 0 {
			t.Errorf("step %s has no evidence", s.Stage)
		}
		for _, e := range s.Evidence {
			switch {
			case e.Check == "" || e.Outcome == "":
				t.Errorf("step %s: evidence %+v names no check or no outcome", s.Stage, e)
			case e.Outcome == evaluator.Failed:
				t.Errorf("step %s of a correct candidate: %s failed: %s", s.Stage, e.Check, e.Detail)
			case e.Outcome == evaluator.NotRun && e.Detail == "":
				t.Errorf("step %s: %s was not run and does not say why", s.Stage, e.Check)
			case s.Stage == evaluator.StageParity && e.Limit > 0 && !(math.Abs(e.Value) <= e.Limit):
				t.Errorf("step %s: %s passed with %g beyond its limit %g", s.Stage, e.Check, e.Value, e.Limit)
			}
		}
	}
	if !slices.Equal(stages, h.Stages) {
		t.Errorf("steps %q, want %q", stages, h.Stages)
	}

	if len(r.Timings) != len(d.Shapes) {
		t.Fatalf("%d timings, want one for each of the shapes %q", len(r.Timings), d.Shapes)
	}
	logs := 0.0
	for i, tm := range r.Timings {
		if tm.Shape != d.Shapes[i] {
			t.Errorf("timing %d is of shape %q, want %q", i, tm.Shape, d.Shapes[i])
		}
		measured(t, tm)
		logs += math.Log(tm.Ratio)
	}
	if want := math.Exp(logs / float64(len(r.Timings))); math.Abs(r.Fitness-want) > 1e-9*want {
		t.Errorf("fitness %g is not the geometric mean %g of the ratios", r.Fitness, want)
	}
}

// measured checks that the summary of a timing is that of its samples.
func measured(t *testing.T, tm evaluator.Timing) {
	t.Helper()
	if len(tm.SamplesNS) == 0 || len(tm.SamplesNS) != len(tm.BaselineNS) {
		t.Fatalf("shape %s: %d samples beside %d of the baseline, want pairs", tm.Shape, len(tm.SamplesNS), len(tm.BaselineNS))
	}
	ratios := make([]float64, len(tm.SamplesNS))
	for i := range tm.SamplesNS {
		if !(tm.SamplesNS[i] > 0) || !(tm.BaselineNS[i] > 0) {
			t.Errorf("shape %s: pair %d is %g ns and %g ns; times are above zero", tm.Shape, i, tm.SamplesNS[i], tm.BaselineNS[i])
		}
		ratios[i] = tm.SamplesNS[i] / tm.BaselineNS[i]
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"median", tm.MedianNS, median(tm.SamplesNS)},
		{"median of the baseline", tm.BaselineMedianNS, median(tm.BaselineNS)},
		{"ratio", tm.Ratio, median(ratios)},
	} {
		if math.Abs(c.got-c.want) > 1e-6*c.want {
			t.Errorf("shape %s: %s %g, want %g by the samples", tm.Shape, c.what, c.got, c.want)
		}
	}
	if tm.Batch < 1 || tm.BaselineBatch < 1 {
		t.Errorf("shape %s: batches of %d and %d launches", tm.Shape, tm.Batch, tm.BaselineBatch)
	}
	if tm.FloorNS > 0 && tm.MedianNS < tm.FloorNS {
		t.Errorf("shape %s: correct with %g ns below the floor of %g ns", tm.Shape, tm.MedianNS, tm.FloorNS)
	}
	if !slices.Contains([]string{"precise", "slower", "limit"}, tm.Stopped) {
		t.Errorf("shape %s: sampling stopped because %q", tm.Shape, tm.Stopped)
	}
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// offBalance says at which shape an honest candidate is not about as fast as
// the baseline, which is the same code; empty when it is everywhere.
func (h Harness) offBalance(r evaluator.Result) string {
	for _, tm := range r.Timings {
		if h.SameCode > 0 && (tm.Ratio > h.SameCode || tm.Ratio < 1/h.SameCode) {
			return fmt.Sprintf("shape %s: ratio %.3g to a baseline of the same code; medians %.4g and %.4g ns", tm.Shape, tm.Ratio, tm.MedianNS, tm.BaselineMedianNS)
		}
	}
	return ""
}

// plausible checks that an honest candidate is about as fast as the baseline.
// What disturbs the machine for a moment is no fault of the evaluator's: other
// candidates of the same code get another chance, and harm that was done to
// them would show in all of them.
func plausible(t *testing.T, h Harness, ev evaluator.Evaluator, r evaluator.Result, another func(try int) genome.Genome) {
	t.Helper()
	wrong := h.offBalance(r)
	for try := 0; wrong != "" && try < 3; try++ {
		t.Logf("measured again: %s", wrong)
		wrong = h.offBalance(evaluate(t, ev, another(try)))
	}
	if wrong != "" {
		t.Error(wrong)
	}
}

// repeat: what must not vary does not, between two evaluators that know nothing
// of each other.
func repeat(t *testing.T, h Harness) {
	var results []evaluator.Result
	for range 2 {
		t.Run("evaluator", func(t *testing.T) {
			results = append(results, evaluate(t, open(t, h), h.Honest(1)))
		})
	}
	if t.Failed() {
		return
	}
	a, b := results[0], results[1]
	if h.Repeatable {
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("the same question has two answers:\n%s", diff)
		}
		return
	}
	if a.Verdict != b.Verdict || a.Key != b.Key || a.Source != b.Source || a.Binary != b.Binary {
		t.Errorf("two evaluators disagree:\n%s key %s source %s binary %s\n%s key %s source %s binary %s",
			a.Verdict, a.Key, a.Source, a.Binary, b.Verdict, b.Key, b.Source, b.Binary)
	}
	if diff := cmp.Diff(errorsOf(a), errorsOf(b)); diff != "" {
		t.Errorf("the same data give different errors:\n%s", diff)
	}
}

// errorsOf lists what parity measured: it depends on data and code alone.
func errorsOf(r evaluator.Result) []evaluator.Evidence {
	step, _ := r.Step(evaluator.StageParity)
	return step.Evidence
}

// sharedBinary: two genomes with one binary are evaluated once, and the second
// says whose result it repeats.
func sharedBinary(t *testing.T, h Harness) {
	if h.Twin.IsZero() {
		t.Skip("this backend has no binaries to share")
	}
	ev := open(t, h)
	first := evaluate(t, ev, h.Honest(0))
	twin := evaluate(t, ev, h.Twin)
	if first.SharedWith != "" {
		t.Errorf("the first evaluation says that it repeats %s", first.SharedWith)
	}
	if twin.SharedWith != h.Honest(0).String() {
		t.Errorf("the twin is shared with %q, want %q", twin.SharedWith, h.Honest(0))
	}
	if first.Binary != twin.Binary {
		t.Errorf("the binaries of the twins are %s and %s", first.Binary, twin.Binary)
	}
	if diff := cmp.Diff(first.Timings, twin.Timings); diff != "" {
		t.Errorf("the twins were timed apart:\n%s", diff)
	}
	other := evaluate(t, ev, h.Honest(1))
	if other.Binary == first.Binary || other.SharedWith != "" {
		t.Errorf("binary %s of another candidate, shared with %q: builds are content-addressed, and this content differs", other.Binary, other.SharedWith)
	}
}

// incumbent: a candidate that is clearly slower than the best is not timed to
// the end.
func incumbent(t *testing.T, h Harness) {
	if h.Slow.IsZero() || h.Repeatable {
		t.Skip("this backend has nothing to stop early")
	}
	ev := open(t, h)
	r, err := ev.Evaluate(t.Context(), h.Slow, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != evaluator.Correct {
		t.Fatalf("an honest candidate: %s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	for _, tm := range r.Timings {
		measured(t, tm)
		if tm.Stopped != "slower" {
			t.Errorf("shape %s: sampling a candidate that is a hundred times slower than the best stopped because %q after %d samples, want %q",
				tm.Shape, tm.Stopped, len(tm.SamplesNS), "slower")
		}
	}
}

// noOthers looks for processes besides those from before the evaluator was opened and those that it keeps.
func (h Harness) noOthers(t *testing.T, before, idle []process.Entry) {
	t.Helper()
	if h.Keeps == 0 {
		noProcesses(t, idle, 0, h.Grace)
		return
	}
	noProcesses(t, before, h.Keeps, h.Grace)
}

// zoo: every faulty candidate gets its verdict by the check that is meant to
// give it, leaves nothing running, and does not change what is found out about
// the honest candidate after it.
func zoo(t *testing.T, h Harness) {
	if len(h.Zoo) == 0 {
		t.Skip("this backend runs nothing that could be faulty")
	}
	before, _ := descendants()
	ev := open(t, h)
	d := ev.Describe()
	first := evaluate(t, ev, h.Honest(0))
	wholesome(t, h, d, first)
	idle, _ := descendants() // what the evaluator keeps between candidates
	t.Cleanup(func() { h.noOthers(t, before, idle) })
	for n, c := range h.Zoo {
		// As many at a time as go test allows: each is followed by an honest
		// candidate, and beside it are others, as in a campaign.
		t.Run(c.Kernel, func(t *testing.T) {
			t.Parallel()
			skipWithout(t, d, c)
			begin := time.Now()
			r := evaluate(t, ev, h.Faulty(c, 0))
			t.Logf("%s at %s in %.2fs: %s", r.Verdict, r.Stage, time.Since(begin).Seconds(), r.Reason)
			wrong := c.Judge(r)
			for try := 0; wrong != "" && r.Verdict == evaluator.Correct && c.Slower > 0 && try < 3; try++ {
				// What gains has gained every time; a disturbed baseline has not.
				t.Logf("measured again: %s", wrong)
				wrong = c.Judge(evaluate(t, ev, h.Faulty(c, 10+try)))
			}
			if wrong != "" {
				t.Errorf("%s, which %s: %s", c.Kernel, c.Does, wrong)
			}

			until, brief := ev.(interface {
				Until(ctx context.Context, g genome.Genome, last evaluator.Stage) (evaluator.Result, error)
			})
			brief = brief && h.Brief && r.Stage != evaluator.StageBenchmark && n%8 != 0
			var after evaluator.Result
			if brief {
				var err error
				if after, err = until.Until(t.Context(), h.Honest(n+1), evaluator.StageParity); err != nil || after.Verdict != "" {
					t.Errorf("the honest candidate after %s: %s: %s, %v", c.Kernel, after.Verdict, after.Reason, err)
				}
			} else {
				after = evaluate(t, ev, h.Honest(n+1))
				wholesome(t, h, d, after)
			}
			if after.SharedWith != "" {
				t.Fatalf("the honest candidate was not evaluated, but shared with %s", after.SharedWith)
			}
			if diff := cmp.Diff(errorsOf(first), errorsOf(after)); diff != "" {
				t.Errorf("parity of the honest candidate after %s:\n%s", c.Kernel, diff)
			}
			if !brief {
				plausible(t, h, ev, after, func(try int) genome.Genome { return h.Honest((try+1)*len(h.Zoo) + n + 1) })
			}
			if diff := cmp.Diff(d, ev.Describe()); diff != "" {
				t.Errorf("%s changed the description:\n%s", c.Kernel, diff)
			}
		})
	}
}

// skipWithout skips a case whose verdict needs a tool that is not there.
func skipWithout(t *testing.T, d evaluator.Description, c Case) {
	t.Helper()
	if c.Needs == "" {
		return
	}
	for _, tool := range d.Tools {
		if strings.EqualFold(tool.Name, c.Needs) {
			if tool.Missing != "" {
				t.Skipf("%s needs %s: %s", c.Kernel, c.Needs, tool.Missing)
			}
			return
		}
	}
	t.Fatalf("%s needs the tool %q, which the description does not list", c.Kernel, c.Needs)
}

// concurrency: candidates that are evaluated beside each other get the verdicts
// that they get alone.
func concurrency(t *testing.T, h Harness) {
	ev := open(t, h)
	d := ev.Describe()
	var group sync.WaitGroup
	ask := func(g genome.Genome, judge func(evaluator.Result) string) {
		group.Go(func() {
			r, err := ev.Evaluate(t.Context(), g, 0)
			if err != nil {
				t.Errorf("%s: %v", g, err)
			} else if wrong := judge(r); wrong != "" {
				t.Errorf("%s beside others: %s", g, wrong)
			}
		})
	}
	right := func(r evaluator.Result) string {
		if r.Verdict != evaluator.Correct {
			return fmt.Sprintf("an honest candidate: %s at %s: %s", r.Verdict, r.Stage, r.Reason)
		}
		return ""
	}
	mixed := 0
	for _, c := range h.Zoo {
		if slices.Contains(h.Mixed, c.Kernel) && !Missing(d, c.Needs) {
			ask(h.Faulty(c, 1), c.Judge)
			mixed++
		}
	}
	if mixed != len(h.Mixed) {
		t.Logf("%d of the %d cases of the mix were tried", mixed, len(h.Mixed))
	}
	for n := range 4 {
		ask(h.Honest(n), right)
	}
	group.Wait()
}

// Missing says whether a tool is not there.
func Missing(d evaluator.Description, tool string) bool {
	return slices.ContainsFunc(d.Tools, func(t evaluator.Tool) bool {
		return strings.EqualFold(t.Name, tool) && t.Missing != ""
	})
}

// cancel: an evaluation whose context ends returns the context's error soon,
// leaves no process, and leaves the evaluator fit for the next.
func cancel(t *testing.T, h Harness) {
	before, _ := descendants()
	ev := open(t, h)
	idle, _ := descendants()
	candidate := h.Honest(0)
	for _, c := range h.Zoo {
		if c.Kernel == h.Hang {
			candidate = h.Faulty(c, 2)
		}
	}
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		ctx, stop := context.WithCancel(t.Context())
		if after == 0 {
			stop()
		}
		time.AfterFunc(after, stop)
		begin := time.Now()
		r, err := ev.Evaluate(ctx, candidate, 0)
		took := time.Since(begin)
		stop()
		switch {
		case err == nil && h.Hang == "" && after > 0:
			// An honest candidate may be done by then.
		case err == nil:
			t.Fatalf("cancelled after %v: no error but %s at %s: %s", after, r.Verdict, r.Stage, r.Reason)
		case !errors.Is(err, context.Canceled):
			t.Errorf("cancelled after %v: error %v, want the context's", after, err)
		}
		if took > after+h.Grace {
			t.Errorf("cancelled after %v, returned after %v", after, took)
		}
		h.noOthers(t, before, idle)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := ev.Finals(ctx, []genome.Genome{h.Honest(0)}); !errors.Is(err, context.Canceled) {
		t.Errorf("Finals under a cancelled context: error %v, want the context's", err)
	}
	wholesome(t, h, ev.Describe(), evaluate(t, ev, h.Honest(0)))
}

// finals: a clear difference is found, no difference is not, and what fails
// cannot win.
func finals(t *testing.T, h Harness) {
	ev := open(t, h)
	d := ev.Describe()
	run := func(t *testing.T, finalists ...genome.Genome) evaluator.Finals {
		t.Helper()
		f, err := ev.Finals(t.Context(), finalists)
		if err != nil {
			t.Fatalf("Finals: %v", err)
		}
		if len(f.Entries) != len(finalists) {
			t.Fatalf("%d entries for %d finalists", len(f.Entries), len(finalists))
		}
		for i, e := range f.Entries {
			if e.Genome.String() != finalists[i].String() {
				t.Errorf("entry %d is %s, want %s: the order of the finalists", i, e.Genome, finalists[i])
			}
			if e.Verdict != evaluator.Correct {
				continue
			}
			if len(e.Timings) != len(d.Shapes) {
				t.Errorf("entry %d has %d timings for %d tuned shapes", i, len(e.Timings), len(d.Shapes))
			}
			for _, tm := range slices.Concat(e.Timings, e.HeldOut) {
				measured(t, tm)
			}
		}
		return f
	}

	t.Run("one finalist", func(t *testing.T) {
		f := run(t, h.Honest(0))
		if f.Winner != 0 || f.VsBaseline == nil || f.VsRunnerUp != nil {
			t.Errorf("winner %d, against the baseline %v, against a runner-up %v", f.Winner, f.VsBaseline, f.VsRunnerUp)
		}
	})
	t.Run("clear difference", func(t *testing.T) {
		if h.Slow.IsZero() {
			t.Skip("no slow candidate")
		}
		// The search may have been wrong about the order.
		f := run(t, h.Slow, h.Honest(1))
		if f.Winner != 1 {
			t.Fatalf("the slow candidate won: %+v", f)
		}
		c := f.VsRunnerUp
		if c == nil || !c.Significant || c.Ratio > 0.75 || c.N1 == 0 || c.N2 == 0 || c.P > c.Alpha {
			t.Errorf("against a runner-up that takes at least twice the time: %+v", c)
		}
	})
	t.Run("no difference", func(t *testing.T) {
		if h.SameCode == 0 {
			t.Skip("no candidates that are known to be equal")
		}
		// A test at level alpha finds a difference that is not there now and
		// then; three times in a row is not luck.
		const tries = 3
		for n := range tries {
			f := run(t, h.Honest(2), h.Honest(3))
			if f.Winner < 0 || f.VsRunnerUp == nil {
				t.Fatalf("no winner among equals: %+v", f)
			}
			if !f.VsRunnerUp.Significant {
				return
			}
			t.Logf("try %d: a difference between equals: %+v", n+1, *f.VsRunnerUp)
		}
		t.Errorf("%d times in a row a significant difference between equals", tries)
	})
	t.Run("faulty finalist", func(t *testing.T) {
		if len(h.Zoo) == 0 {
			t.Skip("no faulty candidates")
		}
		for _, kernel := range []string{"never-written", "forged-time", "segfault", "illegal-address"} {
			i := slices.IndexFunc(h.Zoo, func(c Case) bool { return c.Kernel == kernel })
			if i < 0 {
				continue
			}
			bad := h.Faulty(h.Zoo[i], 3)
			f := run(t, bad, h.Honest(0))
			if f.Winner != 1 || f.Entries[0].Verdict == evaluator.Correct || f.Entries[0].Fitness != 0 {
				t.Errorf("%s in the finals: winner %d, its entry %+v, the honest one's: %s %s", kernel, f.Winner, f.Entries[0], f.Entries[1].Verdict, f.Entries[1].Reason)
			}
			if f = run(t, bad); f.Winner != -1 || f.VsBaseline != nil {
				t.Errorf("%s alone in the finals: winner %d against the baseline %+v", kernel, f.Winner, f.VsBaseline)
			}
		}
	})
	t.Run("none", func(t *testing.T) {
		if _, err := ev.Finals(t.Context(), nil); err == nil {
			t.Error("no finalists, and no error")
		}
	})
}

// nothingToJudge: what is not a candidate at all does not pass.
func nothingToJudge(t *testing.T, h Harness) {
	ev := open(t, h)
	r, err := ev.Evaluate(t.Context(), genome.Genome{}, 0)
	if err == nil && r.Verdict != evaluator.Infeasible && r.Verdict != evaluator.Infrastructure {
		t.Errorf("the zero genome: %s at %s: %s; want %s, %s or an error", r.Verdict, r.Stage, r.Reason, evaluator.Infeasible, evaluator.Infrastructure)
	}
}

// closing: Close ends everything, even under way, and may be called again.
func closing(t *testing.T, h Harness) {
	ignore := goleak.IgnoreCurrent()
	known, _ := descendants()
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)

	// Once beforehand, for descriptors that the runtime opens and keeps.
	ev := h.New(t)
	if err := ev.Close(); err != nil {
		t.Fatal(err)
	}
	before := descriptors()

	ev = h.New(t)
	evaluate(t, ev, h.Honest(0))
	candidate := h.Honest(1)
	for _, c := range h.Zoo {
		if c.Kernel == h.Hang {
			candidate = h.Faulty(c, 4)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	underWay := make(chan struct{})
	go func() {
		defer close(underWay)
		_, _ = ev.Evaluate(ctx, candidate, 0)
	}()
	time.Sleep(200 * time.Millisecond)
	if err := ev.Close(); err != nil {
		t.Errorf("Close with an evaluation under way: %v", err)
	}
	if err := ev.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	select {
	case <-underWay:
	case <-time.After(h.Grace):
		t.Errorf("an evaluation is still under way %v after Close", h.Grace)
		stop()
		<-underWay
	}
	if r, err := ev.Evaluate(t.Context(), h.Honest(2), 0); err == nil {
		t.Errorf("Evaluate after Close: %s at %s, want an error", r.Verdict, r.Stage)
	}
	noProcesses(t, known, 0, h.Grace)
	noFiles(t, scratch)
	if !eventually(h.Grace, func() bool { return descriptors() <= before }) {
		t.Errorf("%d descriptors are open, %d were before", descriptors(), before)
	}
	if err := goleak.Find(ignore); err != nil {
		t.Error(err)
	}
}
