package record

import (
	"encoding/json"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

// TestFiguresOf: who was in finals has their figures, won or lost; who was not has
// a reading that says so.
func TestFiguresOf(t *testing.T) {
	finals := &store.Finals{
		Winner: "won", Fitness: 0.5, MedianNS: 500, BaselineNS: 1000, Significant: true, Finalists: []string{"won", "lost", "fell", "vanished"},
		Detail: json.RawMessage(`{"entries":[{"verdict":"correct","fitness":0.5},
			{"verdict":"correct","fitness":0.6,"timings":[{"median_ns":600,"baseline_median_ns":1000}]},
			{"verdict":"parity"},{"verdict":"infrastructure"}]}`),
	}
	told := &store.Told{Verdict: "correct", Fitness: 0.4, MedianNS: 400, BaselineNS: 1001}
	reading := Figures{0.4, evaluator.Times{MedianNS: 400, BaselineNS: 1001}, false, FromSearch, 0, ""}
	for _, c := range []struct {
		of     store.Candidate
		want   Figures
		failed bool
	}{
		{store.Candidate{ID: "won", Told: told, Finals: finals}, Figures{0.5, evaluator.Times{MedianNS: 500, BaselineNS: 1000}, true, FromFinals, 0, ""}, false},
		{store.Candidate{ID: "lost", Told: told, Finals: finals}, Figures{0.6, evaluator.Times{MedianNS: 600, BaselineNS: 1000}, false, FromFinals, 0, ""}, false},
		{store.Candidate{ID: "fell", Told: told, Finals: finals}, reading, true},
		{store.Candidate{ID: "vanished", Told: told, Finals: finals}, reading, false},
		{store.Candidate{ID: "none", Told: told}, reading, false},
		{store.Candidate{ID: "again", Told: told, Again: true}, Figures{0.4, evaluator.Times{MedianNS: 400, BaselineNS: 1001}, false, FromAgain, 0, ""}, false},
		{store.Candidate{ID: "wrong", Told: &store.Told{Verdict: "parity"}}, Figures{}, false},
		{store.Candidate{ID: "pending"}, Figures{}, false},
	} {
		if got := FiguresOf(c.of); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.of.ID, got, c.want)
		}
		if failed, err := FailedFinals(c.of); err != nil || failed != c.failed {
			t.Errorf("%s: failed %v, %v", c.of.ID, failed, err)
		}
	}
	for name, c := range map[string]struct {
		of   store.Campaign
		id   string
		want Figures
	}{
		"finals":      {store.Campaign{Best: told, Finals: finals}, "won", Figures{0.5, evaluator.Times{MedianNS: 500, BaselineNS: 1000}, true, FromFinals, 0, ""}},
		"nobody left": {store.Campaign{Best: told, Finals: &store.Finals{Finalists: []string{"fell"}}}, "", Figures{}},
		"search":      {store.Campaign{Best: told}, "", reading},
		"none":        {store.Campaign{}, "", Figures{}},
	} {
		if id, got := CampaignFigures(c.of); id != c.id || got != c.want {
			t.Errorf("%s: %q, %+v", name, id, got)
		}
	}
}

// TestNothingFaster: finals alone say that nothing is faster than the baseline, and not those of a recorded table.
func TestNothingFaster(t *testing.T) {
	for _, c := range []struct {
		backend string
		finals  *store.Finals
		want    bool
	}{
		{"cpu", &store.Finals{Winner: "a", Fitness: 1.25}, true},
		{"cpu", &store.Finals{Winner: "a", Fitness: 0.99}, true}, // not significant
		{"cpu", &store.Finals{Winner: "a", Fitness: 0.5, Significant: true}, false},
		{"cpu", nil, false},
		{"replay", &store.Finals{Winner: "a", Fitness: 1.25}, false},
	} {
		of := store.Campaign{Started: store.Started{Backend: c.backend}, Finals: c.finals, Best: &store.Told{Candidate: "a", Fitness: 2, Verdict: "correct"}}
		if got := NothingFaster(of); got != c.want {
			t.Errorf("%s %+v: %t", c.backend, c.finals, got)
		}
	}
}
