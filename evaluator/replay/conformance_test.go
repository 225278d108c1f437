package replay_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/replay"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/tables"
)

// TestConformance runs the suite that every backend passes, as far as it has a
// meaning where nothing runs, on a table in every form that holds results: a
// recorded failure stands for the zoo. Nothing is compiled, so there are no
// binaries to share; one recorded time cannot be sampled less, nor show a
// difference.
func TestConformance(t *testing.T) {
	for _, form := range tables.Forms() {
		if form.Drops != "" {
			continue // it holds no results
		}
		t.Run(form.Name, func(t *testing.T) {
			var file bytes.Buffer
			if err := tables.Synthetic(5000).Write(form.Name, &file); err != nil {
				t.Fatal(err)
			}
			table, err := tables.Read(&file, "file")
			if err != nil {
				t.Fatal(err)
			}
			conforms(t, table)
		})
	}
}

func conforms(t *testing.T, table *tables.Table) {
	t.Helper()
	open := func(tb testing.TB) evaluator.Evaluator {
		tb.Helper()
		ev, err := replay.New(table, replay.Options{Latency: time.Millisecond})
		if err != nil {
			tb.Fatal(err)
		}
		return ev
	}
	space, err := table.Space()
	if err != nil {
		t.Fatal(err)
	}
	sorter, err := replay.New(table, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var good, failed []genome.Genome
	for g := range space.All() {
		r, err := sorter.Evaluate(t.Context(), g, 0)
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Verdict == evaluator.Correct:
			good = append(good, g)
		case r.Verdict == evaluator.Launch:
			failed = append(failed, g)
		}
	}
	if err := sorter.Close(); err != nil {
		t.Fatal(err)
	}
	if len(good) < 10 || len(failed) == 0 {
		t.Fatalf("the table holds %d correct and %d failed configurations", len(good), len(failed))
	}
	backendtest.Run(t, backendtest.Harness{
		New:    open,
		Honest: func(n int) genome.Genome { return good[n%len(good)] },
		Zoo: []backendtest.Case{{
			Kernel: "recorded-failure", Group: "Recorded", Does: "failed when it was recorded",
			Verdict: evaluator.Launch, Stage: evaluator.StageBenchmark, Check: "recorded",
		}},
		Faulty:     func(_ backendtest.Case, n int) genome.Genome { return failed[n%len(failed)] },
		Mixed:      []string{"recorded-failure"},
		Stages:     []evaluator.Stage{evaluator.StageBenchmark},
		Repeatable: true,
	})
}
