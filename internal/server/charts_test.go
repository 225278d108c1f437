package server

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/api"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/record"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/store"
)

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

// TestSummary: a summary says what the report of the campaign says, whether it was made of all
// events at once or of more and more of them.
func TestSummary(t *testing.T) {
	f, c := finished(t, 80)
	got := fetch[api.Summary](f, "/v1/campaigns/"+c.ID+"/summary")
	log, err := report.ReadLog(f.service.store, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.NewCampaign(log)
	if err != nil {
		t.Fatal(err)
	}
	var want api.Summary
	decode(t, encode(t, got), &want)
	want.Best = nil
	for i, e := range r.Evaluations {
		if e.Record {
			want.Best = append(want.Best, api.BestPoint{Evaluations: i + 1, Speedup: e.Speedup, Candidate: e.Candidate})
		}
	}
	want.Funnel = []api.FunnelRow{{Verdict: evaluator.Correct, Count: r.Verdicts[evaluator.Correct]}}
	for _, row := range r.Failures {
		want.Funnel = append(want.Funnel, api.FunnelRow{Verdict: row.Verdict, Stage: row.Stage, Reason: record.Alike(row.Reason), Count: row.Count})
	}
	clocks := cmpopts.IgnoreFields(api.BestPoint{}, "ElapsedNS", "DeviceNS")
	if d := cmp.Diff(want, got, clocks); d != "" || len(got.Funnel) < 2 || len(got.Best) < 2 {
		t.Errorf("(-report +summary):\n%s", d)
	}
	for _, stage := range r.Stages {
		if d := got.Stages[evaluator.Stage(stage.Stage)].Seconds() - stage.Seconds; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s: %v, the report has %v s", stage.Stage, got.Stages[evaluator.Stage(stage.Stage)], stage.Seconds)
		}
	}
	if p := got.Phases; p.Searched <= 0 || p.Prepared+p.Searched+p.Finals != got.ElapsedNS || got.ElapsedNS.Seconds() != r.SpentS || p.Searched.Seconds() != r.SearchedS {
		t.Errorf("%s of the campaign are %+v; the report has %g s, %g s searched", got.ElapsedNS, p, r.SpentS, r.SearchedS)
	}
	if got.Finals == nil || got.Finals.Winner != r.Finals.Winner || len(got.Finals.Entries) != len(r.Finals.Entries) || got.Finals.Evaluations != 80 {
		t.Errorf("the finals are %+v, the report has %+v", got.Finals, r.Finals)
	}
	if got.Evaluated != 80 || got.DeviceNS <= 0 {
		t.Errorf("%d evaluated in %s of the device", got.Evaluated, got.DeviceNS)
	}
}

// TestSummaryOfFinals: a summary has each finalist's speedup with its interval, the test of the winner, and
// what finals that ended early do not show.
func TestSummaryOfFinals(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	var rounds, baselines []float64
	for i := range 10 {
		rounds, baselines = append(rounds, 50+float64(i)), append(baselines, 100)
	}
	fitness := 0.545
	entry := evaluator.Finalist{Verdict: evaluator.Correct, Fitness: fitness, Timings: []evaluator.Timing{{Shape: "s", MedianNS: 54.5, BaselineMedianNS: 100, SamplesNS: rounds, BaselineNS: baselines}}}
	left := evaluator.Finalist{Verdict: evaluator.Infrastructure, Reason: evaluator.TimeOver}
	finals, err := record.NewFinals([]string{"a", "b"}, evaluator.Finals{
		Entries: []evaluator.Finalist{entry, left}, VsBaseline: &evaluator.Comparison{Ratio: 0.545, P: 1e-5, Alpha: 0.05, Significant: true, N1: 10, N2: 10},
		Early: &evaluator.Early{Sets: 2, Of: 6, Unseparated: []int{1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	begun := store.Event{Campaign: "c-1", Kind: store.KindStarted, Started: &store.Started{Kernel: "k", Backend: "cpu"}}
	events := []store.Event{begun}
	for i, id := range finals.Finalists {
		told, err := record.NewTold(i, id, evaluator.Result{Verdict: evaluator.Correct, Fitness: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, store.Event{Campaign: "c-1", Kind: store.KindAsked, Asked: &store.Asked{Index: i, Candidate: id, Genome: fmt.Sprintf("A=%d", i), Operator: "random"}},
			store.Event{Campaign: "c-1", Kind: store.KindTold, Told: told})
	}
	if _, err := f.service.store.Append(append(events, store.Event{Campaign: "c-1", Kind: store.KindFinals, Finals: finals})...); err != nil {
		t.Fatal(err)
	}
	got := fetch[api.Summary](f, "/v1/campaigns/c-1/summary").Finals
	if got == nil || got.Winner != "a" || len(got.Entries) != 2 || got.VsBaseline == nil || got.VsBaseline.P != 1e-5 {
		t.Fatalf("%+v", got)
	}
	if a := got.Entries[0]; a.Speedup != 1/fitness || !(a.Lo > 1.6 && a.Lo < a.Speedup && a.Speedup < a.Hi && a.Hi <= 2) || a.MedianNS != 54.5 || a.BaselineNS != 100 {
		t.Errorf("the winner: %+v", a)
	}
	if b := got.Entries[1]; b.Speedup != 0 || b.Reason != evaluator.TimeOver {
		t.Errorf("what was left out: %+v", b)
	}
	if want := "the time was over after 2 of 6 sets of processes: they do not separate a from b"; got.Early != want {
		t.Errorf("%q, want %q", got.Early, want)
	}
}

// TestBudgetInPause: another budget takes no time away and adds none, in a pause and out of it, for a summary, a
// report and those who follow.
func TestBudgetInPause(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	began := time.Unix(1e9, 0)
	note := func(at time.Duration, kind store.Kind, n store.Note) store.Event {
		return store.Event{Campaign: "c-1", Time: began.Add(at), Kind: kind, Note: &n}
	}
	budget := func(at time.Duration, n int, reason string) store.Event {
		v, err := (record.Resumption{Budget: &evotune.Budget{Evaluations: n}}).Note(reason, 0)
		if err != nil {
			t.Fatal(err)
		}
		return note(at, store.KindResumed, *v)
	}
	log := []store.Event{
		{Campaign: "c-1", Time: began, Kind: store.KindStarted, Started: &store.Started{Kernel: "k", Backend: "cpu", Device: "d", Strategy: "random"}},
		budget(2*time.Second, 10, store.NewBudget),
		note(5*time.Second, store.KindStopped, store.Note{Reason: "paused: busy"}),
		budget(8*time.Second, 20, store.NewBudget),
		budget(15*time.Second, 20, store.Continued), // after 10 s
		budget(17*time.Second, 30, store.NewBudget),
		note(18*time.Second, store.KindStopped, store.Note{Reason: "interrupted"}), // 5 s and 3 s until here
	}
	if _, err := f.service.store.Append(log...); err != nil {
		t.Fatal(err)
	}
	sum := fetch[api.Summary](f, "/v1/campaigns/c-1/summary")
	whole, err := report.ReadLog(f.service.store, "c-1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.NewCampaign(whole)
	if err != nil {
		t.Fatal(err)
	}
	if sum.ElapsedNS != 8*time.Second || sum.DeviceNS != sum.ElapsedNS || r.SpentS != sum.ElapsedNS.Seconds() {
		t.Errorf("the summary has %s, %s of devices, the report %g s; it took 8 s", sum.ElapsedNS, sum.DeviceNS, r.SpentS)
	}
	told, leave := f.service.streams.join("c-1")
	defer leave()
	lines, _, err := told.past()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, l := range lines {
		text.Write(l.data)
	}
	if want := `"after_ns":10000000000`; !strings.Contains(text.String(), want) {
		t.Errorf("no %s in %s", want, &text)
	}
}

// TestReadAgain: of an event that cannot be read nothing is counted, however often it is tried.
func TestReadAgain(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	one := store.Event{Campaign: "c-1", Kind: store.KindAsked, Asked: &store.Asked{Candidate: "a", Genome: "A=1", Operator: "random"}}
	if _, err := f.service.store.Append(store.Event{Campaign: "c-1", Kind: store.KindStarted, Started: &store.Started{Kernel: "k", Backend: "cpu", Device: "d", Strategy: "random"}},
		one, store.Event{Campaign: "c-1", Kind: store.KindTold, Told: &store.Told{Candidate: "a", Verdict: "parity", Detail: []byte(`[]`)}}); err != nil {
		t.Fatal(err)
	}
	told, leave := f.service.streams.join("c-1")
	defer leave()
	for range 3 {
		if _, _, err := told.past(); err == nil || told.sum.Evaluated != 0 {
			t.Fatalf("%d results were counted: %v", told.sum.Evaluated, err)
		}
	}
}

// TestMeasuredAgain: what was measured again counts once, as the second measurement has it,
// whether or not the first one was read before.
func TestMeasuredAgain(t *testing.T) {
	f := serve(t, filepath.Join(t.TempDir(), "s.db"), 0)
	s := f.service.store
	result := func(i int, verdict evaluator.Verdict, fitness float64, reason string) *store.Told {
		r := evaluator.Result{Verdict: verdict, Reason: reason, Fitness: fitness, Steps: []evaluator.Step{{Stage: evaluator.StageCompile, Elapsed: time.Second}}}
		if verdict != evaluator.Correct {
			r.Stage = evaluator.StageBenchmark
		}
		return &store.Told{Index: i, Candidate: string(rune('a' + i)), Verdict: string(verdict), Fitness: fitness, Detail: encode(t, r)}
	}
	asked := func(i int) store.Event {
		return store.Event{Campaign: "c-1", Kind: store.KindAsked, Asked: &store.Asked{Index: i, Candidate: string(rune('a' + i)), Genome: "A=1", Operator: "random"}}
	}
	add := func(events ...store.Event) {
		t.Helper()
		if _, err := s.Append(events...); err != nil {
			t.Fatal(err)
		}
	}
	event := func(told *store.Told) store.Event {
		return store.Event{Campaign: "c-1", Kind: store.KindTold, Told: told}
	}
	again := func(told *store.Told) store.Event {
		return store.Event{Campaign: "c-1", Kind: store.KindMeasured, Measured: told}
	}
	summary := func() api.Summary { return fetch[api.Summary](f, "/v1/campaigns/c-1/summary") }
	add(store.Event{Campaign: "c-1", Kind: store.KindStarted, Started: &store.Started{Kernel: "k", Backend: "cpu", Device: "d", Strategy: "random"}},
		asked(0), asked(1), asked(2), event(result(0, evaluator.Correct, 0.5, "")), event(result(1, evaluator.Infrastructure, 0, "busy: 12%")), event(result(2, evaluator.Correct, 0.4, "")))
	if got := summary(); len(got.Best) != 2 || got.Funnel[1].Reason != "busy: #%" || got.Stages[evaluator.StageCompile] != 3*time.Second {
		t.Errorf("%+v", got)
	}
	add(again(result(1, evaluator.Correct, 0.8, "")))
	got := summary()
	if len(got.Best) != 2 || len(got.Funnel) != 1 || got.Funnel[0].Count != 3 || got.Stages[evaluator.StageCompile] != 3*time.Second {
		t.Errorf("%+v", got)
	}
	told, leave := f.service.streams.join("c-1")
	defer leave()
	lines, _, err := told.past()
	if err != nil {
		t.Fatal(err)
	}
	var past api.Past
	decode(t, lines[0].data, &past)
	if d := cmp.Diff(map[evaluator.Verdict]int{evaluator.Correct: 3}, past.Verdicts); d != "" || past.Fresh != 3 {
		t.Errorf("followers are told %+v (-want +got):\n%s", past, d)
	}
	f.service.charts = newCharts(s)
	if d := cmp.Diff(got, summary()); d != "" {
		t.Errorf("(-by and by +at once):\n%s", d)
	}
	p := fetch[api.Points](f, "/v1/campaigns/c-1/points")
	if want := []float64{2, 1.25, 2.5}; !slices.Equal(p.Speedup, want) || !slices.Equal(p.Index, []int{0, 1, 2}) || p.Verdicts[p.Verdict[1]] != "correct" {
		t.Errorf("%+v", p)
	}
}

// TestPoints: points in parts are the points as a whole, and those of the store.
func TestPoints(t *testing.T) {
	f, c := finished(t, 80)
	whole := fetch[api.Points](f, "/v1/campaigns/"+c.ID+"/points")
	all, _, err := f.service.store.Candidates(store.Query{Campaign: c.ID, Limit: 100}, 0)
	if err != nil || len(all) != 80 || len(whole.Index) != 80 {
		t.Fatalf("%d candidates, %d points, %v", len(all), len(whole.Index), err)
	}
	rows := func(p api.Points) map[string]map[string]any {
		out := map[string]map[string]any{}
		for i, id := range p.Candidates {
			row := map[string]any{"#": p.Index[i], "verdict": p.Verdicts[p.Verdict[i]], "speedup": p.Speedup[i]}
			for _, g := range p.Genes {
				if g.At[i] >= 0 {
					row[g.Name] = g.Values[g.At[i]]
				}
			}
			out[id] = row
		}
		return out
	}
	want := map[string]map[string]any{}
	for _, c := range all {
		row := map[string]any{"#": c.Asked.Index, "verdict": c.Told.Verdict, "speedup": 0.0}
		if c.Told.Fitness > 0 {
			row["speedup"] = sixDigits(1 / c.Told.Fitness)
		}
		for name, v := range genome.Plain(c.Asked.Genome) {
			if n, ok := v.(int64); ok {
				v = float64(n) // as JSON has it
			}
			row[name] = v
		}
		want[c.ID] = row
	}
	if d := cmp.Diff(want, rows(whole)); d != "" {
		t.Errorf("(-store +points):\n%s", d)
	}
	for _, g := range whole.Genes {
		if !slices.IsSortedFunc(g.Values, compareValues) {
			t.Errorf("gene %s: %v", g.Name, g.Values)
		}
	}
	parts := map[string]map[string]any{}
	middle := all[40].ToldSeq
	for id, row := range rows(fetch[api.Points](f, "/v1/campaigns/"+c.ID+"/points?from="+jsonText(t, middle))) {
		parts[id] = row
	}
	for id, row := range want {
		i := slices.IndexFunc(all, func(c store.Candidate) bool { return c.ID == id })
		if all[i].ToldSeq < middle {
			parts[id] = row
		}
	}
	if d := cmp.Diff(want, parts); d != "" {
		t.Errorf("(-whole +parts):\n%s", d)
	}
	few := whole
	few.Candidates, few.Genes = []string{}, []api.GenePoints{}
	if d := cmp.Diff(few, fetch[api.Points](f, "/v1/campaigns/"+c.ID+"/points?brief=true")); d != "" || len(whole.Genes) == 0 {
		t.Errorf("brief (-want +got):\n%s", d)
	}
	rest := fetch[api.Points](f, "/v1/campaigns/"+c.ID+"/points?from="+jsonText(t, whole.Next))
	if len(rest.Index) != 0 || rest.Next != whole.Next {
		t.Errorf("after the last: %+v", rest)
	}
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	return string(encode(t, v))
}

func TestEncoded(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"A=1":                     "A|1;",
		"A=1,B=true,C=x-y":        "A|1;B|true;C|x-y;",
		`A="a,b=\"c",B="",C=-O3 `: `A|"a,b=\"c";B|"";C|-O3 ;`,
		"A":                       "A|;",
	} {
		got := ""
		for name, value := range encoded(text) {
			got += name + "|" + value + ";"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	f, a := finished(t, 60)
	b := f.until(f.submit(4, 30).ID, api.Finished)
	got := fetch[api.Compared](f, "/v1/campaigns/"+a.ID+"/compare?with="+b.ID)
	if got.A.Campaign != a.ID || got.B.Campaign != b.ID || len(got.NotComparable) > 0 || got.EqualNS != min(got.A.DeviceNS, got.B.DeviceNS) {
		t.Errorf("%+v", got)
	}
	// The table has recorded what evaluations took: the shorter campaign has used less.
	if got.A.DeviceNS <= got.B.DeviceNS || got.AtB != got.B.Best[len(got.B.Best)-1].Speedup {
		t.Errorf("%+v", got)
	}
	for _, p := range got.A.Best {
		if p.DeviceNS <= got.EqualNS && p.Speedup > got.AtA {
			t.Errorf("%v at %s is more than %v", p.Speedup, p.DeviceNS, got.AtA)
		}
	}
	f.do("GET", "/v1/campaigns/"+a.ID+"/compare", nil, nil, 422)
	f.do("GET", "/v1/campaigns/"+a.ID+"/compare?with="+a.ID, nil, nil, 422)
	f.do("GET", "/v1/campaigns/"+a.ID+"/compare?with=nothing", nil, nil, 404)
	f.do("GET", "/v1/campaigns/"+a.ID+"/roofline", nil, nil, 404)
	f.do("GET", "/v1/campaigns/nothing/roofline", nil, nil, 404)
	f.do("GET", "/v1/campaigns/nothing/summary", nil, nil, 404)
	f.do("GET", "/v1/campaigns/nothing/points", nil, nil, 404)
}

// TestGenesInOrder: genes that not all candidates have come where the space has them.
func TestGenesInOrder(t *testing.T) {
	p := pointSet{rows: map[int]int{}, verdicts: map[string]int{}, columns: map[string]*geneColumn{}}
	for i, encoding := range []string{"A=2,C=x", "A=1,B=true,C=y,D=0.5", "D=1.5", "A=2"} {
		if err := p.add(&store.Told{Index: i, Candidate: "c", Verdict: "correct"}, encoding); err != nil {
			t.Fatal(err)
		}
	}
	want := []api.GenePoints{
		{Name: "A", Values: []any{int64(1), int64(2)}, At: []int{1, 0, -1, 1}},
		{Name: "B", Values: []any{true}, At: []int{-1, 0, -1, -1}},
		{Name: "C", Values: []any{"x", "y"}, At: []int{0, 1, -1, -1}},
		{Name: "D", Values: []any{0.5, 1.5}, At: []int{-1, 0, 1, -1}},
	}
	if d := cmp.Diff(want, p.finish().Genes); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestBestAt(t *testing.T) {
	c := api.Curve{Best: []api.BestPoint{{DeviceNS: 10, Speedup: 1}, {DeviceNS: 20, Speedup: 2}, {DeviceNS: 30, Speedup: 3}}}
	for limit, want := range map[time.Duration]float64{9: 0, 10: 1, 29: 2, 30: 3, 99: 3} {
		if got := at(c, limit); got != want {
			t.Errorf("at %d: %v, want %v", limit, got, want)
		}
	}
}
