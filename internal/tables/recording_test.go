package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/kernels"
)

// declared is a space with all that tables have no words of their own for:
// alternatives, genes that exist under conditions, constants, two shapes.
func declared(tb testing.TB) (*genome.Space, Declaration) {
	tb.Helper()
	ints := func(v ...int64) (out []genome.Value) {
		for _, x := range v {
			out = append(out, genome.Int(x))
		}
		return out
	}
	d := Declaration{
		Choice: "how",
		Alternatives: []genome.Alternative{
			{Name: "plain", Genes: []genome.Gene{
				{Name: "tile", Values: ints(8, 16, 32), Ordinal: true},
				{Name: "lanes", Values: ints(1, 2, 3, 4), Ordinal: true},
				{Name: "deep", Values: []genome.Value{genome.Bool(false), genome.Bool(true)}},
				{Name: "ahead", Values: ints(1, 2, 4), Ordinal: true, When: "deep and LEVELS > 1"},
				{Name: "hint", Values: []genome.Value{genome.Str("near"), genome.Str("far")}, When: "ahead > 1"},
			}, Constraints: []genome.Constraint{
				{Expr: "tile * (hint == 'far' ? 2 : 1) <= 32", Why: "w"},
				{Expr: "ahead in 1..2 or tile < 32", Why: "w"},
				{Expr: "tile < 2*SIZE || tile == 8", Why: "w"},
			}},
			{Name: "wide", Genes: []genome.Gene{
				{Name: "tile", Values: ints(16, 64), Ordinal: true},
				{Name: "scale", Values: []genome.Value{genome.Float(-0.5), genome.Float(1)}, Ordinal: true},
			}, Constraints: []genome.Constraint{
				{Expr: "not (tile == 64 and scale < 0)", Why: "w"},
				{Expr: "max(tile, SIZE) % 2 == 0 && int(ceil(SIZE/tile)) >= 1", Why: "w"},
			}},
		},
		Envs: []map[string]any{{"SIZE": 64, "LEVELS": 1}, {"SIZE": 16, "LEVELS": 2}},
	}
	space, err := genome.NewUnion(d.Choice, d.Alternatives, d.Envs...)
	if err != nil {
		tb.Fatal(err)
	}
	return space, d
}

// recorded measures a space by a formula, with every verdict among the results.
func recorded(tb testing.TB) *Recording {
	tb.Helper()
	space, d := declared(tb)
	rules, left := d.Rules(space)
	if len(left) > 0 {
		tb.Fatalf("not said in Python: %q", left)
	}
	r := &Recording{
		Name: "made-up", Entry: "entry", Device: "no device <tested>", Backend: "cpu",
		Shapes: []string{"one"}, Size: []int64{64}, Started: time.Unix(1, 0), Version: "v0", Space: space, Rules: rules,
	}
	i := 0
	for g := range space.All() {
		i++
		ns := 1e5 * math.Sqrt(float64(i))
		trial := Trial{Genome: g, At: time.Unix(int64(i), 0)}
		trial.Result = evaluator.Result{Verdict: evaluator.Correct, Fitness: ns / 3e5, Cost: 1500 * time.Millisecond}
		trial.Result.Steps = []evaluator.Step{
			{Stage: evaluator.StageRender, Elapsed: time.Millisecond},
			{Stage: evaluator.StageCompile, Elapsed: 100 * time.Millisecond},
			{Stage: evaluator.StageParity, Elapsed: 200 * time.Millisecond},
			{Stage: evaluator.StageBenchmark, Elapsed: 400 * time.Millisecond},
		}
		trial.Result.Timings = []evaluator.Timing{{Shape: "one", SamplesNS: []float64{ns, ns + 1, ns - 1}, MedianNS: ns, BaselineMedianNS: 3e5}}
		if verdicts := evaluator.Verdicts(); i <= len(verdicts) {
			if v := verdicts[i-1]; v != evaluator.Correct {
				trial.Result.Verdict, trial.Result.Reason, trial.Result.Timings, trial.Result.Fitness = v, "why", nil, 0
			}
		}
		r.Trials = append(r.Trials, trial)
	}
	return r
}

// Rules describe exactly the valid genomes: the table of a whole space is
// complete.
func TestRulesAreComplete(t *testing.T) {
	r := recorded(t)
	table, err := r.Table()
	if err != nil {
		t.Fatal(err)
	}
	// One result is the machine's fault and one is of a slower candidate, which nothing checked: both
	// are left out, so two genomes are missing.
	s, err := table.Space()
	if err != nil {
		t.Fatal(err)
	}
	if want := r.Space.Size(); s.Size() != want || table.Len() != int(want)-2 {
		t.Errorf("%g genomes in the table's space, %d recorded; the declared space has %g\n%s", s.Size(), table.Len(), want, strings.Join(r.Rules, "\n"))
	}
}

// The same for every built-in kernel, on the devices that they are for.
func TestRulesOfKernels(t *testing.T) {
	catalogue, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]any{"device_max_shared_bytes": 227 << 10, "device_capability": 90, "device_cores": 132}
	for _, name := range catalogue.Names() {
		all, err := catalogue.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, backend := range kernels.Backends() {
			def := all.On(backend)
			if len(def.Implementations) == 0 {
				continue
			}
			t.Run(name+" "+backend, func(t *testing.T) {
				shapes := def.Problem.ShapesFor(kernels.Tune)[:1]
				space, err := def.Space(def.Implementations, shapes, limits)
				if err != nil {
					t.Fatal(err)
				}
				var d Declaration
				for _, im := range def.Implementations {
					d.Alternatives = append(d.Alternatives, genome.Alternative{Name: im.Name, Genes: im.Parameters, Constraints: im.Constraints})
				}
				if len(d.Alternatives) > 1 {
					d.Choice = space.Genes()[0].Name
				}
				env := map[string]any{}
				for _, l := range kernels.Limits() {
					env[l.Name] = l.Default
				}
				for k, v := range limits {
					env[k] = v
				}
				for k, v := range shapes[0].Dims {
					env[k] = v
				}
				d.Envs = []map[string]any{env}
				rules, left := d.Rules(space)
				for _, l := range left {
					t.Logf("not said in Python: %s", l)
				}
				rec := &Recording{Name: name, Space: space, Rules: rules}
				rng := rand.New(rand.NewSource(1))
				seen := map[genome.Genome]bool{}
				for range 50 {
					if g := space.Random(rng); !seen[g] {
						seen[g] = true
						rec.Trials = append(rec.Trials, Trial{Genome: g, Result: evaluator.Result{Verdict: evaluator.Launch}})
					}
				}
				table, err := rec.Table() // proves the genomes valid under the rules
				if err != nil {
					t.Fatal(err)
				}
				if !space.Exact() {
					t.Skipf("the space is too large to be counted (about %.3g): its size was not compared", space.Size())
				}
				s, err := table.Space()
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case !s.Exact():
					t.Skipf("by its rules the space is too large to be counted: its size was not compared")
				case s.Size() < space.Size(), s.Size() != space.Size() && len(left) == 0:
					t.Errorf("%g genomes by the rules, %g by the declaration\n%s", s.Size(), space.Size(), strings.Join(rules, "\n"))
				}
			})
		}
	}
}

// What Python cannot say is left out and named, and the rest is there.
func TestRulesLeft(t *testing.T) {
	ab := []genome.Value{genome.Int(1), genome.Int(2), genome.Int(4)}
	d := Declaration{Alternatives: []genome.Alternative{{
		Genes: []genome.Gene{{Name: "a", Values: ab}, {Name: "b", Values: ab}},
		Constraints: []genome.Constraint{
			{Expr: "bitand(a, b) == 0", Why: "w"},
			{Expr: "a != 4", Why: "w"},
		},
	}}}
	space, err := genome.NewSpace(d.Alternatives[0].Genes, d.Alternatives[0].Constraints)
	if err != nil {
		t.Fatal(err)
	}
	rules, left := d.Rules(space)
	if !slices.Equal(rules, []string{"(a != 4)"}) || len(left) != 1 || !strings.Contains(left[0], "bitand") {
		t.Errorf("rules %q, left %q", rules, left)
	}
}

// Every form gives each trial back: its time to the last bit, and its verdict.
func TestFormsRoundTrip(t *testing.T) {
	r := recorded(t)
	table, err := r.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range holding {
		back := through(t, table, form)
		space, err := back.Space()
		if err != nil {
			t.Fatal(err)
		}
		verdicts := map[evaluator.Verdict]bool{}
		for _, trial := range r.recorded() {
			values := map[string]any{}
			for i, k := range r.indices(trial.Genome) {
				values[r.Space.Genes()[i].Name] = r.Space.Genes()[i].Values[k]
			}
			g, err := space.FromMap(values)
			if err != nil {
				t.Fatal(err)
			}
			want := Row{TimeMS: timeMS(trial.Result)}
			if v := trial.Result.Verdict; v != evaluator.Correct {
				want = Row{Failed: v}
			}
			verdicts[want.Failed] = true
			if w, ok := back.Lookup(g); !ok || w.TimeMS != want.TimeMS || w.Failed != want.Failed {
				t.Errorf("%s: %s: %+v, %v; want %+v", form, trial.Genome, w, ok, want)
			}
		}
		if len(verdicts) != len(evaluator.Verdicts())-2 || verdicts[evaluator.Slower] {
			t.Errorf("the verdicts %v, want all but infrastructure and slower", verdicts)
		}
	}
}

// What other programs read is where they look for it.
func TestFormsAsOthersReadThem(t *testing.T) {
	r := recorded(t)
	write := func(form string, into any) {
		t.Helper()
		var b bytes.Buffer
		if err := r.Write(form, &b); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	var t4 struct {
		SchemaVersion string `json:"schema_version"`
		Metadata      struct{ Device, Autotuner, TimeUnit string }
		Results       []struct {
			Timestamp     time.Time
			Configuration map[string]any
			Times         struct {
				CompilationTime float64 `json:"compilation_time"`
				Validation      float64
				Framework       float64
				SearchAlgorithm *float64 `json:"search_algorithm"`
				Runtimes        []float64
			}
			Invalidity   string
			Correctness  int
			Measurements []struct {
				Name  string
				Value any
				Unit  string
			}
			Objectives []string
		}
	}
	write("t4", &t4)
	if t4.SchemaVersion != t4Version || t4.Metadata.TimeUnit != "milliseconds" || t4.Metadata.Autotuner != "evotune" || t4.Metadata.Device != r.Device {
		t.Errorf("head: %s, %+v", t4.SchemaVersion, t4.Metadata)
	}
	last := t4.Results[len(t4.Results)-1]
	if last.Times.CompilationTime != 101 || last.Times.Validation != 200 || last.Times.Framework != 799 || last.Times.SearchAlgorithm == nil || len(last.Times.Runtimes) != 3 {
		t.Errorf("times in milliseconds: %+v", last.Times)
	}
	if m := last.Measurements[0]; m.Name != "time" || m.Unit != "ms" || m.Value != timeMS(r.Trials[len(r.Trials)-1].Result) || !slices.Equal(last.Objectives, []string{"time"}) {
		t.Errorf("measurement %+v, objectives %v", m, last.Objectives)
	}
	mapping := map[string]string{}
	for i, res := range t4.Results {
		v := r.recorded()[i].Result.Verdict
		mapping[string(v)] = res.Invalidity
		if (res.Correctness == 1) != (v == evaluator.Correct) || len(res.Configuration) != len(r.Space.Genes()) {
			t.Errorf("result %d: %+v", i, res)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"correct": "correct", "infeasible": "constraints", "render": "compile", "compile": "compile", "inspect": "compile",
		"launch": "runtime", "timeout": "timeout", "parity": "correctness", "sanitizer": "correctness", "implausible": "correctness",
	}, mapping); diff != "" {
		t.Errorf("invalidity by verdict:\n%s", diff)
	}

	var cache struct {
		SchemaVersion  string                    `json:"schema_version"`
		DeviceName     string                    `json:"device_name"`
		KernelName     string                    `json:"kernel_name"`
		ProblemSize    []int                     `json:"problem_size"`
		TuneParamsKeys []string                  `json:"tune_params_keys"`
		TuneParams     map[string][]any          `json:"tune_params"`
		Objective      string                    `json:"objective"`
		Cache          map[string]map[string]any `json:"cache"`
	}
	write("kerneltuner", &cache)
	if cache.SchemaVersion != cacheVersion || cache.DeviceName != r.Device || cache.KernelName != r.Name || !slices.Equal(cache.ProblemSize, []int{64}) || cache.Objective != "time" {
		t.Errorf("head: %+v", cache)
	}
	errorsSeen := map[string]bool{}
	for key, entry := range cache.Cache {
		var parts []string
		for _, k := range cache.TuneParamsKeys {
			s := fmt.Sprint(entry[k])
			if b, ok := entry[k].(bool); ok {
				s = map[bool]string{false: "False", true: "True"}[b]
			}
			if k == "scale" && s == "1" {
				s = "1.0" // a float to Python
			}
			parts = append(parts, s)
		}
		if want := strings.Join(parts, ","); key != want {
			t.Errorf("key %q of the configuration %q", key, want)
		}
		for _, k := range []string{"compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"} {
			if _, ok := entry[k].(float64); !ok {
				t.Errorf("%s: %s is %v", key, k, entry[k])
			}
		}
		if _, err := time.Parse(time.RFC3339, entry["timestamp"].(string)); err != nil {
			t.Error(err)
		}
		if s, ok := entry["time"].(string); ok {
			errorsSeen[s] = true
			if entry["__error__"] != s {
				t.Errorf("%s: time %q, error %v", key, s, entry["__error__"])
			}
		} else if len(entry["times"].([]any)) != 3 {
			t.Errorf("%s: times %v", key, entry["times"])
		}
	}
	if len(errorsSeen) != 3 || len(cache.Cache) != len(r.recorded()) {
		t.Errorf("errors %v, %d entries", errorsSeen, len(cache.Cache))
	}

	var t1 struct {
		General            struct{ BenchmarkName, TimeUnit string }
		ConfigurationSpace struct {
			TuningParameters []struct{ Name, Type, Values string }
			Conditions       []struct {
				Parameters []string
				Expression string
			}
		}
		KernelSpecification struct {
			Language, KernelName  string
			GlobalSize, LocalSize struct{ X string }
		}
	}
	write("t1", &t1)
	if t1.General.BenchmarkName != r.Name || t1.KernelSpecification.KernelName != "entry" || t1.KernelSpecification.LocalSize.X == "" {
		t.Errorf("%+v", t1)
	}
	for i, want := range []struct{ Name, Type, Values string }{
		{"how", "string", "['plain', 'wide']"},
		{"tile", "int", "[8, 16, 32, 64]"},
		{"lanes", "int", "[1, 2, 3, 4]"},
		{"deep", "bool", "[False, True]"},
		{"ahead", "int", "[1, 2, 4]"},
		{"hint", "string", "['near', 'far']"},
		{"scale", "float", "[(-0.5), 1.0]"},
	} {
		if got := t1.ConfigurationSpace.TuningParameters[i]; got != want {
			t.Errorf("parameter %d is %+v, want %+v", i, got, want)
		}
	}
	for _, c := range t1.ConfigurationSpace.Conditions {
		if len(c.Parameters) == 0 || c.Expression == "" {
			t.Errorf("condition %+v", c)
		}
	}
}

// Several shapes make one time, and keep their samples.
func TestSeveralShapes(t *testing.T) {
	r := recorded(t)
	r.Shapes = []string{"one", "two"}
	for i := range r.Trials {
		if tm := &r.Trials[i].Result.Timings; len(*tm) > 0 {
			two := (*tm)[0]
			two.Shape, two.MedianNS = "two", 4*two.MedianNS
			*tm = append(*tm, two)
		}
	}
	last := r.Trials[len(r.Trials)-1].Result
	if got, want := timeMS(last), 2*last.Timings[0].MedianNS/1e6; math.Abs(got-want) > 1e-12*want {
		t.Errorf("%g ms, want %g", got, want)
	}
	table, err := r.Table()
	if err != nil {
		t.Fatal(err)
	}
	if got := table.rows[len(table.rows)-1].TimeMS; got != timeMS(last) {
		t.Errorf("%g ms, want %g", got, timeMS(last))
	}
	lossless(t, table)
}

func TestWriteRefuses(t *testing.T) {
	var b bytes.Buffer
	r := recorded(t)
	if err := r.Write("xml", &b); err == nil || !strings.Contains(err.Error(), "compact, t4, t1, kerneltuner") {
		t.Errorf("error %v", err)
	}
	odd := func(name, value string) *Recording {
		space, err := genome.NewSpace([]genome.Gene{{Name: name, Values: []genome.Value{genome.Str(value)}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := *recorded(t)
		o.Space, o.Rules = space, nil
		o.Trials = []Trial{{Genome: space.Random(rand.New(rand.NewSource(1))), Result: evaluator.Result{Verdict: evaluator.Launch}}}
		return &o
	}
	for _, c := range []struct {
		form, name, value, want string
	}{
		{"kerneltuner", "time", "x", "called time"},
		{"t4", "a", "it's", "quotes"},
		{"t1", "a", `b\`, "quotes"},
	} {
		if err := odd(c.name, c.value).Write(c.form, &b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s=%s: error %v, want one about %q", c.form, c.name, c.value, err, c.want)
		}
	}
	r.Trials = nil
	if err := r.Write("compact", &b); err == nil || !strings.Contains(err.Error(), "nothing was recorded") {
		t.Errorf("error %v", err)
	}
	r = recorded(t)
	r.Rules = append(r.Rules, "tile < 0")
	if err := r.Write("kerneltuner", &b); !errors.Is(err, genome.ErrEmpty) {
		t.Errorf("error %v", err)
	}
}

// Files of other programs: less is there than evotune writes, and other words.
const (
	foreignCache = `{
"device_name": "Card", "kernel_name": "stencil", "problem_size": "callable",
"tune_params_keys": ["bx", "by"], "tune_params": {"by": [1, 2], "bx": [16, 32.0]}, "objective": "time",
"metrics": {"GFLOP/s": "x"},
"cache": {
"16,1": {"bx": 16, "by": 1, "time": 3.5, "times": [3.4, 3.6], "compile_time": 900.0, "verification_time": 0, "benchmark_time": 100.0, "strategy_time": 0, "framework_time": 0, "timestamp": "2023-12-22 09:54:05.5+00:00"},
"32,1": {"bx": 32, "by": 1, "time": "RuntimeFailedConfig", "compile_time": 10},
"32,2": {"bx": 32, "by": 2, "__error__": "InvalidConfig"},
"16,2": {"bx": 16, "by": 2, "time": 1e20},`
	foreignT4 = `{"results": [
{"timestamp": "2023", "configuration": {"bx": 32, "mode": "a"}, "times": {"compilation": 661.5, "benchmark": 38.5, "runtimes": [12.25, 12.5, 12.75]},
 "invalidity": "correct", "correctness": 1, "measurements": [{"name": "time", "value": 12.5, "unit": "ms"}], "objectives": ["time"]},
{"configuration": {"bx": 16, "mode": "a"}, "times": {"compilation_time": 300}, "invalidity": "compile", "correctness": 0},
{"configuration": {"bx": 16, "mode": "b"}, "times": {"runtimes": [3, 1, 2]}, "invalidity": "correct", "correctness": 1}
], "schema_version": "1.0.0"}`
)

func TestForeignFiles(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       map[string]string
	}{
		{"cache", foreignCache, map[string]string{
			"bx=16.0,by=1": "3.5 ms, 1 s", "bx=32.0,by=1": "launch, 0.01 s", "bx=32.0,by=2": "infeasible, 0 s", "bx=16.0,by=2": "launch, 0 s",
		}},
		{"closed cache", strings.TrimSuffix(foreignCache, ",") + "}\n}", nil},
		{"t4", foreignT4, map[string]string{
			"bx=32,mode=a": "12.5 ms, 0.7 s", "bx=16,mode=a": "compile, 0.3 s", "bx=16,mode=b": "2 ms, 0.006 s", // without a time for the benchmark, its samples
		}},
		{"t4 in seconds", strings.Replace(strings.Replace(foreignT4, `{"results"`, `{"metadata": {"timeunit": "seconds", "device": "Card"}, "results"`, 1), `"unit": "ms"`, `"unit": ""`, 1), map[string]string{
			"bx=32,mode=a": "12500 ms, 700 s", "bx=16,mode=a": "compile, 300 s", "bx=16,mode=b": "2000 ms, 6 s",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			table, err := Read(strings.NewReader(test.text), "file")
			if err != nil {
				t.Fatal(err)
			}
			s, err := table.Space()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, w := range table.rows {
				g, err := s.FromIndices(table.digits(w.rank))
				if err != nil {
					t.Fatal(err)
				}
				text := string(w.Failed)
				if w.Failed == "" {
					text = fmt.Sprintf("%.6g ms", w.TimeMS)
				}
				got[g.String()] = fmt.Sprintf("%s, %.6g s", text, w.CostS)
			}
			if test.want == nil {
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rows:\n%s", diff)
			}
		})
	}
}

// Where a file says less of the constraints than there were, the space is what it
// records; where it says all, the space is that of the constraints.
func TestListed(t *testing.T) {
	table, err := Read(strings.NewReader(foreignT4), "file")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := table.Space(); err != nil || s.Size() != 3 { // of the 4 combinations
		t.Errorf("%g genomes, error %v", s.Size(), err)
	}
	if ok, err := table.Complete(); !ok || err != nil {
		t.Errorf("Complete() = %v, %v", ok, err)
	}

	r := recorded(t)
	r.Trials = r.recorded()[:5] // a sample
	for form, want := range map[string]float64{"t4": 5, "kerneltuner": 5, "compact": r.Space.Size()} {
		var b bytes.Buffer
		if err := r.Write(form, &b); err != nil {
			t.Fatal(err)
		}
		table, err := Read(&b, "x")
		if err != nil {
			t.Fatal(err)
		}
		if s, err := table.Space(); err != nil || s.Size() != want {
			t.Errorf("%s: %g genomes, want %g; error %v", form, s.Size(), want, err)
		}
	}
	// A configuration that breaks a constraint of its own file is not a sample.
	broken := strings.Replace(foreignCache, `"metrics": {"GFLOP/s": "x"}`, `"restrictions": ["bx < 32"]`, 1)
	if _, err := Read(strings.NewReader(broken), "file"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "file:7:1: ") {
		t.Errorf("error %v", err)
	}
}

// What other programs write and evotune does not need is read, with a line that says so.
func TestNotices(t *testing.T) {
	foreignCache := strings.TrimSuffix(foreignCache, ",") + "\n}}"
	t4 := `{"metadata": {}, "results": [{"configuration": {"a": 1}, "times": {"runtimes": [2, 4]}, "invalidity": "correct",
 "measurements": [{"name": "energy", "value": 7, "unit": "J"}, {"name": "time", "value": 3500, "unit": "us"}], "objectives": ["energy"]}]}`
	for name, c := range map[string]struct {
		text, old, new, notice string
		best                   float64
	}{
		"nothing":           {foreignCache, "", "", "", 3.5},
		"byte order mark":   {foreignCache, "{", "\ufeff{", "", 3.5},
		"NaN in a metric":   {foreignCache, `"time": 3.5,`, `"time": 3.5, "energy": NaN, "q": [-Infinity, "NaN \" NaN"],`, "2 values NaN or infinite, which JSON does not have: read as null", 3.5},
		"another objective": {foreignCache, `"objective": "time"`, `"objective": "GFLOP/s"`, "its objective is GFLOP/s: the times are read, and nothing else is replayed", 3.5},
		"repeated":          {foreignCache, `"cache": {`, `"cache": {"16,1": {"bx": 16, "by": 1, "time": 1},`, "1 configuration repeated, such as bx=16,by=1: the last of each counts", 3.5},
		"T4: energy":        {t4, "", "", "its objective is energy: the times are read, and nothing else is replayed", 3.5},
		"T4: only runtimes": {t4, `, {"name": "time", "value": 3500, "unit": "us"}`, "", "its objective is energy: the times are read, and nothing else is replayed", 3},
		"T4: repeated":      {t4, `"results": [`, `"results": [{"configuration": {"a": 1}, "invalidity": "runtime"},`, "1 configuration repeated, such as a=1: the last of each counts", 3.5},
	} {
		table, err := Read(strings.NewReader(strings.Replace(c.text, c.old, c.new, 1)), "file")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		best := 0.0
		for _, w := range table.rows {
			if w.Failed == "" && (best == 0 || w.TimeMS < best) {
				best = w.TimeMS
			}
		}
		if got := strings.Join(table.Notices(), "; "); !strings.Contains(got, c.notice) || c.notice == "" && got != "" || best != c.best {
			t.Errorf("%s: notices %q, best %v ms; want %q, %v ms", name, got, best, c.notice, c.best)
		}
		lossless(t, table)
	}
}

// Every fault is one line with the place.
func TestFormatFaults(t *testing.T) {
	for name, c := range map[string]struct{ text, old, new, want string }{
		"cache without parameters": {foreignCache, `"tune_params": `, `"tuned": `, `key "tune_params" is missing`},
		"cache without keys":       {foreignCache, `"tune_params_keys": `, `"keys": `, `key "tune_params_keys" is missing`},
		"a key too many":           {foreignCache, `["bx", "by"]`, `["bx", "by", "bz"]`, "tune_params_keys has 3 names, tune_params 2"},
		"another key":              {foreignCache, `["bx", "by"]`, `["bx", "bz"]`, `tune_params_keys names "bz"`},
		"key twice":                {foreignCache, `["bx", "by"]`, `["bx", "bx"]`, `tune_params_keys names "bx"`},
		"unknown value":            {foreignCache, `"bx": 16, "by": 1,`, `"bx": 17, "by": 1,`, `file:6:1: not a usable recorded space: configuration "16,1": parameter bx does not have the value 17`},
		"value missing":            {foreignCache, `"bx": 16, "by": 1,`, `"bx": 16,`, "parameter by is missing"},
		"no time":                  {foreignCache, `"time": 3.5,`, ``, "it has no time"},
		"time zero":                {foreignCache, `"time": 3.5,`, `"time": 0,`, "0 ms is no time"},
		"time no number":           {foreignCache, `"time": 3.5,`, `"time": [3.5],`, "is not a number"},
		"unknown error":            {foreignCache, `"RuntimeFailedConfig"`, `"Sorry"`, `the time is "Sorry"`},
		"negative cost":            {foreignCache, `"compile_time": 10`, `"compile_time": -10`, "-10 is below zero"},
		"time not a number":        {foreignCache, `"time": 3.5,`, `"time": NaN,`, "it has no time"},
		"objective without a time": {strings.Replace(foreignCache, `"objective": "time"`, `"objective": "GFLOP/s"`, 1), `"time": 3.5,`, `"GFLOP/s": 3.5,`, "it has no time, and its objective, GFLOP/s, is not one: only times can be replayed"},
		"entry no object":          {foreignCache, `{"bx": 32, "by": 1, "time": "RuntimeFailedConfig", "compile_time": 10}`, `7`, `file:7:9: not a usable recorded space: configuration "32,1" must be an object, not 7`},
		"entry's key twice":        {foreignCache, `"time": 3.5,`, `"time": 3.5, "time": 3.5,`, `file:6:42: not a usable recorded space: configuration "16,1": key "time" is there twice`},
		"verdict":                  {foreignCache, `"time": 3.5,`, `"time": 3.5, "verdict": "good",`, `the verdict "good" is not one of evotune's`},
		"samples":                  {foreignCache, `[3.4, 3.6]`, `[3.4, "3.6"]`, `times: "3.6" is not a number`},
		"unrecorded":               {foreignCache, `"metrics": {"GFLOP/s": "x"}`, `"unrecorded": "gone"`, `unrecorded is "gone"`},
		"two compilation times":    {foreignT4, `"compilation": 661.5`, `"compilation": 661.5, "compilation_time": 1`, "compilation_time and compilation are both there"},
		"kept for another":         {foreignT4, `{"results"`, `{"metadata": {"kerneltuner": {"cache": 1}}, "results"`, `file:1:14: not a usable recorded space: metadata: kerneltuner: key "cache" is not expected here`},
		"restrictions":             {foreignCache, `"metrics": {"GFLOP/s": "x"}`, `"restrictions": ["bx <"]`, `constraint "bx <": column 5`},
		"no results":               {foreignT4, foreignT4, `{"results": []}`, "no configuration is recorded"},
		"results no list":          {foreignT4, foreignT4, `{"results": {}}`, `"[" expected`},
		"invalidity":               {foreignT4, `"compile"`, `"sad"`, `file:4:1: not a usable recorded space: result 2: invalidity is "sad"`},
		"parameter missing":        {foreignT4, `{"bx": 16, "mode": "b"}`, `{"bx": 16}`, "result 3: parameter mode is missing"},
		"unknown unit":             {foreignT4, `"unit": "ms"`, `"unit": "fortnights"`, `"fortnights" is not a unit of time`},
		"objective no time":        {strings.Replace(foreignT4, `"runtimes": [12.25, 12.5, 12.75]`, `"x": 1`, 1), `"name": "time", "value": 12.5, "unit": "ms"}], "objectives": ["time"]`, `"name": "score", "value": 12.5, "unit": ""}], "objectives": ["score"]`, "only times can be replayed"},
		"nothing measured":         {foreignT4, `{"runtimes": [3, 1, 2]}`, `{}`, `has no measurement "time"`},
		"runtimes no numbers":      {foreignT4, `[3, 1, 2]`, `[3, "1", 2]`, "is not a number"},
		"bad input":                {foreignT4, `{"results"`, `{"metadata": {"input": {"ConfigurationSpace": {"TuningParameters": [{"Name": "bx", "Values": "[16, 32"}]}}}, "results"`, "input: parameter bx: column 8"},
		"input without conditions": {foreignT4, `{"results"`, `{"metadata": {"input": {"ConfigurationSpace": {"TuningParameters": [{"Name": "bx", "Values": "[16, 32]"}], "Conditions": [{"Expression": "lambda: 1"}]}}}, "results"`, `input: condition "lambda: 1"`},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(c.text, c.old) {
				t.Fatalf("the text has no %q", c.old)
			}
			_, err := Read(strings.NewReader(strings.Replace(c.text, c.old, c.new, 1)), "file")
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error %v", err)
			}
			if s := err.Error(); !strings.Contains(s, c.want) || strings.Contains(s, "\n") || !strings.HasPrefix(s, "replay: file:") {
				t.Errorf("%s\nwant one line with: %s", s, c.want)
			}
		})
	}
}

// The values of a T1 description are Python: lists are added, repeated and computed. The
// values on the right are Python's own.
func TestT1Values(t *testing.T) {
	for source, want := range map[string]string{
		"[1, 2, 4] + list(range(32, 96+1, 32))":            "1 2 4 32 64 96",
		"[2**i for i in range(0, 4)]":                      "1 2 4 8",
		"[32 * i for i in range(1, 4)]":                    "32 64 96",
		"[1] + [2 * i for i in range(1, 4)]":               "1 2 4 6",
		"[i/2 for i in range(3) if i % 2]":                 "0.5",
		"[x+y for x in (1, 2) for y in [10, 20] if x < y]": "11 21 12 22",
		"range(3)":        "0 1 2",
		"tuple([1, 2])":   "1 2",
		"[-1, 0x10, 1_0]": "-1 16 10",
		"sorted([3, 1])":  "1 3",
		"['a', 'b']":      "a b",
		"[True, False]":   "true false",
		"[i if i > 1 else -i for i in range(1, 4)]": "-1 2 3",
		"[int(1e3), float(2)]":                      "1000 2.0",
		"[11//3, 7 % 4 - 1, 2**-1]":                 "3 2 0.5",
		"list(range(5, 0, -2))":                     "5 3 1",
		"[0] * 1 + [1]":                             "0 1",
		"[]":                                        "it has no values",
		"[0] * 2":                                   "the value 0 is there twice",
		"[1, [2]]":                                  "column 5: a list stands only after \"in\"",
		"[1/0]":                                     "column 3: division by zero",
		"[2**64]":                                   "column 3: the result is beyond 64 bits",
		"[x for i in range(3)]":                     "column 2: unknown name x",
		"[i for i in range(10**9)]":                 "column 13: a list has at most 65536 values",
		"[i for i, j in [1]]":                       "column 9: \",\" is not expected here",
		"[None]":                                    "column 2: None is not a value here",
		"range(1, 5, 0)":                            "column 1: the step of range is 0",
		"3":                                         "column 1: a list is needed here",
	} {
		values, err := t1Values(source)
		got := strings.Trim(fmt.Sprint(values), "[]")
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
	// Where Python divides, it has floats: 26 of 54 configurations, says Python.
	in, err := readT1([]byte(`{"General": {"BenchmarkName": "x"}, "ConfigurationSpace": {"TuningParameters": [
		{"Name": "K", "Values": "[8 * i for i in range(2, 5)]"}, {"Name": "M", "Values": "[2**i for i in (3, 4, 5)]"}, {"Name": "N", "Values": "[8, 16]"}, {"Name": "A", "Values": "[8, 12, 32]"}],
		"Conditions": [{"Expression": "K % ((M * N)/A) == 0"}]}}`), "x")
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{}
	if table.params, table.rules, err = in.space(); err != nil {
		t.Fatal(err)
	}
	if s, err := table.declared(); err != nil || s.Size() != 26 {
		t.Errorf("%v configurations, %v; Python says 26", s.Size(), err)
	}
}

// FuzzPythonList: whatever the text, values or an error.
func FuzzPythonList(f *testing.F) {
	for _, s := range []string{"[1, 2]", "[(-0.5), 'x', True,]", "[]", "[1e999]", "[", "[-]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		_, _ = t1Values(source)
	})
}
