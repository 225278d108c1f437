package export

import (
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/report"
)

// TestSlowerIsNoWinner: a candidate that nothing sanitized is exported at no level.
func TestSlowerIsNoWinner(t *testing.T) {
	w := Winner{Evidence: &report.Evidence{}}
	w.Evidence.Result = evaluator.Result{Verdict: evaluator.Slower, Steps: []evaluator.Step{
		{Stage: evaluator.StageParity, Outcome: evaluator.Passed}, {Stage: evaluator.StageSanitize, Outcome: evaluator.NotRun},
	}}
	w.Evidence.Summary.Verdict = string(evaluator.Slower)
	for _, level := range Levels() {
		if lacks := w.Lacks(level); len(lacks) == 0 || lacks[0] != `its verdict is "slower"` {
			t.Errorf("for %s it lacks %q", level, lacks)
		}
	}
}

// TestBesideRoutine: whether a vendor's routine was the baseline is told for each shape: a genome may stand in for it at some.
func TestBesideRoutine(t *testing.T) {
	said := []evaluator.Evidence{{Check: "parity large"}, {Check: "baseline large", Detail: "cuDNN 9.19.0, best of 4 plans"}}
	timed := []evaluator.Timing{{Shape: "large"}, {Shape: "odd"}}
	search := &Winner{Evidence: &report.Evidence{Candidate: "a", Result: evaluator.Result{Timings: timed, Steps: []evaluator.Step{{Evidence: said}}}}}
	finals := &Winner{Evidence: &report.Evidence{Candidate: "a", Finals: &report.FinalsView{Entries: []report.FinalistView{
		{Candidate: "b"}, {Candidate: "a", Finalist: evaluator.Finalist{Timings: timed, Evidence: said}},
	}}}}
	for name, w := range map[string]*Winner{"search": search, "finals": finals} {
		if !w.besideRoutine("large") || w.besideRoutine("odd") {
			t.Errorf("%s: beside a routine at large: %t, at odd: %t", name, w.besideRoutine("large"), w.besideRoutine("odd"))
		}
	}
	// What the search was beside says nothing of the finals.
	finals.Evidence.Result.Steps, finals.Evidence.Finals.Entries[1].Evidence = search.Evidence.Result.Steps, nil
	if finals.besideRoutine("large") {
		t.Error("finals beside a genome count as those beside the routine of the search")
	}
}
