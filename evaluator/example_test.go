package evaluator_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"regexp"
	"testing/fstest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// A simulator is a lab for a device that is simulated: a program is two numbers, how
// many elements it adds in a step, and how many it forgets at the end. The lab says
// what it saw; whether that is right is for the judge to say.
type simulator struct {
	remembered map[string]bool
}

// A program is what the simulator runs.
type program struct{ width, forgotten int64 }

// run gives the sum of 1, 2, ... n.
func (p program) run(n int64) (sum float64) {
	for i := range n - p.forgotten {
		sum += float64(i + 1)
	}
	return sum
}

// launchNS is what a launch takes: 100 ns for each step.
func (p program) launchNS(n int64) float64 { return 100 * math.Ceil(float64(n)/float64(p.width)) }

func (l *simulator) Describe() evaluator.Description {
	return evaluator.Description{Backend: "cpu", Kernel: "sum", Device: evaluator.Device{Name: "simulator", Kind: "cpu", Fingerprint: "5e1f"}}
}

func (l *simulator) Build(_ context.Context, src kernels.Rendered) (evaluator.Artifact, evaluator.BuildReport, error) {
	var p program
	if n, _ := fmt.Sscanf(src.Source, "width %d forget %d", &p.width, &p.forgotten); n < 2 {
		return evaluator.Artifact{}, evaluator.BuildReport{Refused: "not a program of the simulator"}, nil
	}
	return evaluator.Artifact{Hash: src.Hash, Key: src.Hash, Source: src, Threads: 1, Handle: p}, evaluator.BuildReport{}, nil
}

func (l *simulator) Baseline(context.Context, kernels.Shape) (evaluator.Artifact, evaluator.BuildReport, error) {
	return evaluator.Artifact{Hash: "baseline", Key: "baseline", Threads: 1, Handle: program{width: 1}}, evaluator.BuildReport{}, nil
}

// Control compares an answer that is wrong on purpose with the reference.
func (l *simulator) Control(_ context.Context, _ kernels.Control, s kernels.Shape) ([]evaluator.Output, error) {
	return compared(0, s.Dims["N"]), nil
}

// compared holds an answer against the reference, n(n+1)/2.
func compared(got float64, n int64) []evaluator.Output {
	want := float64(n*(n+1)) / 2
	return []evaluator.Output{{Name: "y", Error: math.Abs(got-want) / want, Got: got, Want: want, Elements: 1}}
}

func (l *simulator) Inspect(context.Context, evaluator.Artifact, []*regexp.Regexp) (evaluator.Inspection, error) {
	return evaluator.Inspection{NotCounted: "programs of the simulator have no instructions"}, nil
}

func (l *simulator) Sanitizers() []string { return nil }

func (l *simulator) Launch(context.Context, evaluator.Artifact, string, kernels.Shape) (evaluator.Findings, error) {
	return evaluator.Findings{NotRun: "the simulator has no sanitizer"}, nil
}

func (l *simulator) Open(_ context.Context, _ evaluator.Purpose, artifacts ...evaluator.Artifact) (evaluator.Session, error) {
	return simulated(artifacts), nil
}

func (l *simulator) Peaks(context.Context, bool) (evaluator.Peaks, error) {
	return evaluator.Peaks{Rates: map[string]float64{"f32/1": 1e12, "memory/1": 1e12}, CacheBytes: 1 << 20, Cores: 1}, nil
}

func (l *simulator) Conditions(context.Context) evaluator.Conditions { return evaluator.Conditions{} }
func (l *simulator) Recall(key string) bool                          { return l.remembered[key] }
func (l *simulator) Remember(key string)                             { l.remembered[key] = true }
func (l *simulator) Close() error                                    { return nil }

// A simulated session runs artifacts.
type simulated []evaluator.Artifact

func (s simulated) Compare(_ context.Context, r evaluator.CompareRequest) (evaluator.Observation, error) {
	p, n := s[0].Handle.(program), r.Shape.Dims["N"]
	return evaluator.Observation{Outputs: compared(p.run(n), n), Threads: 1, Elapsed: time.Duration(p.launchNS(n))}, nil
}

func (s simulated) Sample(_ context.Context, r evaluator.SampleRequest) (evaluator.Sampled, error) {
	var out evaluator.Sampled
	n := r.Shape.Dims["N"]
	for _, a := range s {
		mine, base := a.Handle.(program), program{width: 1}
		series := evaluator.Series{Batch: batch(mine, n, r), BaselineBatch: batch(base, n, r), Sets: 8}
		for range r.Rounds {
			series.Readings = append(series.Readings, reading(mine.launchNS(n), series.Batch))
			series.Baseline = append(series.Baseline, reading(base.launchNS(n), series.BaselineBatch))
		}
		series.After = evaluator.Observation{Outputs: compared(mine.run(n), n), Threads: 1}
		out.Series = append(out.Series, series)
	}
	return out, nil
}

func (s simulated) Close() ([]evaluator.Evidence, error) { return nil, nil }

// batch is how many launches make a reading that lasts long enough.
func batch(p program, n int64, r evaluator.SampleRequest) int {
	return int(max(1, math.Ceil(float64(r.Batch)/p.launchNS(n))))
}

// reading is a batch as the simulator's clock and that of its host show it.
func reading(ns float64, batch int) evaluator.Reading {
	took := ns * float64(batch)
	return evaluator.Reading{NS: ns, WallNS: took + 1e5, CPUNS: took + 8e4}
}

const sum = `
format = 1
name = "sum"
description = "the sum of 1, 2, ... N"
license = "Apache-2.0"
[problem]
dims = ["N"]
operations = "N"
bytes = "8"
pipe = "f32"
[problem.reference]
source = "reference.c"
entry = "reference"
[[problem.shape]]
name = "thousand"
dims = { N = 1000 }
use = "tune"
[[problem.shape]]
name = "odd"
dims = { N = 77 }
use = "verify"
[[problem.shape]]
name = "small"
dims = { N = 8 }
use = "sanitize"
[[problem.buffer]]
name = "y"
dtype = "f32"
shape = ["1"]
role = "out"
[problem.tolerance]
f32 = 1e-5
[[problem.control]]
kind = "zeros"
[[implementation]]
name = "simulated"
backend = "cpu"
target = "native"
template = "sum.tmpl"
entry = "sum"
[[implementation.parameter]]
name = "WIDTH"
values = [1, 2, 4]
[[implementation.parameter]]
name = "FORGET"
values = [0, 1]
[implementation.baseline]
genome = { WIDTH = 1, FORGET = 0 }
`

// A lab of one's own builds, runs and times; the judge decides. It is the same judge,
// with the same rules, as for a CPU or a GPU: a faster program with a wrong answer is no
// faster program.
func ExampleNewOrdeal() {
	d, err := kernels.Load(fstest.MapFS{
		"sum/kernel.toml": {Data: []byte(sum)},
		"sum/reference.c": {Data: []byte("void reference(int64_t N, double *y) { y[0] = N * (N + 1) / 2.0; }\n")},
		"sum/sum.tmpl":    {Data: []byte("width {{.WIDTH}} forget {{.FORGET}}\n")},
	}, "sum")
	if err != nil {
		log.Fatal(err)
	}
	plan := evaluator.Plan{
		Definition: d, Implementations: d.Implementations, Tune: d.Problem.ShapesFor(kernels.Tune),
		Verify: d.Problem.ShapesFor(kernels.Verify), Sanitize: d.Problem.ShapesFor(kernels.Sanitize)[0],
	}
	ctx := context.Background()
	judge, err := evaluator.NewOrdeal(ctx, &simulator{remembered: map[string]bool{}}, plan)
	if err != nil {
		log.Fatal(err)
	}
	defer judge.Close()

	space, err := d.Space(d.Implementations, plan.Tune, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, genes := range []map[string]any{{"WIDTH": 4, "FORGET": 0}, {"WIDTH": 4, "FORGET": 1}} {
		g, err := space.FromMap(genes)
		if err != nil {
			log.Fatal(err)
		}
		r, err := judge.Evaluate(ctx, g, 0)
		if err != nil {
			log.Fatal(err)
		}
		if r.Verdict == evaluator.Correct {
			fmt.Printf("%s: %s, %.1f times as fast as the baseline\n", g, r.Verdict, 1/r.Fitness)
		} else {
			fmt.Printf("%s: %s\n", g, r.Verdict)
		}
	}
	// Output:
	// WIDTH=4,FORGET=0: correct, 4.0 times as fast as the baseline
	// WIDTH=4,FORGET=1: parity
}
