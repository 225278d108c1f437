package server

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/internal/longtest"
)

// moments are those of a campaign until its end.
func (f *fixture) moments(id string, short bool) (list []api.Moment) {
	f.Helper()
	c, err := api.NewClient(f.url, "")
	if err != nil {
		f.Fatal(err)
	}
	moments := c.Follow
	if short {
		moments = c.Attach
	}
	for m, err := range moments(f.Context(), id) {
		if err != nil {
			f.Fatal(err)
		}
		if m.Event != nil {
			list = append(list, m)
		}
	}
	return list
}

// TestAttach: who comes late is told little of a long past, and the same in the end.
func TestAttach(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	fill(t, path, 2, 6000)
	f := serve(t, path, 0)
	const id = "sgemm-00000000"
	var best *evotune.Evaluated
	whole := f.moments(id, false)
	for _, m := range whole {
		if e := m.Event.Evaluated; e != nil && e.Record {
			best = e
		}
	}
	short := f.moments(id, true)
	if len(whole) < 3000 || len(short) != 4 || short[0].Event.Started == nil || short[1].Event.Evaluated == nil || short[2].Event.Finals == nil || short[3].Event.Finished == nil {
		t.Fatalf("%d moments of %d: %+v", len(short), len(whole), short)
	}
	if got := short[1].Event.Evaluated; got.Candidate != best.Candidate || got.Progress.Evaluated != 3000 || got.Progress.Verdicts["parity"] != 600 {
		t.Errorf("%+v, want %+v", got, best)
	}
	if got, want := short[3].Event.Finished, whole[len(whole)-1].Event.Finished; got.Evaluated != want.Evaluated || got.Best.Candidate != want.Best.Candidate {
		t.Errorf("%+v, want %+v", got, want)
	}
	f.do("GET", "/v1/campaigns/"+id+"/events?past=short", nil, nil, 422, "Last-Event-ID", "7")
	f.do("GET", "/v1/campaigns/"+id+"/events?past=long", nil, nil, 422)
	// The number of the newest event is the last, so that who comes back is told nothing again.
	if ids, kinds, _ := f.events("/v1/campaigns/"+id+"/events?past=short", "", 0); kinds[0] != "past" || ids[0] != "" || len(kinds) != 6 {
		t.Errorf("%v %v", ids, kinds)
	}
}

// TestAttachWhileItRuns: what comes after the summary is told as a whole, and counted on.
func TestAttachWhileItRuns(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 10*time.Millisecond)
	c := f.submit(1, 120)
	for f.until(c.ID, api.Searching).Evaluated < 20 {
		time.Sleep(time.Millisecond)
	}
	told := map[int]bool{}
	counted := 0
	for n, m := range f.moments(c.ID, true) {
		if e := m.Event.Evaluated; e != nil {
			if told[e.Index] {
				t.Errorf("%d is told twice", e.Index)
			}
			told[e.Index] = true
			if counted > 0 && n > 2 && e.Progress.Evaluated != counted+1 {
				t.Errorf("after %d results there are %d", counted, e.Progress.Evaluated)
			}
			counted = e.Progress.Evaluated
		}
	}
	if counted != 120 || len(told) > 110 || len(told) < 20 {
		t.Errorf("%d told, %d counted", len(told), counted)
	}
}

// TestAttachTimeNightly: attaching takes a small part of the time that reading all events takes.
func TestAttachTimeNightly(t *testing.T) {
	longtest.Nightly(t, "measure", "it measures")
	path := filepath.Join(t.TempDir(), "s.db")
	fill(t, path, 1, 50_000)
	const id = "sgemm-00000000"
	f := serve(t, path, 0)
	begin := time.Now()
	f.moments(id, true)
	cold := time.Since(begin)
	begin = time.Now()
	f.moments(id, true)
	warm := time.Since(begin)
	begin = time.Now()
	f.moments(id, false)
	whole := time.Since(begin)
	t.Logf("100,000 events: %s to attach for the first time, %s later, %s to follow all", cold, warm, whole)
	if cold > whole/4 {
		t.Errorf("to attach takes %s, to follow all %s", cold, whole)
	}
}
