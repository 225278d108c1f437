package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

// A finalist that broke a bound on its profile shows it, and does not answer
// for its campaign.
func TestShowFinals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evotune.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(v any) json.RawMessage {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const idle, busy = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
	told := func(i int, id string, fitness float64) store.Event {
		return store.Event{Kind: store.KindTold, Told: &store.Told{
			Index: i, Candidate: id, Verdict: "correct", Fitness: fitness, MedianNS: 1000 * fitness, BaselineNS: 1000,
			Detail: encoded(evaluator.Result{Verdict: evaluator.Correct, Stage: evaluator.StageBenchmark, Fitness: fitness}),
		}}
	}
	type part struct {
		Verdict  evaluator.Verdict    `json:"verdict"`
		Reason   string               `json:"reason,omitempty"`
		Fitness  float64              `json:"fitness,omitempty"`
		Evidence []evaluator.Evidence `json:"evidence"`
	}
	events := []store.Event{
		{Kind: store.KindStarted, Started: &store.Started{Kernel: "gemm", Shapes: []string{"2048"}, Backend: "cuda", Device: "f00d", Name: "NVIDIA H200", Strategy: "random"}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 0, Candidate: idle, Genome: "TILE=4", Operator: "random"}},
		{Kind: store.KindAsked, Asked: &store.Asked{Index: 1, Candidate: busy, Genome: "TILE=8", Operator: "random"}},
		told(0, idle, 0.5), told(1, busy, 0.8),
		{Kind: store.KindFinals, Finals: &store.Finals{
			Winner: busy, Fitness: 0.8, MedianNS: 800, BaselineNS: 1000, Finalists: []string{idle, busy},
			Detail: encoded(map[string]any{"entries": []part{
				{Verdict: evaluator.Inspect, Reason: "finals: requires tensor pipe active: 0.02 %, at least 0.1 is required", Evidence: []evaluator.Evidence{
					{Check: "tensor pipe active", Outcome: evaluator.Passed, Value: 0.02, Unit: "%"},
					{Check: "requires tensor pipe active", Outcome: evaluator.Failed, Value: 0.02, Limit: 0.1, AtLeast: true, Unit: "%", Detail: "0.02 %, at least 0.1 is required"},
				}},
				{Verdict: evaluator.Correct, Fitness: 0.8, Evidence: []evaluator.Evidence{
					{Check: "requires tensor pipe active", Outcome: evaluator.NotRun, Detail: "at least 0.1 is required: no permission"},
				}},
			}}),
		}},
	}
	for i := range events {
		events[i].Campaign = "gemm-1"
	}
	if _, err := s.Append(events...); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][]string{
		idle: {
			"\nfinals         inspect: finals: requires tensor pipe active: 0.02 %, at least 0.1 is required\n",
			"\n  requires tensor pipe active  failed: 0.02, at least 0.1 %: 0.02 %, at least 0.1 is required\n",
		},
		busy: {
			"\nfinals         correct, 1.250x the baseline\n",
			"\n  requires tensor pipe active  not run: at least 0.1 is required: no permission\n",
		},
	} {
		out := tune(t, exitOK, "show", id, "--store", path)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("show %s lacks %q:\n%s", id, w, out)
			}
		}
	}
	var v candidateView
	if err := json.Unmarshal([]byte(tune(t, exitOK, "show", idle, "--store", path, "--json")), &v); err != nil {
		t.Fatal(err)
	}
	if f := v.Finals; f == nil || f.Verdict != "inspect" || len(f.Evidence) != 2 || f.Evidence[1].Outcome != evaluator.Failed {
		t.Errorf("as JSON: %+v", v.Finals)
	}
	if out := tune(t, exitOK, "best", "gemm", "--store", path); !strings.Contains(out, busy) || strings.Contains(out, idle) {
		t.Errorf("best says\n%s", out)
	}
}
