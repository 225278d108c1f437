package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// labDefinition has a floor of 10 us at the shape "main", before the headroom.
const labDefinition = `
format = 1
name = "scripted"
description = "a kernel that no compiler ever sees"
license = "Apache-2.0"
[problem]
dims = ["N"]
operations = "1000 * N"
bytes = "8 * N"
pipe = "f32"
[problem.reference]
source = "reference.c"
entry = "reference"
[[problem.shape]]
name = "main"
dims = { N = 1000 }
use = "tune"
[[problem.shape]]
name = "wide"
dims = { N = 1001 }
use = "tune"
[[problem.shape]]
name = "odd"
dims = { N = 70 }
use = "verify"
[[problem.shape]]
name = "small"
dims = { N = 4 }
use = "sanitize"
[[problem.buffer]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "in"
data = "uniform(-1,1)"
[[problem.buffer]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
[problem.tolerance]
f32 = 1e-3
[[problem.control]]
kind = "zeros"
[[problem.control]]
kind = "constant"
[[implementation]]
name = "plain"
backend = "cpu"
target = "native"
template = "scripted.c.tmpl"
entry = "scripted"
flags = ["-O2"]
blocking = ['spills badly']
[[implementation.parameter]]
name = "CODE"
range = [0, 99]
[[implementation.parameter]]
name = "SAY"
range = [0, 9]
[implementation.baseline]
genome = { CODE = 0, SAY = 0 }
[implementation.binary]
require = ['^vfm']
forbid = ['^div']
`

// An actor is a candidate, or a baseline, that does what a test says. Nil
// functions do what an honest candidate does.
type actor struct {
	ns      float64 // the true time of a launch
	threads int     // that it declares
	working int     // that do the work; 0: all of them
	// claims makes of a reading what the candidate says of it; slow is by what
	// factor this batch took longer than usual.
	claims func(r Reading, slow float64, rng *rand.Rand) Reading

	unsupported map[string]string
	build       BuildReport
	inspection  Inspection
	compare     func(r CompareRequest) (Observation, error)
	launch      func(tool string) (Findings, error)
	launchAt    map[string]func(tool string) (Findings, error) // by shape, instead
	sanitize    kernels.Shape                                  // its own
	open        func(p Purpose) error
	after       func(r SampleRequest) Observation
	fault       func(p Purpose, r SampleRequest) error // *Fault or *Lost
	end         func(p Purpose) ([]Evidence, error)
	profile     []Evidence
}

// liar claims that its launches take 1/factor of the time, in a share of its
// batches.
func liar(factor, share float64) func(Reading, float64, *rand.Rand) Reading {
	return func(r Reading, _ float64, rng *rand.Rand) Reading {
		if rng.Float64() < share {
			r.NS /= factor
		}
		return r
	}
}

// A weather is what a machine does to readings: quantiles are those of
// measurements on a virtual machine with two cores, calm, and with four busy
// loops on them.
type weather struct {
	// gap is the processor time, around a batch, that nobody claims, and passed
	// what evotune's clock shows beyond the claim where nothing waited, in us at
	// the quantiles 0, 1/2, 9/10, 99/100 and 1; of the latter awake is not waiting.
	gap, passed, awake [5]float64
	// outside is how often a process waits for a core before the timed region,
	// and run how long it keeps one within, in ns.
	// Of the waits slices is the share that another follows.
	outside, run, slices float64
	// noise is the standard deviation of a reading.
	noise float64
	cores int
	say   string
}

var (
	calm = weather{
		gap: [5]float64{45, 80, 115, 170, 250}, passed: [5]float64{60, 124, 193, 250, 300}, awake: [5]float64{0, 10, 86, 144, 214},
		outside: 0.05, run: 100e6, noise: 0.006, cores: 2,
	}
	busy = weather{
		gap: [5]float64{45, 90, 128, 170, 210}, passed: [5]float64{45, 70, 100, 120, 140}, awake: [5]float64{0, 5, 87, 120, 135},
		outside: 0.42, run: 5e6, slices: 0.4, noise: 0.02, cores: 2, say: "others use 95% of the cores",
	}
)

// quantile draws from a table, in ns.
func quantile(table [5]float64, rng *rand.Rand) float64 {
	at := [5]float64{0, 0.5, 0.9, 0.99, 1}
	u := rng.Float64()
	for i := 1; i < 5; i++ {
		if u <= at[i] {
			return 1e3 * (table[i-1] + (u-at[i-1])/(at[i]-at[i-1])*(table[i]-table[i-1]))
		}
	}
	return 1e3 * table[4]
}

// wait is how long a process waits for a core, in ns: slices of the scheduler.
func (w *weather) wait(rng *rand.Rand) float64 {
	if w.say == "" {
		return 1e3 * math.Exp(6.5+0.9*rng.NormFloat64())
	}
	sum := 0.0
	for sum == 0 || rng.Float64() < w.slices {
		sum += (3 + 1.3*rng.Float64()) * 1e6
	}
	return sum
}

// read makes a true reading of a batch; shared is the noise of the pair.
func (w *weather) read(a *actor, batch int, shared float64, rng *rand.Rand) (r Reading, slow float64) {
	slow = shared * math.Exp(w.noise*rng.NormFloat64())
	if rng.Float64() < 0.02 {
		slow *= 1.05
	}
	work := a.ns * slow * float64(batch)
	threads, working := max(a.threads, 1), a.working
	if working == 0 {
		working = threads
	}
	inside := 0.0
	for range working {
		waited := 0.0
		for left := work; ; {
			left -= w.run * rng.ExpFloat64()
			if left <= 0 {
				break
			}
			waited += w.wait(rng)
			r.Preempted++
		}
		r.WaitedNS += waited
		inside = math.Max(inside, waited)
	}
	window := work + inside
	r.NS = window / float64(batch)
	r.CPUNS = work*float64(working) + quantile(w.gap, rng)
	if rng.Float64() < 1.0/3000 {
		r.CPUNS += 2e6 * rng.Float64() // the hypervisor takes a core unseen
	}
	passed := quantile(w.passed, rng)
	r.WaitedNS += math.Max(0, passed-quantile(w.awake, rng)) // waking up is waiting, too
	if rng.Float64() < w.outside {
		waited := w.wait(rng)
		passed += waited
		r.WaitedNS += waited
	}
	r.WallNS = window + passed
	return r, slow
}

// A scriptedLab plays candidates on simulated weather. Sampling sleeps: in a
// synctest bubble it takes no time.
type scriptedLab struct {
	kind     string
	actors   map[string]*actor // by the text of the source
	baseline map[string]*actor // by shape; "" is the usual one
	vendor   bool              // the baselines have no source
	making   time.Duration     // in each request for samples, of contents beside other work
	control  func(c kernels.Control, s kernels.Shape) ([]Output, error)
	tools    []string
	launches time.Duration // what one under a tool takes
	missing  []Tool
	weather  weather
	peaks    Peaks
	measure  func(Peaks) Peaks // the peaks when measured again
	rng      *rand.Rand

	mu         sync.Mutex
	allowed    map[string]time.Duration // by artifact, and purpose or tool
	remembered map[string]bool
	log        []string // the calls
	asked      int      // rounds
	open       int
	drawn      int // pools of contents
}

func (l *scriptedLab) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, fmt.Sprintf(format, args...))
}

// calls counts the calls that begin so.
func (l *scriptedLab) calls(prefix string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.log {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

func (l *scriptedLab) allow(a Artifact, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowed[a.Hash+" "+what] = a.Allowed.Limit()
}

func (l *scriptedLab) Describe() Description {
	return Description{Backend: "cpu", Device: Device{Kind: l.kind}, Tools: l.missing, Baseline: "the scripted baseline"}
}

func (l *scriptedLab) artifact(name string, a *actor) Artifact {
	return Artifact{Hash: name, Key: "key of " + name, Threads: a.threads, Unsupported: a.unsupported, Sanitize: a.sanitize, Handle: a}
}

func (l *scriptedLab) Build(_ context.Context, src kernels.Rendered) (Artifact, BuildReport, error) {
	name := strings.Fields(src.Source)[2]
	a := l.actors[name]
	return l.artifact("candidate "+name, a), a.build, nil
}

func (l *scriptedLab) Baseline(_ context.Context, s kernels.Shape) (Artifact, BuildReport, error) {
	name := s.Name
	if l.baseline[name] == nil {
		name = ""
	}
	a := l.artifact("baseline "+name, l.baseline[name])
	if !l.vendor {
		a.Source.Implementation = &kernels.Implementation{}
	}
	return a, l.baseline[name].build, nil
}

func (l *scriptedLab) Control(_ context.Context, c kernels.Control, s kernels.Shape) ([]Output, error) {
	l.note("control %s %s", c.Kind, s.Name)
	if l.control != nil {
		return l.control(c, s)
	}
	return []Output{{Name: "y", Error: 1, Elements: 4}}, nil
}

func (l *scriptedLab) Inspect(_ context.Context, a Artifact, _ []*regexp.Regexp) (Inspection, error) {
	in := a.Handle.(*actor).inspection
	if in.Instructions == nil && in.NotCounted == "" {
		in.Instructions = Instructions{"vfmadd231ps": 3, "ret": 1}
	}
	return in, nil
}

func (l *scriptedLab) Sanitizers() []string { return l.tools }

func (l *scriptedLab) Launch(ctx context.Context, a Artifact, tool string, s kernels.Shape) (Findings, error) {
	l.note("launch %s %s %s", a.Hash, tool, s.Name)
	l.allow(a, tool)
	if l.launches > 0 {
		select {
		case <-time.After(l.launches):
		case <-ctx.Done():
			return Findings{}, ctx.Err()
		}
	}
	actor := a.Handle.(*actor)
	f := actor.launchAt[s.Name]
	if f == nil {
		f = actor.launch
	}
	if f == nil {
		return Findings{Outputs: []Output{right}}, nil
	}
	found, err := f(tool)
	if err == nil {
		err = a.Allowed.Spend(found.Elapsed)
	}
	return found, err
}

func (l *scriptedLab) Open(_ context.Context, p Purpose, artifacts ...Artifact) (Session, error) {
	l.note("open %d %d", p, len(artifacts))
	l.mu.Lock()
	l.open++
	l.mu.Unlock()
	s := &scriptedSession{lab: l, purpose: p, artifacts: artifacts}
	for _, a := range artifacts {
		l.allow(a, map[Purpose]string{ForParity: "parity", ForTiming: "timing", ForFinals: "finals"}[p])
		if f := a.Handle.(*actor).open; f != nil {
			if err := f(p); err != nil {
				_, _ = s.Close() //nolint:errcheck // it is never nil
				return nil, err
			}
		}
	}
	return s, nil
}

func (l *scriptedLab) Peaks(_ context.Context, again bool) (Peaks, error) {
	if again {
		l.note("peaks")
		if l.open > 0 {
			return Peaks{}, errors.New("peaks are measured while a session is open")
		}
		if l.measure != nil {
			l.peaks = l.measure(l.peaks)
		}
	}
	return l.peaks, nil
}

func (l *scriptedLab) Conditions(context.Context) Conditions {
	return Conditions{Disturbed: l.weather.say}
}

func (l *scriptedLab) Recall(key string) bool { return l.remembered[key] }
func (l *scriptedLab) Remember(key string)    { l.remembered[key] = true }
func (l *scriptedLab) Close() error           { l.note("close"); return nil }

// Profile implements Profiler.
func (l *scriptedLab) Profile(_ context.Context, a Artifact) ([]Evidence, error) {
	return a.Handle.(*actor).profile, nil
}

var right = Output{Name: "y", Error: 1e-6, Elements: 100}

type scriptedSession struct {
	lab       *scriptedLab
	purpose   Purpose
	artifacts []Artifact
	gone      map[int]bool
	pool      string
}

func (s *scriptedSession) Compare(_ context.Context, r CompareRequest) (Observation, error) {
	what := r.Further
	if what == "" {
		what = fmt.Sprint(r.Contents)
	}
	s.lab.note("compare %s %s %s", s.artifacts[0].Hash, r.Shape.Name, what)
	a := s.artifacts[0].Handle.(*actor)
	o, err := Observation{Outputs: []Output{right}, Threads: 1, Elapsed: time.Duration(a.ns)}, error(nil)
	if a.compare != nil {
		o, err = a.compare(r)
	}
	if err == nil {
		err = s.artifacts[0].Allowed.Spend(o.Elapsed)
	}
	return o, err
}

// batchOf is how many launches a lab takes for a reading.
func batchOf(a *actor, r SampleRequest) int {
	claimed := Reading{NS: a.ns}
	if a.claims != nil {
		claimed = a.claims(claimed, 1, rand.New(rand.NewPCG(1, 1)))
	}
	return int(math.Min(math.Max(1, math.Ceil(float64(r.Batch)/claimed.NS)), 2000))
}

func (s *scriptedSession) Sample(ctx context.Context, r SampleRequest) (Sampled, error) {
	l := s.lab
	l.note("sample %s %d last %t", r.Shape.Name, r.Rounds, r.Last)
	l.asked += r.Rounds
	b := l.baseline[r.Shape.Name]
	if b == nil {
		b = l.baseline[""]
	}
	if s.pool == "" {
		l.drawn++
		s.pool = cmp.Or(r.Pool, fmt.Sprintf("pool %d", l.drawn))
	}
	out := Sampled{Conditions: Conditions{Disturbed: l.weather.say}, Pool: s.pool}
	took := 0.0
	for i, art := range s.artifacts {
		a := art.Handle.(*actor)
		series := Series{Batch: batchOf(a, r), BaselineBatch: batchOf(b, r), Sets: 8}
		if a.fault != nil && !s.gone[i] {
			var own *Fault
			if err := a.fault(s.purpose, r); errors.As(err, &own) {
				series.Fault = own
				if s.gone == nil {
					s.gone = map[int]bool{}
				}
				s.gone[i] = true
			} else if err != nil {
				return Sampled{}, err
			}
		}
		for range r.Rounds {
			if s.gone[i] || art.Unsupported[r.Shape.Name] != "" {
				break
			}
			shared := math.Exp(l.weather.noise * l.rng.NormFloat64())
			mine, slow := l.weather.read(a, series.Batch, shared, l.rng)
			if a.claims != nil {
				mine = a.claims(mine, slow, l.rng)
			}
			theirs, also := l.weather.read(b, series.BaselineBatch, shared, l.rng)
			if l.kind == "cuda" {
				mine, theirs = l.weather.onDevice(mine, a, series.Batch, slow, l.rng), l.weather.onDevice(theirs, b, series.BaselineBatch, also, l.rng)
			}
			series.Readings, series.Baseline = append(series.Readings, mine), append(series.Baseline, theirs)
			took += mine.WallNS + theirs.WallNS + 1e6
			errors.As(art.Allowed.Spend(time.Duration(mine.WallNS)), &series.Fault)
		}
		series.After = Observation{Outputs: []Output{right}, Threads: 1}
		if a.after != nil {
			series.After = a.after(r)
		}
		out.Series = append(out.Series, series)
	}
	select {
	case <-time.After(time.Duration(took) + l.making):
		out.Making = l.making
		return out, nil
	case <-ctx.Done():
		return Sampled{}, ctx.Err()
	}
}

// onDevice is the reading on a GPU: the work takes as long as it takes, and who
// launched it learns of its end when it has a core. A claim that is not the true
// time stays as far from it.
func (w *weather) onDevice(r Reading, a *actor, batch int, slow float64, rng *rand.Rand) Reading {
	work := a.ns * slow * float64(batch)
	lie := 1.0
	if a.claims != nil {
		lie = r.NS / (a.ns * slow)
	}
	at, waited := 0.0, 0.0 // since it was launched
	for at < work {
		if at += w.run * rng.ExpFloat64(); at >= work {
			at = work // whoever waits has a core
			break
		}
		wait := w.wait(rng)
		at, waited = at+wait, waited+wait
	}
	if r.WallNS > 0 {
		r.WallNS = at + quantile(w.passed, rng)
	}
	return Reading{NS: work / float64(batch) * lie, WallNS: r.WallNS, WaitedNS: waited}
}

func (s *scriptedSession) Close() ([]Evidence, error) {
	s.lab.mu.Lock()
	s.lab.open--
	s.lab.mu.Unlock()
	if f := s.artifacts[0].Handle.(*actor).end; f != nil && len(s.artifacts) == 1 {
		return f(s.purpose)
	}
	return nil, nil
}

// newLab is a lab on a calm machine whose baseline takes 100 us. Candidate 1 is
// honest and takes 80 us.
func newLab() *scriptedLab {
	return &scriptedLab{
		kind:     "cpu",
		actors:   map[string]*actor{"1": {ns: 80e3, threads: 1}},
		baseline: map[string]*actor{"": {ns: 100e3, threads: 1}},
		tools:    []string{"asan", "memcheck"}, weather: calm,
		peaks:      Peaks{Rates: map[string]float64{"f32/1": 1e11, "memory/1": 1e10}, CacheBytes: 1 << 20, Cores: 2},
		rng:        rand.New(rand.NewPCG(1, 7)),
		remembered: map[string]bool{}, allowed: map[string]time.Duration{},
	}
}

var labPlan = sync.OnceValue(func() Plan { return planOf(labDefinition) })

// planOf is the plan of a definition like labDefinition.
func planOf(definition string) Plan {
	d, err := kernels.Load(fstest.MapFS{
		"k/kernel.toml":     {Data: []byte(definition)},
		"k/reference.c":     {Data: []byte("void reference(int64_t N, const double *x, double *y) { for (int64_t i = 0; i < N; i++) y[i] = x[i]; }\n")},
		"k/scripted.c.tmpl": {Data: []byte("int code {{.CODE}} ;{{if eq .SAY 9}}{{.MISSING}}{{end}} /* {{.SAY}} */\n")},
	}, "k")
	if err != nil {
		panic(err)
	}
	return Plan{
		Definition: d, Implementations: d.Implementations,
		Tune: d.Problem.ShapesFor(kernels.Tune)[:1], Verify: d.Problem.ShapesFor(kernels.Verify), Sanitize: d.Problem.ShapesFor(kernels.Sanitize)[0],
	}
}

// twoShapes is the plan with two tuned shapes.
func twoShapes() Plan {
	p := labPlan()
	p.Tune = p.Definition.Problem.ShapesFor(kernels.Tune)
	return p
}

func labGenome(t testing.TB, p Plan, code int) genome.Genome {
	t.Helper()
	space, err := p.Definition.Space(p.Implementations, p.Tune, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := space.FromMap(map[string]any{"CODE": code, "SAY": 0})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// judged puts candidate 1 through the ordeal in a bubble.
func judged(t *testing.T, l *scriptedLab, p Plan) (r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, err := newJudge(t.Context(), l, p)
		if err != nil {
			t.Fatal(err)
		}
		o := newOrdeal(b, p)
		if r, err = o.Evaluate(t.Context(), labGenome(t, p, 1), 0); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// last is the last call that begins so.
func (l *scriptedLab) last(prefix string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Backward(l.log) {
		if strings.HasPrefix(c, prefix) {
			return c
		}
	}
	return ""
}
