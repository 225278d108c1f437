package record

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

// summarized sums events up, with outcomes.
func summarized(t *testing.T, list []store.Event) Summary {
	t.Helper()
	s := Summary{Outcomes: &Outcomes{}}
	for _, e := range list {
		if err := s.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func told(i int, r evaluator.Result) store.Event {
	return store.Event{Kind: store.KindTold, Told: must(NewTold(i, strconv.Itoa(i), r))}
}

func again(i int, r evaluator.Result) store.Event {
	return store.Event{Kind: store.KindMeasured, Measured: must(NewTold(i, strconv.Itoa(i), r))}
}

// ended is a result that took a second to compile, and as long at the stage that refused it, if one did.
func ended(v evaluator.Verdict, stage evaluator.Stage, reason string) evaluator.Result {
	r := evaluator.Result{Verdict: v, Stage: stage, Reason: reason, Cost: 2 * time.Second, Steps: []evaluator.Step{{Stage: evaluator.StageCompile, Outcome: evaluator.Passed, Elapsed: time.Second}}}
	if v != evaluator.Correct {
		r.Steps = append(r.Steps, evaluator.Step{Stage: stage, Outcome: evaluator.Failed, Elapsed: time.Second})
	}
	return r
}

func timedAt(fitness float64) evaluator.Result {
	r := ended(evaluator.Correct, "", "")
	r.Fitness = fitness
	return r
}

// TestSummary: what counts, when second measurements take the place of the first ones, and when they have not yet.
func TestSummary(t *testing.T) {
	two := description
	two.Device.Facts = map[string]string{"uuid": "GPU-a GPU-b"}
	disturbed := ended(evaluator.Parity, evaluator.StageParity, "2 elements")
	disturbed.Disturbed = "steal"
	shared := ended(evaluator.Sanitizer, evaluator.StageSanitize, "race")
	shared.SharedWith = "4"
	log := events( // a second apart
		store.Event{Kind: store.KindStarted, Started: must(NewStarted(job, two, 1, 0))},
		told(0, timedAt(0.5)),
		told(1, ended(evaluator.Infrastructure, evaluator.StageBenchmark, "busy: 12%")),
		told(2, disturbed),
		told(3, ended(evaluator.Parity, evaluator.StageParity, "40 elements\nmore")),
		told(4, shared),
		told(5, timedAt(0.6)), // at 6 s
		resumed(store.Resumed, Resumption{SearchVersion: 1, Prepared: time.Second}),
		told(6, timedAt(0.4)), // at 7 s and a second of preparation, which ended the pause between
		again(1, timedAt(0.3)),
		again(2, ended(evaluator.Parity, evaluator.StageParity, "50 elements")),
		store.Event{Kind: store.KindFinals, Finals: &store.Finals{Winner: "1", Fitness: 0.35, Detail: []byte(`{}`)}},
	)
	row := func(v evaluator.Verdict, stage evaluator.Stage, alike string, count int, reason, candidate string) Failure {
		return Failure{Verdict: v, Stage: stage, Count: count, Alike: alike, Reason: reason, Candidate: candidate}
	}
	sanitizer := row(evaluator.Sanitizer, evaluator.StageSanitize, "race", 1, "race", "4")
	for n, want := range map[int]struct {
		verdicts map[evaluator.Verdict]int
		best     []string
		failures []Failure
		compile  time.Duration
		fresh    int
		cost     time.Duration
	}{
		7: {
			map[evaluator.Verdict]int{evaluator.Correct: 2, evaluator.Infrastructure: 1, evaluator.Parity: 2, evaluator.Sanitizer: 1},
			[]string{"0 after 1 in 1s, 2s of devices"},
			[]Failure{
				row(evaluator.Parity, evaluator.StageParity, "# elements", 2, "2 elements", "2"),
				row(evaluator.Infrastructure, evaluator.StageBenchmark, "busy: #%", 1, "busy: 12%", "1"), sanitizer,
			},
			6 * time.Second, 6, 12 * time.Second,
		},
		len(log): {
			map[evaluator.Verdict]int{evaluator.Correct: 4, evaluator.Parity: 2, evaluator.Sanitizer: 1},
			[]string{"0 after 1 in 1s, 2s of devices", "6 after 7 in 8s, 16s of devices", "1 after 7 in 9s, 18s of devices, again"},
			[]Failure{row(evaluator.Parity, evaluator.StageParity, "# elements", 2, "50 elements", "2"), sanitizer},
			7 * time.Second, 1, 18 * time.Second,
		},
	} {
		s := summarized(t, log[:n])
		var best []string
		for _, b := range s.Best {
			text := fmt.Sprintf("%s after %d in %s, %s of devices", b.Candidate, b.Evaluated, b.Spent, b.Device)
			if b.Again {
				text += ", again"
			}
			best = append(best, text)
		}
		if d := cmp.Diff(want.verdicts, s.Verdicts) + cmp.Diff(want.best, best); d != "" {
			t.Errorf("after %d events (-want +got):\n%s", n, d)
		}
		if d := cmp.Diff(want.failures, s.Outcomes.Failures(), cmpopts.IgnoreUnexported(Failure{})); d != "" {
			t.Errorf("after %d events (-want +got):\n%s", n, d)
		}
		stages := s.Outcomes.Stages()
		if got := stages[evaluator.StageCompile]; got.Elapsed != want.compile || got.Passed != int(want.compile/time.Second) || stages[evaluator.StageSanitize] != (StageSum{}) {
			t.Errorf("after %d events the stages are %+v", n, stages)
		}
		if s.Fresh != want.fresh || s.Outcomes.Cost != want.cost {
			t.Errorf("after %d events: %d fresh, cost %s", n, s.Fresh, s.Outcomes.Cost)
		}
	}
	s := summarized(t, log)
	id, f := s.Figures()
	if id != "1" || f.Fitness != 0.35 || f.From != FromFinals || s.Finals.Detail != nil || s.FinalsAt != (Moment{7, 11 * time.Second, 22 * time.Second}) {
		t.Errorf("the best is %s, %+v, at %+v", id, f, s.FinalsAt)
	}
	if got, want := s.PerMinute(), 60/4.0; got != want {
		t.Errorf("%g a minute, not %g", got, want)
	}

	for want, e := range map[string]store.Event{
		"candidate 3 was measured again, and nothing had disturbed its result": again(3, timedAt(0.2)),
		"candidate 0 was measured again and has no result":                     again(0, timedAt(0.2)),
	} {
		s := summarized(t, log)
		if err := s.Add(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// TestManyFailures: a campaign whose failures are all of another kind does not fill the memory.
func TestManyFailures(t *testing.T) {
	list := []store.Event{{Kind: store.KindStarted, Started: must(NewStarted(job, description, 1, 0))}}
	word := func(i int) string {
		return strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(i))
	}
	for i := range maxFailures + 50 {
		list = append(list, told(i, ended(evaluator.Launch, evaluator.StageParity, "no "+word(i))))
	}
	got := summarized(t, events(list...)).Outcomes.Failures()
	if len(got) != maxFailures+1 || got[0].Count != 50 || got[0].Alike != "" || got[0].Reason != "" || got[0].Candidate != strconv.Itoa(maxFailures) {
		t.Errorf("%d kinds, first %+v", len(got), got[0])
	}
}

// TestBudgetThatStays: a resumption that names no budget has the one before it.
func TestBudgetThatStays(t *testing.T) {
	s := must(store.Open(filepath.Join(t.TempDir(), "log.db"), store.Options{}))
	defer s.Close()
	must(s.Append(events(
		store.Event{Kind: store.KindStarted, Started: must(NewStarted(job, description, 1, 0))},
		resumed(store.Resumed, Resumption{SearchVersion: 1}),
	)...))
	if got, err := ReadSummary(s, "k-1"); err != nil || got.Job.Budget != job.Budget || job.Budget.IsZero() {
		t.Errorf("the budget is %+v (%v), not %+v", got.Job.Budget, err, job.Budget)
	}
}
