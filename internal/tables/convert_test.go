package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
)

// A fataler is a test, or a check of random tables.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// content is all that a table holds, to be compared. The order of keys means
// nothing.
func content(tb fataler, t *Table) any {
	tb.Helper()
	var b bytes.Buffer
	if err := t.encodeCompact(&b); err != nil {
		tb.Fatal(err)
	}
	return scalar(b.Bytes())
}

// through writes a table in a form and reads it back.
func through(tb fataler, t *Table, form string) *Table {
	tb.Helper()
	var b bytes.Buffer
	if err := t.Write(form, &b); err != nil {
		tb.Fatal(err)
	}
	if !json.Valid(b.Bytes()) {
		tb.Fatalf("%s is no JSON:\n%s", form, b.String())
	}
	back, err := Read(bytes.NewReader(b.Bytes()), "a file")
	if err != nil {
		tb.Fatalf("%v\n%s", err, b.String())
	}
	notices := slices.DeleteFunc(back.Notices(), func(n string) bool { return strings.HasPrefix(n, "its objective is") })
	if back.Form() != form || len(notices) > 0 {
		tb.Fatalf("a file in the form %s is read as %s, with %q", form, back.Form(), back.Notices())
	}
	return back
}

// holding are the forms that lose nothing.
var holding = func() (names []string) {
	for _, f := range Forms() {
		if f.Drops == "" {
			names = append(names, f.Name)
		}
	}
	return names
}()

// lossless sends a table on a tour of the forms, on which each follows each, itself too, once.
func lossless(tb fataler, t *Table) {
	tb.Helper()
	size := func(t *Table) float64 {
		s, err := t.Space()
		if err != nil {
			tb.Fatal(err)
		}
		return s.Size()
	}
	want, genomes := content(tb, t), size(t)
	at := t
	visit := func(form string) {
		from := at.Form()
		at = through(tb, at, form)
		if diff := cmp.Diff(want, content(tb, at)); diff != "" {
			tb.Fatalf("from %s to %s:\n%s", from, form, diff)
		}
		if got := size(at); got != genomes {
			tb.Fatalf("from %s to %s the space has %g genomes, not %g", from, form, got, genomes)
		}
	}
	visit(holding[0])
	var tour func(i int)
	tour = func(i int) { // from i to itself, to all later ones and back
		visit(holding[i])
		for j := i + 2; j < len(holding); j++ {
			visit(holding[j])
			visit(holding[i])
		}
		if i+1 < len(holding) {
			visit(holding[i+1])
			tour(i + 1)
			visit(holding[i])
		}
	}
	tour(0)
}

// A made file is drawn as another program might write it.
type made struct {
	t       *rapid.T
	names   []string
	values  [][]any
	configs [][]int
}

func draw(t *rapid.T) made {
	m := made{t: t}
	kinds := [][]any{
		{1, 2, 4, 8}, {0.5, 1.0, 1e6, 2e-7}, {true, false}, {"row", "column major", "ü<&>"}, {3},
	}
	total := 1
	for i, kind := range rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 3).Draw(t, "kinds") {
		m.names = append(m.names, fmt.Sprintf("p%d", i))
		n := rapid.IntRange(1, len(kind)).Draw(t, "values")
		m.values = append(m.values, kind[:n])
		total *= n
	}
	for _, rank := range rapid.SliceOfNDistinct(rapid.IntRange(0, total-1), 1, 6, rapid.ID[int]).Draw(t, "ranks") {
		digits := make([]int, len(m.values))
		for i := range digits {
			digits[i] = rank % len(m.values[i])
			rank /= len(m.values[i])
		}
		m.configs = append(m.configs, digits)
	}
	return m
}

func (m made) ms(label string) float64     { return rapid.Float64Range(1e-6, 1e6).Draw(m.t, label) }
func (m made) maybe(label string) bool     { return rapid.Bool().Draw(m.t, label) }
func (m made) word(words ...string) string { return rapid.SampledFrom(words).Draw(m.t, "word") }

// anything is a value that a form has no words for.
func (m made) anything() any {
	return rapid.SampledFrom([]any{
		12.5, "text with \"quotes\" \u2028", []any{1, 2.25, "x"}, true, nil, map[string]any{"deep": []any{nil, 1e300}}, json.Number("12345678901234567890"),
	}).Draw(m.t, "anything")
}

func (m made) configuration(digits []int) map[string]any {
	o := map[string]any{}
	for i, k := range digits {
		o[m.names[i]] = m.values[i][k]
	}
	return o
}

// samples sometimes are there.
func (m made) samples(o map[string]any, key string) {
	if m.maybe("samples") {
		o[key] = []float64{m.ms("sample"), m.ms("sample"), m.ms("sample")}
	}
}

func (m made) text(o map[string]any) string {
	text, err := compactJSON(o)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// cacheFile is a file as Kernel Tuner writes it.
func (m made) cacheFile() string {
	params := map[string]any{}
	for i, name := range m.names {
		params[name] = m.values[i]
	}
	head := map[string]any{
		"device_name": "a card", "kernel_name": "a kernel", "problem_size": []int{4096, 4096},
		"tune_params_keys": m.names, "tune_params": params, "objective": m.word("time", "GFLOP/s"),
	}
	if m.maybe("environment") {
		head["environment"] = map[string]any{"driver": "535.1", "host": m.anything()}
		head["schema_version"] = "1.0.0"
	}
	if m.maybe("restrictions") {
		head["restrictions"] = []string{m.names[0] + " == " + m.names[0]}
	}
	var entries []string
	for i, digits := range m.configs {
		entry := m.configuration(digits)
		if m.maybe("failed") {
			entry[m.word("time", "__error__")] = m.word("InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
		} else {
			entry["time"] = m.ms("time")
			entry["GFLOP/s"] = m.ms("metric")
		}
		m.samples(entry, "times")
		if m.maybe("stages") {
			for _, k := range stageKeys[rapid.IntRange(0, 4).Draw(m.t, "from"):] {
				entry[k] = m.ms(k)
			}
		}
		if m.maybe("timestamp") {
			entry["timestamp"] = "2023-01-26 01:05:09.730633+00:00"
		}
		if m.maybe("more") {
			entry[m.word("power", "genome", "name", "configuration", "x y")] = m.anything()
		}
		entries = append(entries, fmt.Sprintf("\"%d\": %s", i, m.text(entry)))
	}
	return strings.TrimSuffix(m.text(head), "}") + ",\"cache\": {\n" + strings.Join(entries, ",\n") + "}\n}"
}

// resultsFile is a file in the T4 format, of evotune or another program.
func (m made) resultsFile() string {
	var results []any
	described := m.maybe("described")
	for _, digits := range m.configs {
		configuration := m.configuration(digits)
		times := map[string]any{}
		result := map[string]any{"configuration": configuration, "times": times}
		objective := "time"
		if m.maybe("objectives") {
			objective = m.word("time", "kernel time")
			result["objectives"] = []any{objective, "power"}
		}
		measurements := []any{}
		if m.maybe("failed") {
			result["invalidity"] = m.word("timeout", "compile", "runtime", "correctness", "constraints")
			result["correctness"] = rapid.SampledFrom([]any{0, 1, 0.5}).Draw(m.t, "correctness")
			measurements = append(measurements, map[string]any{"name": objective, "value": "it failed", "unit": "ms"})
		} else {
			result["invalidity"], result["correctness"] = "correct", 1
			measurements = append(measurements, map[string]any{"name": objective, "value": m.ms("time"), "unit": m.word("ms", "us", "ns", "seconds")})
		}
		for range rapid.IntRange(0, 3).Draw(m.t, "measurements") {
			o := map[string]any{"name": m.word("power", "GFLOP/s", "p0", "timestamp", "units", "verdict", "time"), "value": m.anything()}
			if m.maybe("unit") {
				o["unit"] = m.word("", "W", "GFLOP/s")
			}
			if m.maybe("more of it") {
				o["error"] = m.anything()
			}
			measurements = append(measurements, o)
		}
		result["measurements"] = measurements
		m.samples(times, "runtimes")
		for _, k := range []string{m.word("compilation", "compilation_time"), "validation", "benchmark", "framework", "search_algorithm", "waiting"} {
			if m.maybe(k) {
				times[k] = m.ms(k)
			}
		}
		if m.maybe("timestamp") {
			result["timestamp"] = "2023-01-26T01:05:09Z"
		}
		if m.maybe("more") {
			result["host"] = m.anything()
			if described { // otherwise it would be a parameter
				configuration["not tuned"] = m.anything()
			}
		}
		results = append(results, result)
	}
	file := map[string]any{"results": results}
	if described || m.maybe("metadata") {
		metadata := map[string]any{"timeunit": m.word("milliseconds", "miliseconds", "seconds", "ns")}
		if m.maybe("more") {
			metadata["device"], metadata["kernel"], metadata["environment"] = "a card", "a kernel", m.anything()
			file["schema_version"], file["more"] = "1.0.0", m.anything()
		}
		if described {
			metadata["input"] = m.description()
		}
		file["metadata"] = metadata
	}
	return m.text(file)
}

// description is a T1 description with more in it than is understood.
func (m made) description() map[string]any {
	parameters := []any{}
	for i, name := range m.names {
		parameters = append(parameters, map[string]any{"Name": name, "Type": "int", "Values": m.values[i], "Default": m.values[i][0]})
	}
	return map[string]any{
		"General":             map[string]any{"BenchmarkName": "described", "LoggingLevel": "Info"},
		"ConfigurationSpace":  map[string]any{"TuningParameters": parameters, "Conditions": []any{map[string]any{"Expression": "1 < 2", "Parameters": []string{}, "Why": "so"}}},
		"KernelSpecification": map[string]any{"Language": "CUDA", "Arguments": []any{m.anything()}},
		"Budget":              m.anything(),
	}
}

// What a file holds survives every form, and every two of them.
func TestLossless(t *testing.T) {
	t.Run("cache files", rapid.MakeCheck(func(t *rapid.T) {
		text := draw(t).cacheFile()
		table, err := Read(strings.NewReader(text), "a file")
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		lossless(t, table)
	}))
	t.Run("results", rapid.MakeCheck(func(t *rapid.T) {
		text := draw(t).resultsFile()
		table, err := Read(strings.NewReader(text), "a file")
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		lossless(t, table)
	}))
	t.Run("own", func(t *testing.T) {
		for _, table := range []*Table{Synthetic(300), read(t, small), read(t, strings.Replace(small, `"x < 4 or not fast"`, ``, 1))} {
			lossless(t, table)
		}
		r := recorded(t)
		for _, n := range []int{len(r.Trials), 12} { // all and a sample
			r.Trials = r.Trials[:n]
			whole, err := r.Table()
			if err != nil {
				t.Fatal(err)
			}
			lossless(t, whole) // times to the last bit, verdicts, parameters, constraints, names
			for _, form := range holding {
				var b bytes.Buffer
				if err := r.Write(form, &b); err != nil {
					t.Fatal(err)
				}
				table, err := Read(&b, "a file")
				if err != nil {
					t.Fatal(err)
				}
				lossless(t, table)
			}
		}
	})
}

// Where everything goes, of one configuration: what the property above could not
// see if it were dropped while reading.
func TestNothingIsDropped(t *testing.T) {
	const cache = `{"device_name": "Card", "kernel_name": "k", "problem_size": 64, "objective": "time", "environment": {"driver": "535"},
"tune_params_keys": ["bx"], "tune_params": {"bx": [16, 32]},
"cache": {"16": {"bx": 16, "time": 3.5, "times": [3.25, 3.75], "compile_time": 900, "verification_time": 50.5, "benchmark_time": 49.5, "strategy_time": 2, "framework_time": 3,
"timestamp": "2023-12-22", "GFLOP/s": 12.5, "ok": true}, "32": {"bx": 32, "time": "CompilationFailedConfig"}}}`
	const t4 = `{"metadata": {"timeunit": "us", "device": "Card", "kernel": "k", "host": "h", "input": {"ConfigurationSpace": {"TuningParameters": [{"Name": "bx", "Values": [16, 32]}]}}}, "run": 7, "results": [
{"timestamp": "2023-12-22", "configuration": {"bx": 16, "fixed": 1}, "times": {"compilation": 900000, "validation": 50500, "benchmark": 49500, "search_algorithm": 2000, "framework": 3000, "queue": 5000, "runtimes": [3250, 3750]},
 "invalidity": "correct", "correctness": 0.5, "measurements": [{"name": "time", "value": 3500, "unit": ""}, {"name": "power", "value": 250, "unit": "W"}, {"name": "power", "value": 251, "unit": "W"}], "objectives": ["time", "power"], "note": "n"},
{"configuration": {"bx": 32, "fixed": 1}, "times": {}, "invalidity": "timeout", "correctness": 0}]}`
	for _, c := range []struct{ text, want string }{
		{cache, `{"kerneltuner": {"problem_size": 64, "environment": {"driver": "535"}},
 "configs": [{"times": [3.25, 3.75], "compile_time": 900, "verification_time": 50.5, "benchmark_time": 49.5, "strategy_time": 2, "framework_time": 3, "timestamp": "2023-12-22", "GFLOP/s": 12.5, "ok": true},
  {"verdict": "compile"}]}`},
		{t4, `{"t4": {"run": 7, "metadata": {"host": "h"}}, "t1": {"ConfigurationSpace": {"TuningParameters": [{"Name": "bx", "Values": [16, 32]}]}},
 "configs": [{"times": [3.25, 3.75], "compile_time": 900, "verification_time": 50.5, "benchmark_time": 49.5, "strategy_time": 2, "framework_time": 3, "timestamp": "2023-12-22", "power": 250, "units": {"power": "W"},
   "t4": {"configuration": {"fixed": 1}, "times": {"queue": 5}, "measurements": [{"name": "power", "value": 251, "unit": "W"}], "correctness": 0.5, "objectives": ["time", "power"], "note": "n"}},
  {"verdict": "timeout", "t4": {"configuration": {"fixed": 1}}}]}`},
	} {
		table, err := Read(strings.NewReader(c.text), "a file")
		if err != nil {
			t.Fatal(err)
		}
		all := content(t, table).(map[string]any)
		if diff := cmp.Diff(scalar([]byte(c.want)), all["details"]); diff != "" {
			t.Errorf("details:\n%s", diff)
		}
		if diff := cmp.Diff(scalar([]byte(`[[[0], 3.5, 1], [[1], null, 0]]`)), all["configs"]); diff != "" {
			t.Errorf("rows, three to each:\n%s", diff)
		}
		lossless(t, table)
	}
}

// What one form keeps is in its place in the others.
func TestPlacesInOtherForms(t *testing.T) {
	table, err := Read(strings.NewReader(`{"results": [{"configuration": {"bx": 16}, "times": {"compilation": 1, "runtimes": [3]}, "invalidity": "correct", "correctness": 1,
 "measurements": [{"name": "time", "value": 3, "unit": "ms"}, {"name": "power", "value": 250, "unit": "W"}]}]}`), "a file")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := table.Write(kernelTunerForm, &b); err != nil {
		t.Fatal(err)
	}
	var cache struct {
		Cache map[string]map[string]any `json:"cache"`
	}
	if err := json.Unmarshal(b.Bytes(), &cache); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"bx": 16.0, "time": 3.0, "times": []any{3.0}, "compile_time": 1.0, "verification_time": 0.0, "benchmark_time": 3.0,
		"strategy_time": 0.0, "framework_time": 0.0, "power": 250.0, "units": map[string]any{"power": "W"},
	}
	if diff := cmp.Diff(want, cache.Cache["16"]); diff != "" {
		t.Errorf("the entry:\n%s", diff)
	}
	if !bytes.HasSuffix(b.Bytes(), []byte("}}\n}")) {
		t.Errorf("Kernel Tuner could not go on with a file that ends in %q", b.Bytes()[b.Len()-10:])
	}

	// A cost that is not told by stages is that of the benchmark, and says so.
	b.Reset()
	table = read(t, small)
	if err := table.Write(kernelTunerForm, &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"benchmark_time":500,`, `"cost_s":0.5`, `"2,True":{"x":2,"fast":true,"time":1.5,`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// Python's str, by which Kernel Tuner finds a configuration; the texts were
// printed by Python 3.11.
func TestPlainValue(t *testing.T) {
	for x, want := range map[any]string{
		1e6: "1000000.0", 1e15: "1000000000000000.0", 1e16: "1e+16", 123456789.125: "123456789.125", 1e-4: "0.0001", 1e-5: "1e-05",
		-2.5: "-2.5", 1.0: "1.0", 1e100: "1e+100", int64(-3): "-3", true: "True", "a b": "a b", "(a)": "(a)",
	} {
		if got := plainValue(value(t, x)); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}

// The cache of an interrupted run is read up to the last whole configuration,
// wherever it ends.
func TestInterrupted(t *testing.T) {
	whole := strings.TrimSuffix(foreignCache, ",") + "}\n}"
	want, err := Read(strings.NewReader(whole), "file")
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{}
	for i, w := range want.rows {
		end := len(whole) - len("}\n}")
		if i+1 < len(want.rows) {
			end = int(want.rows[i+1].offset) - len(",\n")
		}
		ends = append(ends, end)
		_ = w
	}
	for cut := strings.Index(whole, `"Card"`); cut < len(whole); cut++ {
		n := 0
		for n < len(ends) && ends[n] <= cut {
			n++
		}
		table, err := Read(strings.NewReader(whole[:cut]+"\n"), "file")
		if n == 0 {
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "the file ends too early") {
				t.Fatalf("cut after %d bytes: %v", cut, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
		if table.Len() != n || table.rows[n-1].rank != want.rows[n-1].rank {
			t.Fatalf("cut after %d bytes: %d configurations, want %d", cut, table.Len(), n)
		}
		notices := table.Notices()
		if len(notices) != 1 || !strings.Contains(notices[0], fmt.Sprintf("%d whole configurations are read", n)) {
			t.Fatalf("cut after %d bytes: notices %q", cut, notices)
		}
		rest := strings.Trim(whole[ends[n-1]:cut], "},\n")
		if got := strings.Contains(notices[0], "cut off"); got != (rest != "") {
			t.Fatalf("cut after %d bytes, %q over: notice %q", cut, rest, notices[0])
		}
	}
	// A fault that is no cut is one in such a file, too.
	if _, err := Read(strings.NewReader(strings.Replace(foreignCache, `"by": 2, "time": 1e20}`, `"by" 2, "time"`, 1)), "file"); !errors.Is(err, ErrFormat) {
		t.Errorf("error %v", err)
	}
}

// With another objective than the time a failure stands under its key.
func TestFailureUnderTheObjective(t *testing.T) {
	table, err := Read(strings.NewReader(`{"tune_params_keys": ["a"], "tune_params": {"a": [1, 2]}, "objective": "GFLOP/s",
"cache": {"1": {"a": 1, "GFLOP/s": "InvalidConfig"}, "2": {"a": 2, "time": 1, "GFLOP/s": 3}}}`), "file")
	if err != nil {
		t.Fatal(err)
	}
	if got := table.rows[0].Failed; got != evaluator.Infeasible {
		t.Errorf("the verdict is %q", got)
	}
	lossless(t, table)
}

// A T1 description beside the file gives values and constraints.
func TestDescribed(t *testing.T) {
	const description = `{"General": {"BenchmarkName": "b"}, "KernelSpecification": {"Language": "CUDA"},
"ConfigurationSpace": {"TuningParameters": [{"Name": "mode", "Type": "string", "Values": "['a', 'b']"}, {"Name": "bx", "Type": "int", "Values": "[16, 32, 64]"}],
 "Conditions": [{"Expression": "bx < 64 or mode == 'a'", "Parameters": ["bx", "mode"]}]}}`
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t1 := file("t1.json", description)
	cache := `{"tune_params_keys": ["bx", "mode"], "tune_params": {"bx": [16, 32], "mode": ["a"]}, "cache": {"16,a": {"bx": 16, "mode": "a", "time": 1}}}`
	for _, path := range []string{file("t4.json", foreignT4), file("cache.json", cache)} {
		table, err := LoadDescribed(path, t1)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range table.params {
			names = append(names, fmt.Sprint(p.Name, len(p.Values)))
		}
		if !slices.Equal(names, []string{"mode2", "bx3"}) || !slices.Equal(table.Constraints(), []string{"bx < 64 or mode == 'a'"}) {
			t.Errorf("parameters %v, constraints %v", names, table.Constraints())
		}
		lossless(t, table)
		var b bytes.Buffer
		if err := table.Write(t1Form, &b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(scalar([]byte(description)), scalar(b.Bytes())); diff != "" {
			t.Errorf("the description:\n%s", diff)
		}
	}
	for _, c := range []struct{ path, t1, want string }{
		{file("small.json", small), t1, "small.json:1:1: not a usable recorded space: the compact form has constraints of its own"},
		{file("restricted.json", strings.Replace(cache, `"tune_params_keys"`, `"restrictions": ["bx < 99"], "tune_params_keys"`, 1)), t1, "constraints of its own"},
		{file("other.json", strings.ReplaceAll(cache, "mode", "node")), t1, "the T1 description has no parameter node"},
		{file("t4.json", foreignT4), file("bad.json", strings.Replace(description, "bx < 64 or", "bx < or", 1)), `bad.json: not a usable recorded space: condition "bx < or mode == 'a'": column 6`},
		{file("t4.json", foreignT4), file("cut.json", description[:40]), "cut.json:1:41: not a usable recorded space: the file ends too early"},
		{file("t4.json", foreignT4), file("twice.json", strings.Replace(description, `"Name": "mode"`, `"Name": "mode", "Name": "node"`, 1)), `key "Name" is there twice in TuningParameters[0]`},
		{file("t4.json", foreignT4), file("case.json", strings.Replace(description, `"Name": "mode"`, `"name": "mode"`, 1)), `key "name" is spelled "Name"`},
		{t1, "", "t1.json:1:1: not a usable recorded space: a T1 description has no results"},
	} {
		if _, err := LoadDescribed(c.path, c.t1); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
	if _, err := LoadDescribed(filepath.Join(dir, "t4.json"), filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// A configuration may be recorded as one that the constraints forbid.
func TestRecordedAsForbidden(t *testing.T) {
	text := `{"tune_params_keys": ["a"], "tune_params": {"a": [1, 2, 3]}, "restrictions": ["a < 3"],
"cache": {"1": {"a": 1, "time": 2}, "3": {"a": 3, "time": "InvalidConfig"}}}`
	table, err := Read(strings.NewReader(text), "file")
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Space()
	if err != nil || s.Size() != 1 { // 2 is not recorded, 3 not allowed
		t.Errorf("%g genomes, %v", s.Size(), err)
	}
	if ok, err := table.Complete(); !ok || err != nil {
		t.Errorf("Complete() = %v, %v", ok, err)
	}
	lossless(t, table)
	if _, err := Read(strings.NewReader(strings.Replace(text, `"InvalidConfig"`, "5", 1)), "file"); !errors.Is(err, ErrFormat) {
		t.Errorf("a time where the constraints forbid it: %v", err)
	}
}

// Faults of the details, a line each.
func TestDetailFaults(t *testing.T) {
	for details, want := range map[string]string{
		`{"configs": [{}]}`:                        "details of 1 configurations; there are 5",
		`{"configs": [{}, {}, {}, {}, {}, {}]}`:    "details of more than the 5 configurations",
		`{"configs": [{"verdict": "compile"}]}`:    `details of configuration 1: the verdict "compile" is not that of a configuration that failed`,
		`{"configs": [{"time": 3}]}`:               `key "time" is not expected here`,
		`{"configs": [{"compile_time": 3}]}`:       "sum to 0.003 s; its cost is 0.5 s",
		`{"configs": [{"compile_time": "3"}]}`:     "compile_time: 3 is not a number",
		`{"configs": [{"units": {"x": 3}}]}`:       "units: the unit of x is not a text",
		`{"configs": [{"units": {"x": "W"}}]}`:     "units: x has one and is not a measurement of the configuration",
		`{"configs": [{"t4": {"invalidity": 3}}]}`: `t4: key "invalidity" is not expected here`,
		`{"configs": [7]}`:                         "details of configuration 1 must be an object, not 7",
		`{"t4": {"results": []}}`:                  `t4: key "results" is not expected here`,
		`{"t4": {"metadata": {"device": "x"}}}`:    `t4: key "device" is not expected here`,
		`{"kerneltuner": {"cache": {}}}`:           `kerneltuner: key "cache" is not expected here`,
		`{"t1": []}`:                               "t1 must be an object, not [",
		`{"unrecorded": 3}`:                        "unrecorded must be a string",
		`{"extra": 3}`:                             `unknown key "extra" in the details`,
		`[]`:                                       `details: "{" expected`,
	} {
		text := strings.TrimSuffix(small, "}") + ",\n\"details\": " + details + "}"
		_, err := Read(strings.NewReader(text), "small.json")
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "replay: small.json:8:") {
			t.Errorf("%s: %v\nwant %s", details, err, want)
		}
	}
}

func value(tb testing.TB, x any) genome.Value {
	tb.Helper()
	v, err := genome.ValueOf(x)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// A description that is no longer true of the table does not change its space.
func TestStaleDescription(t *testing.T) {
	stale := `, "details": {"t1": {"ConfigurationSpace": {"TuningParameters": [{"Name": "x", "Values": "[1, 2, 4]"}, {"Name": "fast", "Values": "[True, False]"}]}}}}`
	table := read(t, strings.TrimSuffix(small, "}")+stale)
	for _, form := range holding {
		back := through(t, table, form)
		if !slices.Equal(back.Constraints(), table.Constraints()) || !slices.Equal(back.params[1].Values, table.params[1].Values) {
			t.Errorf("%s: constraints %q, values %v", form, back.Constraints(), back.params[1].Values)
		}
	}
}
