package evaluator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evotune/evotune/internal/backend"
	"github.com/evotune/evotune/internal/panics"
	"github.com/evotune/evotune/kernels"
)

// Errors of opening a problem, for errors.Is.
var (
	// ErrControl: a negative control passes the definition's tolerance.
	ErrControl = errors.New("negative control passes")
	// ErrBaseline: the baseline fails the ordeal.
	ErrBaseline = errors.New("the baseline fails")
	// ErrUnwritten: the reference leaves so much of an output unwritten that comparisons
	// prove little.
	ErrUnwritten = errors.New("the reference leaves most of an output unwritten")
)

// A judge applies the rules of every stage to what a Lab reports.
type judge struct {
	lab   Lab
	plan  Plan
	rules *backend.Rules
	spec  *kernels.Problem
	// tolerance is by output.
	tolerance limits
	// baselineError is the baseline's parity error, by shape and output.
	baselineError map[string]map[string]float64
	tuned         map[string]bool // by shape

	// What was proven when the problem was opened, by shape: the baseline, and
	// how long one launch of it takes.
	baseline map[string]Artifact
	usual    map[string]time.Duration
	// allowed is how long all launches of a candidate in parity may take together, if that is more than
	// leastAllowed.
	allowed time.Duration
	// further names the edge-case contents. silent has the checks that prove nothing
	// with them, and the reason: the baseline's error is too large there.
	further []string
	silent  map[string]string
	kept    string // the inputs that edge-case contents leave unchanged, for people
	// unproven are the undeclared controls that pass at tuned shapes.
	unproven []Unproven

	took spending
}

// newJudge tests what all verdicts depend on, the tolerance and the baseline, and
// returns the stages of the ordeal for one plan on a lab. On an error the caller
// closes the lab; otherwise closing the judge closes it.
func newJudge(ctx context.Context, lab Lab, plan Plan) (*judge, error) {
	d := lab.Describe()
	rules := rulesOf(d.Device.Kind)
	if rules == nil {
		return nil, fmt.Errorf("evaluator: no rules for devices of the kind %q", d.Device.Kind)
	}
	j := &judge{
		lab: lab, plan: plan, rules: rules, spec: plan.Definition.ProblemOn(d.Backend),
		tolerance: limits{}, baselineError: map[string]map[string]float64{}, tuned: map[string]bool{},
		baseline: map[string]Artifact{}, usual: map[string]time.Duration{}, silent: map[string]string{},
	}
	j.took = spending{rules: j.rules, tuned: len(plan.Tune), checked: len(plan.SanitizeAlso)}
	for _, c := range j.spec.Further() {
		j.further = append(j.further, c.Name)
	}
	var kept []string
	how := " as they are declared"
	for _, b := range j.spec.Buffers {
		if b.Kept() {
			kept = append(kept, b.Name)
			if b.Data.Distribution == kernels.Python {
				how = " as Python makes them"
			}
		}
	}
	if len(kept) > 0 {
		j.kept = "with the data of " + strings.Join(kept, ", ") + how
	}
	j.plan.Samples = cmp.Or(plan.Samples, j.rules.Samples)
	j.plan.SampleTime = cmp.Or(plan.SampleTime, j.rules.SampleTime)
	j.plan.FinalsSamples = cmp.Or(plan.FinalsSamples, j.rules.Finals)
	for _, b := range j.spec.Buffers {
		if b.Role != kernels.In {
			j.tolerance[b.Name], _ = j.spec.ToleranceOf(b)
		}
	}
	for _, s := range plan.Tune {
		j.tuned[s.Name] = true
	}
	if err := j.proveControls(ctx); err != nil {
		return nil, err
	}
	if err := j.proveBaseline(ctx); err != nil {
		return nil, err
	}
	return j, nil
}

// shapes lists every shape once, in the order in which parity sees them: cheap
// shapes first.
func (j *judge) shapes() []kernels.Shape {
	return slices.Concat([]kernels.Shape{j.plan.Sanitize}, j.plan.Verify, j.plan.Tune)
}

// Describe implements stages.
func (j *judge) Describe() Description {
	d := j.lab.Describe()
	d.Unproven = j.unproven
	return d
}

// Close implements stages.
func (j *judge) Close() error { return j.lab.Close() }

// sameAnswer is the relative error up to which a control counts as the right
// answer, such as the constant at a shape with one element.
const sameAnswer = 1e-12

// proveControls tests the tolerance: every negative control that the definition declares
// must exceed it at every shape where the control is wrong, and be wrong at one shape or
// more. Where another one passes at a tuned shape, nothing is proven there.
func (j *judge) proveControls(ctx context.Context) error {
	var shapes []kernels.Shape
	var names []string
	for _, s := range j.shapes() {
		if kernels.Computable(j.plan.Implementations, s) {
			shapes, names = append(shapes, s), append(names, s.Name)
		}
	}
	name := j.plan.Definition.Name
	for _, c := range j.spec.Controls {
		looked := false
		for _, s := range shapes {
			outputs, err := j.control(ctx, c, s)
			if err != nil {
				return err
			}
			if why := unwritten(outputs); why != "" {
				return fmt.Errorf("%w: kernel %s, shape %s: %s", ErrUnwritten, name, s.Name, why)
			}
			least, most, refused := math.Inf(1), 0.0, false
			for _, o := range outputs {
				refused = refused || !(o.Error <= j.tolerance[o.Name])
				least, most = math.Min(least, o.Error), math.Max(most, o.Error)
			}
			if !refused && most > sameAnswer {
				return fmt.Errorf("%w: kernel %s: the control %q passes at shape %s with an error of %.3g: the tolerance is too wide, or the data hides the difference",
					ErrControl, name, c, s.Name, least)
			}
			looked = looked || refused
		}
		if !looked {
			return fmt.Errorf("%w: kernel %s: the control %q says nothing at any of the shapes %s: it gives the right answer everywhere, or its inputs differ in size everywhere; change the sanitize shape or a verify shape, or a `where` that leaves some out",
				ErrControl, name, c, strings.Join(names, ", "))
		}
	}
	for _, s := range j.plan.Tune {
		passing, err := j.passing(ctx, s)
		if err != nil {
			return err
		}
		j.unproven = append(j.unproven, passing...)
	}
	if j.plan.Strict && len(j.unproven) > 0 {
		return fmt.Errorf("%w: kernel %s: %s", ErrControl, name, j.unproven[0])
	}
	return nil
}

// control compares a wrong answer with the reference, as a step of the preparation.
func (j *judge) control(ctx context.Context, c kernels.Control, s kernels.Shape) ([]Output, error) {
	ctx, done := Preparing(ctx, "control %q at shape %s", c, s.Name)
	defer done()
	return j.lab.Control(ctx, c, s)
}

// passing tries the controls that every definition has at one shape, and lists those that
// would be taken for correct. An input that is the answer is right; an answer that work left
// out does not change at all shows that nothing there would miss the work.
func (j *judge) passing(ctx context.Context, s kernels.Shape) (list []Unproven, err error) {
	if !kernels.Computable(j.plan.Implementations, s) {
		return nil, nil
	}
	controls, err := j.spec.Undeclared(s)
	if err != nil {
		return nil, err
	}
	for _, c := range controls {
		outputs, err := j.control(ctx, c, s)
		if err != nil {
			return nil, err
		}
		for _, o := range outputs {
			limit := j.tolerance[o.Name]
			if o.NotFinite == 0 && o.Error <= limit && (c.Kind == kernels.LeftOut || o.Error > sameAnswer) {
				list = append(list, Unproven{Control: c.String(), Shape: s.Name, Output: o.Name, Error: o.Error / math.Max(limit, math.SmallestNonzeroFloat64)})
			}
		}
	}
	return list, nil
}

// unwritten names an output of which the reference, or the baseline in its place, leaves
// more than half unwritten.
func unwritten(outputs []Output) string {
	for _, o := range outputs {
		if o.Skipped > o.Elements/2 {
			return fmt.Sprintf("%d of %d elements of output %s are not compared, and at most half may be: change the shape or the data", o.Skipped, o.Elements, o.Name)
		}
	}
	return ""
}

// Surplus says that a baseline writes what the reference leaves unwritten; "" if it does
// not. Timed launches are compared with the baseline: what it leaves unwritten is skipped,
// and what it writes would count for them, and for the scale of the error, too.
func Surplus(outputs []Output) string {
	for _, o := range outputs {
		if o.Surplus > 0 {
			return fmt.Sprintf("it writes %d of the %d elements of output %s that the reference leaves NaN, and timed launches are compared with it: let the baseline leave them as they were, or the reference answer there", o.Surplus, o.Skipped, o.Name)
		}
	}
	return ""
}

// proveBaseline puts the baseline through the ordeal's stages: it must be correct
// before anything is compared with it. A baseline may depend on the shape.
func (j *judge) proveBaseline(ctx context.Context) error {
	fail := func(verdict Verdict, reason string) error {
		return fmt.Errorf("%w: kernel %s, %s: %s: %s", ErrBaseline, j.plan.Definition.Name, j.lab.Describe().Baseline, verdict, reason)
	}
	var made []Artifact
	for _, s := range j.shapes() {
		ctx, done := Preparing(ctx, "compiling the baseline of shape %s", s.Name)
		a, report, err := j.lab.Baseline(ctx, s)
		done()
		if err != nil {
			return err
		}
		if out := j.judgeBuild(a, report); out.Verdict != "" {
			return fail(out.Verdict, "at shape "+s.Name+": "+out.Reason)
		}
		if why := a.Unsupported[s.Name]; why != "" {
			if j.tuned[s.Name] {
				return fail(Compile, fmt.Sprintf("it cannot compute the tuned shape %s: %s", s.Name, why))
			}
			continue
		}
		j.baseline[s.Name] = a
		if !slices.ContainsFunc(made, func(b Artifact) bool { return b.Hash == a.Hash }) {
			made = append(made, a)
		}
	}
	for _, a := range made {
		a.Unsupported = map[string]string{}
		for _, s := range j.shapes() {
			if j.baseline[s.Name].Hash != a.Hash {
				a.Unsupported[s.Name] = "another baseline is for this shape"
			}
		}
		a.Allowed = new(Allowance)
		parity, done := Preparing(ctx, "parity of the baseline")
		out, p, err := j.parity(parity, a, true)
		done()
		spent := a.Allowed.Spent()
		if a.Allowed = nil; err == nil && out.Verdict == "" && a.Source.Implementation != nil {
			out, err = j.sanitizeBaseline(ctx, a)
		}
		if err != nil {
			return err
		}
		if out.Verdict != "" {
			return fail(out.Verdict, out.Reason)
		}
		maps.Copy(j.usual, p.took)
		j.allowed += allowance * spent
		maps.Copy(j.baselineError, p.errors)
	}
	return nil
}

// sanitizeBaseline remembers a baseline that passed: the same code passes again under
// the same tools.
func (j *judge) sanitizeBaseline(ctx context.Context, a Artifact) (Outcome, error) {
	sum := sha256.Sum256([]byte("baseline 2\n" + a.Key + "\n" + a.Hash + "\n" + strings.Join(j.lab.Sanitizers(), " ")))
	key := hex.EncodeToString(sum[:])
	if j.lab.Recall(key) {
		return Outcome{}, nil
	}
	ctx, done := Preparing(ctx, "sanitizing the baseline")
	defer done()
	out, err := j.sanitize(ctx, a, j.plan.Sanitize)
	if err == nil && out.Verdict == "" {
		j.lab.Remember(key)
	}
	return out, err
}

// failed is an outcome with the evidence of one check that failed.
func failed(verdict Verdict, check, reason string, evidence ...Evidence) Outcome {
	return Outcome{
		Verdict: verdict, Reason: check + ": " + reason,
		Evidence: append(evidence, Evidence{Check: check, Outcome: Failed, Detail: reason}),
	}
}

// fault turns an error with which a candidate ended its own run into an outcome,
// and returns other errors unchanged.
func fault(err error, check string, evidence []Evidence) (Outcome, error) {
	var f *Fault
	if !errors.As(err, &f) {
		return Outcome{Evidence: evidence}, err
	}
	verdict := Launch
	switch {
	case f.Hang:
		verdict = Timeout
	case f.Wrote:
		verdict = Parity
	}
	out := failed(verdict, check, f.Reason, evidence...)
	if text := strings.TrimSpace(f.Log); text != "" {
		out.Evidence[len(out.Evidence)-1].Detail += "\n" + text
	}
	return out, nil
}

// twice calls a function again when its process was lost; a second loss is the
// candidate's fault. It also calls it again, with patience times the time limit, when
// it did not answer in time while the machine was disturbed; then the first attempt does not count against what
// its launches are allowed.
func (j *judge) twice(ctx context.Context, allowed *Allowance, do func(patience time.Duration) error) error {
	before := allowed.Spent()
	err := do(1)
	var lost *Lost
	var own *Fault
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &own) && own.Hang && j.lab.Conditions(ctx).Disturbed != "":
		allowed.again(before)
		defer allowed.calm()
		return do(patience)
	case !errors.As(err, &lost):
		return err
	}
	if err = do(1); errors.As(err, &lost) && ctx.Err() == nil {
		return &Fault{Reason: "the process that ran it died, twice: " + lost.Reason, Log: lost.Log}
	}
	return err
}

// Compile implements stages.
func (j *judge) Compile(ctx context.Context, src kernels.Rendered) (Artifact, Outcome, error) {
	a, report, err := j.lab.Build(ctx, src)
	if err != nil {
		return Artifact{}, Outcome{}, err
	}
	a.Source, a.Allowed = src, NewAllowance(leastAllowed)
	out := j.judgeBuild(a, report)
	if out.Verdict != "" {
		return Artifact{}, out, nil
	}
	return a, out, nil
}

func (j *judge) judgeBuild(a Artifact, report BuildReport) Outcome {
	switch {
	case report.Geometry != "":
		return Outcome{Verdict: Render, Reason: report.Geometry, Evidence: []Evidence{{
			Check: "launch geometry", Outcome: Failed, Detail: report.Geometry,
		}}}
	case report.Refused != "":
		return Outcome{Verdict: Compile, Reason: report.Refused, Evidence: []Evidence{{
			Check: "compiler", Outcome: Failed, Detail: report.Log,
		}}}
	}
	out := Outcome{Evidence: []Evidence{{Check: "compiler", Outcome: Passed, Detail: report.Log}}}
	im := a.Source.Implementation
	if im == nil {
		return out
	}
	always := j.rules.Blocking
	if !j.plan.Debug {
		always = slices.Concat(always, j.rules.Optimized)
	}
	for line := range strings.Lines(report.Log) {
		blocks := false
		for _, text := range always {
			blocks = blocks || strings.Contains(strings.ToLower(line), text)
		}
		for _, re := range im.Blocking {
			blocks = blocks || re.MatchString(line)
		}
		if blocks {
			reason := "a diagnostic that blocks: " + strings.Join(strings.Fields(line), " ")
			out.Verdict, out.Reason = Compile, reason
			out.Evidence = append(out.Evidence, Evidence{Check: "blocking diagnostics", Outcome: Failed, Detail: reason})
			return out
		}
	}
	if len(im.Blocking)+len(always) > 0 {
		out.Evidence = append(out.Evidence, Evidence{Check: "blocking diagnostics", Outcome: Passed})
	}
	out.Evidence = append(out.Evidence, Evidence{Check: "binary", Outcome: Passed, Value: float64(report.Bytes), Unit: "bytes", Detail: a.Hash})
	return out
}

// doubts lists what the definition leaves unproven: edge-case contents that are
// silent, controls that pass, and tolerances within which half of an output may be zero.
func (j *judge) doubts(ctx context.Context) (list []string, err error) {
	for _, check := range slices.Sorted(maps.Keys(j.silent)) {
		list = append(list, fmt.Sprintf("%s says nothing: %s: narrow the domain of an input, or correct the baseline", check, j.silent[check]))
	}
	for _, u := range j.unproven {
		list = append(list, u.String())
	}
	for _, s := range slices.Concat([]kernels.Shape{j.plan.Sanitize}, j.plan.Verify) {
		if !kernels.Computable(j.plan.Implementations, s) {
			continue
		}
		outputs, err := j.control(ctx, kernels.Control{Kind: kernels.Halved}, s)
		if err != nil {
			return nil, err
		}
		for _, o := range outputs {
			if t := j.tolerance[o.Name]; t > 0 && o.Error > sameAnswer && o.Error <= t {
				list = append(list, fmt.Sprintf("the tolerance of %g hides half of output %s at shape %s: with the smaller half of it zero the error is %.3g: "+
					"lower the tolerance, or choose data for which the outputs are alike in size", t, o.Name, s.Name, o.Error))
			}
		}
	}
	return list, nil
}

// Inspect implements stages: it checks what the definition requires of a binary.
func (j *judge) Inspect(ctx context.Context, a Artifact) (Outcome, error) {
	want := a.Source.Implementation.Binary
	patterns := slices.Concat(a.Source.Require, want.Forbid)
	seen, err := j.lab.Inspect(ctx, a, patterns)
	if err != nil {
		return Outcome{}, err
	}
	if seen.Refused != "" {
		return failed(Inspect, "entry", seen.Refused), nil
	}
	var out Outcome
	note := func(e Evidence) { out.Evidence = append(out.Evidence, e) }
	reject := func(e Evidence) {
		e.Outcome = Failed
		note(e)
		if out.Verdict == "" {
			out.Verdict, out.Reason = Inspect, e.Check+": "+e.Detail
		}
	}
	bounds := map[Bound]*int64{MaxStack: want.MaxStack, MaxRegisters: want.MaxRegisters, MaxSpill: want.MaxSpill}
	if want.MaxStack != nil && *want.MaxStack == 0 {
		bounds[LocalMemory] = want.MaxStack
	}
	for _, m := range seen.Measures {
		e := Evidence{Check: m.Check, Outcome: Passed, Value: m.Value, Unit: m.Unit, Detail: m.Detail}
		limit := bounds[m.Bound]
		if limit != nil && m.Bound != LocalMemory {
			e.Limit = float64(*limit)
		}
		switch {
		case m.NotRead != "":
			e.Outcome, e.Value, e.Detail = NotRun, 0, m.NotRead
			note(e)
		case limit != nil && m.Value > float64(*limit):
			e.Detail = strings.TrimSpace(fmt.Sprintf("%s %g %s, allowed are %d", m.Detail, m.Value, m.Unit, *limit))
			reject(e)
		default:
			note(e)
		}
	}
	if seen.Instructions == nil {
		if seen.NotCounted != "" {
			note(Evidence{Check: "instructions", Outcome: NotRun, Detail: seen.NotCounted})
		}
		for _, re := range patterns {
			note(Evidence{Check: "mnemonic " + re.String(), Outcome: NotRun, Detail: seen.NotCounted})
		}
		return out, nil
	}
	for _, re := range a.Source.Require {
		e := Evidence{Check: "requires " + re.String(), Outcome: Passed, Unit: "instructions"}
		if n, _ := seen.Instructions.Matching(re); n > 0 {
			e.Value = float64(n)
			note(e)
		} else {
			e.Detail = "no instruction of the binary matches " + re.String()
			reject(e)
		}
	}
	for _, re := range want.Forbid {
		e := Evidence{Check: "forbids " + re.String(), Outcome: Passed}
		if n, example := seen.Instructions.Matching(re); n > 0 {
			e.Detail = fmt.Sprintf("%d instructions of the binary match %s (%s)", n, re, example)
			reject(e)
		} else {
			note(e)
		}
	}
	return out, nil
}

// limit is how long a launch or a batch may take at a shape before it counts as
// hanging: far longer than the baseline takes. Zero means the lab's limit.
func (j *judge) limit(s kernels.Shape) time.Duration {
	t, ok := j.usual[s.Name]
	if !ok {
		return 0
	}
	return max(j.rules.Hangs, 200*max(t, j.rules.Batch))
}

// together is what launches of a candidate may take at some shapes, where the baseline takes as long as for so
// many launches, of at least some time, at each of them. A shape of a genome's own counts as the one where that takes longest.
func (j *judge) together(launches int, least time.Duration, shapes ...kernels.Shape) time.Duration {
	sum := time.Duration(0)
	for _, s := range shapes {
		t, ok := j.usual[s.Name]
		for _, other := range j.usual {
			if !ok {
				t = max(t, other)
			}
		}
		sum += max(t, least)
	}
	return allowance * time.Duration(launches) * sum
}

// underTools is what launches of a candidate may take under tools, each of which launches it at some shapes, or as
// it is at all of them.
func (j *judge) underTools(tools int, at []kernels.Shape) time.Duration {
	return time.Duration(tools) * j.together(toolSlowdown, 0, slices.Concat(j.shapes(), at)...)
}

// Parity implements stages: every shape that the candidate can compute, several
// contents of the inputs, each twice in one process at the same addresses.
func (j *judge) Parity(ctx context.Context, a Artifact) (Outcome, error) {
	out, _, err := j.parity(ctx, a, false)
	return out, err
}

// A performance is what parity measured, by shape: how long a launch took, and the
// largest error of each output on the declared data.
type performance struct {
	took   map[string]time.Duration
	errors map[string]map[string]float64
}

// parity also returns what it measured. If the baseline is wrong on some edge-case
// contents, these are not compared from then on.
func (j *judge) parity(ctx context.Context, a Artifact, baseline bool) (out Outcome, p performance, err error) {
	check := "load"
	err = j.twice(ctx, a.Allowed, func(patience time.Duration) error {
		out, p = Outcome{}, performance{map[string]time.Duration{}, map[string]map[string]float64{}}
		return j.compareAll(ctx, a, baseline, patience, &out, p, &check)
	})
	if err != nil {
		out, err = fault(err, check, out.Evidence)
	}
	return out, p, err
}

func (j *judge) compareAll(ctx context.Context, a Artifact, baseline bool, patience time.Duration, out *Outcome, p performance, check *string) error {
	*check = "load"
	if !baseline {
		a.Allowed.grant(j.allowed)
	}
	s, err := j.lab.Open(ctx, ForParity, a)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			_, _ = s.Close() // the cause is already known
		}
	}()
	note := func(e Evidence) { out.Evidence = append(out.Evidence, e) }
	met := 0 // verify shapes with edge-case contents
	// A verify shape of the sanitize shape's sizes would meet the same contents again.
	again := func(s kernels.Shape) bool {
		return s.Name != j.plan.Sanitize.Name && maps.Equal(s.Dims, j.plan.Sanitize.Dims)
	}
	for _, shape := range j.shapes() {
		if why := a.Unsupported[shape.Name]; why != "" {
			note(Evidence{Check: "parity " + shape.Name, Outcome: NotRun, Detail: why})
			continue
		}
		requests := make([]CompareRequest, contents)
		if j.tuned[shape.Name] {
			requests = requests[:1]
		} else if _, proven := j.baseline[shape.Name]; proven && (baseline || shape.Name == j.plan.Sanitize.Name || met < bitten) && !again(shape) {
			if shape.Name != j.plan.Sanitize.Name {
				met++
			}
			for _, name := range j.further {
				requests = append(requests, CompareRequest{Further: name})
			}
		}
		for v, r := range requests {
			r.Shape, r.Contents, r.Limit = shape, v, patience*j.limit(shape)
			*check = fmt.Sprintf("parity %s seed %d", shape.Name, v+1)
			if r.Further != "" {
				r.Contents, *check = 0, fmt.Sprintf("parity %s %s", shape.Name, r.Further)
			}
			if why := j.silent[*check]; why != "" {
				note(Evidence{Check: *check, Outcome: NotRun, Detail: why})
				continue
			}
			o, err := s.Compare(ctx, r)
			if err != nil {
				return err
			}
			if o.NotCompared != "" {
				note(Evidence{Check: *check, Outcome: NotRun, Detail: o.NotCompared})
				if baseline {
					j.silent[*check] = o.NotCompared
				}
				continue
			}
			if why := unwritten(o.Outputs); why != "" {
				if r.Further == "" {
					return fmt.Errorf("%w: kernel %s, %s: %s", ErrUnwritten, j.plan.Definition.Name, *check, why)
				}
				note(Evidence{Check: *check, Outcome: NotRun, Detail: why})
				if baseline {
					j.silent[*check] = why
				}
				continue
			}
			if why := Surplus(o.Outputs); baseline && r.Further == "" && why != "" {
				return fmt.Errorf("%w: kernel %s, %s, %s: %s", ErrBaseline, j.plan.Definition.Name, j.lab.Describe().Baseline, *check, why)
			}
			p.took[shape.Name] = max(p.took[shape.Name], o.Elapsed)
			if p.errors[shape.Name] == nil {
				p.errors[shape.Name] = map[string]float64{}
			}
			for _, out := range o.Outputs {
				if r.Further == "" {
					p.errors[shape.Name][out.Name] = max(p.errors[shape.Name][out.Name], out.Error)
				}
			}
			e := Evidence{Check: *check, Outcome: Passed, Detail: o.Repeats}
			if r.Further != "" {
				e.Detail = cmp.Or(o.Repeats, j.kept)
			}
			worst := j.tolerance.worst(o.Outputs)
			e.Value, e.Limit = finite(worst.Error), j.tolerance[worst.Name]
			if reason := j.tolerance.wrongOutput(worst); baseline && r.Further != "" && len(o.Outputs) > 0 && reason != "" {
				j.silent[*check] = "the baseline is wrong there: " + reason
				continue
			}
			if verdict, reason := j.tolerance.wrong(o, a.Threads); verdict != "" {
				e.Outcome, e.Detail = Failed, reason
				out.Verdict, out.Reason = verdict, *check+": "+reason
				note(e)
				return nil
			}
			note(e)
		}
	}
	*check = "end of the process"
	closed = true
	notes, err := s.Close()
	out.Evidence = append(out.Evidence, notes...)
	return err
}

// limits has the largest error that passes, by output.
type limits map[string]float64

// limitsOf returns the limits for the outputs of timed launches.
func (j *judge) limitsOf(t *tally) limits {
	if !t.after.AgainstBaseline {
		return j.tolerance
	}
	return j.againstBaseline(t.shape)
}

// againstBaseline returns the limits for outputs that are compared with the baseline's.
// They include twice the baseline's own error in parity, since it may be somewhat
// larger on other contents.
func (j *judge) againstBaseline(s kernels.Shape) limits {
	l := limits{}
	for name, tolerance := range j.tolerance {
		l[name] = tolerance + 2*j.baselineError[s.Name][name]
	}
	return l
}

// wrong says what is wrong with an observation of launches; empty if it is right.
func (l limits) wrong(o Observation, threads int) (Verdict, string) {
	switch {
	case o.Guard != "":
		return Parity, o.Guard
	case o.InputChanged != "":
		return Parity, o.InputChanged
	case o.Wrong != "":
		return Parity, o.Wrong
	case len(o.Outputs) == 0:
		return Parity, "no output was compared"
	}
	if reason := l.wrongOutput(l.worst(o.Outputs)); reason != "" {
		return Parity, reason
	}
	if o.Different != "" {
		return Parity, "not the same answer twice: " + o.Different
	}
	if o.Threads > max(threads, 1) {
		return Launch, fmt.Sprintf("left threads running: %d where its definition declares %d", o.Threads, max(threads, 1))
	}
	return "", ""
}

// wrongOutput judges one output; empty when it is right.
func (l limits) wrongOutput(o Output) string { return WrongOutput(o, l[o.Name]) }

// WrongOutput says what is wrong with an output; empty when it is right. Limit is the largest
// allowed error, as a share of the reference's scale.
func WrongOutput(o Output, limit float64) string {
	switch {
	case o.Unwritten > 0:
		return fmt.Sprintf("output %s: %d of %d elements were not written, such as element %d", o.Name, o.Unwritten, o.Elements, o.Worst)
	case o.NotFinite > 0:
		return fmt.Sprintf("output %s: %d of %d elements are not finite, such as element %d: %v where %v is right", o.Name, o.NotFinite, o.Elements, o.Worst, o.Got, o.Want)
	case !(o.Error <= limit):
		return fmt.Sprintf("output %s: error %.3g of the reference's scale at element %d (%.6g where %.6g is right), allowed is %.3g",
			o.Name, o.Error, o.Worst, o.Got, o.Want, limit)
	}
	return ""
}

// worst is the output whose error is largest relative to its limit.
func (l limits) worst(outputs []Output) Output {
	var w Output
	most := math.Inf(-1)
	for _, o := range outputs {
		share := o.Error / math.Max(l[o.Name], 1e-300)
		if o.NotFinite > 0 || o.Unwritten > 0 || math.IsNaN(share) {
			share = math.Inf(1)
		}
		if share > most {
			w, most = o, share
		}
	}
	return w
}

// finite makes a value representable in JSON.
func finite(x float64) float64 {
	if x > 1e300 || x != x {
		return 1e300
	}
	return x
}

// Sanitize implements stages. A debug build meets no finals, so it runs at all shapes
// at once.
func (j *judge) Sanitize(ctx context.Context, a Artifact) (Outcome, error) {
	at, rest := j.searched(a), j.unsearched(a)
	shapes := []kernels.Shape{at}
	if j.plan.Debug {
		shapes = append(shapes, rest...)
	}
	begin := time.Now()
	out, err := j.sanitize(ctx, a, shapes...)
	if err == nil && j.plan.Debug {
		var more Outcome
		more, err = j.launchFinalist(ctx, a)
		out.Evidence = append(out.Evidence, more.Evidence...)
		if out.Verdict == "" {
			out.Verdict, out.Reason = more.Verdict, more.Reason
		}
	}
	j.took.note(&j.took.launches, time.Since(begin)/time.Duration(len(shapes)))
	more := slices.ContainsFunc(j.tools(false), func(tool string) bool { return tool != Schedules })
	if err == nil && a.Sanitize.Name != "" && !j.plan.Debug && more && len(rest) > 0 {
		out.Evidence = append(out.Evidence, Evidence{
			Check: SanitizeShapes, Outcome: NotRun, Detail: fmt.Sprintf("the search launches it at %s alone, and the finals at %s", j.searchedAt(a), shapeNames(rest)),
		})
	}
	return out, err
}

// searched is the shape at which the search launches an artifact under tools.
func (j *judge) searched(a Artifact) kernels.Shape {
	if a.Sanitize.Name != "" {
		return a.Sanitize
	}
	return j.plan.Sanitize
}

// searchedAt names that shape, or "none" if the artifact cannot compute it.
func (j *judge) searchedAt(a Artifact) string {
	s := j.searched(a)
	if a.Sanitize.Name == "" && a.Unsupported[s.Name] != "" {
		return "none"
	}
	if s.Blocks > 0 {
		return s.Name + " (its first blocks)"
	}
	return s.Name
}

// unsearched lists the sanitize shapes that an artifact can compute and at which the search
// launches only a part of it or nothing.
func (j *judge) unsearched(a Artifact) (rest []kernels.Shape) {
	for _, s := range slices.Concat([]kernels.Shape{j.plan.Sanitize}, j.plan.SanitizeAlso) {
		if !alike(s, j.searched(a)) && a.Unsupported[s.Name] == "" {
			rest = append(rest, s)
		}
	}
	return rest
}

// alike compares launches by dimensions and blocks: a shape of a genome's own may have any
// name.
func alike(a, b kernels.Shape) bool { return a.Blocks == b.Blocks && maps.Equal(a.Dims, b.Dims) }

func shapeNames(list []kernels.Shape) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// sanitize launches an artifact under every tool at some shapes, and notes what is not
// checked.
func (j *judge) sanitize(ctx context.Context, a Artifact, shapes ...kernels.Shape) (Outcome, error) {
	all, err := j.launches(ctx, a, shapes)
	if err != nil {
		return all, err
	}
	for _, t := range j.lab.Describe().Tools {
		if t.Missing != "" && slices.Contains(j.rules.Sanitizers, t.Name) {
			all.Evidence = append(all.Evidence, Evidence{Check: t.Name, Outcome: NotRun, Detail: t.Missing})
		}
	}
	for _, e := range j.rules.Unseen {
		all.Evidence = append(all.Evidence, Evidence{Check: e.Check, Outcome: NotRun, Detail: e.Detail})
	}
	return all, nil
}

// launchFinalist launches an artifact under the tools that look at finalists alone, at the tuned shapes that it
// can compute.
func (j *judge) launchFinalist(ctx context.Context, a Artifact) (Outcome, error) {
	shapes := slices.DeleteFunc(slices.Clone(j.plan.Tune), func(s kernels.Shape) bool { return a.Unsupported[s.Name] != "" })
	return j.launchUnder(ctx, a, j.tools(true), shapes)
}

// tools lists the lab's tools that look at every candidate, or those that look at finalists alone.
func (j *judge) tools(finalists bool) (list []string) {
	for _, tool := range j.lab.Sanitizers() {
		if slices.Contains(j.rules.Finalists, tool) == finalists {
			list = append(list, tool)
		}
	}
	return list
}

// launches launches an artifact under the tools that look at every candidate, at some shapes.
func (j *judge) launches(ctx context.Context, a Artifact, shapes []kernels.Shape) (Outcome, error) {
	return j.launchUnder(ctx, a, j.tools(false), shapes)
}

// launchUnder launches an artifact under tools at some shapes. A tool stops at its
// first finding.
func (j *judge) launchUnder(ctx context.Context, a Artifact, tools []string, shapes []kernels.Shape) (all Outcome, err error) {
	outcomes := make([]Outcome, len(tools))
	a.Allowed.grant(j.underTools(len(tools)*len(shapes), shapes))
	g, gctx := errgroup.WithContext(ctx)
	for i, tool := range tools {
		g.Go(func() (err error) {
			defer panics.Catch(&err)
			for _, s := range shapes {
				if tool == Schedules && !alike(s, j.searched(a)) {
					continue
				}
				o, err := j.launch(gctx, a, tool, s)
				if err != nil {
					return err
				}
				o.Evidence = append(outcomes[i].Evidence, o.Evidence...)
				if outcomes[i] = o; o.Verdict != "" {
					break
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return all, err
	}
	for _, o := range outcomes {
		all.Evidence = append(all.Evidence, o.Evidence...)
		if all.Verdict == "" {
			all.Verdict, all.Reason = o.Verdict, o.Reason
		}
	}
	return all, nil
}

// launch judges one launch under one tool.
func (j *judge) launch(ctx context.Context, a Artifact, tool string, s kernels.Shape) (Outcome, error) {
	if why := a.Unsupported[s.Name]; why != "" && !alike(s, a.Sanitize) {
		return Outcome{Evidence: []Evidence{{Check: tool, Outcome: NotRun, Detail: why}}}, nil
	}
	var f Findings
	err := j.twice(ctx, a.Allowed, func(time.Duration) (err error) {
		f, err = j.lab.Launch(ctx, a, tool, s)
		return err
	})
	where := "" // part of the reason, except for the usual shape in the search
	if tool != Schedules && (a.Sanitize.Name != "" || !alike(s, j.plan.Sanitize)) {
		where = "at shape " + s.Name + ": "
	}
	found := func(check, reason, log string) Outcome {
		out := failed(Sanitizer, check, where+reason)
		if log = strings.TrimSpace(log); log != "" {
			out.Evidence[0].Detail += "\n" + log
		}
		return out
	}
	var own *Fault
	switch {
	case errors.As(err, &own) && f.Found == "":
		out := found(tool, own.Reason, own.Log)
		if own.Hang {
			out.Verdict = Timeout
		}
		return out, nil
	case err != nil && own == nil:
		return Outcome{}, err
	case f.NotRun != "":
		return Outcome{Evidence: []Evidence{{Check: tool, Outcome: NotRun, Detail: f.NotRun}}}, nil
	case f.NotNeeded != "":
		return Outcome{Evidence: []Evidence{{Check: tool, Outcome: Passed, Detail: "not needed: " + f.NotNeeded}}}, nil
	case f.Found != "":
		reason := f.Found
		if own != nil {
			reason += "; " + own.Reason
		}
		return found(f.By, reason, f.Log), nil
	}
	build, ran := "in this build, where memory that was not written holds junk, ", "one launch at shape "+s.Name
	if f.Ran != "" {
		build, ran = "", f.Ran
	}
	e := Evidence{Check: tool, Outcome: Passed, Detail: "no fault in " + ran}
	var outputs []Output
	if len(f.Observed) > 0 {
		where = "" // each tells of its own
	}
	for _, shape := range slices.Sorted(maps.Keys(f.Observed)) {
		o := f.Observed[shape]
		if _, reason := j.tolerance.wrong(o, a.Threads); reason != "" {
			return found(tool, "shape "+shape+": "+reason, "in "+ran), nil
		}
		outputs = append(outputs, o.Outputs...)
		if o.Repeats != "" {
			e.Detail += "; shape " + shape + ": " + o.Repeats
		}
	}
	if len(outputs) > 0 {
		worst := j.tolerance.worst(outputs)
		e.Value, e.Limit = worst.Error, j.tolerance[worst.Name]
	} else if len(f.Outputs) > 0 {
		worst := j.tolerance.worst(f.Outputs)
		if reason := j.tolerance.wrongOutput(worst); reason != "" {
			return found(tool, build+reason, ""), nil
		}
		e.Value, e.Limit = worst.Error, j.tolerance[worst.Name]
	} else {
		e.Value, e.Unit = float64(f.Elapsed.Milliseconds()), "ms"
	}
	out := Outcome{Evidence: []Evidence{e}}
	for _, check := range f.Also {
		out.Evidence = append(out.Evidence, Evidence{Check: check, Outcome: Passed})
	}
	return out, nil
}
