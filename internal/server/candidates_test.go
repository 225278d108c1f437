package server

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/store"
)

// finished serves a store with a finished recorded campaign.
func finished(t *testing.T, evaluations int) (*fixture, api.Campaign) {
	t.Helper()
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	return f, f.until(f.submit(3, evaluations).ID, api.Finished)
}

// fetch asks for something that is there.
func fetch[T any](f *fixture, path string) (out T) {
	f.Helper()
	f.do("GET", path, nil, &out, 200)
	return out
}

// TestReader: over HTTP a client answers every question exactly as the store does itself.
func TestReader(t *testing.T) {
	f, one := finished(t, 60)
	two := f.until(f.submit(4, 30).ID, api.Finished)
	client, err := api.NewClient(f.url, "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	want, got := f.service.store, client.Reader(t.Context())
	same := func(what string, a, b any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s (-store +HTTP):\n%s", what, d)
		}
	}
	a, err := want.Campaigns()
	b, _ := got.Campaigns()
	same("campaigns", a, b, err)
	for _, c := range a {
		a, err := want.Campaign(c.ID)
		b, _ := got.Campaign(c.ID)
		same("campaign", a, b, err)
	}
	kernel, device := a[0].Started.Kernel, a[0].Started.Device
	for _, q := range []store.Query{
		{},
		{Kernel: kernel, Limit: 7},
		{Kernel: "other"},
		{Device: device, Limit: 100},
		{Shapes: []string{"recorded"}, Limit: 3},
		{Shapes: []string{"a", "b"}},
		{Campaign: one.ID, Limit: 50},
		{Campaigns: []string{one.ID, two.ID}, Limit: 20},
		{ProvenOnly: true, Limit: 5},
	} {
		a, err := want.Best(q)
		b, _ := got.Best(q)
		same("best", a, b, err)
		for from := uint64(0); ; {
			a, nextA, err := want.Candidates(q, from)
			b, nextB, _ := got.Candidates(q, from)
			same("candidates", a, b, err)
			if nextA != nextB {
				t.Fatalf("next %d over HTTP, %d from the store", nextB, nextA)
			}
			if from = nextA; from == 0 {
				break
			}
		}
	}
	all, _, err := want.Candidates(store.Query{Limit: 100}, 0)
	if err != nil || len(all) != 90 {
		t.Fatalf("%d candidates, %v", len(all), err)
	}
	for _, c := range all {
		a, err := want.Candidate(c.ID)
		b, _ := got.Candidate(c.ID)
		same("candidate", a, b, err)
		m, err := want.Lineage(c.ID)
		n, _ := got.Lineage(c.ID)
		same("lineage", m, n, err)
		children, err := want.Children(c.ID)
		if children == nil {
			children = []store.Candidate{}
		}
		same("children", children, fetch[[]store.Candidate](f, "/v1/candidates/"+c.ID+"/children"), err)
	}
	for path, status := range map[string]int{
		"/v1/candidates/nothing": 404, "/v1/candidates/nothing/lineage": 404, "/v1/candidates/nothing/children": 404, "/v1/candidates/nothing/source": 404,
		"/v1/candidates/nothing/evidence": 404, "/v1/log/campaigns/nothing": 404, "/v1/log/campaigns/" + one.ID[:len(one.ID)-8]: 409,
		"/v1/candidates?campaign=nothing": 404, "/v1/ranking?campaign=nothing": 404, "/v1/ranking?campaign=nothing&campaign=neither": 404,
		"/v1/candidates?limit=-1": 422, "/v1/candidates?from=x": 422, "/v1/candidates?unknown=1": 422,
	} {
		var p api.Problem
		f.do("GET", path, nil, &p, status)
		if p.Type == "" || p.Detail == "" {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// TestAnswers: questions over HTTP are answered as commands answer them.
func TestAnswers(t *testing.T) {
	f, c := finished(t, 60)
	machine := new(evotune.Machine)
	for _, q := range []evotune.Question{
		{Kernel: c.Kernel}, {Kernel: c.Kernel, Limit: 5}, {Kernel: c.Kernel, Proven: true, Limit: 3}, {Kernel: c.Kernel, Shapes: []string{"recorded"}},
	} {
		found, err := machine.Best(t.Context(), f.service.store, q)
		if err != nil {
			t.Fatal(err)
		}
		v := url.Values{"kernel": {q.Kernel}, "shape": q.Shapes, "top": {strconv.Itoa(max(1, q.Limit))}, "proven": {strconv.FormatBool(q.Proven)}}
		if d := cmp.Diff(plainly(t, api.Answers{Answers: api.AnswersOf(found)}), fetch[any](f, "/v1/best?"+v.Encode())); d != "" {
			t.Errorf("%+v (-local +HTTP):\n%s", q, d)
		}
	}
	for _, o := range []evotune.Selection{
		{Where: "true", Limit: 20},
		{Where: `verdict != "correct"`, Limit: 5},
		{Where: "speedup > 0.5", Sort: "-speedup", Limit: 3},
		{Where: "speedup > 0.5", Count: true, Limit: 20},
		{Where: "index >= 0", Campaign: c.ID, Kernel: c.Kernel, Limit: 100},
	} {
		found, err := evotune.Select(f.service.store, o)
		if err != nil {
			t.Fatal(err)
		}
		v := url.Values{"where": {o.Where}, "sort": {o.Sort}, "kernel": {o.Kernel}, "campaign": {o.Campaign}, "count": {strconv.FormatBool(o.Count)}, "limit": {strconv.Itoa(o.Limit)}}
		out := fetch[api.Matches](f, "/v1/query?"+v.Encode())
		if out.Count != found.Matched || out.Candidates != found.Of || found.Of != 60 {
			t.Errorf("%+v: %d of %d, want %d of %d", o, out.Count, out.Candidates, found.Matched, found.Of)
		}
		if d := cmp.Diff(plainly(t, api.MatchesOf(found)), plainly(t, out.Items)); d != "" {
			t.Errorf("%+v (-local +HTTP):\n%s", o, d)
		}
	}
	rows := fetch[[]api.LeaderboardRow](f, "/v1/leaderboard")
	if len(rows) != 1 || rows[0].Candidate != c.Best || rows[0].Speedup != c.Speedup || rows[0].Proven != (c.Measured == "finals") || !rows[0].Proven {
		t.Errorf("leaderboard %+v of %+v", rows, c)
	}
	for path, status := range map[string]int{
		"/v1/best": 422, "/v1/best?kernel=nothing": 404, "/v1/best?kernel=" + c.Kernel + "&top=0": 422, "/v1/best?kernel=" + c.Kernel + "&dtype=f17": 422,
		"/v1/best?kernel=" + c.Kernel + "&device=abacus": 422, "/v1/best?kernel=" + c.Kernel + "&shape=A%3D1&shape=b": 422,
		"/v1/query?where=%28": 422, "/v1/query?where=genome.NOSUCH%3D%3D1": 422, "/v1/query": 422, "/v1/query?where=true&sort=nothing": 422, "/v1/query?where=true&kernel=nothing": 422, "/v1/query?where=true&campaign=nothing": 404,
	} {
		var p api.Problem
		f.do("GET", path, nil, &p, status)
		if p.Type == "" || p.Detail == "" {
			t.Errorf("%s: %+v", path, p)
		}
	}
	var p api.Problem
	f.do("GET", "/v1/best?kernel=nothing", nil, &p, 404)
	if p.Type != api.NoCandidate {
		t.Errorf("no candidate: %+v", p)
	}
}

// plainly is a value as JSON has it.
func plainly(t *testing.T, v any) (out any) {
	t.Helper()
	decode(t, encode(t, v), &out)
	return out
}

func TestEvidence(t *testing.T) {
	f, c := finished(t, 60)
	stored, err := f.service.store.Candidate(c.Best)
	if err != nil {
		t.Fatal(err)
	}
	want, err := api.EvidenceOf(stored)
	if err != nil {
		t.Fatal(err)
	}
	got := fetch[any](f, "/v1/candidates/"+c.Best+"/evidence")
	if d := cmp.Diff(plainly(t, want), got); d != "" {
		t.Errorf("(-local +HTTP):\n%s", d)
	}
	if want.Result == nil || want.Finals == nil || len(want.Result.Timings) == 0 {
		t.Errorf("no evidence: %+v", want)
	}
	// A recorded table has no sources.
	f.do("GET", "/v1/candidates/"+c.Best+"/source", nil, nil, 422)
}

// TestLeaderboard: what won finals goes before what is only faster, and of it what is more
// than noise.
func TestLeaderboard(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	for i, c := range []struct {
		device      string
		shapes      []string
		fitness     float64
		finals      bool
		significant bool
	}{
		{"one", []string{"a", "b"}, 0.1, false, false},
		{"one", []string{"b", "a"}, 0.5, true, true},
		{"one", []string{"a", "b"}, 0.4, true, true},
		{"one", []string{"a", "b"}, 0.2, true, false},
		{"one", []string{"a"}, 0.3, false, false},
		{"one", []string{"a"}, 0.25, false, false},
		{"two", []string{"a"}, 0.9, true, false},
	} {
		id, candidate := "k-"+strconv.Itoa(i), "c"+strconv.Itoa(i)
		events := []store.Event{
			{Kind: store.KindStarted, Started: &store.Started{Kernel: "k", Shapes: c.shapes, Backend: "cpu", Device: c.device, Name: c.device, Strategy: "random"}},
			{Kind: store.KindAsked, Asked: &store.Asked{Candidate: candidate, Genome: "A=1", Operator: "random"}},
			{Kind: store.KindTold, Told: &store.Told{Candidate: candidate, Verdict: "correct", Fitness: c.fitness, MedianNS: c.fitness, BaselineNS: 1}},
		}
		if c.finals {
			events = append(events, store.Event{Kind: store.KindFinals, Finals: &store.Finals{
				Winner: candidate, Fitness: c.fitness, MedianNS: c.fitness, BaselineNS: 1, Significant: c.significant, Finalists: []string{candidate},
			}})
		}
		for i := range events {
			events[i].Campaign = id
		}
		if _, err := f.service.store.Append(events...); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range fetch[[]api.LeaderboardRow](f, "/v1/leaderboard") {
		got = append(got, strings.TrimSpace(fmt.Sprintln(r.Device, r.Shapes, r.Candidate, r.Proven, r.Significant)))
	}
	if d := cmp.Diff([]string{"one [a] c5 false false", "one [a b] c2 true true", "two [a] c6 true false"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
