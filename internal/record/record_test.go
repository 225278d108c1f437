package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/store"
)

var (
	job = Job{
		ID: "k-1", Kernel: "k", Shapes: []string{"s"}, Backend: "cpu", Hash: "ab", Limits: map[string]int64{"device_cores": 2},
		Strategy: "evolution", Seed: new(int64(7)), Window: 8, Finalists: new(2), Start: []Start{{Genome: "x=1", Candidate: "old"}},
		Budget: Budget{Evaluations: 3, Time: time.Minute, Target: 2, Patience: 5, CostPerHour: 1, MaxCost: 2},
	}
	description = evaluator.Description{
		Backend: "cpu", Kernel: "k", Shapes: []string{"s"}, Harness: "h", Compiler: "gcc",
		Device: evaluator.Device{Name: "EPYC", Kind: "cpu", Fingerprint: "f00d", Facts: map[string]string{"cores": "2"}},
	}
	timings = []evaluator.Timing{
		{Shape: "s", SamplesNS: []float64{8}, BaselineNS: []float64{16}, Batch: 1, BaselineBatch: 1, MedianNS: 8, BaselineMedianNS: 16, Ratio: 0.5},
		{Shape: "t", SamplesNS: []float64{2}, BaselineNS: []float64{4}, Batch: 1, BaselineBatch: 1, MedianNS: 2, BaselineMedianNS: 4, Ratio: 0.5},
	}
	correct = evaluator.Result{
		Verdict: evaluator.Correct, Fitness: 0.5, Cost: time.Second, Key: "key", Source: "src", Binary: "bin", Timings: timings,
		Steps: []evaluator.Step{{Stage: evaluator.StageCompile, Outcome: evaluator.Passed, Elapsed: time.Second}},
	}
)

// TestWrittenIsRead: what is written comes back, and the store sees what it orders by.
func TestWrittenIsRead(t *testing.T) {
	same := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v (%v), not %+v", what, got, err, want)
		}
	}
	started, err := NewStarted(job, description, 3, 0)
	if err != nil || started.Kernel != "k" || started.Device != "f00d" || started.Name != "EPYC" || started.Strategy != "evolution" || started.SearchVersion != 3 || started.Seed != 7 {
		t.Fatalf("%+v, %v", started, err)
	}
	j, err := ReadJob("k-1", started)
	same("job", j, job, err)
	d, err := ReadDescription("k-1", started)
	same("description", d, description, err)

	told, err := NewTold(4, "cand", correct)
	if err != nil || told.Index != 4 || told.Candidate != "cand" || told.Verdict != "correct" || told.Fitness != 0.5 || (evaluator.Times{MedianNS: told.MedianNS, BaselineNS: told.BaselineNS}) != evaluator.MedianTimes(timings) || told.Key != "key" {
		t.Fatalf("%+v, %v", told, err)
	}
	res, err := ReadResult(told)
	same("result", res, correct, err)
	binary, _, err := ReadBinary(told)
	same("binary", binary, correct.Binary, err)
	times, binary, err := ReadTimings(told)
	same("timings", times, correct.Timings, err)
	same("binary of the timings", binary, correct.Binary, nil)
	_, disturbed, err := ReadBinary(must(NewTold(1, "busy", evaluator.Result{Disturbed: "busy"})))
	same("disturbed", disturbed, "busy", err)
	failed := evaluator.Result{Verdict: evaluator.Parity, Fitness: 0.1, Timings: timings}
	if told, err := NewTold(0, "bad", failed); err != nil || told.Fitness != 0 || told.MedianNS != 0 || told.BaselineNS != 0 {
		t.Errorf("who failed has a time: %+v, %v", told, err)
	}

	resumption := Resumption{SearchVersion: 3, Offset: 9, Budget: &job.Budget}
	note, err := resumption.Note("resumed", 5)
	if err != nil || note.Reason != "resumed" || note.Evaluated != 5 {
		t.Fatalf("%+v, %v", note, err)
	}
	r, err := ReadResumption(&store.Event{Note: note})
	same("resumption", r, resumption, err)

	slower := &evaluator.Comparison{Ratio: 1.5, Significant: true}
	for _, c := range []struct {
		of          evaluator.Finals
		winner      string
		significant bool
	}{
		{evaluator.Finals{Winner: 1, VsBaseline: &evaluator.Comparison{Ratio: 0.5, Significant: true}}, "b", true},
		{evaluator.Finals{Winner: 1, VsBaseline: slower, VsRunnerUp: slower}, "b", false},
		{evaluator.Finals{Winner: -1}, "", false},
	} {
		c.of.Entries = []evaluator.Finalist{{Verdict: evaluator.Parity, Reason: "wrong"}, {Verdict: evaluator.Correct, Fitness: 0.5, Timings: timings, HeldOut: timings[:1]}}
		logged, err := NewFinals([]string{"a", "b"}, c.of, "twin", "other")
		if err != nil || logged.Winner != c.winner || logged.Significant != c.significant || (logged.Fitness == 0.5) != (c.winner != "") || (logged.MedianNS == 4) != (c.winner != "") {
			t.Fatalf("%+v, %v", logged, err)
		}
		f, err := ReadFinals("k-1", logged)
		if err != nil || !slices.Equal(f.Refused, []string{"twin", "other"}) || f.Winner != c.of.Winner || !reflect.DeepEqual(f.VsRunnerUp, c.of.VsRunnerUp) {
			t.Fatalf("%+v, %v", f, err)
		}
		for i, id := range []string{"a", "b"} {
			same(id, f.Of(id).Finalist, c.of.Entries[i], nil)
		}
		if f.Of("c") != nil {
			t.Error("who was in no finals has a part in them")
		}
	}
}

// TestNoFinals: stores from before the first release say -1 where a campaign has no finals.
func TestNoFinals(t *testing.T) {
	j, err := ReadJob("k-1", &store.Started{Config: json.RawMessage(`{"kernel":"k","finalists":-1}`)})
	if err != nil || j.Finalists == nil || *j.Finalists != 0 || j.FinalsOf() != 0 {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestGenomeOfFinalist: a genome has no space in the log, and is a map.
func TestGenomeOfFinalist(t *testing.T) {
	f, err := ReadFinals("k-1", &store.Finals{Finalists: []string{"a"}, Detail: json.RawMessage(`{"winner":0,"entries":[{"genome":{"x":2,"s":"u"},"verdict":"correct","fitness":0.5}]}`)})
	if err != nil || !reflect.DeepEqual(f.Entries[0].Genome, map[string]any{"x": 2.0, "s": "u"}) || f.Entries[0].Candidate != "a" || f.Entries[0].Fitness != 0.5 {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestUnreadable: the errors say whose record cannot be read, and what to do.
func TestUnreadable(t *testing.T) {
	bad := json.RawMessage(`{"`)
	_, job := ReadJob("k-1", &store.Started{Config: bad})
	_, description := ReadDescription("k-1", &store.Started{Description: bad})
	_, result := ReadResult(&store.Told{Candidate: "cand", Detail: bad})
	_, none := ReadResult(&store.Told{Candidate: "cand"})
	binary, disturbed, part := ReadBinary(&store.Told{Candidate: "cand", Detail: json.RawMessage(`{"binary":"b","disturbed":1}`)})
	if part == nil || binary+disturbed != "" {
		t.Errorf("a damaged result has the binary %q, disturbed %q, %v", binary, disturbed, part)
	}
	_, _, timings := ReadTimings(&store.Told{Candidate: "cand", Detail: bad})
	_, resumption := ReadResumption(&store.Event{Campaign: "k-1", Seq: 12, Note: &store.Note{Detail: bad}})
	_, finals := ReadFinals("k-1", &store.Finals{Finalists: []string{"a"}, Detail: bad})
	_, few := ReadFinals("k-1", &store.Finals{Finalists: []string{"a"}, Detail: json.RawMessage(`{"entries":[]}`)})
	for want, err := range map[string]error{
		"campaign k-1: its configuration cannot be read: ":                    job,
		"campaign k-1: its description cannot be read: ":                      description,
		"candidate cand: its evidence cannot be read: unexpected":             none,
		"candidate cand: its evidence cannot be read: ":                       result,
		"candidate cand: its evidence cannot be read: json":                   part,
		"candidate cand: its evidence cannot be read: unexpected end of JSON": timings,
		"campaign k-1: event 12: the resumption cannot be read: ":             resumption,
		"campaign k-1: the finals cannot be read: ":                           finals,
		"campaign k-1: the finals tell of 0 candidates and name":              few,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), ": run `tune check`") {
			t.Errorf("%v, not %s", err, want)
		}
	}
	if f, err := ReadFinals("k-1", nil); f != nil || err != nil || f.Of("a") != nil {
		t.Errorf("no finals are %+v, %v", f, err)
	}
}
