package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// addProven appends a finished campaign of a built-in kernel on a CPU, with a winner
// that lacks nothing, measured by a compiler.
func addProven(t testing.TB, path, kernel string, seed int64, fitness float64, compiler ...string) {
	t.Helper()
	catalogue, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	definition, err := catalogue.Get(kernel)
	if err != nil {
		t.Fatal(err)
	}
	on := definition.On(evotune.CPU)
	shape := on.Problem.ShapesFor(kernels.Tune)[0]
	space, err := on.Space(on.Implementations, []kernels.Shape{shape}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := space.Random(rand.New(rand.NewSource(seed)))
	r, err := on.Implementation(g, on.Implementations).Render(g)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(v any) json.RawMessage {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	timings := []evaluator.Timing{evaluator.NewTiming(shape.Name, []float64{200 * fitness, 202 * fitness, 198 * fitness}, []float64{200, 202, 198}, 1, 1)}
	id, campaign := fmt.Sprintf("%016x", seed), fmt.Sprintf("%s-cpu-%08x", kernel, seed)
	result := evaluator.Result{
		Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark, Fitness: fitness, Source: r.Hash, Timings: timings,
		Steps: []evaluator.Step{
			{Stage: evaluator.StageParity, Outcome: evaluator.Passed},
			{Stage: evaluator.StageSanitize, Outcome: evaluator.Passed, Evidence: []evaluator.Evidence{{Check: "asan", Outcome: evaluator.Passed}}},
		},
	}
	finals := map[string]any{"entries": []map[string]any{{"genome": g.Map(), "verdict": "correct", "fitness": fitness, "timings": timings}}, "winner": 0}
	events := []store.Event{
		{Kind: store.KindStarted, Started: &store.Started{
			Kernel: kernel, Shapes: []string{shape.Name}, Backend: evotune.CPU, Device: "c0ffee", Name: "a processor", Strategy: "evolution", Seed: seed,
			Config:      encode(map[string]any{"kernel": kernel, "shapes": []string{shape.Name}, "backend": evotune.CPU, "hash": definition.Hash}),
			Description: encode(evaluator.Description{Backend: evotune.CPU, Kernel: kernel, Shapes: []string{shape.Name}, Compiler: strings.Join(compiler, ""), Device: evaluator.Device{Name: "a processor", Kind: "cpu", Fingerprint: "c0ffee"}}),
		}},
		{Kind: store.KindAsked, Asked: &store.Asked{Candidate: id, Genome: g.String(), Operator: "seed"}},
		{Kind: store.KindTold, Told: &store.Told{Candidate: id, Verdict: "correct", Fitness: fitness, MedianNS: 100, BaselineNS: 200, Detail: encode(result)}},
		{Kind: store.KindFinals, Finals: &store.Finals{Winner: id, Fitness: fitness, MedianNS: 100, BaselineNS: 200, Significant: true, Finalists: []string{id}, Detail: encode(finals)}},
	}
	for i := range events {
		events[i].Campaign = campaign
	}
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(events...); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// The best of several campaigns for one device and shape leaves, and only it.
func TestExportTakesTheBest(t *testing.T) {
	path := manyCandidates(t, 3, 5)
	addProven(t, path, "softmax", 1, 0.5)
	addProven(t, path, "softmax", 2, 0.4)
	out := filepath.Join(t.TempDir(), "lib")
	var told struct {
		Files []string `json:"files"`
	}
	if err := json.Unmarshal([]byte(tune(t, 0, "export", "softmax", "--store", path, "--out", out, "--json")), &told); err != nil {
		t.Fatal(err)
	}
	kernelsOf := map[string]bool{}
	for _, f := range told.Files {
		if filepath.Dir(f) == "src/kernels" {
			kernelsOf[filepath.Base(f)] = true
		}
	}
	if len(kernelsOf) != 2 || !kernelsOf["softmax_0000000000000002.c"] || !kernelsOf["softmax_baseline.c"] {
		t.Errorf("%v", kernelsOf)
	}
}

// A winner that was not faster than the baseline leaves, and both who exports and who reads the
// library are told.
func TestExportNotFaster(t *testing.T) {
	path := manyCandidates(t, 3, 5)
	addProven(t, path, "softmax", 1, 0.5)
	addProven(t, path, "sgemm", 2, 1/0.949)
	out := filepath.Join(t.TempDir(), "lib")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"export", "softmax", "sgemm", "--store", path, "--out", out}, nil, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit status %d: %s", code, stderr.String())
	}
	if !regexp.MustCompile(`^tune: sgemm at [^ ]+: the winner of its campaign was not faster than the baseline \(0\.949x\): the library calls the baseline there\n$`).MatchString(stderr.String()) {
		t.Errorf("%q", stderr.String())
	}
	readme, err := os.ReadFile(filepath.Join(out, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(readme); strings.Contains(text, "won the finals") || !strings.Contains(text, "where not every one was faster than the baseline. ") ||
		!strings.Contains(text, "\n\n- "+strings.TrimPrefix(stderr.String(), "tune: ")+"\n|") {
		t.Error(text)
	}

	// A service says so in the result of its export.
	exports := served(t, path) + "/v1/exports"
	answer, err := http.Post(exports, "application/json", strings.NewReader(`{"kernels":["softmax","sgemm"]}`))
	for err == nil {
		b, failed := io.ReadAll(answer.Body)
		answer.Body.Close()
		var o api.Operation
		if err = errors.Join(failed, json.Unmarshal(b, &o)); err != nil {
			break
		}
		if o.State == api.Finished {
			if line := strings.TrimSpace(strings.TrimPrefix(stderr.String(), "tune: ")); !strings.Contains(string(o.Result), `"not_faster":["`+line+`"]`) {
				t.Errorf("%s, without %q", o.Result, line)
			}
			return
		}
		if o.State == api.Failed {
			t.Fatalf("%s", b)
		}
		time.Sleep(10 * time.Millisecond)
		answer, err = http.Get(strings.TrimSuffix(exports, "exports") + "operations/" + o.ID)
	}
	t.Fatal(err)
}

// BenchmarkExport writes a library of two kernels from a store of 100,000 candidates,
// without compiling.
func BenchmarkExport(b *testing.B) {
	path := manyCandidates(b, 100, 1000)
	addProven(b, path, "softmax", 1, 0.5)
	addProven(b, path, "sgemm", 2, 0.5)
	out := filepath.Join(b.TempDir(), "lib")
	for b.Loop() {
		tune(b, 0, "export", "softmax", "sgemm", "--store", path, "--out", out, "--force")
	}
}
