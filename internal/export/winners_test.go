package export

import (
	"strings"
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

// TestUnprovenWinner: a winner at whose shape a negative control passes is exported where finals are not asked for, and
// the manifest says what it lacks.
func TestUnprovenWinner(t *testing.T) {
	w := winnerOf(t, "softmax", "510", 5)
	if lacks := w.Lacks(Finals); len(lacks) > 0 {
		t.Fatalf("it lacks %q", lacks)
	}
	u := evaluator.Unproven{Control: "work left out", Shape: "1024x1024", Output: "Y", Error: 0.5}
	w.Evidence.Description.Unproven = []evaluator.Unproven{u}
	if lacks := w.Lacks(Sanitized); len(lacks) > 0 {
		t.Errorf("without finals it lacks %q", lacks)
	}
	if lacks := w.Lacks(Finals); len(lacks) != 1 || lacks[0] != u.String() {
		t.Errorf("it lacks %q", lacks)
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
		if w.besideRoutine("large") != "cuDNN 9.19.0, best of 4 plans" || w.besideRoutine("odd") != "" {
			t.Errorf("%s: beside a routine at large: %q, at odd: %q", name, w.besideRoutine("large"), w.besideRoutine("odd"))
		}
	}
	// What the search was beside says nothing of the finals.
	finals.Evidence.Result.Steps, finals.Evidence.Finals.Entries[1].Evidence = search.Evidence.Result.Steps, nil
	if finals.besideRoutine("large") != "" {
		t.Error("finals beside a genome count as those beside the routine of the search")
	}
}

// TestBaselineInstead: where finals found nothing faster, the library calls the baseline, compiled for the device that it was timed on, and
// says so. What is not in the library cannot be called.
func TestBaselineInstead(t *testing.T) {
	slower := winnerOf(t, "softmax", "510", 5)
	slower.Evidence.Summary.Speedup, slower.Evidence.Summary.Significant = 0.949, false
	slower.Evidence.Description.Native = []string{"-mavx2"}
	faster := softmaxAt(t, "ROWS=64,COLS=64", "2b", 2)
	faster.Evidence.Summary.Speedup = 1.5
	var told []string
	files := mustExport(t, []*Winner{slower, faster}, Options{Lang: C, By: "evotune test", Tell: func(line string) { told = append(told, line) }})
	const want = "softmax at 1024x1024: the winner of its campaign was not faster than the baseline (0.949x): the library calls the baseline there"
	if len(told) != 1 || told[0] != want || !strings.Contains(string(files["README.md"]), "- "+want) {
		t.Errorf("told %q", told)
	}
	code, build, wisdom := string(files["src/kernels.c"]), string(files["CMakeLists.txt"]), string(files["wisdom.txt"])
	for _, is := range []struct {
		text, has string
		want      bool
	}{
		{code, `{"1024x1024", (const int64_t[]){1024, 1024}, (const double[]){10.001408194392809, 10.001408194392809}, 100, 1},`, true},
		{code, `{"ROWS=64,COLS=64", (const int64_t[]){64, 64}, (const double[]){6.022367813028454, 6.022367813028454}, 100, 0},`, true},
		{build, "evotune_kernel(softmax_baseline_510 \"\" ", true},
		{build, `evotune_kernel(softmax_baseline "" `, true},
		{wisdom, "\t510\t", false},
		{wisdom, "\t2b\t", true},
	} {
		if strings.Contains(is.text, is.has) != is.want {
			t.Errorf("%q is there: %t", is.has, !is.want)
		}
	}
	if own, any := strings.Index(code, `"baseline"`), strings.Index(code, "evotune_softmax_baseline_needs"); own < 0 || any < 0 || strings.Index(code, "&evotune_softmax_baseline_510_needs") > strings.Index(code, "&evotune_softmax_baseline_needs") {
		t.Error("the baseline for any processor comes before that for the device")
	}
}
