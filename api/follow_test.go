package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
)

// TestRemaining: the estimate of what is left is that of the newest budget.
func TestRemaining(t *testing.T) {
	f := follower{verdicts: map[evaluator.Verdict]int{}, warned: map[string]bool{}}
	began := time.Unix(0, 0)
	after := func(d time.Duration, kind string, data any) *evotune.Event {
		t.Helper()
		b, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		e, err := f.event(Event{ID: uint64(1 + d/time.Second), Kind: kind, Time: began.Add(d), Data: b})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	one := Evaluated{Encoding: "A=1", Verdict: evaluator.Correct, Fitness: 1}
	after(0, "started", Started{Config: evotune.Job{Budget: evotune.Budget{Evaluations: 10}}})
	if got := after(time.Second, "evaluated", one).Evaluated.Progress.Remaining; got != 9*time.Second {
		t.Errorf("%s are left of 10 evaluations after one in a second", got)
	}
	after(time.Second, "budget", evotune.Budget{Evaluations: 102})
	if got := after(2*time.Second, "evaluated", one).Evaluated.Progress.Remaining; got != 100*time.Second {
		t.Errorf("%s are left of 102 evaluations after two in 2 s", got)
	}
}
