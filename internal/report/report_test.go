package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// hostile is what a kernel may print: markup, control characters, broken
// UTF-8, table borders and code fences.
const hostile = "<script>alert('x')</script> \"q\" & | `tick` ```fence``` \x1b[31m\x00 \xff ]]> <svg onload=1> *bold* [link](http://evil)\nsecond line </pre></td><img src=http://evil/x.png>"

const (
	first  = "aaaaaaaaaaaaaaaa" // a seed
	second = "bbbbbbbbbbbbbbbb" // its child, the winner
	third  = "cccccccccccccccc" // their child, which failed
	fourth = "dddddddddddddddd" // a proposal without a result
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// timing has n paired samples around ratio.
func timing(shape string, n int, ratio float64) evaluator.Timing {
	var a, b []float64
	for i := range n {
		base := 2000 + 40*float64((i*7)%5)
		b = append(b, base)
		a = append(a, base*ratio*(1+0.01*float64((i*3)%4)))
	}
	tm := evaluator.NewTiming(shape, a, b, 100, 90)
	tm.FloorNS, tm.Stopped = 300, "precise"
	return tm
}

// result is a whole, correct result.
func result(source string, ratio float64) evaluator.Result {
	tm := []evaluator.Timing{timing("1000", 12, ratio), timing("5000", 12, ratio)}
	return evaluator.Result{
		Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark, Fitness: evaluator.GeometricMean([]float64{tm[0].Ratio, tm[1].Ratio}),
		Cost: 3 * time.Second, Key: strings.Repeat("ab", 32), Source: source, Binary: strings.Repeat("cd", 32), Timings: tm,
		Steps: []evaluator.Step{
			{Stage: evaluator.StageRender, Outcome: evaluator.Passed, Elapsed: time.Millisecond},
			{Stage: evaluator.StageCompile, Outcome: evaluator.Passed, Elapsed: time.Second, Evidence: []evaluator.Evidence{{Check: "compiler", Outcome: evaluator.Passed, Detail: "warning: one\nwarning: two"}}},
			{Stage: evaluator.StageInspect, Outcome: evaluator.Passed, Elapsed: time.Millisecond, Evidence: []evaluator.Evidence{{Check: "registers", Outcome: evaluator.Passed, Value: 64, Limit: 255, Unit: "registers"}}},
			{Stage: evaluator.StageParity, Outcome: evaluator.Passed, Elapsed: time.Millisecond, Evidence: []evaluator.Evidence{
				{Check: "parity 1000 seed 1", Outcome: evaluator.Passed, Value: 2e-7, Limit: 1e-3},
				{Check: "parity odd seed 2 y", Outcome: evaluator.Passed, Value: 0, Limit: 1e-3},
			}},
			{Stage: evaluator.StageSanitize, Outcome: evaluator.Passed, Elapsed: time.Second, Evidence: []evaluator.Evidence{
				{Check: "memcheck", Outcome: evaluator.Passed},
				{Check: "racecheck", Outcome: evaluator.NotRun, Detail: "compute-sanitizer is missing"},
			}},
			{Stage: evaluator.StageBenchmark, Outcome: evaluator.Passed, Elapsed: time.Second, Evidence: []evaluator.Evidence{
				{Check: "ncu sm__throughput", Outcome: evaluator.Passed, Value: 71.5, Unit: "%"},
			}},
		},
	}
}

// scale renders a candidate of the kernel in testdata.
func scale(t *testing.T) (kernels.Rendered, []kernels.Shape) {
	t.Helper()
	d, err := kernels.LoadDir("testdata/scale")
	if err != nil {
		t.Fatal(err)
	}
	shapes := d.Problem.ShapesFor(kernels.Tune)
	space, err := d.Space(d.Implementations, shapes, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := space.FromMap(map[string]any{"THREADS": 128, "FAST": true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Implementations[0].Render(g)
	if err != nil {
		t.Fatal(err)
	}
	return r, shapes
}

// filled is a store with one campaign: a seed, its child, a failure whose
// reason is given, and a proposal without a result.
func filled(t *testing.T, source, reason string) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "evotune.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	const c = "scale-1"
	slow, fast := result(strings.Repeat("0", 64), 0.8), result(source, 0.5)
	bad := evaluator.Result{Verdict: evaluator.Sanitizer, Stage: evaluator.StageSanitize, Reason: reason, Steps: []evaluator.Step{
		{Stage: evaluator.StageRender, Outcome: evaluator.Passed},
		{Stage: evaluator.StageSanitize, Outcome: evaluator.Failed, Evidence: []evaluator.Evidence{{Check: "memcheck", Outcome: evaluator.Failed, Detail: reason}}},
	}}
	finals := map[string]any{
		"winner": 0,
		"entries": []map[string]any{
			{
				"genome": map[string]any{"THREADS": 128, "FAST": true}, "verdict": "correct", "fitness": 0.5, "timings": []evaluator.Timing{timing("1000", 20, 0.5), timing("5000", 20, 0.5)}, "held_out": []evaluator.Timing{timing("odd", 20, 1.2)},
				"evidence": []evaluator.Evidence{{Check: "tensor pipe active", Outcome: evaluator.Passed, Value: 41.5, Unit: "%"}},
			},
			{"genome": map[string]any{"THREADS": 64, "FAST": true}, "verdict": "correct", "fitness": 0.8, "timings": []evaluator.Timing{timing("1000", 20, 0.8), timing("5000", 20, 0.8)}},
		},
		"vs_baseline":  evaluator.Comparison{Ratio: 0.5, P: 1e-9, Alpha: 0.05, Significant: true, N1: 20, N2: 20},
		"vs_runner_up": evaluator.Comparison{Ratio: 0.63, P: 0.4, Alpha: 0.05, N1: 20, N2: 20, Warnings: []string{"few samples"}},
	}
	description := evaluator.Description{
		Backend: "cuda", Kernel: "scale", Shapes: []string{"1000", "5000"}, Verified: []string{"odd"}, Harness: "cuda/1", Compiler: "nvcc 13", Baseline: "threads with its baseline genome",
		Device: evaluator.Device{Name: "NVIDIA H200", Kind: "cuda", Fingerprint: "f00d", Facts: map[string]string{"driver": "580"}, Peaks: map[string]float64{"f32": 5e13, "read": 4e12}},
		Tools:  []evaluator.Tool{{Name: "memcheck", Version: "13.0"}, {Name: "racecheck", Missing: "install compute-sanitizer"}},
	}
	config := map[string]any{
		"id": c, "kernel": "scale", "shapes": []string{"1000", "5000"}, "strategy": "evolution", "seed": 7, "window": 8, "finalists": 4, "budget": map[string]any{"evaluations": 1000000, "time_ns": int64(90 * time.Second)},
		"backend": "cuda", "hash": "1234",
	}
	events := []store.Event{
		{Kind: store.KindStarted, Started: &store.Started{
			Kernel: "scale", Shapes: []string{"1000", "5000"}, Backend: "cuda", Device: "f00d", Name: "NVIDIA H200", Strategy: "evolution", SearchVersion: 1, Seed: 7,
			Config: encoded(t, config), Description: encoded(t, description),
		}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 0, Candidate: first, Genome: "THREADS=64,FAST=true", Operator: "seed"}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 1, Candidate: second, Genome: "THREADS=128,FAST=true", Operator: "mutation", Parents: []string{first}}},
		{Kind: store.KindTold, Told: &store.Told{Index: 0, Candidate: first, Verdict: "correct", Fitness: slow.Fitness, MedianNS: 1600, BaselineNS: 2000, Detail: encoded(t, slow)}},
		{Kind: store.KindTold, Told: &store.Told{Index: 1, Candidate: second, Verdict: "correct", Fitness: fast.Fitness, MedianNS: 1000, BaselineNS: 2000, Key: fast.Key, Detail: encoded(t, fast)}},
		{Kind: store.KindStopped, Note: &store.Note{Reason: "interrupted", Evaluated: 2}},
		{Kind: store.KindResumed, Note: &store.Note{Reason: "resumed", Evaluated: 2, Detail: json.RawMessage(`{"search_version":2,"budget":{"evaluations":1000000,"time_ns":120000000000}}`)}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 2, Candidate: third, Genome: "THREADS=256,FAST=false", Operator: "crossover", Parents: []string{first, second}}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 3, Candidate: fourth, Genome: "THREADS=256,FAST=true", Operator: "random"}},
		{Kind: store.KindTold, Told: &store.Told{Index: 2, Candidate: third, Verdict: "sanitizer", Detail: encoded(t, bad)}},
		{Kind: store.KindResumed, Note: &store.Note{Reason: store.InFinals, Evaluated: 3, Detail: json.RawMessage(`{"search_version":2,"budget":{"evaluations":1000000,"time_ns":120000000000}}`)}},
		{Kind: store.KindFinals, Finals: &store.Finals{Winner: second, Fitness: 0.5, MedianNS: 1000, BaselineNS: 2000, Significant: true, Finalists: []string{second, first}, Detail: encoded(t, finals)}},
		{Kind: store.KindStopped, Note: &store.Note{Reason: "interrupted again", Evaluated: 3}},
	}
	for i := range events {
		events[i].Campaign, events[i].Time = c, start.Add(time.Duration(i)*time.Second)
		if i >= 6 { // an hour's pause before the resumption
			events[i].Time = events[i].Time.Add(time.Hour)
		}
		if _, err := s.Append(events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func subject(t *testing.T, s *store.Store, id string, src report.Source) report.Subject {
	t.Helper()
	c, err := s.Candidate(id)
	if err != nil {
		t.Fatal(err)
	}
	of, err := s.Campaign(c.Campaign)
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.Lineage(id)
	if err != nil {
		t.Fatal(err)
	}
	sub := report.Subject{Candidate: c, Campaign: of, Lineage: n, Source: src, By: "evotune test", Store: "my store.db", Made: start.Add(24 * time.Hour)}
	if slices.Contains(of.Finals.Finalists, id) {
		sub.Finals = of.Finals
	}
	return sub
}

func evidence(t *testing.T, sub report.Subject) (*report.Evidence, report.Files) {
	t.Helper()
	e, err := report.NewEvidence(sub)
	if err != nil {
		t.Fatal(err)
	}
	f, err := e.Files()
	if err != nil {
		t.Fatal(err)
	}
	return e, f
}

// whole is the evidence of the winner, with its source.
func whole(t *testing.T, reason string) (*report.Evidence, report.Files) {
	t.Helper()
	r, shapes := scale(t)
	src := report.NewSource(r, r.Hash, r.Implementation.Definition().Hash)
	if err := src.SetWinners(r, nil, second, shapes); err != nil {
		t.Fatal(err)
	}
	return evidence(t, subject(t, filled(t, r.Hash, reason), second, src))
}

func log(t *testing.T, s *store.Store) report.Log {
	t.Helper()
	c, err := s.Campaign("scale-1")
	if err != nil {
		t.Fatal(err)
	}
	l := report.Log{Campaign: c, By: "evotune test", Store: "evotune.db", Made: start.Add(24 * time.Hour)}
	for e, err := range s.Events(c.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		l.Events = append(l.Events, e)
	}
	if l.Lineage, err = s.Lineage(c.Finals.Winner); err != nil {
		t.Fatal(err)
	}
	return l
}

func campaign(t *testing.T, l report.Log) (*report.Campaign, report.Files) {
	t.Helper()
	c, err := report.NewCampaign(l)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Files()
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	// How a kernel renders, and to which hash, is tested elsewhere.
	got = regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAll(got, []byte("HASH"))
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what was made (see it with -update and git diff)", file)
	}
}

func TestGolden(t *testing.T) {
	_, f := whole(t, "4 bytes past the end of y")
	golden(t, "evidence.golden.md", f["README.md"])
	golden(t, "winner.golden.json", f["winner.json"])
	_, f = campaign(t, log(t, filled(t, strings.Repeat("1", 64), "4 bytes past the end of y")))
	golden(t, "report.golden.md", f["README.md"])
}

func TestEvidence(t *testing.T) {
	e, f := whole(t, "fault")
	for _, name := range []string{
		"evidence.json", "README.md", "index.html", "SHA256SUMS", "winner.json", "winner-1000.json", "winner-5000.json", "winner.cu",
		"source/kernel.cu", "source/evotune_kernel.h", "source/part.cuh", "plots/parity.svg", "plots/ratios.svg", "plots/lineage.svg", "plots/finals.svg",
	} {
		if len(f[name]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	var back report.Evidence
	if err := json.Unmarshal(f["evidence.json"], &back); err != nil {
		t.Fatal(err)
	}
	if back.Format != report.EvidenceFormat || back.Candidate != second || back.Result.Key != e.Result.Key {
		t.Errorf("evidence.json says format %q, candidate %q, key %q", back.Format, back.Candidate, back.Result.Key)
	}
	if n := len(back.Result.Timings[1].SamplesNS); n != 12 {
		t.Errorf("%d raw samples are kept, not 12", n)
	}
	if want := (report.ParityRow{Check: "parity odd seed 2 y", Shape: "odd", Seed: "2", Output: "y", Outcome: evaluator.Passed, Limit: 1e-3}); e.Parity[1] != want {
		t.Errorf("the second row of parity is %+v", e.Parity[1])
	}
	if s := e.Summary; s.From != "finals" || !s.Winner || !s.Tested || !s.Significant || s.Speedup != 2 {
		t.Errorf("the summary is %+v", s)
	}
	if len(e.Profile) != 2 || e.Profile[0].Check != "ncu sm__throughput" || e.Profile[1].Check != "tensor pipe active" {
		t.Errorf("the profile is %+v", e.Profile)
	}
	if want := []string{"sanitize: racecheck: compute-sanitizer is missing"}; !slices.Equal(e.NotRun, want) {
		t.Errorf("not run: %q, not %q", e.NotRun, want)
	}
	if e.Again[0] != "tune verify "+second+" --store 'my store.db'" {
		t.Errorf("the first command is %q", e.Again[0])
	}
	if n := e.Lineage.Nodes; len(n) != 2 || !slices.Equal(n[0].Changes, []string{"THREADS 64 → 128"}) || n[0].Near != first {
		t.Errorf("the lineage is %+v", n)
	}
	for _, est := range e.Estimates {
		if !(est.Lo <= est.Median && est.Median <= est.Hi) || est.Lo == est.Hi {
			t.Errorf("the estimate %+v has no interval around its median", est)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(string(f["SHA256SUMS"])), "\n") {
		sum, name, _ := strings.Cut(line, "  ")
		if sum != fmt.Sprintf("%x", sha256.Sum256(f[name])) {
			t.Errorf("SHA256SUMS has another hash for %s", name)
		}
	}
	if got := strings.Count(string(f["SHA256SUMS"]), "\n"); got != len(f)-1 {
		t.Errorf("SHA256SUMS lists %d files of %d", got, len(f)-1)
	}
}

// A check that did not run is never shown as anything else, and a failure is
// not shown as a result.
func TestNotRun(t *testing.T) {
	s := filled(t, "", "4 bytes past the end")
	e, f := evidence(t, subject(t, s, third, report.LeftOut("", "it was never rendered")))
	for _, want := range []string{
		"parity: the result has no such step", "benchmark: not reached, the candidate ended in sanitize",
		"profile: not measured", "finals: the candidate was in none, so its figures are of one measurement and no test was made", "source: it was never rendered",
	} {
		if !slices.Contains(e.NotRun, want) {
			t.Errorf("%q is not among what did not run: %q", want, e.NotRun)
		}
	}
	md := string(f["README.md"])
	for _, want := range []string{"**Not correct: sanitizer in the stage sanitize: 4 bytes past the end**", "Not measured: the candidate did not reach the benchmark.", "| parity | **NOT RUN** |", "Left out: it was never rendered."} {
		if !strings.Contains(md, want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
	for name := range f {
		if strings.HasPrefix(name, "source/") || strings.HasPrefix(name, "winner") {
			t.Errorf("there is %s without a source", name)
		}
	}
	if _, err := report.NewEvidence(subject(t, s, fourth, report.Source{})); err == nil || !strings.Contains(err.Error(), "has no result yet") {
		t.Errorf("evidence of a proposal without a result: %v", err)
	}
	_, f = whole(t, "fault")
	if md := string(f["README.md"]); !strings.Contains(md, "| racecheck | **NOT RUN** |") || !strings.Contains(md, "| memcheck | passed |") {
		t.Error("README.md does not tell sanitizers that ran from those that did not")
	}
	if html := string(f["index.html"]); !strings.Contains(html, `<td>racecheck</td><td class="idle">NOT RUN</td>`) {
		t.Error("index.html does not show that a sanitizer did not run")
	}
}

func TestSource(t *testing.T) {
	r, shapes := scale(t)
	hash := r.Implementation.Definition().Hash
	for _, c := range []struct{ name, recorded, definition, status, why string }{
		{"same", r.Hash, hash, report.SourceRebuilt, ""},
		{"changed elsewhere", r.Hash, "0123456789abcdef", report.SourceRebuilt, "the definition has changed since"},
		{"changed", strings.Repeat("9", 64), "0123456789abcdef", report.SourceLeftOut, "has changed since"},
		{"rendered otherwise", strings.Repeat("9", 64), hash, report.SourceLeftOut, "renders otherwise"},
		{"nothing recorded", "", hash, report.SourceLeftOut, "no source was recorded"},
	} {
		s := report.NewSource(r, c.recorded, c.definition)
		if s.Status != c.status || !strings.Contains(s.Why, c.why) || (c.why == "" && s.Why != "") {
			t.Errorf("%s: %s, %q", c.name, s.Status, s.Why)
		}
		if (len(s.Files) > 0) != (c.status == report.SourceRebuilt) {
			t.Errorf("%s: %s with %d files", c.name, s.Status, len(s.Files))
		}
		if err := s.SetWinners(r, nil, second, shapes); err != nil {
			t.Fatal(err)
		}
		if (len(s.Winners) == 2) != (c.status == report.SourceRebuilt) {
			t.Errorf("%s: %d winners", c.name, len(s.Winners))
		}
	}
}

// A winner of several kernels tells all of them, to people and to programs.
func TestWinnerOfSeveralKernels(t *testing.T) {
	e, _ := whole(t, "fault")
	w := &e.Source.Winners[0]
	w.Cluster, w.Then = [3]int64{2, 1, 1}, []kernels.Geometry{{Entry: "combine", Grid: [3]int64{7, 1, 1}, Block: [3]int64{96, 1, 1}}}
	w.TensorMaps = []kernels.MapGeometry{{DType: kernels.F32, Dims: []int64{8, 4}, Strides: []int64{32}, Box: []int64{8, 2}, Swizzle: 32}}
	f, err := e.Files()
	if err != nil {
		t.Fatal(err)
	}
	if page := string(f["README.md"]); !strings.Contains(page, w.Shape+", then combine | 7, 1, 1 | 96, 1, 1") {
		t.Errorf("the page has no second kernel:\n%s", page)
	}
	text := regexp.MustCompile(`\s+`).ReplaceAllString(string(f["winner.json"]), "")
	for _, want := range []string{
		`"cluster":[2,1,1]`, `"then":[{"grid":[7,1,1],"block":[96,1,1],"shared":0,"entry":"combine"}]`,
		`"tensor_maps":[{"buffer":0,"dtype":"f32","dims":[8,4],"strides":[32],"box":[8,2],"swizzle":32}]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("winner.json has no %s:\n%s", want, text)
		}
	}
}

func TestWinner(t *testing.T) {
	_, f := whole(t, "fault")
	var w report.Winner
	if err := json.Unmarshal(f["winner-5000.json"], &w); err != nil {
		t.Fatal(err)
	}
	if w.Grid != [3]int64{40, 1, 1} || w.Block != [3]int64{128, 1, 1} || w.Shared != 512 || w.Workspace != 20000 || w.Entry != "scale" || w.Cubin != "" {
		t.Errorf("the launch is %+v", w)
	}
	if !slices.Equal(w.Buffers, []report.WinnerBuffer{{Name: "x", DType: "f16", Role: "in", Elements: 5000, Data: "uniform(-1,1)"}, {Name: "y", DType: "f32", Role: "out", Elements: 5000, Tolerance: 1e-3}}) {
		t.Errorf("the buffers are %+v", w.Buffers)
	}
	if !slices.Equal(w.Scalars, []report.WinnerScalar{{Name: "factor", DType: "f32", Value: 2.5}}) || !slices.Equal(w.Flags, []string{"-O3", "-use_fast_math"}) {
		t.Errorf("scalars %+v, flags %q", w.Scalars, w.Flags)
	}
	if w.Tolerance != 1e-3 || w.Target != "sm_80" || w.Candidate != second {
		t.Errorf("tolerance %v, target %q, candidate %q", w.Tolerance, w.Target, w.Candidate)
	}
	if w.Source != "winner.cu" || !maps.Equal(w.Dims, map[string]int64{"N": 5000}) {
		t.Errorf("source %q, dims %v", w.Source, w.Dims)
	}
	text := string(f["winner.cu"])
	if regexp.MustCompile(`(?m)^\s*#\s*include\s*"`).MatchString(text) {
		t.Errorf("winner.cu needs another file:\n%s", text)
	}
	if n := strings.Count(text, "scaled(float x, float factor)"); n != 1 {
		t.Errorf("the included file is %d times in winner.cu", n)
	}
	for _, part := range []string{"#ifndef EVOTUNE_KERNEL_H", "void *workspace);", "blockIdx.x * (int64_t)128"} {
		if !strings.Contains(text, part) {
			t.Errorf("winner.cu has no %q", part)
		}
	}
}

// winner.cu compiles by itself, with the flags that winner.json has.
func TestWinnerCompiles(t *testing.T) {
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Skip("winner.cu is not compiled: there is no nvcc")
	}
	_, f := whole(t, "fault")
	var w report.Winner
	if err := json.Unmarshal(f["winner.json"], &w); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, w.Source), f[w.Source], 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), nvcc, append(w.Flags, "-Werror", "all-warnings", "-arch="+w.Target, "-cubin", "-o", "out.cubin", w.Source)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// selfContained parses a page as XML and checks that it needs nothing else.
func selfContained(t *testing.T, name string, page []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(page, []byte("<!DOCTYPE html>"))))
	d.Strict = true
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s is not well-formed: %v", name, err)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		switch e.Name.Local {
		case "script", "iframe", "object", "embed", "link", "img", "image", "use", "base", "foreignObject":
			t.Errorf("%s has a <%s>", name, e.Name.Local)
		}
		for _, a := range e.Attr {
			where := fmt.Sprintf("%s: <%s %s=%q>", name, e.Name.Local, a.Name.Local, a.Value)
			switch {
			case strings.HasPrefix(a.Name.Local, "on"):
				t.Errorf("%s is a script", where)
			case a.Name.Local == "src" || a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#"):
				t.Errorf("%s is outside", where)
			case strings.Contains(a.Value, "://") && a.Name.Local != "xmlns":
				t.Errorf("%s is an address", where)
			case strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf"):
				t.Errorf("%s is not a number", where)
			}
		}
	}
	for _, style := range regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllSubmatch(page, -1) {
		if bytes.Contains(style[1], []byte("url(")) || bytes.Contains(style[1], []byte("@import")) {
			t.Errorf("%s: a style loads something", name)
		}
	}
}

func checkPages(t *testing.T, f report.Files) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		switch filepath.Ext(name) {
		case ".html":
			selfContained(t, name, f[name])
		case ".svg":
			selfContained(t, name, bytes.TrimPrefix(f[name], []byte(`<?xml version="1.0" encoding="UTF-8"?>`)))
			if !bytes.Contains(f["index.html"], []byte("<svg")) {
				t.Error("index.html has no plot")
			}
		}
	}
	for _, m := range regexp.MustCompile(`!\[[^\]]*\]\(([^)]*)\)`).FindAllSubmatch(f["README.md"], -1) {
		if f[string(m[1])] == nil {
			t.Errorf("README.md shows %s, which there is not", m[1])
		}
	}
}

func TestPages(t *testing.T) {
	_, f := whole(t, "fault")
	checkPages(t, f)
	_, f = campaign(t, log(t, filled(t, strings.Repeat("1", 64), "fault")))
	checkPages(t, f)
}

// What candidates and tools print is text, whatever it looks like.
func TestHostile(t *testing.T) {
	s := filled(t, "", hostile)
	_, f := evidence(t, subject(t, s, third, report.LeftOut("", "%s", hostile)))
	checkPages(t, f)
	_, g := campaign(t, log(t, s))
	checkPages(t, g)
	for _, page := range []string{string(f["index.html"]), string(g["index.html"])} {
		if !strings.Contains(page, "&lt;script&gt;alert(&#39;x&#39;)") {
			t.Error("the reason is not on the page")
		}
	}
	fence := regexp.MustCompile("(?s)(`{3,})\n.*?\n`{3,}\n")
	for _, page := range []string{string(f["README.md"]), string(g["README.md"])} {
		if strings.ContainsAny(page, "\x00\x1b") || !utf8.ValidString(page) {
			t.Error("README.md has control characters")
		}
		outside := fence.ReplaceAllString(page, "")
		if strings.Contains(outside, "<script") || regexp.MustCompile(`[^\\]\]\(http`).MatchString(outside) || strings.Contains(outside, "<img") {
			t.Errorf("README.md has markup of a candidate:\n%s", outside)
		}
		for _, line := range strings.Split(outside, "\n") {
			if strings.HasPrefix(line, "| memcheck | failed") && strings.Count(line, "|")-strings.Count(line, `\|`) != 6 {
				t.Errorf("the row %q has another number of cells", line)
			}
		}
	}
}

func TestNotFinite(t *testing.T) {
	s := filled(t, "", "fault")
	sub := subject(t, s, second, report.LeftOut("", "none"))
	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e308, math.MaxFloat64} {
		e, err := report.NewEvidence(sub)
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.Result.Timings {
			tm := &e.Result.Timings[i]
			tm.SamplesNS[3], tm.BaselineNS[5] = odd, odd
			if i == 1 { // all of one shape
				for j := range tm.SamplesNS {
					tm.SamplesNS[j] = odd
				}
			}
			tm.MedianNS, tm.Ratio = odd, odd
		}
		e.Parity[0].Error = odd
		e.Lineage.Nodes[0].Speedup = odd
		// JSON cannot hold what is not finite, and a stored result never is; the
		// page must hold all the same.
		checkPages(t, report.Files{"index.html": report.PageOf(e)})
	}
	c, err := report.NewCampaign(log(t, s))
	if err != nil {
		t.Fatal(err)
	}
	c.Evaluations[0].Speedup, c.Evaluations[1].Speedup = math.Inf(1), math.NaN()
	c.Genes[0].Values[0].MedianSpeedup = math.NaN()
	checkPages(t, report.Files{"index.html": report.CampaignPageOf(c)})
}

func TestCampaign(t *testing.T) {
	c, f := campaign(t, log(t, filled(t, strings.Repeat("1", 64), "write of 4 bytes at 0x7f00 past y")))
	var back report.Campaign
	if err := json.Unmarshal(f["report.json"], &back); err != nil {
		t.Fatal(err)
	}
	if back.Format != report.CampaignFormat || len(back.Evaluations) != 4 {
		t.Errorf("report.json says format %q with %d evaluations", back.Format, len(back.Evaluations))
	}
	if c.SpentS != 11 || c.PreparedS != 0 || c.SearchedS != 9 || c.FinalsS != 2 { // 5 s before and 6 s after an hour's pause
		t.Errorf("%v s were spent, not 11; %v, %v and %v of them in phases", c.SpentS, c.PreparedS, c.SearchedS, c.FinalsS)
	}
	// 24 samples of some 100 launches of some 2 us, each of candidate and baseline, twice
	if c.TimedS < 0.011 || c.TimedS > 0.02 || math.Abs(c.TimedShare-c.TimedS/11) > 1e-12 || c.PerMinute != 20 {
		t.Errorf("%v s in timed launches, a share of %v; %v per minute", c.TimedS, c.TimedShare, c.PerMinute)
	}
	for _, want := range []string{"evolution version 1, then 2, seed 7", "--time 2m0s"} {
		if !strings.Contains(string(f["README.md"]), want) {
			t.Errorf("of the resumption the page lacks %q", want)
		}
	}
	if c.Resumptions != 1 || c.Best == nil || c.Best.Candidate != second || c.Best.From != "finals" || !c.Best.Significant {
		t.Errorf("%d resumptions, the best is %+v", c.Resumptions, c.Best)
	}
	if len(c.Failures) != 1 || c.Failures[0].Count != 1 || c.Failures[0].Candidate != third {
		t.Errorf("the failures are %+v", c.Failures)
	}
	for _, s := range c.Stages {
		if s.Stage == "sanitize" && (s.Passed != 2 || s.Failed != 1) {
			t.Errorf("sanitize is %+v", s)
		}
	}
	for _, o := range c.Operators {
		if o.Operator == "mutation" && (o.Improved != 1 || o.Records != 1 || o.WithParents != 1) {
			t.Errorf("mutation is %+v", o)
		}
	}
	for _, want := range []string{"racecheck: install compute-sanitizer", "sanitize: racecheck: compute-sanitizer is missing (2 candidates)", "1 proposal without a result"} {
		if !slices.Contains(c.NotRun, want) {
			t.Errorf("%q is not among what did not run: %q", want, c.NotRun)
		}
	}
	want := []string{
		"tune verify " + second + " --store evotune.db", "tune evidence " + second + " --store evotune.db --out DIR", "tune resume scale-1 --store evotune.db",
		"tune run scale --backend cuda --shape 1000 --shape 5000 --strategy evolution --seed 7 --window 8 --finalists 4 --evaluations 1000000 --time 2m0s",
	}
	if !slices.Equal(c.Again, want) {
		t.Errorf("the commands are\n%s\nnot\n%s", strings.Join(c.Again, "\n"), strings.Join(want, "\n"))
	}
	if c.Finals.RunnerUp != first || c.Finals.Entries[1].Interval == nil {
		t.Errorf("the finals are %+v", c.Finals)
	}
}

// A long campaign's page can still be opened, and has every new best.
func TestLongCampaign(t *testing.T) {
	l := log(t, filled(t, "", "fault"))
	const n = 20_000
	for i := 4; i < n; i++ {
		id := fmt.Sprintf("%016x", i)
		told := store.Told{Index: i, Candidate: id, Verdict: "correct", Fitness: 0.9 + float64(i%100)/1000}
		if i == n/2+1 {
			told.Fitness = 0.25
		}
		told.Detail = encoded(t, evaluator.Result{Verdict: evaluator.Correct, Fitness: told.Fitness})
		l.Events = append(l.Events,
			store.Event{Kind: store.KindAsked, Time: start, Asked: &store.Asked{Index: i, Candidate: id, Genome: "THREADS=64,FAST=true", Operator: "random"}},
			store.Event{Kind: store.KindTold, Time: start, Told: &told})
	}
	c, f := campaign(t, l)
	if len(c.Evaluations) != n {
		t.Errorf("%d evaluations", len(c.Evaluations))
	}
	if size := len(f["index.html"]); size > 3<<20 {
		t.Errorf("the page has %d bytes", size)
	}
	if !bytes.Contains(f["plots/progress.svg"], []byte(fmt.Sprintf("%016x correct 4.000x", n/2+1))) {
		t.Error("a new best is not drawn")
	}
	if !bytes.Contains(f["README.md"], []byte("one in 5 is drawn")) {
		t.Error("it is not said that some are not drawn")
	}
}

// A lineage of any form ends and is drawn within bounds.
func TestLineageBound(t *testing.T) {
	var nodes []*store.Node
	for i := range 500 {
		n := &store.Node{Candidate: store.Candidate{ID: fmt.Sprintf("%016x", i), Asked: store.Asked{Index: i, Genome: fmt.Sprintf("A=%d,B=%d", i, i%3), Operator: "crossover"}, Told: &store.Told{Verdict: "correct", Fitness: 0.5}}}
		for _, back := range []int{1, 7} {
			if i >= back {
				n.Parents = append(n.Parents, nodes[i-back])
			}
		}
		nodes = append(nodes, n)
	}
	sub := subject(t, filled(t, "", "fault"), second, report.LeftOut("", "none"))
	sub.Lineage = nodes[len(nodes)-1]
	e, f := evidence(t, sub)
	if len(e.Lineage.Nodes) != report.MaxAncestors || e.Lineage.Omitted != 300 {
		t.Errorf("%d nodes and %d omitted", len(e.Lineage.Nodes), e.Lineage.Omitted)
	}
	if !bytes.Contains(f["plots/lineage.svg"], []byte("460 more ancestors are not drawn")) {
		t.Error("the drawing does not say what it leaves out")
	}
	checkPages(t, f)
	// A circle, which a store does not give, ends too.
	nodes[0].Parents = []*store.Node{nodes[5]}
	picture := report.LineagePicture(nodes[len(nodes)-1])
	if !bytes.Contains(picture, []byte("460 more ancestors are not drawn")) || bytes.Contains(picture, []byte("var(")) {
		t.Errorf("the picture does not say what is left out, or needs variables:\n%.2000s", picture)
	}
	sub.Lineage = nodes[5]
	_, f = evidence(t, sub)
	checkPages(t, f)
}

func refused(err error) bool {
	var e *report.RefusedError
	return errors.As(err, &e)
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "out")
	files := report.Files{"a.txt": []byte("one"), "sub/b.txt": []byte("two"), "SHA256SUMS": []byte("")}
	if err := report.Write(dir, files, false); err != nil {
		t.Fatal(err)
	}
	content := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	alone := func() {
		t.Helper()
		entries, err := os.ReadDir(filepath.Dir(dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), "partial") {
				t.Errorf("%s is left over", e.Name())
			}
		}
	}
	if content("a.txt") != "one" || content("sub/b.txt") != "two" {
		t.Errorf("written: %q and %q", content("a.txt"), content("sub/b.txt"))
	}
	alone()
	// What is there is not touched without force.
	if err := report.Write(dir, report.Files{"a.txt": []byte("other")}, false); !refused(err) {
		t.Errorf("a folder that is not empty: %v", err)
	}
	if content("a.txt") != "one" {
		t.Error("a refused write changed a file")
	}
	// A write that fails half-way leaves the old folder as it was.
	if err := report.Write(dir, report.Files{"a.txt": []byte("other"), "z/../../escape": []byte("x")}, true); err == nil {
		t.Error("a name that leads out was accepted")
	}
	if err := report.Write(dir, report.Files{"a.txt": []byte("other"), "a.txt/b": []byte("x")}, true); err == nil {
		t.Error("a file in a file was written")
	}
	if content("a.txt") != "one" || content("sub/b.txt") != "two" {
		t.Error("a failed write changed the folder")
	}
	alone()
	// With force the whole folder is the new one.
	if err := report.Write(dir, report.Files{"a.txt": []byte("three"), "SHA256SUMS": nil}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sub")); content("a.txt") != "three" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after force: %q, sub: %v", content("a.txt"), err)
	}
	alone()
	// Not even force deletes what evotune did not write.
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.tex"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := report.Write(foreign, files, true); !refused(err) {
		t.Errorf("a folder of another's: %v", err)
	}
	if err := report.Write(filepath.Join(foreign, "thesis.tex"), files, true); !refused(err) {
		t.Error("a file was replaced by a folder")
	}
	// An empty folder is as good as none.
	if err := report.Write(t.TempDir(), files, false); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
}

// The headline says what the test said.
func TestHeadline(t *testing.T) {
	for _, c := range []struct {
		vs   *evaluator.Comparison
		want string
	}{
		{&evaluator.Comparison{Ratio: 0.5, Significant: true}, "the winner of the finals, significant"},
		{&evaluator.Comparison{Ratio: 0.5}, "NOT significant"},
		{&evaluator.Comparison{Ratio: 1.3, Significant: true}, "significantly SLOWER"},
		{nil, "no test was made"},
	} {
		s := filled(t, "", "fault")
		sub, l := subject(t, s, second, report.LeftOut("", "none")), log(t, s)
		var d map[string]any
		if err := json.Unmarshal(sub.Finals.Detail, &d); err != nil {
			t.Fatal(err)
		}
		d["vs_baseline"] = c.vs
		sub.Finals.Detail = encoded(t, d)
		l.Campaign.Finals.Detail = sub.Finals.Detail
		_, f := evidence(t, sub)
		_, g := campaign(t, l)
		for name, page := range map[string][]byte{"evidence": f["README.md"], "report": g["README.md"]} {
			line := strings.Split(string(page), "\n")[2]
			want := c.want
			if c.vs == nil && name == "report" {
				want = "without a test"
			}
			if !strings.Contains(line, want) || want != "the winner of the finals, significant" && strings.Contains(line, "finals, significant**") {
				t.Errorf("%s with %+v: %s", name, c.vs, line)
			}
		}
	}
	_, f := evidence(t, subject(t, filled(t, "", "fault"), first, report.LeftOut("", "none")))
	if line := strings.Split(string(f["README.md"]), "\n")[2]; !strings.Contains(line, "which another candidate won; no test was made for this one") {
		t.Errorf("a finalist that lost: %s", line)
	}
}

// A recorded table proves nothing, and its evidence says so.
func TestRecorded(t *testing.T) {
	sub := subject(t, filled(t, "", "fault"), first, report.LeftOut("", "a recorded table has no sources"))
	sub.Campaign.Started.Description = encoded(t, evaluator.Description{Backend: "replay", Device: evaluator.Device{Kind: "recorded"}})
	_, f := evidence(t, sub)
	if md := string(f["README.md"]); !strings.Contains(md, "nothing was checked or measured here") || strings.Contains(md, "in fresh processes") {
		t.Error("evidence of a recorded time claims that it was measured")
	}
}

// Whatever a stored result says, evidence of it is made or refused, and the
// page is whole.
func FuzzEvidence(f *testing.F) {
	for _, v := range []any{result("", 0.5), evaluator.Result{Verdict: evaluator.Parity, Stage: evaluator.StageParity, Reason: hostile}} {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 1e-3, 2000.0)
	}
	f.Add([]byte(`{"verdict":"correct","stage":"benchmark","timings":[{"shape":"","samples_ns":[1,2],"baseline_ns":[]},{"samples_ns":[1e300,-1,0]}]}`), 5e-324, 0.0)
	f.Fuzz(func(t *testing.T, detail []byte, limit, sample float64) {
		if !json.Valid(detail) {
			t.Skip()
		}
		sub := report.Subject{Candidate: store.Candidate{ID: first, Told: &store.Told{Detail: detail}}, Source: report.LeftOut("", "none")}
		e, err := report.NewEvidence(sub)
		if err != nil {
			return
		}
		e.Parity = append(e.Parity, report.ParityRow{Check: "parity x seed 1", Shape: "x", Error: sample, Limit: limit})
		for i := range e.Result.Timings {
			e.Result.Timings[i].SamplesNS = append(e.Result.Timings[i].SamplesNS, sample)
		}
		checkPages(t, report.Files{"index.html": report.PageOf(e)})
	})
}

func TestDamaged(t *testing.T) {
	s := filled(t, "", "fault")
	sub := subject(t, s, second, report.Source{})
	sub.Candidate.Told.Detail = json.RawMessage(`{"verdict": 3}`)
	if _, err := report.NewEvidence(sub); err == nil || !strings.Contains(err.Error(), "tune check") {
		t.Errorf("a damaged result: %v", err)
	}
	sub = subject(t, s, second, report.Source{})
	sub.Finals.Finalists = sub.Finals.Finalists[:1]
	if _, err := report.NewEvidence(sub); err == nil || !strings.Contains(err.Error(), "tune check") {
		t.Errorf("damaged finals: %v", err)
	}
	l := log(t, s)
	l.Events = append(l.Events[:1], l.Events[2:]...)
	if _, err := report.NewCampaign(l); err == nil || !strings.Contains(err.Error(), "tune check") {
		t.Errorf("a log with a hole: %v", err)
	}
}

// A finalist whose profile broke a bound is told of with the reading, and what
// could not be read is in the list of what was not run.
func TestProfileBounds(t *testing.T) {
	sub := subject(t, filled(t, "", "fault"), second, report.LeftOut("", "none"))
	const why = "finals: requires tensor pipe active: 0.02 %, at least 0.1 is required"
	sub.Finals = &store.Finals{Finalists: []string{second}, Detail: encoded(t, map[string]any{"entries": []map[string]any{{
		"genome": map[string]any{"THREADS": 128, "FAST": true}, "verdict": "inspect", "reason": why, "timings": []evaluator.Timing{timing("1000", 20, 0.5)},
		"evidence": []evaluator.Evidence{
			{Check: "requires tensor pipe active", Outcome: evaluator.Failed, Value: 0.02, Limit: 0.1, AtLeast: true, Unit: "%", Detail: "0.02 %, at least 0.1 is required"},
			{Check: "requires DRAM throughput", Outcome: evaluator.NotRun, Detail: "at least 1 is required: no permission"},
			{Check: evaluator.Reach, Outcome: evaluator.NotRun, Detail: "kernel.c:12"},
		},
	}}})}
	e, f := evidence(t, sub)
	if s := e.Summary; s.Verdict != "inspect" || s.Stage != "finals" || s.Reason != why || s.Speedup != 0 || s.Winner {
		t.Errorf("the summary is %+v", s)
	}
	if !slices.Contains(e.NotRun, "finals: requires DRAM throughput: at least 1 is required: no permission") {
		t.Errorf("not run: %q", e.NotRun)
	}
	if !slices.Contains(e.NotRun, "finals: reach of the sanitizers: kernel.c:12") || e.Sanitizers[len(e.Sanitizers)-1].Check != evaluator.Reach {
		t.Errorf("what no sanitizer has seen: not run %q, sanitizers %+v", e.NotRun, e.Sanitizers)
	}
	for _, want := range []string{"| requires tensor pipe active | failed | 0.02 % | at least 0.1 | 0.02 %, at least 0.1 is required |", why} {
		if !strings.Contains(string(f["README.md"]), want) {
			t.Errorf("README.md lacks %q", want)
		}
	}
	part, err := report.FinalistOf(store.Candidate{ID: second, Finals: sub.Finals})
	if err != nil || part == nil || part.Reason != why {
		t.Errorf("its part in the finals is %+v, %v", part, err)
	}
	if part, err := report.FinalistOf(store.Candidate{ID: first, Finals: sub.Finals}); part != nil || err != nil {
		t.Errorf("the part of who was not in them is %+v, %v", part, err)
	}
	if part, err := report.FinalistOf(store.Candidate{ID: second}); part != nil || err != nil {
		t.Errorf("the part in no finals is %+v, %v", part, err)
	}
}

// TestSanitizersInFinals: what tools saw in the finals is told beside what they saw in the
// search, and what the search left for the finals is missing where these did not pass.
func TestSanitizersInFinals(t *testing.T) {
	left := evaluator.Evidence{Check: evaluator.SanitizeShapes, Outcome: evaluator.NotRun, Detail: "the search launches it at 72x72x136 alone, and the finals at small"}
	done := evaluator.Evidence{Check: evaluator.SanitizeShapes, Outcome: evaluator.Passed, Detail: "72x72x136 in the search, small in finals"}
	memcheck := evaluator.Evidence{Check: "memcheck", Outcome: evaluator.Passed, Detail: "in finals: no fault in one launch at shape small"}
	racecheck := evaluator.Evidence{Check: "racecheck", Outcome: evaluator.NotRun, Detail: "in finals: why"}
	failed := evaluator.Evidence{Check: "memcheck", Outcome: evaluator.Failed, Detail: "in finals: a write"}
	for _, c := range []struct {
		name   string
		finals []evaluator.Evidence
		want   []evaluator.Evidence
		notRun []string
	}{
		{"none", nil, []evaluator.Evidence{{Check: "memcheck", Outcome: evaluator.Passed, Detail: "no fault in one launch at shape 72x72x136"}, {Check: "ubsan", Outcome: evaluator.Passed}, left}, []string{"sanitize: " + left.Check + ": " + left.Detail}},
		{"passed", []evaluator.Evidence{memcheck, {Check: "ubsan", Outcome: evaluator.Passed, Detail: "in finals"}, racecheck, done}, []evaluator.Evidence{
			{Check: "memcheck", Outcome: evaluator.Passed, Detail: "no fault in one launch at shape 72x72x136; " + memcheck.Detail},
			{Check: "ubsan", Outcome: evaluator.Passed, Detail: "in the search; in finals"},
			done, racecheck,
		}, []string{"finals: racecheck: in finals: why"}},
		{"failed", []evaluator.Evidence{failed}, []evaluator.Evidence{
			{Check: "memcheck", Outcome: evaluator.Passed, Detail: "no fault in one launch at shape 72x72x136"}, {Check: "ubsan", Outcome: evaluator.Passed}, left, failed,
		}, []string{"sanitize: " + left.Check + ": " + left.Detail}},
	} {
		sub := subject(t, filled(t, "", "fault"), second, report.LeftOut("", "none"))
		r, err := record.ReadResult(sub.Candidate.Told)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range r.Steps {
			if s.Stage == evaluator.StageSanitize {
				r.Steps[i].Evidence = []evaluator.Evidence{{Check: "memcheck", Outcome: evaluator.Passed, Detail: "no fault in one launch at shape 72x72x136"}, {Check: "ubsan", Outcome: evaluator.Passed}, left}
			}
		}
		sub.Candidate.Told.Detail = encoded(t, r)
		sub.Finals = nil
		if c.finals != nil {
			sub.Finals = &store.Finals{Finalists: []string{second}, Detail: encoded(t, map[string]any{"entries": []map[string]any{{
				"genome": map[string]any{"THREADS": 128, "FAST": true}, "verdict": "correct", "evidence": c.finals,
			}}})}
		}
		e, _ := evidence(t, sub)
		if diff := cmp.Diff(c.want, e.Sanitizers); diff != "" {
			t.Errorf("%s, -want +got:\n%s", c.name, diff)
		}
		var notRun []string
		for _, line := range e.NotRun {
			if strings.HasPrefix(line, "sanitize: ") || strings.HasPrefix(line, "finals: ") && strings.Contains(line, "check") {
				notRun = append(notRun, line)
			}
		}
		if !slices.Equal(notRun, c.notRun) {
			t.Errorf("%s: not run: %q, want %q", c.name, notRun, c.notRun)
		}
	}
}
