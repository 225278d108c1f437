package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/evotune/evotune"
	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/server"
	"github.com/evotune/evotune/kernels"
	"github.com/evotune/evotune/store"
)

// manyCandidates fills a store with campaigns of built-in kernels on several GPUs:
// four in five candidates are correct, and every campaign has had finals.
func manyCandidates(t testing.TB, campaigns, each int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "evotune.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // checked below
	catalogue, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(1))
	detail := json.RawMessage(`{"verdict":"correct","steps":[]}`)
	for n := range campaigns {
		name := []string{"attention", "softmax", "rmsnorm"}[n%3]
		definition, err := catalogue.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		on := definition.On(evotune.CUDA)
		shapes := on.Problem.ShapesFor(kernels.Tune)
		shape := shapes[n/3%len(shapes)]
		space, err := on.Space(on.Implementations, []kernels.Shape{shape}, nil)
		if err != nil {
			t.Fatal(err)
		}
		device := evaluator.Device{
			Name: []string{"NVIDIA H200", "NVIDIA H100", "NVIDIA A100", "NVIDIA L4"}[n%4], Kind: evotune.CUDA, Fingerprint: fmt.Sprintf("%016x", n%4),
			Facts: map[string]string{"capability": []string{"9.0", "9.0", "8.0", "8.9"}[n%4], "uuid": fmt.Sprintf("GPU-%d", n%8)},
		}
		about := evaluator.Description{Backend: evotune.CUDA, Device: device, Kernel: name, Shapes: []string{shape.Name}}
		for _, im := range on.Implementations {
			about.Implementations = append(about.Implementations, im.Name)
		}
		description, err := json.Marshal(about)
		if err != nil {
			t.Fatal(err)
		}
		config, err := json.Marshal(map[string]string{"hash": definition.Hash})
		if err != nil {
			t.Fatal(err)
		}
		events := []store.Event{{Kind: store.KindStarted, Started: &store.Started{
			Kernel: name, Shapes: []string{shape.Name}, Backend: evotune.CUDA, Device: device.Fingerprint, Name: device.Name,
			Strategy: "evolution", Seed: int64(n), Config: config, Description: description,
		}}}
		var winner string
		for i := range each {
			id := fmt.Sprintf("%016x", rng.Uint64())
			told := &store.Told{Index: i, Candidate: id, Verdict: "correct", Fitness: 0.2 + rng.Float64(), BaselineNS: 1e6, Detail: detail}
			told.MedianNS = told.Fitness * told.BaselineNS
			if i%5 == 4 {
				told.Verdict, told.Fitness, told.MedianNS, told.BaselineNS = "sanitizer", 0, 0, 0
			} else {
				winner = id
			}
			events = append(events, store.Event{Kind: store.KindAsked, Asked: &store.Asked{Index: i, Candidate: id, Genome: space.Random(rng).String(), Operator: "random"}},
				store.Event{Kind: store.KindTold, Told: told})
		}
		if winner != "" {
			events = append(events, store.Event{Kind: store.KindFinals, Finals: &store.Finals{
				Winner: winner, Fitness: 0.5, MedianNS: 5e5, BaselineNS: 1e6, Significant: true, Finalists: []string{winner},
			}})
		}
		for i := range events {
			events[i].Campaign = fmt.Sprintf("%s-%08x", name, n)
		}
		if _, err := s.Append(events...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// tune runs a command and returns what it printed, and fails on another status.
func tune(t testing.TB, status int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), args, nil, &stdout, &stderr); code != status {
		t.Fatalf("tune %s: exit status %d, want %d: %s", strings.Join(args, " "), code, status, stderr.String())
	}
	if status != exitOK {
		if strings.Count(stderr.String(), "\n") != 1 || stdout.Len() > 0 {
			t.Errorf("tune %s: not one line:\n%s%s", strings.Join(args, " "), stdout.String(), stderr.String())
		}
		return stderr.String()
	}
	return stdout.String()
}

// TestBestAnswers asks in every format; all of them say the same.
func TestBestAnswers(t *testing.T) {
	path := manyCandidates(t, 24, 6)
	ask := []string{"best", "attention", "--store", path, "--device", "h200", "--shape", "B=2,H=8,S=1023,D=64", "--top", "9"}
	var views []map[string]any
	if err := json.Unmarshal([]byte(tune(t, 0, append(ask, "--json")...)), &views); err != nil {
		t.Fatal(err)
	}
	const rule = "same device, nearest shape 2x8x512x64 (distance 1.00 doublings)"
	first := views[0]
	if first["rule"] != rule || first["device_rule"] != "device" || first["nearest_shape"] != "2x8x512x64" || first["proven"] != true || len(views) != 9 {
		t.Errorf("%d answers, the first is %v", len(views), first)
	}
	var tables struct{ Candidates []map[string]any }
	if err := toml.Unmarshal([]byte(tune(t, 0, append(ask, "--format", "toml")...)), &tables); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(tune(t, 0, append(ask, "--format", "csv")...))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	table := tune(t, 0, ask...)
	for line := range strings.Lines(table) {
		if n := len([]rune(line)); n > tableWidth+1 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	for i, v := range views {
		for j, key := range rows[0] {
			want := v[key]
			if x, ok := want.(float64); ok {
				want = cell(x)
			} else if list, ok := want.([]any); ok {
				want = strings.Trim(fmt.Sprint(list), "[]")
			}
			if got := rows[i+1][j]; want == nil && got != "" || want != nil && got != fmt.Sprint(want) {
				t.Errorf("answer %d: %s is %s in CSV and %v in JSON", i, key, got, want)
			}
			if got := fmt.Sprint(tables.Candidates[i][key]); want != nil && key != "shapes" && v[key] != nil && !sameNumber(v[key], tables.Candidates[i][key]) && got != fmt.Sprint(v[key]) {
				t.Errorf("answer %d: %s is %s in TOML and %v in JSON", i, key, got, v[key])
			}
		}
		for _, word := range []string{v["candidate"].(string), v["rule"].(string)} {
			if !strings.Contains(table, word) {
				t.Errorf("the table lacks %q:\n%s", word, table)
			}
		}
	}

	// One that is exact, by name, beside it; and one that only its family can answer.
	if s := tune(t, 0, "best", "attention", "--store", path, "--device", "GPU-0", "--shape", "2x8x512x64"); !strings.Contains(s, "same GPU by its UUID, same shape 2x8x512x64") {
		t.Error(s)
	}
	if s := tune(t, exitBadInput, "best", "attention", "--store", path, "--device", "nvidia"); !strings.Contains(s, "write the fingerprint") {
		t.Error(s)
	}
	if s := tune(t, exitNoCandidate, "best", "attention", "--store", path, "--device", "auto"); !strings.Contains(s, "there are some for NVIDIA") {
		t.Error(s)
	}
	if s := tune(t, exitNoCandidate, "best", "attention", "--store", path, "--objective", "energy"); !strings.Contains(s, "measured energy") {
		t.Error(s)
	}
	// What is wrong with the question or the store comes before that nothing measures energy.
	for _, c := range []struct {
		status      int
		store, want string
		with        []string
	}{
		{exitBadInput, path, "tune: unknown objective \"luck\"", []string{"--objective", "luck"}},
		{exitBadInput, path, "tune: unknown dtype \"f7\"", []string{"--dtype", "f7"}},
		{exitBadInput, path, "tune: --shape is empty", []string{"--shape="}},
		{exitBadInput, filepath.Join(t.TempDir(), "none.db"), "none.db", nil},
		{exitNoCandidate, path, "measured energy", []string{"--device", "nobody's"}},
		{exitNoCandidate, path, "measured energy", []string{"--shape", "B=2,H=8,S=512,D=64"}},
	} {
		args := append([]string{"best", "attention", "--store", c.store, "--objective", "energy"}, c.with...)
		if s := tune(t, c.status, args...); !strings.Contains(s, c.want) {
			t.Errorf("%v: %s", c.with, s)
		}
	}
	if s := tune(t, 0, "best", "attention", "--store", path, "--dtype", "f16"); !strings.Contains(s, "any device (") {
		t.Error(s)
	}
}

func sameNumber(a, b any) bool {
	x, ok := a.(float64)
	if !ok {
		return false
	}
	switch y := b.(type) {
	case float64:
		return x == y
	case int64:
		return x == float64(y)
	}
	return false
}

// Long names do not make the table wider than a terminal.
func TestBestTable(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: newOutput(&out)}
	long := answerView{DeviceName: "Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz", Rule: "same device"}
	long.Candidate, long.Shapes, long.Encoding = "0123456789abcdef", []string{"64x56x56-64", "64x28x28-128", "64x14x14-256"}, "A=1"
	long.MedianNS, long.BaselineNS, long.Speedup, long.Proven, long.Measured = 123.45e6, 234.56e6, 1.9, true, "finals"
	if err := a.printAnswers([]answerView{long}, formatTable); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > tableWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if !strings.Contains(out.String(), "0123456789abcdef  *  123.45 ms  234.56 ms  1.900x   finals  64x56x56-64,64x28x28-128,…  Intel(R) Xeon(R) Platinum 8480C") {
		t.Error(out.String())
	}
}

// TestBestBadInput holds questions that cannot be asked to one line.
func TestBestBadInput(t *testing.T) {
	path := manyCandidates(t, 3, 1)
	for _, c := range []struct{ args, want string }{
		{"--shape B=2,H=8,S=512", "D is missing: the dimensions of attention are B, H, S, D, CAUSAL (0 or 1, 0 when left out)"},
		{"--shape B=2,H=8,S=512,D=64 --shape 2x8x512x64", "stands alone"},
		{"--shape 2x8x512", `attention has no shape "2x8x512": there are`},
		{"--shape=", "--shape is empty"},
		{"--dtype f12", `unknown dtype "f12": there are f64, f32`},
		{"--objective power", `unknown objective "power": there are time and energy`},
		{"--format xml", `unknown format "xml": there are table, json, toml, csv`},
		{"--format csv --json", "exclude each other"},
		{"--top 0", "--top is 0"},
		{"--device B300", `no device is called "B300": there are NVIDIA A100 (0000000000000002)`},
		{"--kernels nowhere --dtype f16", "nowhere"},
		{"--device=", "--device is empty"},
	} {
		if s := tune(t, exitBadInput, append([]string{"best", "attention", "--store", path}, strings.Fields(c.args)...)...); !strings.Contains(s, c.want) {
			t.Errorf("%s: %q, want %q", c.args, s, c.want)
		}
	}
}

// TestQueryBadInput holds queries that cannot be answered to one line.
func TestQueryBadInput(t *testing.T) {
	path := manyCandidates(t, 3, 1)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{`index > "a"`}, `column 7 of "index > \"a\"": invalid operation: > (mismatched types int and string)`},
		{[]string{"index"}, "expected bool, but got int"},
		{[]string{"genome.NOBODY > 1"}, `column 8 of "genome.NOBODY > 1": no candidate has a gene NOBODY: there are `},
		{[]string{"true", "--sort", "speed"}, "unknown name speed"},
		{[]string{"true", "--sort", "genome.NOBODY"}, "no candidate has a gene NOBODY"},
		{[]string{"true", "--kernel", "nobody"}, `no campaign has tuned the kernel "nobody": there are attention, softmax, rmsnorm`},
		{[]string{"true", "--campaign", "nobody"}, `campaign "nobody": not found`},
		{[]string{"true", "--limit", "-1"}, "--limit is -1"},
		{[]string{"true", "--format", "toml"}, `unknown format "toml": there are table, json, csv`},
		{nil, "accepts 1 arg"},
	} {
		if s := tune(t, exitBadInput, append([]string{"query", "--store", path}, c.args...)...); !strings.Contains(s, c.want) {
			t.Errorf("%q: %q, want %q", c.args, s, c.want)
		}
	}
	// Of those that are found none has it, but others do.
	if s := tune(t, 0, "query", `kernel == "softmax"`, "--sort", "genome.STAGES", "--store", path); !strings.Contains(s, "1 of 3 candidates") {
		t.Error(s)
	}
	if s := tune(t, 0, "query", "false", "--json", "--store", path); s != "[]\n" {
		t.Errorf("nothing is %q", s)
	}
	if s := tune(t, 0, "query", "proven", "--format", "csv", "--store", path); strings.Count(s, "\n") != 4 {
		t.Errorf("three winners and a header:\n%s", s)
	}
	if s := tune(t, 0, "query", "genome.STAGES > 0 || true", "--limit", "0", "--store", path); !strings.Contains(s, "3 of 3 candidates") || strings.Contains(s, "are shown") {
		t.Error(s)
	}
}

// Nothing is a list, too.
func TestNoCampaigns(t *testing.T) {
	path := manyCandidates(t, 0, 0)
	if s := tune(t, exitOK, "list", "--json", "--store", path); s != "[]\n" {
		t.Errorf("list: %q", s)
	}
	if s := tune(t, exitOK, "merge", path, "--into", path+".all", "--json"); !strings.Contains(s, `"campaigns": [],`) {
		t.Errorf("merge: %s", s)
	}
}

// TestUnknownKernel asks for one whose definition is not there.
func TestUnknownKernel(t *testing.T) {
	path := manyCandidates(t, 1, 1)
	for _, c := range []struct{ args, want string }{
		{"--shape N=3", "--shape N=3: dimensions need the definition of the kernel; the name of a shape does not: unknown kernel"},
		{"--dtype f32", "--dtype needs the definition of the kernel: unknown kernel"},
	} {
		if s := tune(t, exitBadInput, append([]string{"best", "attentive", "--store", path}, strings.Fields(c.args)...)...); !strings.Contains(s, c.want) {
			t.Errorf("%s: %q, want %q", c.args, s, c.want)
		}
	}
	if s := tune(t, exitNoCandidate, "best", "attentive", "--store", path, "--shape", "512"); !strings.Contains(s, "no campaign has tuned it") {
		t.Error(s)
	}
}

// TestQueryOverASocket asks a store that is held and compares with the file.
func TestQueryOverASocket(t *testing.T) {
	path := manyCandidates(t, 6, 180) // more than a page
	queries := [][]string{
		{"query", "true", "--count"},
		{"query", `verdict == "sanitizer" && kernel == "attention"`, "--json"},
		{"query", "speedup > 2", "--sort", "-speedup", "--format", "csv"},
		{"best", "attention", "--shape", "B=2,H=8,S=700,D=64", "--device", "h200", "--json"},
	}
	var want, got []string
	for _, q := range queries {
		want = append(want, tune(t, 0, append(q, "--store", path)...))
	}
	if want[0] != "1080\n" {
		t.Errorf("counted %q", want[0])
	}
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing was written
	stop, err := server.Serve(s)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, q := range queries {
		got = append(got, tune(t, 0, append(q, "--store", path)...))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-file +socket):\n%s", diff)
	}
}

// BenchmarkAsk runs whole commands, without starting a process, on a store of 100,000
// candidates.
func BenchmarkAsk(b *testing.B) {
	path := manyCandidates(b, 100, 1000)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"best/any", []string{"best", "attention"}},
		{"best/device", []string{"best", "attention", "--device", "h200"}},
		{"best/softmax,nearest", []string{"best", "softmax", "--device", "h200", "--shape", "ROWS=5000,COLS=1000"}},
		{"best/attention,nearest", []string{"best", "attention", "--device", "h200", "--shape", "B=2,H=8,S=1024,D=64"}},
		{"best/attention,top=100", []string{"best", "attention", "--device", "h200", "--shape", "B=2,H=8,S=1024,D=64", "--top", "100"}},
		{"query/verdict", []string{"query", `verdict == "sanitizer"`, "--count"}},
		{"query/genes", []string{"query", `verdict == "sanitizer" && genome.STAGES > 2`}},
		{"query/sorted", []string{"query", "speedup > 1.5", "--sort", "-speedup"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if code := run(context.Background(), append(c.args, "--store", path), nil, io.Discard, io.Discard); code != exitOK {
					b.Fatalf("exit status %d", code)
				}
			}
		})
	}
}
