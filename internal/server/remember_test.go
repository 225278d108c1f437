package server

import (
	"math/rand"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

// TestRemembered: whatever is written, and whenever it is looked at, the campaigns are those
// of the store.
func TestRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	var events []store.Event
	t.Run("record", func(t *testing.T) {
		f := serve(t, path, 0)
		for seed := range int64(4) {
			f.until(f.submit(seed+1, 30).ID, api.Finished)
		}
		for e, err := range f.service.store.Events("", 0) {
			if err != nil {
				t.Fatal(err)
			}
			e.Seq = 0
			events = append(events, e)
		}
	})
	s, err := store.Open(filepath.Join(t.TempDir(), "copy.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := newRemembered(s)
	rng := rand.New(rand.NewSource(7))
	ids := map[string]bool{}
	for len(events) > 0 {
		n := min(len(events), 1+rng.Intn(20))
		if _, err := s.Append(events[:n]...); err != nil {
			t.Fatal(err)
		}
		for _, e := range events[:n] {
			ids[e.Campaign] = true
		}
		events = events[n:]
		if rng.Intn(3) == 0 {
			continue
		}
		want, err := s.Campaigns()
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Campaigns()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Fatalf("%v (-store +remembered):\n%s", err, d)
		}
		for id := range ids {
			for _, name := range []string{id, id[:len(id)-1], "nothing"} {
				want, wantErr := s.Campaign(name)
				got, err := r.Campaign(name)
				if d := cmp.Diff(want, got); d != "" || (err == nil) != (wantErr == nil) {
					t.Fatalf("%s: %v (-store +remembered):\n%s", name, err, d)
				}
			}
		}
	}
}

// TestEndedWithItsLog: a campaign that ended after its log was read has its whole log.
func TestEndedWithItsLog(t *testing.T) {
	f, c := finished(t, 20)
	early := *c.Log
	early.Last, early.Evaluated, early.Finals = early.First, 1, nil
	stale := viewOf(early)
	stale.State = api.Finished
	f.service.complete(&stale)
	if stale.Evaluated != 20 || stale.Log.Last != c.Log.Last || stale.Measured != c.Measured || stale.By != c.By {
		t.Errorf("%+v, want %+v", stale, c)
	}
}
