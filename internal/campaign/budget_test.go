package campaign_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/campaign"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/store"
)

// rebudgeted runs a campaign that is given a budget when so many results were told, and
// says what it told of the two ends of its search.
func rebudgeted(t *testing.T, log *memory, cfg record.Job, after int, b record.Budget) (campaign.Finished, []string) {
	t.Helper()
	budgets := make(chan record.Budget, 1)
	var said []string
	n := 0
	p := problem(t, 0)
	f, err := campaign.Run(t.Context(), p, cfg, campaign.Options{
		Workers: 4, Log: log, Past: slices.Clone(log.events), Budgets: budgets,
		Listen: func(e campaign.Event) {
			switch {
			case e.Evaluated != nil:
				if n++; n == after {
					budgets <- b
				}
			case e.Budget != nil:
				if !slices.ContainsFunc(log.events, func(e store.Event) bool { return e.Note != nil && e.Note.Reason == store.NewBudget }) {
					t.Error("the new budget was announced before it was durable")
				}
				said = append(said, fmt.Sprintf("budget %d", e.Budget.Evaluations))
			case e.Searched != nil:
				said = append(said, "searched: "+e.Searched.Reason)
			case e.Finals != nil, e.Warning != "", e.Finished != nil:
				said = append(said, fmt.Sprint(e.Warning, " ", e.Finals != nil, e.Finished != nil))
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, said
}

// TestNewBudget: another budget on the way ends the search where it says, and changes
// nothing else of the path, now and in a resumption.
func TestNewBudget(t *testing.T) {
	whole := &memory{}
	if _, err := campaign.Run(t.Context(), problem(t, 0), config(90), campaign.Options{Workers: 4, Log: whole}); err != nil {
		t.Fatal(err)
	}
	// same compares the beginning of the path, by kind, and gives how many were told.
	same := func(t *testing.T, log *memory) int {
		t.Helper()
		for _, kind := range []store.Kind{store.KindAsked, store.KindTold} {
			got, want := log.path()[kind], whole.path()[kind]
			if len(got) > len(want) {
				t.Fatalf("%d %s events, of %d", len(got), kind, len(want))
			}
			if diff := differ(want[:len(got)], got); diff != "" {
				t.Errorf("%s events differ (-whole +rebudgeted):\n%s", kind, diff)
			}
		}
		return len(log.path()[store.KindTold])
	}
	for _, tt := range []struct {
		name     string
		from, to record.Budget
		reason   string
		least    int // that are told, and most
		most     int
	}{
		{"larger", record.Budget{Evaluations: 30}, record.Budget{Evaluations: 60}, "60 evaluations", 60, 60},
		{"larger when all were proposed", record.Budget{Evaluations: 11}, record.Budget{Evaluations: 60}, "60 evaluations", 60, 60},
		{"smaller", record.Budget{Evaluations: 90}, record.Budget{Evaluations: 40}, "40 evaluations", 40, 40},
		// What four workers had begun ends.
		{"spent already", record.Budget{Evaluations: 90}, record.Budget{Evaluations: 5}, "5 evaluations", 10, 10 + 2*8},
		{"another limit", record.Budget{Evaluations: 90}, record.Budget{Time: 1}, "time of 1ns", 10, 10 + 2*8},
		{"reached", record.Budget{Evaluations: 90}, record.Budget{Target: 0.1}, "target of 0.1x reached", 10, 10 + 2*8},
		{"from another limit", record.Budget{Target: 0.1}, record.Budget{Evaluations: 60}, "60 evaluations", 60, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, cfg := &memory{}, config(0)
			cfg.Budget = tt.from
			after := 10
			if tt.from.Target > 0 {
				after = 1
			}
			f, said := rebudgeted(t, log, cfg, after, tt.to)
			want := []string{fmt.Sprint("budget ", tt.to.Evaluations), "searched: " + tt.reason, " true false", " false true"}
			if !f.Complete || f.Reason != tt.reason || f.Best == nil || f.Evaluated < tt.least || f.Evaluated > tt.most || !slices.Equal(said, want) {
				t.Errorf("%+v, said %q, not %q", f, said, want)
			}
			if n := same(t, log); n != f.Evaluated {
				t.Errorf("%d told, %d evaluated", n, f.Evaluated)
			}
			var h record.History
			for _, e := range log.events {
				if err := h.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			if h.Job.Budget != tt.to || h.Resumptions != 0 || h.Pauses != 0 {
				t.Errorf("the log has %+v, %d resumptions, %d pauses", h.Job.Budget, h.Resumptions, h.Pauses)
			}
			// A later resumption goes on as if nothing had been.
			cfg.Budget = record.Budget{Evaluations: 90}
			if f, _ := rebudgeted(t, log, cfg, -1, record.Budget{}); f.Evaluated != 90 || same(t, log) != 90 {
				t.Errorf("resumed: %+v", f)
			}
		})
	}
}

// TestNewBudgetKilled: a campaign that is killed after it took another budget goes on
// with that one, and nobody is held to have killed it for the note in the log.
func TestNewBudgetKilled(t *testing.T) {
	whole, cfg := &memory{}, config(60)
	rebudgeted(t, whole, cfg, 10, record.Budget{Evaluations: 24})
	for limit := 1; limit < len(whole.events); limit++ {
		log := &memory{events: slices.Clone(whole.events[:limit])}
		s := openStore(t, filepath.Join(t.TempDir(), "s.db"))
		if _, err := s.Append(log.events...); err != nil {
			t.Fatal(err)
		}
		sum, err := record.ReadSummary(s, cfg.ID)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Budget = sum.Job.Budget
		took := slices.ContainsFunc(log.events, func(e store.Event) bool { return e.Note != nil && e.Note.Reason == store.NewBudget })
		want := 60
		if took {
			want = 24
		}
		if f, _ := rebudgeted(t, log, cfg, -1, record.Budget{}); cfg.Budget.Evaluations != want || f.Evaluated != want || !f.Complete {
			t.Fatalf("killed after %d events, with a budget of %d: %+v", limit, cfg.Budget.Evaluations, f)
		}
		for _, kind := range []store.Kind{store.KindAsked, store.KindTold} {
			if took {
				if diff := differ(whole.path()[kind], log.path()[kind]); diff != "" {
					t.Fatalf("killed after %d events: %s events differ (-whole +killed):\n%s", limit, kind, diff)
				}
			}
		}
	}
}

// TestNoBudget: one that makes no sense is told of and changes nothing, nor does the
// end of those who give budgets.
func TestNoBudget(t *testing.T) {
	log := &memory{}
	f, said := rebudgeted(t, log, config(30), 10, record.Budget{Evaluations: -1})
	if want := []string{"the budget stays as it is: evaluations is -1: it must not be negative false false", "searched: 30 evaluations", " true false", " false true"}; !slices.Equal(said, want) || f.Evaluated != 30 {
		t.Errorf("%+v, said %q", f, said)
	}
	budgets := make(chan record.Budget)
	close(budgets)
	if f, err := campaign.Run(t.Context(), problem(t, 0), config(30), campaign.Options{Budgets: budgets}); err != nil || f.Evaluated != 30 {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestNewBudgetInPause: a campaign takes a budget while it waits for the machine, and
// none of that time counts.
func TestNewBudgetInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disturbed atomic.Bool
		disturbed.Store(true)
		begin, log, cfg := time.Now(), &memory{}, config(12)
		conditions := func() (evaluator.Conditions, bool) {
			if time.Since(begin) < time.Hour {
				return evaluator.Conditions{Disturbed: "steal 43%"}, true
			}
			disturbed.Store(false)
			return evaluator.Conditions{}, true
		}
		budgets := make(chan record.Budget)
		larger := record.Budget{Evaluations: 20, Time: 2 * time.Hour}
		var taken time.Duration
		_, f := paused(t, cfg, campaign.Options{Workers: 1, Budgets: budgets, Listen: func(e campaign.Event) {
			switch {
			case e.Paused != nil:
				time.AfterFunc(30*time.Minute, func() { budgets <- larger })
			case e.Budget != nil:
				taken = time.Since(begin)
			}
		}}, log, conditions, &disturbed)
		if !f.Complete || f.Evaluated != 20 || f.Reason != "20 evaluations" || f.Elapsed > time.Second || taken.Round(time.Minute) != 30*time.Minute {
			t.Errorf("%+v, taken after %s", f, taken)
		}
		var h record.History
		for _, e := range log.events {
			if err := h.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if h.Spent() > time.Second || h.Job.Budget != larger || h.Pauses != 1 {
			t.Errorf("the log says %s, %+v, %d pauses", h.Spent(), h.Job.Budget, h.Pauses)
		}
	})
}
