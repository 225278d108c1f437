package server

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/api"
)

// TestWarnings: who follows a campaign is told its warnings, each in its place and once.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	f := serve(t, filepath.Join(dir, "s.db"), 20*time.Millisecond)
	c := f.submit(1, 40)
	for f.until(c.ID, api.Searching).Evaluated < 5 {
		time.Sleep(time.Millisecond)
	}
	// A copy of a store whose campaign runs is one whose campaign was killed.
	copied := filepath.Join(dir, "copy.db")
	if _, err := f.service.store.Backup(t.Context(), copied, false); err != nil {
		t.Fatal(err)
	}
	g := serve(t, copied, 0)
	path := "/v1/campaigns/" + c.ID + "/events"
	g.do("POST", "/v1/campaigns/"+c.ID+"/resume", nil, nil, 200)
	_, live, _ := g.events(path, "", 0)
	live = slices.DeleteFunc(live, func(k string) bool { return k == "state" })
	g.until(c.ID, api.Finished)
	ids, again, data := g.events(path, "", 0)
	for _, kinds := range [][]string{live, again} {
		if n := len(slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k != "warning" })); n != 1 {
			t.Fatalf("%d warnings: %v", n, kinds)
		}
	}
	at := slices.Index(again, "warning")
	if ids[at] != "" || !strings.Contains(data[at], `"campaign":"`+c.ID+`","message":"evotune ended without a stop`) {
		t.Errorf("%s: %s", ids[at], data[at])
	}
	if slices.Index(live, "warning") != at || at < 6 || again[at-1] != "started" {
		t.Errorf("the warning is out of place: %v, %v", live, again)
	}
	if _, kinds, _ := g.events(path, ids[at-1], 0); len(kinds) == 0 || kinds[0] != "warning" {
		t.Errorf("after the event before it: %v", kinds)
	}
	if _, kinds, _ := g.events(path, ids[at+1], 0); slices.Contains(kinds, "warning") {
		t.Errorf("after the event that follows it: %v", kinds)
	}
	client, err := api.NewClient(g.url, "")
	if err != nil {
		t.Fatal(err)
	}
	told := []string{}
	for m, err := range client.Follow(t.Context(), c.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Event != nil && m.Event.Warning != "" {
			told = append(told, m.Event.Warning)
		}
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "evotune ended without a stop") {
		t.Errorf("%q", told)
	}
}
