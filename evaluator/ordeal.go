package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	text "github.com/evotune/evotune/evaluator/internal/plain"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/panics"
	"github.com/evotune/evotune/kernels"
)

// ErrClosed is wrapped by the errors of a Lab that was closed; they are not retried.
var ErrClosed = errors.New("the lab was closed")

const (
	// infrastructureRetries is how often an evaluation is retried after the machine
	// failed.
	infrastructureRetries = 2
	// rememberedBinaries bounds the binaries whose results are kept
	// for other genomes that compile to the same code.
	rememberedBinaries = 4096
)

// An Ordeal judges the genomes of one Plan in one Lab, stage by stage: the
// first stage that fails gives the verdict. Genomes that compile to one binary
// share one evaluation.
type Ordeal struct {
	judge stages
	plan  Plan

	mu       sync.Mutex
	binaries map[string]*shared // by hash, and what the genome requires
	order    []string           // of binaries, oldest first
}

var _ Evaluator = (*Ordeal)(nil)

// A shared is the evaluation of one binary.
type shared struct {
	genome string
	done   chan struct{} // closed when the evaluation has ended
	ok     bool          // whether others may share the result
	result Result        // from inspection on
}

// stages judge a candidate, each in one respect. A candidate that fails one gets an
// Outcome with a verdict; errors are the machine's. The judge implements it, and so
// does a fake in tests.
type stages interface {
	Describe() Description
	Compile(ctx context.Context, src kernels.Rendered) (Artifact, Outcome, error)
	Inspect(ctx context.Context, a Artifact) (Outcome, error)
	Parity(ctx context.Context, a Artifact) (Outcome, error)
	Sanitize(ctx context.Context, a Artifact) (Outcome, error)
	// FirstReadings times the candidate just long enough to see whether it is far slower than
	// the incumbent: the verdict is Slower then, and empty if the candidate is a contender.
	FirstReadings(ctx context.Context, a Artifact, incumbent float64) ([]Timing, Outcome, error)
	// Benchmark times the candidate at every tuned shape. incumbent is as for
	// Evaluator.Evaluate.
	Benchmark(ctx context.Context, a Artifact, incumbent float64) ([]Timing, Outcome, error)
	// Duel times several candidates and the baseline in fresh processes, at every
	// tuned shape and at the held-out ones. Entry i belongs to artifact i, still
	// without genome and fitness; its verdict is empty if it passed. Early is nil
	// unless the time was over (see WithEnd) before all was done.
	Duel(ctx context.Context, artifacts []Artifact) (list []Finalist, early *Early, err error)
	Close() error
}

// Open opens a lab of a backend for a plan, and the ordeal in it.
func Open(ctx context.Context, b Backend, plan Plan) (o *Ordeal, err error) {
	defer panics.Catch(&err)
	lab, err := b.Open(ctx, plan)
	if err != nil {
		return nil, err
	}
	return NewOrdeal(ctx, lab, plan)
}

// NewOrdeal tests what every verdict depends on, the tolerance and the baseline of
// a plan (see [ErrControl], [ErrBaseline] and [ErrUnwritten]), and returns the ordeal in that lab.
// Closing the ordeal closes the lab; NewOrdeal closes it on an error.
func NewOrdeal(ctx context.Context, lab Lab, plan Plan) (*Ordeal, error) {
	j, err := newJudge(ctx, lab, plan)
	if err != nil {
		return nil, errors.Join(err, lab.Close())
	}
	return newOrdeal(j, plan), nil
}

func newOrdeal(s stages, plan Plan) *Ordeal {
	return &Ordeal{judge: s, plan: plan, binaries: map[string]*shared{}}
}

// Describe implements [Evaluator].
func (o *Ordeal) Describe() Description { return o.judge.Describe() }

// Close implements [Evaluator].
func (o *Ordeal) Close() error { return o.judge.Close() }

// Evaluate implements [Evaluator]. When the machine fails or a stage panics, the evaluation
// is retried twice before the verdict is Infrastructure.
func (o *Ordeal) Evaluate(ctx context.Context, g genome.Genome, incumbent float64) (Result, error) {
	return o.retry(ctx, func() (Result, error) { return o.evaluate(ctx, g, incumbent, "") })
}

// Until is Evaluate, for tests of labs, without the stages after the last one. Such a result is never taken
// for a verdict: that of a candidate which passes is empty. It is not shared with genomes of the same
// binary, nor taken from one.
func (o *Ordeal) Until(ctx context.Context, g genome.Genome, last Stage) (Result, error) {
	return o.retry(ctx, func() (Result, error) { return o.evaluate(ctx, g, 0, last) })
}

// retry evaluates until the machine does not fail.
func (o *Ordeal) retry(ctx context.Context, evaluate func() (Result, error)) (Result, error) {
	start := time.Now()
	for try := 0; ; try++ {
		r, err := evaluate()
		var failed *stageError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return Result{}, ctx.Err()
		case errors.Is(err, ErrClosed) || !errors.As(err, &failed):
			return Result{}, err
		case try < infrastructureRetries:
			continue
		default:
			why := text.Text(failed.err.Error())
			r.Verdict, r.Stage, r.Reason = Infrastructure, failed.stage, why
			r.Fitness, r.Timings = 0, nil
			r.Steps = append(r.Steps, Step{Stage: failed.stage, Outcome: NotRun, Elapsed: failed.elapsed, Evidence: []Evidence{{
				Check: "infrastructure", Outcome: NotRun, Value: float64(try + 1), Unit: "attempts", Detail: why,
			}}})
		}
		r.Cost = time.Since(start)
		return r, nil
	}
}

// A stageError is a failure of the machine in a stage.
type stageError struct {
	stage   Stage
	elapsed time.Duration
	err     error
}

func (e *stageError) Error() string { return fmt.Sprintf("%s: %v", e.stage, e.err) }
func (e *stageError) Unwrap() error { return e.err }

// run runs one stage and notes its step. It says whether to go on.
func (r *Result) run(ctx context.Context, stage Stage, do func() (Outcome, error)) (bool, error) {
	Enter(ctx, stage)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	begin := time.Now()
	out, err := func() (out Outcome, err error) {
		defer panics.Catch(&err)
		return do()
	}()
	elapsed := time.Since(begin)
	if err != nil {
		return false, &stageError{stage, elapsed, err}
	}
	out.Reason, out.Evidence = text.Text(out.Reason), plainEvidence(out.Evidence)
	step := Step{Stage: stage, Outcome: Passed, Elapsed: elapsed, Evidence: out.Evidence}
	ran := func(e Evidence) bool { return e.Outcome != NotRun }
	switch {
	case out.Verdict == Slower:
		r.Verdict, r.Reason = out.Verdict, out.Reason
	case out.Verdict == Infrastructure:
		step.Outcome = NotRun
		r.Verdict, r.Reason, r.Disturbed = out.Verdict, out.Reason, out.Disturbed
	case out.Verdict != "":
		step.Outcome = Failed
		r.Verdict, r.Reason = out.Verdict, out.Reason
	case stage != StageRender && !slices.ContainsFunc(out.Evidence, ran):
		step.Outcome = NotRun
	}
	r.Stage = stage
	// The benchmark of a contender continues after the sanitizers.
	if i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Stage == stage }); i >= 0 {
		step.Elapsed += r.Steps[i].Elapsed
		step.Evidence = append(r.Steps[i].Evidence, step.Evidence...)
		r.Steps[i] = step
	} else {
		r.Steps = append(r.Steps, step)
	}
	return out.Verdict == "", nil
}

// plainEvidence removes control characters from the output of candidates and their
// tools, so that nothing in a result controls the terminal it is printed on.
func plainEvidence(list []Evidence) []Evidence {
	for i := range list {
		list[i].Detail = text.Text(list[i].Detail)
	}
	return list
}

// evaluate makes one attempt, which ends after the stage last, if there is one.
func (o *Ordeal) evaluate(ctx context.Context, g genome.Genome, incumbent float64, last Stage) (Result, error) {
	var r Result
	var src kernels.Rendered
	goOn, err := r.run(ctx, StageRender, func() (out Outcome, err error) {
		src, out, err = o.render(g)
		return out, err
	})
	if err != nil || !goOn || last == StageRender {
		return r, err
	}
	r.Source = src.Hash
	if o.plan.Debug {
		src = unbound(src)
	}
	var bin Artifact
	goOn, err = r.run(ctx, StageCompile, func() (out Outcome, err error) {
		bin, out, err = o.judge.Compile(ctx, src)
		return out, err
	})
	r.Binary, r.Key = bin.Hash, bin.Key
	if err != nil || !goOn || last == StageCompile {
		return r, err
	}
	if last != "" {
		rest, err := o.run(ctx, bin, incumbent, last)
		return merge(r, rest), err
	}
	// What inspection requires of a binary depends on the genome: one that claims
	// tensor cores does not share with one that does not.
	key := bin.Hash
	for _, re := range src.Require {
		key += " " + re.String()
	}
	if bin.Sanitize.Name != "" { // findings at one shape say nothing about another
		key += fmt.Sprint(" ", bin.Sanitize.Dims, bin.Sanitize.Blocks)
	}
	if o.plan.Contenders {
		// Whether it is a contender depends on the incumbent. Only genomes with the same one share,
		// so that no verdict depends on which of them came first.
		key += fmt.Sprint(" ", incumbent)
	}
	for {
		s, mine := o.claim(key, g)
		if mine {
			rest, err := o.run(ctx, bin, incumbent, "")
			o.settle(key, s, rest, err == nil && rest.Verdict != Infrastructure)
			return merge(r, rest), err
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			return r, ctx.Err()
		}
		if s.ok {
			r = merge(r, s.result)
			if name := g.String(); name != s.genome {
				r.SharedWith = s.genome
			}
			return r, nil
		}
		// The first evaluation failed for a reason other than the binary; now this
		// evaluation, or another waiting one, tries.
	}
}

// Time compiles and times a candidate once more, and does nothing else. Nothing ends the
// benchmark early, and no earlier result is used.
func (o *Ordeal) Time(ctx context.Context, g genome.Genome) (Result, error) {
	var r Result
	var src kernels.Rendered
	var bin Artifact
	for _, s := range []struct {
		stage Stage
		do    func() (Outcome, error)
	}{
		{StageRender, func() (out Outcome, err error) { src, out, err = o.render(g); return out, err }},
		{StageCompile, func() (out Outcome, err error) { bin, out, err = o.judge.Compile(ctx, src); return out, err }},
		{StageBenchmark, func() (out Outcome, err error) {
			r.Timings, out, err = o.judge.Benchmark(ctx, bin, 0)
			return out, err
		}},
	} {
		if goOn, err := r.run(ctx, s.stage, s.do); err != nil || !goOn {
			return r, err
		}
	}
	r.Source, r.Binary, r.Key = src.Hash, bin.Hash, bin.Key
	r.Verdict, r.Fitness = Correct, fitness(r.Timings)
	return r, nil
}

// render fills the template of the genome's implementation.
func (o *Ordeal) render(g genome.Genome) (kernels.Rendered, Outcome, error) {
	if g.IsZero() {
		return kernels.Rendered{}, Outcome{Verdict: Infeasible, Reason: "there is no genome to evaluate"}, nil
	}
	if why := infeasible(g); why != "" {
		return kernels.Rendered{}, Outcome{Verdict: Infeasible, Reason: why, Evidence: []Evidence{{
			Check: "constraints", Outcome: Failed, Detail: why,
		}}}, nil
	}
	im := o.plan.Definition.Implementation(g, o.plan.Implementations)
	if im == nil {
		err := fmt.Errorf("the genome %s belongs to no implementation of this plan", g)
		return kernels.Rendered{}, Outcome{Verdict: Infeasible, Reason: err.Error()}, nil
	}
	src, err := im.Render(g)
	if errors.Is(err, kernels.ErrRender) {
		return src, Outcome{Verdict: Render, Reason: err.Error(), Evidence: []Evidence{{
			Check: "template", Outcome: Failed, Detail: err.Error(),
		}}}, nil
	}
	return src, Outcome{}, err
}

// unbound returns a source without requirements on its binary: unoptimized code spills,
// lacks instructions, and causes other diagnostics.
func unbound(src kernels.Rendered) kernels.Rendered {
	im := *src.Implementation
	im.Blocking, im.Binary = nil, kernels.Binary{}
	src.Implementation, src.Require = &im, nil
	return src
}

// infeasible says which constraint a genome breaks; empty if none.
func infeasible(g genome.Genome) string {
	if s := g.Space(); s != nil {
		if err := s.Check(g); err != nil {
			return err.Error()
		}
	}
	return ""
}

// run runs the stages from inspection on, to the stage last, if there is one.
func (o *Ordeal) run(ctx context.Context, bin Artifact, incumbent float64, last Stage) (Result, error) {
	var r Result
	sanitize := func() (Outcome, error) { return o.judge.Sanitize(ctx, bin) }
	type stage struct {
		stage Stage
		do    func() (Outcome, error)
	}
	stages := []stage{
		{StageInspect, func() (Outcome, error) { return o.judge.Inspect(ctx, bin) }},
		{StageParity, func() (Outcome, error) { return o.judge.Parity(ctx, bin) }},
		{StageSanitize, sanitize},
		{StageBenchmark, func() (out Outcome, err error) {
			if o.plan.Debug {
				return Outcome{Evidence: []Evidence{{Check: "time", Outcome: NotRun, Detail: "code that is not optimized is not timed"}}}, nil
			}
			r.Timings, out, err = o.judge.Benchmark(ctx, bin, incumbent)
			return out, err
		}},
	}
	if o.plan.Contenders && incumbent > 0 && !o.plan.Debug {
		stages = slices.Insert(stages, 2, stage{StageBenchmark, func() (Outcome, error) {
			timings, out, err := o.judge.FirstReadings(ctx, bin, incumbent)
			if out.Verdict != "" { // else they count for nothing: they were selected
				r.Timings = timings
			}
			return out, err
		}})
	}
	for _, s := range stages {
		goOn, err := r.run(ctx, s.stage, s.do)
		if err == nil && !goOn && o.plan.Debug && s.stage == StageParity {
			// Parity saw the effect; the sanitizers find the line.
			first := r
			_, err = r.run(ctx, StageSanitize, sanitize)
			r.Verdict, r.Stage, r.Reason = first.Verdict, first.Stage, first.Reason
		}
		if r.Verdict == Slower {
			r.Fitness = fitness(r.Timings)
			r.Steps = append(r.Steps, Step{Stage: StageSanitize, Outcome: NotRun, Evidence: []Evidence{{
				Check: "sanitizers", Outcome: NotRun, Detail: "slower than the best",
			}}})
		}
		if err != nil || !goOn || s.stage == last {
			return r, err
		}
	}
	r.Verdict = Correct
	if o.plan.Debug {
		return r, nil
	}
	r.Fitness = fitness(r.Timings)
	if !(r.Fitness > 0) {
		return r, &stageError{StageBenchmark, 0, errors.New("the benchmark gave no times")}
	}
	return r, nil
}

// fitness is the geometric mean of the ratios to the baseline; 0 if there are none.
func fitness(timings []Timing) float64 {
	if len(timings) == 0 {
		return 0
	}
	ratios := make([]float64, len(timings))
	for i, t := range timings {
		ratios[i] = t.Ratio
	}
	return GeometricMean(ratios)
}

// merge appends the stages after compilation to those before it.
func merge(r, rest Result) Result {
	r.Verdict, r.Reason, r.Fitness, r.Disturbed = rest.Verdict, rest.Reason, rest.Fitness, rest.Disturbed
	if rest.Stage != "" {
		r.Stage = rest.Stage
	}
	r.Steps = append(r.Steps, rest.Steps...)
	r.Timings = rest.Timings
	return r
}

// claim starts the evaluation of a binary, or returns the one that already runs or ran.
func (o *Ordeal) claim(hash string, g genome.Genome) (s *shared, mine bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok := o.binaries[hash]; ok {
		return s, false
	}
	s = &shared{genome: g.String(), done: make(chan struct{})}
	o.binaries[hash] = s
	o.order = append(o.order, hash)
	if len(o.order) > rememberedBinaries {
		// An evaluation in progress stays reachable for those that wait for it.
		delete(o.binaries, o.order[0])
		o.order = o.order[1:]
	}
	return s, true
}

// settle ends the evaluation of a binary. An evaluation that failed for reasons other
// than the binary is forgotten.
func (o *Ordeal) settle(hash string, s *shared, r Result, ok bool) {
	o.mu.Lock()
	s.result, s.ok = r, ok
	if !ok && o.binaries[hash] == s {
		delete(o.binaries, hash)
		o.order = slices.DeleteFunc(o.order, func(h string) bool { return h == hash })
	}
	o.mu.Unlock()
	close(s.done)
}

// Usage says how busy the lab's devices are; ok is false when it cannot tell.
func (o *Ordeal) Usage() (u Usage, ok bool) {
	var from any = o.judge
	if j, judged := o.judge.(*judge); judged {
		from = j.lab
	}
	b, ok := from.(interface{ Usage() Usage })
	if ok {
		u = b.Usage()
	}
	return u, ok
}

// Conditions says what disturbs measurements on the machine now.
func (o *Ordeal) Conditions(ctx context.Context) (c Conditions, ok bool) {
	j, ok := o.judge.(*judge)
	if ok {
		c = j.lab.Conditions(ctx)
	}
	return c, ok
}

// FinalsTime estimates how long complete finals of n finalists take.
func (o *Ordeal) FinalsTime(n int) (d time.Duration, ok bool) {
	j, ok := o.judge.(*judge)
	if ok {
		d = j.took.finals(n, j.rules.Processes)
	}
	return d, ok
}

// Doubts lists what the definition leaves unproven, each in one line that says what to
// do: edge-case contents on which the baseline is wrong or the reference has no
// answer, and a tolerance that hides half of an output.
func (o *Ordeal) Doubts(ctx context.Context) ([]string, error) {
	j, ok := o.judge.(*judge)
	if !ok {
		return nil, nil
	}
	return j.doubts(ctx)
}

// TimeOf times a candidate once more; an evaluator that cannot time it alone evaluates it.
func TimeOf(ctx context.Context, ev Evaluator, g genome.Genome) (Result, error) {
	if e, can := ev.(interface {
		Time(ctx context.Context, g genome.Genome) (Result, error)
	}); can {
		return e.Time(ctx, g)
	}
	return ev.Evaluate(ctx, g, 0)
}

// FinalsTimeOf estimates how long complete finals of n finalists take, from what measurements
// took until now, if the evaluator knows.
func FinalsTimeOf(ev Evaluator, n int) (d time.Duration, ok bool) {
	if e, can := ev.(interface {
		FinalsTime(n int) (time.Duration, bool)
	}); can {
		return e.FinalsTime(n)
	}
	return 0, false
}

// UsageOf says how busy an evaluator's devices are, if it knows.
func UsageOf(ev Evaluator) (u Usage, ok bool) {
	if e, can := ev.(interface{ Usage() (Usage, bool) }); can {
		return e.Usage()
	}
	return u, false
}

// ConditionsOf says what else an evaluator's machine is doing now, if it knows.
func ConditionsOf(ctx context.Context, ev Evaluator) (c Conditions, ok bool) {
	if e, can := ev.(interface {
		Conditions(ctx context.Context) (Conditions, bool)
	}); can {
		return e.Conditions(ctx)
	}
	return c, false
}

// Finals implements [Evaluator].
func (o *Ordeal) Finals(ctx context.Context, finalists []genome.Genome) (f Finals, err error) {
	defer panics.Catch(&err)
	f = Finals{Winner: -1, Entries: make([]Finalist, len(finalists))}
	if len(finalists) == 0 {
		return f, errors.New("finals need at least one finalist")
	}
	Enter(ctx, StageFinals)
	if err := ctx.Err(); err != nil {
		return f, err
	}
	var bins []Artifact
	var of []int // the finalist of each binary
	for i, g := range finalists {
		e := &f.Entries[i]
		e.Genome = g
		src, out, err := o.render(g)
		if err != nil {
			return f, err
		}
		var bin Artifact
		if out.Verdict == "" {
			if bin, out, err = o.judge.Compile(ctx, src); err != nil {
				return f, err
			}
		}
		if out.Verdict != "" {
			e.Verdict, e.Reason = out.Verdict, text.Text(out.Reason)
			continue
		}
		bins, of = append(bins, bin), append(of, i)
	}
	if len(bins) == 0 {
		return f, nil
	}
	entries, early, err := o.judge.Duel(ctx, bins)
	for try := 0; err != nil && ctx.Err() == nil && try < infrastructureRetries && !errors.Is(err, ErrClosed); try++ {
		entries, early, err = o.judge.Duel(ctx, bins)
	}
	if err != nil {
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
		return f, fmt.Errorf("finals: %w", err)
	}
	if len(entries) != len(bins) {
		return f, fmt.Errorf("finals: %d of %d finalists were answered for", len(entries), len(bins))
	}
	f.Early = early
	var ranked []int
	for n, e := range entries {
		e.Genome, e.Reason, e.Evidence = finalists[of[n]], text.Text(e.Reason), plainEvidence(e.Evidence)
		if e.Verdict = cmp.Or(e.Verdict, Correct); e.Verdict == Correct {
			if e.Fitness = fitness(e.Timings); e.Fitness > 0 {
				ranked = append(ranked, of[n])
			}
		}
		f.Entries[of[n]] = e
	}
	if len(ranked) == 0 {
		return f, nil
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(f.Entries[a].Fitness, f.Entries[b].Fitness) })
	f.Winner = ranked[0]
	winner := f.Entries[f.Winner]
	agree := func(c *Comparison, beside []Timing) {
		c.agree(winner.Timings, beside)
		if early != nil && early.Sets < early.Of {
			c.few(winner.Timings, beside)
		}
	}
	samples, baseline := rounds(winner.Timings)
	vs := Compare(samples, baseline)
	vs.Ratio = winner.Fitness
	agree(&vs, nil)
	f.VsBaseline = &vs
	for n, i := range ranked[1:] {
		other := f.Entries[i]
		vs := Compare(RoundRatios(winner.Timings), RoundRatios(other.Timings))
		agree(&vs, other.Timings)
		if n == 0 {
			f.VsRunnerUp = &vs
		}
		if early != nil && !vs.Significant {
			early.Unseparated = append(early.Unseparated, i)
		}
	}
	if early != nil {
		early.Baseline = !f.VsBaseline.Significant
	}
	return f, nil
}

// rounds returns, for every round of the finals, the geometric mean over the
// shapes of the candidate's time and of the baseline's.
func rounds(timings []Timing) (samples, baseline []float64) {
	for i := range fewestRounds(timings) {
		var s, b []float64
		for _, t := range timings {
			s, b = append(s, t.SamplesNS[i]), append(b, t.BaselineNS[i])
		}
		samples, baseline = append(samples, GeometricMean(s)), append(baseline, GeometricMean(b))
	}
	return samples, baseline
}

// RoundRatios returns, for every round of the finals, the geometric mean over the shapes
// of the ratio to the baseline sample that was taken next to it. What disturbs the
// machine for a while disturbs both, so ratios of different contenders can
// be compared.
func RoundRatios(timings []Timing) []float64 {
	samples, baseline := rounds(timings)
	for i := range samples {
		samples[i] /= baseline[i]
	}
	return samples
}

// Times are the times of a candidate and of the baseline beside it, in nanoseconds per
// launch; 0 if there are none.
type Times struct {
	MedianNS   float64 `json:"median_ns,omitempty"`
	BaselineNS float64 `json:"baseline_ns,omitempty"`
}

// AllTimes are Times whose JSON has all fields, also if there are none.
type AllTimes struct {
	MedianNS   float64 `json:"median_ns"`
	BaselineNS float64 `json:"baseline_ns"`
}

// MedianTimes returns the geometric means over the shapes of the median times.
func MedianTimes(timings []Timing) Times {
	if len(timings) == 0 {
		return Times{}
	}
	var c, b []float64
	for _, t := range timings {
		c, b = append(c, t.MedianNS), append(b, t.BaselineMedianNS)
	}
	return Times{GeometricMean(c), GeometricMean(b)}
}

func fewestRounds(timings []Timing) int {
	if len(timings) == 0 {
		return 0
	}
	n := len(timings[0].SamplesNS)
	for _, t := range timings {
		n = min(n, len(t.SamplesNS), len(t.BaselineNS))
	}
	return n
}
