package record

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

// events are those of a campaign, a second apart.
func events(list ...store.Event) []store.Event {
	for i := range list {
		list[i].Seq, list[i].Campaign, list[i].Time = uint64(i+1), "k-1", time.Unix(int64(i), 0)
	}
	return list
}

// must is for what cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func resumed(reason string, r Resumption) store.Event {
	return store.Event{Kind: store.KindResumed, Note: must(r.Note(reason, 0))}
}

// TestHistory follows a campaign through an end, a pause, a newer search, a second
// measurement and finals.
func TestHistory(t *testing.T) {
	told := func(i int) *store.Told { return must(NewTold(i, strconv.Itoa(i), correct)) }
	asked := func(i int) store.Event {
		return store.Event{Kind: store.KindAsked, Asked: &store.Asked{Index: i, Candidate: strconv.Itoa(i), Genome: "x=1"}}
	}
	stop := store.Event{Kind: store.KindStopped, Note: &store.Note{Reason: "interrupted"}}
	larger := Budget{Evaluations: 9}
	log := events(
		store.Event{Kind: store.KindStarted, Started: must(NewStarted(job, description, 1, 0))},
		asked(0), asked(1),
		store.Event{Kind: store.KindTold, Told: must(NewTold(0, "0", evaluator.Result{Verdict: evaluator.Infrastructure, Disturbed: "busy"}))}, // at 3 s
		stop, resumed(store.Continued, Resumption{SearchVersion: 1, Budget: &job.Budget}),
		stop, resumed("resumed", Resumption{SearchVersion: 2, Offset: 2, Budget: &larger}), // 4 s + 1 s until here
		asked(2),
		store.Event{Kind: store.KindTold, Told: told(2)}, // 2 s more
		store.Event{Kind: store.KindMeasured, Measured: told(0)},
		resumed(store.InFinals, Resumption{SearchVersion: 2, Offset: 2, Budget: &larger}),
		store.Event{Kind: store.KindFinals, Finals: &store.Finals{}},
	)
	var h History
	for _, e := range log {
		if err := h.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	want := job
	want.Budget = larger
	if h.Started == nil || !reflect.DeepEqual(h.Job, want) || !slices.Equal(h.Versions, []int{1, 2}) || h.Offset != 2 || h.Resumptions != 1 || h.Pauses != 1 {
		t.Errorf("%+v", h)
	}
	if len(h.Proposals) != 3 || h.Proposals[0].Told == nil || h.Proposals[0].Measured == nil || h.Proposals[1].Told != nil || h.Proposals[2].Measured != nil {
		t.Errorf("proposals %+v", h.Proposals)
	}
	var got []any
	for _, r := range h.Results {
		got = append(got, r.Index, r.Again, r.Spent)
	}
	if want := []any{0, false, 3 * time.Second, 2, false, 7 * time.Second, 0, true, 8 * time.Second}; !reflect.DeepEqual(got, want) {
		t.Errorf("results %v, not %v", got, want)
	}
	if h.Spent() != 10*time.Second {
		t.Errorf("spent %s", h.Spent())
	}
	if got, want := h.Phases(), (Phases{Searched: 9 * time.Second, Finals: time.Second}); got != want {
		t.Errorf("phases %+v, not %+v", got, want)
	}
	for n, want := range map[int]Budget{4: job.Budget, len(log): larger} {
		s := must(store.Open(filepath.Join(t.TempDir(), "log.db"), store.Options{}))
		defer s.Close()
		must(s.Append(log[:n]...))
		if got, err := ReadSummary(s, "k-1"); err != nil || got.Job.Budget != want {
			t.Errorf("after %d events the budget is %+v (%v), not %+v", n, got.Job.Budget, err, want)
		}
	}

	// What a resumption does not say stays as it was.
	for i, n := range []*store.Note{nil, {Reason: "resumed"}, {Reason: "resumed", Detail: json.RawMessage(`{"offset":2}`)}} {
		h := h
		if err := h.Add(store.Event{Kind: store.KindResumed, Note: n}); err != nil {
			t.Fatalf("note %d: %v", i, err)
		}
		if h.Job.Budget != larger || !slices.Equal(h.Versions, []int{1, 2}) || h.Offset != 2 || h.Resumptions != 2 {
			t.Errorf("after note %d: %+v", i, h)
		}
	}

	for want, e := range map[string]store.Event{
		"proposal 5 follows proposal 2":                         asked(5),
		"result 0 has no proposal of its own":                   {Kind: store.KindTold, Told: told(0)},
		"result 7 has no proposal of its own":                   {Kind: store.KindTold, Told: told(7)},
		"candidate 1 was measured again and has no result":      {Kind: store.KindMeasured, Measured: told(1)},
		"the resumption cannot be read: unexpected end of JSON": {Kind: store.KindResumed, Note: &store.Note{Detail: json.RawMessage(`{"`)}},
	} {
		e.Seq, e.Campaign = 20, "k-1"
		if err := h.Add(e); err == nil || !strings.HasPrefix(err.Error(), "campaign k-1: event 20: "+want) || !strings.HasSuffix(err.Error(), ": run `tune check`") {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// TestNewBudgetInHistory: another budget on the way is not a resumption, and takes no time
// away and adds none, in a pause and out of it.
func TestNewBudgetInHistory(t *testing.T) {
	larger := Budget{Evaluations: 9}
	another := resumed(store.NewBudget, Resumption{SearchVersion: 1, Budget: &larger})
	stop := store.Event{Kind: store.KindStopped, Note: &store.Note{Reason: "paused: steal 43%"}}
	asked := store.Event{Kind: store.KindAsked, Asked: &store.Asked{Candidate: "0", Genome: "x=1"}}
	var h History
	for _, e := range events(
		store.Event{Kind: store.KindStarted, Started: must(NewStarted(job, description, 1, 0))},
		another, asked, stop, another, // 3 s until the pause
		resumed(store.Continued, Resumption{SearchVersion: 1, Budget: &larger}),
		store.Event{Kind: store.KindTold, Told: must(NewTold(0, "0", correct))}, // 1 s more
	) {
		if err := h.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if h.Spent() != 4*time.Second || h.Resumptions != 0 || h.Pauses != 1 || h.Job.Budget != larger {
		t.Errorf("spent %s, %d resumptions, %d pauses, %+v", h.Spent(), h.Resumptions, h.Pauses, h.Job.Budget)
	}
}
