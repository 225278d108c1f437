package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
)

// TestPauseIsSaid: lines, the terminal and JSON tell of a pause, of its end, of another
// budget, and of candidates that are measured again.
func TestPauseIsSaid(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.Local)
	events := []campaign.Event{
		{Time: at, Paused: &campaign.Paused{Reason: "python3 (pid 812) uses the GPU (97%)"}},
		{Time: at.Add(time.Minute), Continued: &campaign.Continued{After: time.Minute}},
		{Time: at.Add(2 * time.Minute), Budget: &evotune.Budget{Evaluations: 40}},
		{Time: at.Add(2 * time.Minute), Searched: &campaign.Searched{Reason: "40 evaluations", Evaluated: 40}},
		{Time: at.Add(time.Minute), Measured: &campaign.Evaluated{Index: 3, Candidate: "a", Operator: "seed", Result: evaluator.Result{
			Verdict: evaluator.Correct, Fitness: 0.5, Timings: rounds(0.5),
		}}},
	}
	lines := []string{
		"12:00:00 paused: python3 (pid 812) uses the GPU (97%); the campaign goes on when the machine is calm (Ctrl-C stops it, tune resume goes on)\n",
		"12:01:00 continued after a pause of 1m0s\n",
		"12:02:00 new budget: 40 evaluations\n",
		"2.000x  seed  measured again\n",
	}
	var text, js, live bytes.Buffer
	terminal := newLivePrinter(&live, 1, func() (evaluator.Usage, bool) { return evaluator.Usage{}, false })
	if got := terminal.headline(); strings.Contains(got, "finals") {
		t.Errorf("before the search has ended: %q", got)
	}
	for _, p := range []printer{&textPrinter{w: &text}, jsonPrinter{&js, &js}, terminal} {
		for _, e := range events {
			p.event(e)
		}
		p.close()
	}
	for _, want := range lines {
		if !strings.Contains(text.String(), want) || !strings.Contains(live.String(), want) {
			t.Errorf("no %q in\n%s\nor in\n%s", want, text.String(), live.String())
		}
	}
	for _, want := range []string{
		`{"event":"paused","reason":"python3 (pid 812) uses the GPU (97%)"}`, `{"event":"continued","after_ns":60000000000}`,
		`{"event":"budget","evaluations":40}`, `{"event":"searched","reason":"40 evaluations","evaluated":40}`,
		`{"event":"measured","index":3,"candidate":"a",`, `"verdict":"correct"`,
	} {
		if !strings.Contains(js.String(), want) {
			t.Errorf("no %s in\n%s", want, js.String())
		}
	}
	if terminal.budget.Evaluations != 40 {
		t.Error("the terminal's bar is that of another budget")
	}
	if got := terminal.headline(); !strings.HasSuffix(got, ", finals") {
		t.Errorf("after the search has ended: %q", got)
	}
	if terminal.paused != (time.Time{}) {
		t.Error("the terminal's clock stands still")
	}
}

// TestSummaryNamesWhatWasNotRun: a campaign of days is read at its end.
func TestSummaryNamesWhatWasNotRun(t *testing.T) {
	started := &campaign.Started{Config: evotune.Job{Kernel: "gemm"}}
	started.Description.Tools = []evaluator.Tool{{Name: "memcheck"}, {Name: "racecheck", Missing: "its planted fault was not found"}}
	var b bytes.Buffer
	p := &textPrinter{w: &b}
	p.event(campaign.Event{Started: started})
	b.Reset()
	p.event(campaign.Event{Finished: &campaign.Finished{Evaluated: 3}})
	if want := "warning: racecheck: NOT RUN: its planted fault was not found\n"; !strings.Contains(b.String(), want) || strings.Contains(b.String(), "memcheck") {
		t.Errorf("the summary lacks %q:\n%s", want, b.String())
	}
}

// TestSummaryOfRecorded: of a recorded table nothing is tested, and "not significant" would say that it was.
func TestSummaryOfRecorded(t *testing.T) {
	for mode, want := range map[evotune.Sanitize]string{"": "3.240x (recorded; nothing was tested)", evotune.SanitizeAll: "3.240x (not significant)"} {
		text := finishedLines(&campaign.Finished{Evaluated: 3, Complete: true, Sanitized: mode, Best: &campaign.Best{Candidate: "c", Speedup: 3.24}}, nil)
		if !strings.Contains(text, want) {
			t.Errorf("sanitize %q: want %q in %s", mode, want, text)
		}
	}
}

// TestSummaryOfNothingFaster: what is slower than the baseline is not the best, and neither is what finals could not tell from it.
func TestSummaryOfNothingFaster(t *testing.T) {
	for _, c := range []struct {
		best campaign.Best
		want string
	}{
		{campaign.Best{Speedup: 0.798, Significant: true}, "nothing faster was found: 3 of 8 genomes tried; the baseline takes 142.90 us\nnearest: c  196.70 us against 142.90 us baseline: 0.798x (not faster than the baseline)\n"},
		{campaign.Best{Speedup: 1}, "nothing faster was found: 3 of 8 genomes tried; the baseline takes 142.90 us\nnearest: c  196.70 us against 142.90 us baseline: 1.000x (not faster than the baseline)\n"},
		{campaign.Best{Speedup: 1.002}, "nothing faster was found: 3 of 8 genomes tried; the baseline takes 142.90 us\nnearest: c  196.70 us against 142.90 us baseline: 1.002x (not significant)\n"},
		{campaign.Best{Speedup: 1.5, Significant: true}, "\nbest: c  196.70 us against 142.90 us baseline: 1.500x (significant)\n"},
		{campaign.Best{Speedup: 1.5, Significant: true, Unproven: "not proven: this"}, "\nbest: c  196.70 us against 142.90 us baseline: 1.500x (not proven: this)\n"},
	} {
		c.best.Candidate, c.best.MedianNS, c.best.BaselineNS, c.best.Measured = "c", 196.7e3, 142.9e3, record.FromFinals
		text := finishedLines(&campaign.Finished{Evaluated: 3, SpaceSize: 8, Complete: true, Sanitized: evotune.SanitizeAll, Best: &c.best}, nil)
		if !strings.Contains(text, c.want) {
			t.Errorf("%+v: want %q in\n%s", c.best, c.want, text)
		}
	}
}

// TestSummaryWithoutFinals: the best of a search alone is not tested, and is neither faster nor not.
func TestSummaryWithoutFinals(t *testing.T) {
	best := &campaign.Best{Candidate: "c", AllTimes: evaluator.AllTimes{MedianNS: 1e3, BaselineNS: 2e3}, Speedup: 2, Measured: record.FromSearch}
	text := finishedLines(&campaign.Finished{Evaluated: 3, SpaceSize: 8, Complete: true, Sanitized: evotune.SanitizeAll, Best: best}, nil)
	if want := "\nbest: c  1.00 us against 2.00 us baseline: 2.000x (not tested: no finals)\n"; !strings.Contains(text, want) || strings.Contains(text, "nothing faster") {
		t.Errorf("want %q in\n%s", want, text)
	}
}

// TestBestLine: while a search goes on, too, what is slower than the baseline is not its best.
func TestBestLine(t *testing.T) {
	for speedup, want := range map[float64]string{
		1.5: "best: 1.500x the baseline  1.00 us against 2.00 us  c",
		.8:  "nothing faster yet than the baseline, 2.00 us  nearest: 0.800x  1.00 us  c",
	} {
		p := &livePrinter{state: campaign.Progress{Best: &campaign.Best{Candidate: "c", AllTimes: evaluator.AllTimes{MedianNS: 1e3, BaselineNS: 2e3}, Speedup: speedup}}}
		if got := p.bestLine(); got != want {
			t.Errorf("at %g: %q, want %q", speedup, got, want)
		}
	}
}

// TestSummarySaysWhatWasSanitized: a rate with few sanitized candidates must not pass for one with all.
func TestSummarySaysWhatWasSanitized(t *testing.T) {
	for mode, want := range map[evotune.Sanitize]string{
		evotune.SanitizeAll:        "sanitized: every candidate that matches the reference\n",
		evotune.SanitizeContenders: "sanitized: contenders only; slower candidates are timed unsanitized\n",
	} {
		var b bytes.Buffer
		(&textPrinter{w: &b}).event(campaign.Event{Finished: &campaign.Finished{Evaluated: 3, Sanitized: mode}})
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: the summary lacks %q:\n%s", mode, want, b.String())
		}
	}
}

// TestSummaryNamesASlowBaseline: a speedup beside one is not like others.
func TestSummaryNamesASlowBaseline(t *testing.T) {
	for slower, want := range map[float64]bool{0: false, 0.19: true} {
		var b bytes.Buffer
		p := &textPrinter{w: &b}
		p.event(campaign.Event{Finished: &campaign.Finished{Evaluated: 3, Complete: true, Best: &campaign.Best{Candidate: "c1", Speedup: 2, Significant: true, Slower: slower}}})
		if got := strings.Contains(b.String(), "warning: the baseline took 19% longer in the finals") && strings.Contains(b.String(), "tune verify c1\n"); got != want {
			t.Errorf("%g slower: told %t:\n%s", slower, got, b.String())
		}
	}
}

// TestWarmText: genomes of the definition are of no campaign.
func TestWarmText(t *testing.T) {
	of := func(campaign string) evotune.Start {
		return evotune.Start{Genome: "A=1", Candidate: "c", Campaign: campaign, Shapes: []string{"1024", "2048"}, Device: "H200"}
	}
	named := evotune.Start{Genome: "A=2"}
	for _, c := range []struct {
		start []evotune.Start
		want  string
	}{
		{[]evotune.Start{named, named}, "2 genomes: 2 of the definition"},
		{[]evotune.Start{of("a"), of("a"), named}, "3 genomes: 2 of a (1024 2048, H200), 1 of the definition"},
		{[]evotune.Start{of("a"), of("b"), of("c"), of("d"), named}, "5 genomes: 1 of a (1024 2048, H200), 1 of b (1024 2048, H200), 1 of c (1024 2048, H200), and 1 more campaign, 1 of the definition"},
	} {
		if got := warmText(c.start); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestSummaryOfTime: the end says how long each phase took, and what finals do not show that had
// too little time.
func TestSummaryOfTime(t *testing.T) {
	var b bytes.Buffer
	p := &textPrinter{w: &b}
	p.event(campaign.Event{Finals: &campaign.Finals{Candidates: []string{"aa", "bb", "cc"}, Result: evaluator.Finals{
		Winner: 1, Early: &evaluator.Early{Sets: 2, Of: 6, Unseparated: []int{0}},
		Entries: []evaluator.Finalist{
			{Verdict: evaluator.Correct, Fitness: 0.51, Timings: rounds(0.51)},
			{Verdict: evaluator.Correct, Fitness: 0.5, Timings: rounds(0.5)},
			{Verdict: evaluator.Infrastructure, Reason: evaluator.TimeOver},
		},
	}}})
	p.event(campaign.Event{Finished: &campaign.Finished{
		Evaluated: 12, Verdicts: map[evaluator.Verdict]int{evaluator.Correct: 12}, PerMinute: 15, Elapsed: 2 * time.Minute,
		Phases: evotune.Phases{Prepared: 40 * time.Second, Searched: 48 * time.Second, Finals: 32 * time.Second},
	}})
	for _, want := range []string{
		"\n  cc  not run: the time was over\n",
		"\nthe time was over after 2 of 6 sets of processes: they do not separate bb from aa\n",
		"\n12 evaluations in 2m0s: correct 12\nprepared in 40s, searched in 48s (15 a minute), finals in 32s\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, b.String())
		}
	}
}
