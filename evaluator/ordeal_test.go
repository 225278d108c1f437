package evaluator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// fixture is an ordeal on a bench that does what a test says.
type fixture struct {
	*Ordeal
	bench *fakeBench
	space *genome.Space
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	p := planOf(strings.Replace(labDefinition, "require = ['^vfm']\nforbid = ['^div']", `require = [{ pattern = '^HMMA', when = "SAY == 8" }]`, 1))
	space, err := p.Definition.Space(p.Implementations, p.Tune, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBench{}
	return &fixture{newOrdeal(b, Plan{Definition: p.Definition, Implementations: p.Implementations}), b, space}
}

func (f *fixture) genome(t *testing.T, code, say int) genome.Genome {
	t.Helper()
	g, err := f.space.FromMap(map[string]any{"CODE": code, "SAY": say})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// fakeBench compiles a source to its CODE: what SAY says changes nothing.
type fakeBench struct {
	mu    sync.Mutex
	seen  kernels.Rendered // what was compiled last
	stage func(ctx context.Context, stage Stage, code string) (Outcome, error)
	calls sync.Map // of Stage+code: *atomic.Int32
	duel  func(bins []Artifact) ([]Finalist, error)
	early *Early
	// sanitize gives an artifact a shape of its own.
	sanitize func(src kernels.Rendered) kernels.Shape
}

func (b *fakeBench) call(ctx context.Context, stage Stage, code string) (Outcome, error) {
	n, _ := b.calls.LoadOrStore(string(stage)+" "+code, new(atomic.Int32))
	n.(*atomic.Int32).Add(1)
	if b.stage != nil {
		return b.stage(ctx, stage, code)
	}
	return Outcome{Evidence: []Evidence{{Check: "fake", Outcome: Passed}}}, nil
}

func (b *fakeBench) count(stage Stage, code string) int {
	n, ok := b.calls.Load(string(stage) + " " + code)
	if !ok {
		return 0
	}
	return int(n.(*atomic.Int32).Load())
}

func (b *fakeBench) Describe() Description { return Description{Backend: "fake"} }
func (b *fakeBench) Close() error          { return nil }

func (b *fakeBench) Compile(ctx context.Context, src kernels.Rendered) (Artifact, Outcome, error) {
	code, _, _ := strings.Cut(strings.TrimPrefix(src.Source, "int code "), " ;")
	b.mu.Lock()
	b.seen = src
	b.mu.Unlock()
	out, err := b.call(ctx, StageCompile, code)
	a := Artifact{Hash: "code " + code, Key: src.Hash, Handle: code}
	if b.sanitize != nil {
		a.Sanitize = b.sanitize(src)
	}
	return a, out, err
}

func (b *fakeBench) Inspect(ctx context.Context, bin Artifact) (Outcome, error) {
	return b.call(ctx, StageInspect, bin.Handle.(string))
}

func (b *fakeBench) Parity(ctx context.Context, bin Artifact) (Outcome, error) {
	return b.call(ctx, StageParity, bin.Handle.(string))
}

func (b *fakeBench) Sanitize(ctx context.Context, bin Artifact) (Outcome, error) {
	return b.call(ctx, StageSanitize, bin.Handle.(string))
}

func (b *fakeBench) Benchmark(ctx context.Context, bin Artifact, incumbent float64) ([]Timing, Outcome, error) {
	out, err := b.call(ctx, StageBenchmark, bin.Handle.(string))
	return []Timing{
		NewTiming("main", []float64{2, 2, 2}, []float64{1, 1, 1}, 1, 1),
		NewTiming("other", []float64{8, 8, 8}, []float64{1, 1, 1}, 1, 1),
	}, out, err
}

// FirstReadings finds a candidate slower if the incumbent takes less than a fourth of the baseline.
func (b *fakeBench) FirstReadings(ctx context.Context, bin Artifact, incumbent float64) ([]Timing, Outcome, error) {
	out, err := b.call(ctx, StageBenchmark, bin.Handle.(string))
	if incumbent < 0.25 {
		out.Verdict, out.Reason = Slower, "slower"
	}
	return []Timing{NewTiming("main", []float64{2, 2, 2}, []float64{1, 1, 1}, 1, 1)}, out, err
}

func (b *fakeBench) Duel(_ context.Context, bins []Artifact) ([]Finalist, *Early, error) {
	list, err := b.duel(bins)
	return list, b.early, err
}

func TestCorrect(t *testing.T) {
	f := newFixture(t)
	var entered []Stage
	ctx := WithTrace(t.Context(), func(s Stage) { entered = append(entered, s) })
	r, err := f.Evaluate(ctx, f.genome(t, 1, 0), 0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Correct || r.Stage != StageBenchmark || math.Abs(r.Fitness-4) > 1e-12 || r.Cost <= 0 || r.Source == "" || r.Binary == "" || r.Key == "" {
		t.Errorf("%+v", r)
	}
	if fmt.Sprint(entered) != fmt.Sprint(Stages()) {
		t.Errorf("entered %v", entered)
	}
	for i, s := range r.Steps {
		if s.Stage != Stages()[i] || s.Outcome != Passed {
			t.Errorf("step %d: %+v", i, s)
		}
	}
}

// Who hears of a stage before it begins can prevent it: a campaign does when it could
// not note in its log what is about to run.
func TestStagePrevented(t *testing.T) {
	f := newFixture(t)
	f.bench.duel = func([]Artifact) ([]Finalist, error) { return nil, errors.New("finals were held") }
	g := f.genome(t, 1, 0)
	for _, at := range []Stage{StageCompile, StageParity, StageBenchmark, StageFinals} {
		ctx, cancel := context.WithCancel(t.Context())
		ctx = WithTrace(ctx, func(s Stage) {
			if s == at {
				cancel()
			}
		})
		var err error
		if at == StageFinals {
			_, err = f.Finals(ctx, []genome.Genome{g})
		} else {
			_, err = f.Evaluate(ctx, g, 0)
		}
		if !errors.Is(err, context.Canceled) || f.bench.count(at, "1") > 0 {
			t.Errorf("%s: %v, ran %d times", at, err, f.bench.count(at, "1"))
		}
		cancel()
	}
}

// The first stage that fails gives the verdict, and no later one is entered.
func TestFirstFailureDecides(t *testing.T) {
	for i, c := range []struct {
		stage   Stage
		verdict Verdict
	}{
		{StageCompile, Compile},
		{StageInspect, Inspect},
		{StageParity, Timeout},
		{StageSanitize, Sanitizer},
		{StageBenchmark, Implausible},
	} {
		f := newFixture(t)
		f.bench.stage = func(_ context.Context, s Stage, _ string) (Outcome, error) {
			e := []Evidence{{Check: "fake", Outcome: Passed}}
			if s == c.stage {
				e[0].Outcome = Failed
				return Outcome{Verdict: c.verdict, Reason: "because", Evidence: e}, nil
			}
			return Outcome{Evidence: e}, nil
		}
		r, err := f.Evaluate(t.Context(), f.genome(t, i, 0), 0)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != c.verdict || r.Stage != c.stage || r.Reason != "because" || r.Fitness != 0 {
			t.Errorf("%s: %+v", c.stage, r)
		}
		if last := r.Steps[len(r.Steps)-1]; last.Stage != c.stage || last.Outcome != Failed {
			t.Errorf("%s: last step %+v", c.stage, last)
		}
	}
}

// In the debug flavour nothing is asked of the binary, nothing is timed, and
// the sanitizers see what failed parity as well.
func TestDebug(t *testing.T) {
	const hmma = 8 // SAY, with which the definition requires HMMA
	for _, c := range []struct {
		name      string
		fails     map[Stage]Verdict
		verdict   Verdict
		stage     Stage
		sanitized int
		last      Step
	}{
		{"passes", nil, Correct, StageBenchmark, 1, Step{Stage: StageBenchmark, Outcome: NotRun}},
		{"compile", map[Stage]Verdict{StageCompile: Compile}, Compile, StageCompile, 0, Step{Stage: StageCompile, Outcome: Failed}},
		{"parity", map[Stage]Verdict{StageParity: Launch}, Launch, StageParity, 1, Step{Stage: StageSanitize, Outcome: Passed}},
		{"both", map[Stage]Verdict{StageParity: Launch, StageSanitize: Sanitizer}, Launch, StageParity, 1, Step{Stage: StageSanitize, Outcome: Failed}},
		{"sanitize", map[Stage]Verdict{StageSanitize: Sanitizer}, Sanitizer, StageSanitize, 1, Step{Stage: StageSanitize, Outcome: Failed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.plan.Debug = true
			f.bench.stage = func(_ context.Context, s Stage, _ string) (Outcome, error) {
				if v := c.fails[s]; v != "" {
					return Outcome{Verdict: v, Reason: "because of " + string(s), Evidence: []Evidence{{Check: "fake", Outcome: Failed}}}, nil
				}
				return Outcome{Evidence: []Evidence{{Check: "fake", Outcome: Passed}}}, nil
			}
			g := f.genome(t, 1, hmma)
			r, err := f.Evaluate(t.Context(), g, 0)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != c.verdict || r.Stage != c.stage || r.Fitness != 0 || len(r.Timings) != 0 {
				t.Errorf("%+v", r)
			}
			if c.fails != nil && r.Reason != "because of "+string(c.stage) {
				t.Errorf("reason %q", r.Reason)
			}
			if last := r.Steps[len(r.Steps)-1]; last.Stage != c.last.Stage || last.Outcome != c.last.Outcome {
				t.Errorf("last step %+v", last)
			}
			if n := f.bench.count(StageSanitize, "1"); n != c.sanitized {
				t.Errorf("sanitized %d times", n)
			}
			if n := f.bench.count(StageBenchmark, "1"); n != 0 {
				t.Errorf("timed %d times", n)
			}
			if seen := f.bench.seen; len(seen.Require) != 0 || seen.Implementation.Binary.Require != nil {
				t.Errorf("of the binary %v is asked", seen.Require)
			}
			if im := f.plan.Implementations[0]; len(im.Binary.Require) == 0 {
				t.Error("the definition itself was changed")
			}
		})
	}
}

func TestRenderAndInfeasible(t *testing.T) {
	f := newFixture(t)
	r, err := f.Evaluate(t.Context(), f.genome(t, 1, 9), 0)
	if err != nil || r.Verdict != Render || r.Stage != StageRender || !strings.Contains(r.Reason, "MISSING") {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = f.Evaluate(t.Context(), genome.Genome{}, 0)
	if err != nil || r.Verdict != Infeasible {
		t.Errorf("%+v, %v", r, err)
	}
}

// A stage of which nothing ran is "not run", never "passed".
func TestNotRun(t *testing.T) {
	f := newFixture(t)
	f.bench.stage = func(_ context.Context, s Stage, _ string) (Outcome, error) {
		if s == StageSanitize {
			return Outcome{Evidence: []Evidence{{Check: "asan", Outcome: NotRun}}}, nil
		}
		return Outcome{Evidence: []Evidence{{Check: "fake", Outcome: Passed}, {Check: "other", Outcome: NotRun}}}, nil
	}
	r, err := f.Evaluate(t.Context(), f.genome(t, 1, 0), 0)
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := r.Step(StageSanitize); s.Outcome != NotRun {
		t.Errorf("%+v", s)
	}
	if s, _ := r.Step(StageInspect); s.Outcome != Passed {
		t.Errorf("%+v", s)
	}
}

// Genomes of one binary are judged once, however many ask at the same time.
func TestOneEvaluationPerBinary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.bench.stage = func(_ context.Context, s Stage, _ string) (Outcome, error) {
			time.Sleep(time.Second)
			return Outcome{Evidence: []Evidence{{Check: "fake", Outcome: Passed}}}, nil
		}
		var group sync.WaitGroup
		results := make([]Result, 8)
		for i := range results {
			g := f.genome(t, 5, i)
			group.Go(func() {
				r, err := f.Evaluate(t.Context(), g, 0)
				if err != nil {
					t.Error(err)
				}
				results[i] = r
			})
		}
		group.Wait()
		if n := f.bench.count(StageParity, "5"); n != 1 {
			t.Errorf("parity ran %d times", n)
		}
		if n := f.bench.count(StageCompile, "5"); n != 8 {
			t.Errorf("the compiler ran %d times", n)
		}
		own := 0
		for _, r := range results {
			if r.Verdict != Correct || len(r.Steps) != len(Stages()) || r.Fitness != results[0].Fitness {
				t.Errorf("%+v", r)
			}
			if r.SharedWith == "" {
				own++
			}
		}
		if own != 1 {
			t.Errorf("%d results are their own", own)
		}
	})
}

// A binary of which something is required is judged by itself: what it lacks
// was nothing to the genome that requires nothing of it.
func TestRequirementsAreNotShared(t *testing.T) {
	f := newFixture(t)
	for _, say := range []int{0, 8, 1, 8} {
		if r, err := f.Evaluate(t.Context(), f.genome(t, 5, say), 0); err != nil || r.Verdict != Correct {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if n := f.bench.count(StageInspect, "5"); n != 2 {
		t.Errorf("inspection ran %d times, not once for each set of requirements", n)
	}
}

// Genomes of one binary that tools are to see at different shapes are judged each by itself.
func TestOwnShapesAreNotShared(t *testing.T) {
	f := newFixture(t)
	f.bench.sanitize = func(src kernels.Rendered) kernels.Shape {
		if strings.Contains(src.Source, "/* 0 */") {
			return kernels.Shape{}
		}
		_, say, _ := strings.Cut(src.Source, "/* ")
		return kernels.Shape{Name: "one name", Dims: map[string]int64{"N": int64(say[0] - '0')}}
	}
	for _, say := range []int{0, 1, 2, 1, 0, 2} {
		if r, err := f.Evaluate(t.Context(), f.genome(t, 5, say), 0); err != nil || r.Verdict != Correct || r.SharedWith != "" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if n := f.bench.count(StageSanitize, "5"); n != 3 {
		t.Errorf("tools looked %d times, not once at each shape", n)
	}
}

// Who waits for another's evaluation takes over when that one is cancelled.
// Whether a candidate is a contender depends on its incumbent alone, not on which genome of the same
// binary came first.
func TestContendersShareByIncumbent(t *testing.T) {
	type asked struct {
		say       int
		incumbent float64
	}
	early, late := asked{0, 0.5}, asked{1, 0.2}
	for _, order := range [][]asked{{early, late}, {late, early}} {
		f := newFixture(t)
		f.plan.Contenders = true
		verdicts := map[asked]Verdict{}
		for _, a := range order {
			r, err := f.Evaluate(t.Context(), f.genome(t, 3, a.say), a.incumbent)
			if err != nil {
				t.Fatal(err)
			}
			verdicts[a] = r.Verdict
		}
		if verdicts[early] != Correct || verdicts[late] != Slower {
			t.Errorf("in the order %v: %v", order, verdicts)
		}
		r, err := f.Evaluate(t.Context(), f.genome(t, 3, 2), late.incumbent)
		if err != nil || r.Verdict != Slower || r.SharedWith != f.genome(t, 3, late.say).String() {
			t.Errorf("with the same incumbent it is %s, shared with %q: %v", r.Verdict, r.SharedWith, err)
		}
	}
}

func TestWaiterTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.bench.stage = func(ctx context.Context, s Stage, _ string) (Outcome, error) {
			select {
			case <-time.After(time.Second):
				return Outcome{Evidence: []Evidence{{Check: "fake", Outcome: Passed}}}, nil
			case <-ctx.Done():
				return Outcome{}, ctx.Err()
			}
		}
		first, cancel := context.WithCancel(t.Context())
		g, twin := f.genome(t, 5, 0), f.genome(t, 5, 1)
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := f.Evaluate(first, g, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled one: %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			r, err := f.Evaluate(t.Context(), twin, 0)
			if err != nil || r.Verdict != Correct || r.SharedWith != "" {
				t.Errorf("the other: %+v, %v", r, err)
			}
		})
		time.Sleep(2500 * time.Millisecond)
		cancel()
		group.Wait()
	})
}

func TestInfrastructure(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for _, c := range []struct {
		failures int
		want     Verdict
		calls    int
	}{{1, Correct, 2}, {2, Correct, 3}, {3, Infrastructure, 3}} {
		f := newFixture(t)
		left := c.failures
		f.bench.stage = func(_ context.Context, s Stage, _ string) (Outcome, error) {
			if s == StageParity && left > 0 {
				left--
				return Outcome{}, broken
			}
			return Outcome{Evidence: []Evidence{{Check: "fake", Outcome: Passed}}}, nil
		}
		r, err := f.Evaluate(t.Context(), f.genome(t, 3, 0), 0)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != c.want || f.bench.count(StageParity, "3") != c.calls {
			t.Errorf("%d failures: %s after %d attempts", c.failures, r.Verdict, f.bench.count(StageParity, "3"))
		}
		if c.want == Infrastructure && (r.Stage != StageParity || r.Reason != broken.Error() || r.Fitness != 0) {
			t.Errorf("%+v", r)
		}
		// What the machine did is not held against the binary.
		left = 0
		if r, err := f.Evaluate(t.Context(), f.genome(t, 3, 1), 0); err != nil || r.Verdict != Correct {
			t.Errorf("its twin afterwards: %+v, %v", r, err)
		}
	}
}

func TestClosedBenchIsAnError(t *testing.T) {
	f := newFixture(t)
	f.bench.stage = func(context.Context, Stage, string) (Outcome, error) { return Outcome{}, ErrClosed }
	if _, err := f.Evaluate(t.Context(), f.genome(t, 1, 0), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if n := f.bench.count(StageCompile, "1"); n != 1 {
		t.Errorf("tried %d times", n)
	}
}

func TestFinals(t *testing.T) {
	f := newFixture(t)
	flat := func(x float64) []float64 {
		s := make([]float64, 20)
		for i := range s {
			s[i] = x * (1 + float64(i%5)*1e-3)
		}
		return s
	}
	// Noise of ten percent that hits the candidate and its baseline alike.
	drift := func(x float64) []float64 {
		s := make([]float64, 20)
		for i := range s {
			s[i] = x * (1 + 0.1*math.Sin(float64(i)))
		}
		return s
	}
	times := map[string][2][]float64{
		"1": {flat(80), flat(100)},
		"2": {drift(50), drift(100)},
		"3": {drift(50.01), drift(100)},
		"4": {flat(100), flat(100)},
	}
	f.bench.duel = func(bins []Artifact) ([]Finalist, error) {
		var out []Finalist
		for _, b := range bins {
			if b.Handle == "7" {
				out = append(out, Finalist{Verdict: Launch, Reason: "crashed"})
				continue
			}
			s := times[b.Handle.(string)]
			out = append(out, Finalist{Timings: []Timing{NewTiming("main", s[0], s[1], 1, 1)}})
		}
		return out, nil
	}
	run := func(codes ...int) Finals {
		t.Helper()
		var gs []genome.Genome
		for _, c := range codes {
			gs = append(gs, f.genome(t, c, 0))
		}
		r, err := f.Finals(t.Context(), gs)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run(1, 7, 2)
	if r.Winner != 2 || r.Entries[1].Verdict != Launch || r.Entries[0].Verdict != Correct {
		t.Fatalf("%+v", r)
	}
	if !r.VsBaseline.Significant || math.Abs(r.VsBaseline.Ratio-0.5) > 0.01 || !r.VsRunnerUp.Significant || math.Abs(r.VsRunnerUp.Ratio-0.5/0.8) > 0.01 {
		t.Errorf("%+v %+v", r.VsBaseline, r.VsRunnerUp)
	}
	if r := run(4); r.Winner != 0 || r.VsBaseline.Significant || r.VsRunnerUp != nil || r.VsBaseline.String() != "~" {
		t.Errorf("as fast as the baseline: %+v", r)
	}
	if r := run(7); r.Winner != -1 || r.VsBaseline != nil {
		t.Errorf("nobody survives: %+v", r)
	}
	if r := run(3, 2); r.Winner != 1 || r.VsRunnerUp == nil {
		t.Errorf("%+v", r)
	}
	if _, err := f.Finals(t.Context(), nil); err == nil {
		t.Error("finals without finalists")
	}
	f.bench.duel = func([]Artifact) ([]Finalist, error) { return nil, errors.New("no power") }
	if _, err := f.Finals(t.Context(), []genome.Genome{f.genome(t, 1, 0)}); err == nil || !strings.Contains(err.Error(), "no power") {
		t.Errorf("got %v", err)
	}
}

func TestRememberedBinariesAreBounded(t *testing.T) {
	f := newFixture(t)
	g := f.genome(t, 1, 0)
	for i := range rememberedBinaries + 10 {
		s, mine := f.claim(fmt.Sprint(i), g)
		if !mine {
			t.Fatal("a new binary was known")
		}
		f.settle(fmt.Sprint(i), s, Result{}, i%2 == 0)
	}
	if n := len(f.binaries); n > rememberedBinaries || n != len(f.order) {
		t.Errorf("%d binaries, %d in order", n, len(f.order))
	}
}

// TestTime: a candidate is timed again however often it was, by the benchmark alone and to its end.
func TestTime(t *testing.T) {
	f := newFixture(t)
	g := f.genome(t, 3, 1)
	if _, err := f.Evaluate(t.Context(), g, 0.1); err != nil {
		t.Fatal(err)
	}
	for n := 2; n < 4; n++ {
		r, err := TimeOf(t.Context(), f.Ordeal, g)
		if err != nil || r.Verdict != Correct || !(r.Fitness > 0) || r.Binary != "code 3" || r.SharedWith != "" {
			t.Fatalf("%+v, %v", r, err)
		}
		if p, b := f.bench.count(StageParity, "3"), f.bench.count(StageBenchmark, "3"); p != 1 || b != n {
			t.Errorf("%d times under parity, %d timed, want 1 and %d", p, b, n)
		}
	}
	f.bench.stage = func(_ context.Context, stage Stage, _ string) (Outcome, error) {
		if stage == StageBenchmark {
			return Outcome{Verdict: Parity, Reason: "planted"}, nil
		}
		return Outcome{}, nil
	}
	if r, err := TimeOf(t.Context(), f.Ordeal, g); err != nil || r.Verdict != Parity || r.Fitness != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := TimeOf(t.Context(), plainEvaluator{f}, g); err != nil || r.Stage != StageBenchmark || f.bench.count(StageParity, "3") != 1 {
		t.Errorf("what cannot time alone: %+v, %v", r, err) // the ordeal's own memory answers
	}
}

// TestUntil: the stages after the last one do not run, what passes has no verdict, and neither does
// an evaluation take a result that stopped early for its own.
func TestUntil(t *testing.T) {
	for n, last := range Stages() {
		f := newFixture(t)
		r, err := f.Until(t.Context(), f.genome(t, 3, 1), last)
		if err != nil || r.Verdict != "" || r.Stage != last || len(r.Steps) != n+1 || r.Fitness != 0 {
			t.Errorf("until %s: %+v, %v", last, r, err)
		}
		for i, s := range Stages()[1:] {
			if ran := f.bench.count(s, "3"); ran > 1 || (ran == 1) != (i+1 <= n) {
				t.Errorf("until %s: %s ran %d times", last, s, ran)
			}
		}
		r, err = f.Evaluate(t.Context(), f.genome(t, 3, 2), 0)
		if err != nil || r.Verdict != Correct || r.SharedWith != "" || !(r.Fitness > 0) {
			t.Errorf("after until %s: %+v, %v", last, r, err)
		}
	}
	f := newFixture(t)
	f.bench.stage = func(_ context.Context, stage Stage, _ string) (Outcome, error) {
		if stage == StageInspect {
			return Outcome{Verdict: Inspect, Reason: "planted"}, nil
		}
		return Outcome{}, nil
	}
	if r, err := f.Until(t.Context(), f.genome(t, 3, 1), StageParity); err != nil || r.Verdict != Inspect || r.Stage != StageInspect {
		t.Errorf("%+v, %v", r, err)
	}
}

// plainEvaluator has no method but those of Evaluator.
type plainEvaluator struct{ Evaluator }
