package record

import (
	"testing"
	"time"

	"github.com/evotune/evotune/store"
)

// TestPhases: each process of a campaign prepares, searches and perhaps holds finals, and
// what is between two of them does not count.
func TestPhases(t *testing.T) {
	started := must(NewStarted(job, description, 1, 40*time.Second))
	prepared := Resumption{SearchVersion: 1, Prepared: 15 * time.Second}
	stop := store.Event{Kind: store.KindStopped, Note: &store.Note{Reason: "interrupted"}}
	var c Clock
	for i, e := range events( // a second apart
		store.Event{Kind: store.KindStarted, Started: started},
		store.Event{Kind: store.KindAsked}, store.Event{Kind: store.KindTold},
		resumed(store.InFinals, Resumption{SearchVersion: 1, Prepared: time.Hour}), // which says nothing
		stop,
		resumed(store.Resumed, prepared),
		store.Event{Kind: store.KindTold},
		resumed(store.InFinals, Resumption{SearchVersion: 1}),
		store.Event{Kind: store.KindFinals}, store.Event{Kind: store.KindFinished, Note: &store.Note{}},
	) {
		if err := c.Add(e); err != nil {
			t.Fatal(err)
		}
		if i == 0 && c.Spent() != 40*time.Second {
			t.Errorf("before the search %s are spent", c.Spent())
		}
	}
	want := Phases{Prepared: 55 * time.Second, Searched: (3 + 2) * time.Second, Finals: (1 + 2) * time.Second}
	if got := c.Phases(); got != want || c.Spent() != want.Prepared+want.Searched+want.Finals {
		t.Errorf("phases %+v of %s, not %+v", got, c.Spent(), want)
	}
}
