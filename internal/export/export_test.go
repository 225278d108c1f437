package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/ask"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/internal/report"
	"github.com/evotune/evotune/kernels"
)

// winnerOf makes a winner of a built-in kernel.
func winnerOf(t *testing.T, kernel, candidate string, seed int64) *Winner {
	t.Helper()
	c, err := kernels.Open()
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Get(kernel)
	if err != nil {
		t.Fatal(err)
	}
	return winnerFrom(t, d, candidate, seed)
}

// winnerFrom makes a winner of a kernel for processors, at its first tuned shape.
func winnerFrom(t *testing.T, d *kernels.Definition, candidate string, seed int64) *Winner {
	t.Helper()
	d = d.On("cpu")
	device := evaluator.Device{Name: `A "B" C`, Kind: "cpu", Fingerprint: "f00d", Facts: map[string]string{"architecture": "any"}}
	return proven(t, d, d.Implementations, d.Problem.ShapesFor(kernels.Tune)[0], device, nil, candidate, rand.New(rand.NewSource(seed)))
}

// proven makes a winner: a random genome for a shape, with evidence as a campaign leaves
// it. Nothing was run. Without a name the candidate gets a random one.
func proven(t *testing.T, d *kernels.Definition, ims []*kernels.Implementation, shape kernels.Shape, device evaluator.Device, limits map[string]any, candidate string, rng *rand.Rand) *Winner {
	t.Helper()
	space, err := d.Space(ims, []kernels.Shape{shape}, limits)
	if err != nil {
		t.Fatal(err)
	}
	g := space.Random(rng)
	r, err := d.Implementation(g, ims).Render(g)
	if err != nil {
		t.Fatal(err)
	}
	if candidate == "" {
		candidate = fmt.Sprintf("%016x", rng.Uint64())
	}
	timings := []evaluator.Timing{evaluator.NewTiming(shape.Name, []float64{100, 101, 99}, []float64{200, 202, 198}, 1, 1)}
	against := evaluator.Compare([]float64{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, []float64{1, 1, 1, 1, 1, 1})
	e := &report.Evidence{
		Candidate: candidate, Campaign: d.Name + "-1", Kernel: d.Name, Shapes: []string{shape.Name}, Operator: "mutation",
		Genome:  g.Map(),
		Summary: report.Summary{Verdict: string(evaluator.Correct), From: "finals", Winner: true, Tested: true, Significant: true},
		Description: evaluator.Description{
			Backend: device.Kind, Compiler: "a compiler", Harness: "1", Device: device, Native: []string{"-fwrapv"},
		},
		Result: evaluator.Result{
			Verdict: evaluator.Correct, Source: r.Hash, Binary: "b", Key: "k", Timings: timings,
			Steps: []evaluator.Step{
				{Stage: evaluator.StageParity, Outcome: evaluator.Passed},
				{Stage: evaluator.StageSanitize, Outcome: evaluator.Passed},
			},
		},
		Parity:     []report.ParityRow{{Check: "parity x seed 1", Outcome: evaluator.Passed, Error: 1e-7, Limit: 1e-5}},
		Sanitizers: []evaluator.Evidence{{Check: "asan", Outcome: evaluator.Passed}},
		Finals: &report.FinalsView{
			Winner: candidate, VsBaseline: &against,
			Entries: []report.FinalistView{{Candidate: candidate, Finalist: evaluator.Finalist{Timings: timings, HeldOut: timings}}},
		},
		Lineage: report.Lineage{Nodes: []report.LineageNode{{Candidate: candidate, Parents: []string{"aa", "bb"}}, {Candidate: "aa", Parents: []string{"cc"}}, {Candidate: "cc"}}},
	}
	return &Winner{Evidence: e, Rendered: r, Limits: limits}
}

func mustExport(t *testing.T, winners []*Winner, o Options) map[string][]byte {
	t.Helper()
	files, err := Export(winners, o)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var toC = Options{Lang: C, By: "evotune test"}

// What is said of winners that finals did not find to be faster than the baseline.
func TestNotFaster(t *testing.T) {
	for _, c := range []struct {
		speedup                     float64
		winner, tested, significant bool
		want                        string
	}{
		{1.2, true, true, true, ""},
		{0.949, true, true, false, "softmax at a, b: the winner of its campaign was not faster than the baseline (0.949x)"},
		{0.949, true, false, false, "softmax at a, b: the winner of its campaign was not faster than the baseline (0.949x)"},
		{1.004, true, true, false, "softmax at a, b: the winner of its campaign was not significantly faster than the baseline (1.004x)"},
		{1.2, true, false, false, ""},
		{0.949, false, false, false, ""},
	} {
		w := &Winner{Evidence: &report.Evidence{Kernel: "softmax", Shapes: []string{"a", "b"}}}
		w.Evidence.Summary = report.Summary{Winner: c.winner, Tested: c.tested, Significant: c.significant, Speedup: c.speedup}
		if got := w.NotFaster(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if text := string(mustExport(t, []*Winner{winnerOf(t, "softmax", "c0ffee", 1)}, toC)["README.md"]); !strings.Contains(text, "and won the finals of its campaign. What") {
		t.Error(text)
	}
}

// The same winners give the same bytes, whatever order they come in.
func TestExportIsDeterministic(t *testing.T) {
	var winners []*Winner
	for i, k := range []string{"softmax", "sgemm", "attention", "rmsnorm", "conv2d", "softmax"} {
		winners = append(winners, winnerOf(t, k, fmt.Sprintf("c0ffee%02d", i), int64(i)))
	}
	first := mustExport(t, winners, toC)
	slices.Reverse(winners)
	if diff := cmp.Diff(first, mustExport(t, winners, toC)); diff != "" {
		t.Error(diff)
	}
	for name := range first {
		if !fs.ValidPath(name) {
			t.Errorf("a file is called %q", name)
		}
	}
}

func TestExportRefuses(t *testing.T) {
	w := func(change func(*Winner)) []*Winner {
		x := winnerOf(t, "softmax", "c0ffee", 1)
		change(x)
		return []*Winner{x}
	}
	lost := func(x *Winner) { x.Evidence.Summary.Winner = false }
	missing := func(x *Winner) {
		x.Evidence.Sanitizers = append(x.Evidence.Sanitizers, evaluator.Evidence{Check: "memcheck", Outcome: evaluator.NotRun, Detail: "valgrind was not found\nmore"})
	}
	alone := func(x *Winner) { // a program of one thread has no races to look for
		x.Evidence.Sanitizers = append(x.Evidence.Sanitizers, evaluator.Evidence{Check: "tsan", Outcome: evaluator.NotRun, Detail: "one thread"}, evaluator.Evidence{Check: evaluator.Reach, Outcome: evaluator.NotRun, Detail: "line 3"})
	}
	covered := func(by evaluator.Evidence, why string) func(x *Winner) {
		return func(x *Winner) {
			x.Evidence.Sanitizers = append(x.Evidence.Sanitizers, evaluator.Evidence{Check: "racecheck", Outcome: evaluator.NotRun, Detail: why}, by)
		}
	}
	searched := evaluator.Evidence{Check: evaluator.SanitizeShapes, Outcome: evaluator.NotRun, Detail: "the finals at small"}
	unseen := func(x *Winner) { x.Evidence.Sanitizers = append(x.Evidence.Sanitizers, searched) }
	wrong := func(x *Winner) { x.Evidence.Summary.Verdict = string(evaluator.Parity) }
	for _, c := range []struct {
		name   string
		change func(*Winner)
		min    Level
		lang   Lang
		want   string // "": it leaves
	}{
		{"all proven", func(*Winner) {}, Finals, C, ""},
		{"one thread", alone, Finals, C, ""},
		{"no finals", lost, Finals, C, "candidate c0ffee of softmax is not proven: it won no finals"},
		{"no finals, enough", lost, Sanitized, C, ""},
		{"a tool missing", missing, Finals, C, "candidate c0ffee of softmax is not proven: memcheck: not run: valgrind was not found"},
		{"racecheck covered", covered(evaluator.Evidence{Check: "schedules", Outcome: evaluator.Passed, Detail: "no fault in 20 launches"}, "copies; see schedules"), Finals, C, ""},
		{"racecheck missing", covered(evaluator.Evidence{Check: "schedules", Outcome: evaluator.Passed, Detail: "no fault in 20 launches"}, "it is not installed"), Finals, C, "candidate c0ffee of softmax is not proven: racecheck: not run: it is not installed"},
		{"neither", covered(evaluator.Evidence{Check: "schedules", Outcome: evaluator.NotRun, Detail: "it does not fit"}, "copies; see schedules"), Finals, C, "candidate c0ffee of softmax is not proven: racecheck: not run: copies; see schedules; schedules: not run: it does not fit"},
		{"racecheck not covered", covered(evaluator.Evidence{Check: "schedules", Outcome: evaluator.Passed, Detail: "not needed: none"}, "copies; see schedules"), Finals, C, "candidate c0ffee of softmax is not proven: racecheck: not run: copies; see schedules"},
		{"a tool missing, enough", missing, Parity, C, ""},
		{"sanitized at a shape of its own alone", unseen, Sanitized, C, "candidate c0ffee of softmax is not proven: sanitize shapes: not run: the finals at small"},
		{"wrong", wrong, Parity, C, `candidate c0ffee of softmax is not proven: its verdict is "parity"`},
		{"another backend", func(*Winner) {}, Finals, CUDA, "candidate c0ffee of softmax is for the cpu backend, not for a library in cuda"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, err := Export(w(c.change), Options{Lang: c.lang, Min: c.min})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || err.Error() != c.want):
				t.Errorf("%v, want %s", err, c.want)
			case strings.Contains(c.want, "not proven") != errors.Is(err, ErrUnproven):
				t.Errorf("%v is ErrUnproven: %v", err, errors.Is(err, ErrUnproven))
			case err == nil:
				var m Manifest
				if err := json.Unmarshal(files["manifest.json"], &m); err != nil {
					t.Fatal(err)
				}
				// What was asked for, and what is not proven, is written down.
				if all := len(m.Kernels[0].Variants[0].Lacks) == 0; m.MinEvidence != c.min || all != (c.min == Finals) {
					t.Errorf("min_evidence %q, lacks %q", m.MinEvidence, m.Kernels[0].Variants[0].Lacks)
				}
			}
		})
	}
	if _, err := Export(nil, toC); err == nil {
		t.Error("nothing was exported")
	}
}

// conforms holds a value against the part of JSON Schema that the manifest's uses:
// type, const, enum, required, properties, additionalProperties, items, $ref. A field
// that the schema does not name is a fault too, or the schema would lag behind.
func conforms(t *testing.T, at string, v any, schema, root map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		defs, _ := root["$defs"].(map[string]any)
		schema, ok = defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		if !ok {
			t.Fatalf("%s: no schema %s", at, ref)
		}
	}
	if want, ok := schema["const"]; ok && want != v {
		t.Errorf("%s is %v, want %v", at, v, want)
	}
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, v) {
		t.Errorf("%s is %v, not one of %v", at, v, list)
	}
	kind := map[bool]string{true: "null"}[v == nil]
	switch x := v.(type) {
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
	case []any:
		kind = "array"
		items, _ := schema["items"].(map[string]any)
		for i, y := range x {
			conforms(t, fmt.Sprintf("%s[%d]", at, i), y, items, root)
		}
	case map[string]any:
		kind = "object"
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := x[name.(string)]; !ok {
				t.Errorf("%s lacks %s", at, name)
			}
		}
		others, _ := schema["additionalProperties"].(map[string]any)
		for name, y := range x {
			if p, ok := properties[name].(map[string]any); ok {
				conforms(t, at+"."+name, y, p, root)
			} else if others != nil {
				conforms(t, at+"."+name, y, others, root)
			} else if properties != nil {
				t.Errorf("%s.%s is not in the schema", at, name)
			}
		}
	}
	var kinds []any
	switch x := schema["type"].(type) {
	case string:
		kinds = []any{x}
	case []any:
		kinds = x
	default:
		return
	}
	whole := kind == "number" && slices.Contains(kinds, any("integer"))
	if !whole && !slices.Contains(kinds, any(kind)) {
		t.Errorf("%s is of type %s, want %v", at, kind, kinds)
	}
}

func TestManifest(t *testing.T) {
	softmax := winnerOf(t, "softmax", "c0ffee", 1)
	softmax.Evidence.Parity = append(softmax.Evidence.Parity, report.ParityRow{Check: "parity x seed 2", Seed: "2", Outcome: evaluator.Passed}) // no error was allowed
	softmax.Evidence.Sanitizers = append(softmax.Evidence.Sanitizers,                                                                           // in the search and in the finals
		evaluator.Evidence{Check: "tsan", Outcome: evaluator.NotRun, Detail: "one thread"}, evaluator.Evidence{Check: "tsan", Outcome: evaluator.Passed})
	files := mustExport(t, []*Winner{softmax, winnerOf(t, "attention", "beef", 2)}, toC)
	var schema, manifest map[string]any
	if err := json.Unmarshal(files["manifest.schema.json"], &schema); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	conforms(t, "manifest", manifest, schema, schema)
	var m Manifest
	if err := json.Unmarshal(files["manifest.json"], &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Kernels) != 2 || m.Kernels[0].Kernel != "attention" {
		t.Fatalf("%+v", m.Kernels)
	}
	v := m.Kernels[1].Variants[0]
	if got := v.Lineage; got != (ManifestLineage{Root: "cc", Generations: 2, Operator: "mutation"}) {
		t.Errorf("lineage %+v", got)
	}
	if v.Timings[0].MedianNS != 100 || len(v.Timings[0].SamplesNS) != 3 || v.Evidence.Parity != 2 || v.Evidence.Sanitizers["asan"] != "passed" || v.Evidence.Sanitizers["tsan"] != "not run" || !v.Evidence.Winner {
		t.Errorf("%+v", v)
	}
	if _, ok := files[v.File]; !ok {
		t.Errorf("%s is not there", v.File)
	}
	if slices.Contains(v.Flags, "-march=native") || !slices.Contains(v.TunedFlags, "-march=native") {
		t.Errorf("flags %q, tuned with %q", v.Flags, v.TunedFlags)
	}
}

// native replaces the machine's own instruction set.
func TestNative(t *testing.T) {
	w := winnerOf(t, "softmax", "c0ffee", 1)
	w.Rendered.Flags = []string{"-O3", "-Wall", "-Wno-psabi", "-Wl,-z,now", "-march=native", "-mtune=native", "-fno-math-errno"}
	for _, c := range []struct {
		native []string
		tuned  bool
		want   []string
	}{
		{[]string{"-march=x86-64", "-mavx2"}, true, []string{"-O3", "-Wno-psabi", "-Wl,-z,now", "-march=x86-64", "-mavx2", "-fno-math-errno"}},
		{nil, true, []string{"-O3", "-Wno-psabi", "-Wl,-z,now", "-march=native", "-mtune=native", "-fno-math-errno"}}, // not recorded
		{nil, false, []string{"-O3", "-Wno-psabi", "-Wl,-z,now", "-fno-math-errno"}},                                  // for any processor
	} {
		w.Evidence.Description.Native = c.native
		v := &variant{Rendered: w.Rendered}
		if c.tuned {
			v.on = &w.Evidence.Description
		}
		v.native()
		if diff := cmp.Diff(c.want, v.Flags); diff != "" {
			t.Error(diff)
		}
	}
}

// build writes an export and compiles it with gcc alone into a shared library. It
// returns the folder.
func build(t *testing.T, files map[string][]byte) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	writeFiles(t, dir, files)
	args := []string{"-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-std=gnu11", "-shared", "-fPIC", "-Isrc", "-Iinclude", "-o", "libevotune.so"}
	args = append(args, sourcesIn(files)...)
	run(t, dir, "gcc", append(args, "-lm", "-pthread", "-ldl")...)
	return dir
}

// sourcesIn lists the files of a library that a compiler of C gets, and defines which
// kernels there are.
func sourcesIn(files map[string][]byte) []string {
	var args []string
	for name := range files {
		if !strings.HasPrefix(name, "src/") || !strings.HasSuffix(name, ".c") {
			continue
		}
		args = append(args, name)
		if symbol, ok := strings.CutPrefix(name, "src/kernels/"); ok {
			args = append(args, "-DEVOTUNE_HAVE_"+strings.TrimSuffix(symbol, ".c"))
		}
	}
	return args
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// program compiles and runs a C program against a built library.
func program(t *testing.T, dir, body string) string {
	t.Helper()
	text := "#include <evotune.h>\n#include <malloc.h>\n#include <math.h>\n#include <stdio.h>\n#include <string.h>\n" +
		"static void warn(const char *m, void *u) { (void)u; printf(\"warning: %s\\n\", m); }\nint main(void)\n{\n(void)warn;\n" + body + "\nreturn 0;\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "program.c"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "gcc", "-Wall", "-Wextra", "-Werror", "-Iinclude", "program.c", "-o", "program", "-L.", "-levotune", "-Wl,-rpath,.", "-lm")
	return run(t, dir, "./program")
}

func TestLibrary(t *testing.T) {
	longtest.Short(t, "waits for compilers")
	// A slower one for the same shape stands before it in every list.
	slower := winnerOf(t, "softmax", "510", 5)
	slower.Evidence.Finals.Entries[0].Timings = []evaluator.Timing{evaluator.NewTiming("1024x1024", []float64{300}, []float64{600}, 1, 1)}
	beaten := winnerOf(t, "rmsnorm", "beef", 2)
	beaten.Evidence.Summary.Speedup, beaten.Evidence.Summary.Significant = 0.9, false
	winners := []*Winner{slower, winnerOf(t, "softmax", "c0ffee", 1), beaten}
	files := mustExport(t, winners, toC)
	// A third kernel for a processor that nobody has.
	lost := winnerOf(t, "sgemm", "dead", 3)
	for name, text := range mustExport(t, []*Winner{lost}, toC) {
		if name == "src/kernels/sgemm_dead.c" {
			text = []byte(strings.ReplaceAll(string(text), "= EVO_CPU_NEEDS;", "= ~UINT64_C(0);"))
			files[name] = text
		}
	}
	all := mustExport(t, append(winners, lost), toC)
	for name, text := range all {
		if _, kept := files[name]; !kept || !strings.HasPrefix(name, "src/kernels/") {
			files[name] = text
		}
	}
	dir := build(t, files)

	t.Run("parity", func(t *testing.T) {
		out := check(t, dir, files)
		if !strings.Contains(out, "tuned for this shape c0ffee") || !strings.Contains(out, "the baseline, which was not tuned") {
			t.Error(out)
		}
	})
	t.Run("choice", func(t *testing.T) {
		got := program(t, dir, `
			struct evotune_choice c;
			const int64_t shapes[][2] = {{1024, 1024}, {8192, 64}, {1025, 1024}};
			for (int i = 0; i < 3; i++) {
				evotune_softmax_choice(shapes[i][0], shapes[i][1], &c);
				printf("%s|%s|%s|%.4f\n", evotune_rule_text(c.rule), c.candidate, c.tuned_for, c.distance);
			}
			evotune_sgemm_choice(1024, 1024, 1024, 1, &c);
			printf("%s|%s|%s\n", evotune_rule_text(c.rule), c.candidate, c.tuned_for);`)
		far := ask.Distance(map[string]int64{"ROWS": 8192, "COLS": 64}, map[string]int64{"ROWS": 1024, "COLS": 1024})
		near := ask.Distance(map[string]int64{"ROWS": 1025, "COLS": 1024}, map[string]int64{"ROWS": 1024, "COLS": 1024})
		want := "tuned for this shape|c0ffee|1024x1024|0.0000\n" +
			fmt.Sprintf("tuned for the nearest shape|c0ffee|1024x1024|%.4f\n", far) +
			fmt.Sprintf("tuned for the nearest shape|c0ffee|1024x1024|%.4f\n", near) +
			"the baseline, which was not tuned||\n"
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
	t.Run("baseline", func(t *testing.T) {
		s := beaten.Rendered.Implementation.Problem().ShapesFor(kernels.Tune)[0]
		got := program(t, dir, fmt.Sprintf(`
			struct evotune_choice c;
			for (int i = 0; i < 2; i++) {
				evotune_rmsnorm_choice(%d, %d, &c);
				printf("%%s|%%s|%%s\n", evotune_rule_text(c.rule), c.candidate, c.tuned_for);
				evotune_prefer("beef");
			}`, s.Dims[beaten.Rendered.Implementation.Problem().Dims[0]], s.Dims[beaten.Rendered.Implementation.Problem().Dims[1]]))
		if want := "the baseline, which was not tuned||\npreferred by the caller|beef|" + s.Name + "\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
	t.Run("arguments", func(t *testing.T) {
		got := program(t, dir, `
			float x[4] = {1, 2, 3, 4}, y[4];
			int64_t n[2];
			printf("%d %d %d %d %d\n", evotune_softmax(-1, 4, x, y), evotune_softmax(1, 4, NULL, y), evotune_softmax(0, 4, NULL, NULL), evotune_softmax(1, 4, x, y), evotune_softmax_sizes(3, 5, n));
			printf("%d %d %d\n", (int)n[0], (int)n[1], evotune_softmax_sizes(3, -5, n));
			const int64_t huge = INT64_C(1) << 32; /* squared it is 0 */
			printf("%d %d %d\n", evotune_softmax(huge, huge, x, y), evotune_softmax_sizes(huge, huge, n), evotune_softmax_reference(INT64_MAX, INT64_MAX, x, y));
			printf("%s|%s\n", evotune_status_text(EVOTUNE_INVALID), evotune_status_text(99));
			printf("%.4f %.4f\n", y[0], y[3]);`)
		want := "1 1 0 0 0\n15 15 1\n1 1 1\nan argument is not valid: a null pointer, on GPUs one that is no multiple of 16, a negative size, one beyond any memory, or a flag that is neither 0 nor 1|no status of evotune\n0.0321 0.6439\n"
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
	t.Run("wisdom", func(t *testing.T) { testWisdom(t, dir) })
}

// A kernel whose elements C has no type for.
const halves = `format = 1
name = "scale-half"
description = "y = 2 x, in halves"
[problem]
dims = ["N"]
operations = "N"
bytes = "4*N"
pipe = "f32"
[problem.reference]
source = "reference.c"
entry = "reference"
[[problem.shape]]
name = "large"
dims = { N = 1000 }
use = "tune"
[[problem.shape]]
name = "odd"
dims = { N = 7 }
use = "verify"
[[problem.shape]]
name = "small"
dims = { N = 3 }
use = "sanitize"
[[problem.buffer]]
name = "x"
dtype = "f16"
shape = ["N"]
role = "in"
data = "normal(0,1)"
[[problem.buffer]]
name = "y"
dtype = "bf16"
shape = ["N"]
role = "out"
[problem.tolerance]
bf16 = 2e-2
[[problem.control]]
kind = "zeros"
[[implementation]]
name = "loop"
backend = "cpu"
target = "native"
template = "k.c.tmpl"
entry = "scale"
[[implementation.parameter]]
name = "UNROLL"
values = [1, 2]
[implementation.baseline]
genome = { UNROLL = 1 }
`

func TestHalves(t *testing.T) {
	d, err := kernels.Load(fstest.MapFS{
		"k/kernel.toml": {Data: []byte(halves)},
		"k/reference.c": {Data: []byte("#include <stdint.h>\nvoid reference(int64_t N, const double *x, double *y)\n{\n\tfor (int64_t i = 0; i < N; i++)\n\t\ty[i] = 2 * x[i];\n}\n")},
		"k/k.c.tmpl":    {Data: []byte("/* {{.UNROLL}} */\nvoid scale(int64_t N, const evotune_f16 *x, evotune_bf16 *y)\n{\n\tfor (int64_t i = 0; i < N; i++)\n\t\ty[i] = evotune_bf16_from_float(2 * evotune_f16_to_float(x[i]));\n}\n")},
	}, "k")
	if err != nil {
		t.Fatal(err)
	}
	files := mustExport(t, []*Winner{winnerFrom(t, d, "c0ffee", 1)}, toC)
	if !strings.Contains(string(files["include/evotune.h"]), "int evotune_scale_half(int64_t N, const evotune_f16 *x, evotune_bf16 *y);") {
		t.Error(string(files["include/evotune.h"]))
	}
	dir := build(t, files)
	if out := check(t, dir, files); strings.Count(out, "ok ") != 3 {
		t.Error(out)
	}
	// A kernel that wants arrays at better addresses than callers have does not pass.
	const file = "src/kernels/scale_half_c0ffee.c"
	files[file] = []byte(strings.Replace(string(files[file]), "\tfor (", "\tif ((uintptr_t)x % 16)\n\t\t__builtin_trap();\n\tfor (", 1))
	dir = build(t, files)
	run(t, dir, "gcc", "-Iinclude", "test/check.c", "src/reference_scale_half.c", "-o", "check", "-L.", "-levotune", "-Wl,-rpath,.", "-lm")
	cmd := exec.CommandContext(t.Context(), "./check")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("the check passes:\n%s", out)
	}
}

// A library has no reference that is in Python, and says what it does not check.
func TestReferenceInPython(t *testing.T) {
	load := func(python string) *kernels.Definition {
		d, err := kernels.Load(fstest.MapFS{
			"k/kernel.toml":  {Data: []byte(strings.Replace(halves, `source = "reference.c"`, `python = "reference.py"`, 1))},
			"k/reference.py": {Data: []byte(python)},
			"k/k.c.tmpl":     {Data: []byte("/* {{.UNROLL}} */\nstatic int calls;\nvoid scale(int64_t N, const evotune_f16 *x, evotune_bf16 *y)\n{\n\tcalls++;\n\tfor (int64_t i = 0; i < N; i++)\n\t\ty[i] = evotune_bf16_from_float(2 * evotune_f16_to_float(x[i]));\n}\n")},
		}, "k")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	files := mustExport(t, []*Winner{winnerFrom(t, load("def reference(x):\n    return 2 * x\n"), "c0ffee", 1)}, toC)
	for name, text := range files {
		if strings.HasPrefix(name, "src/reference_") || strings.Contains(string(text), "evotune_scale_half_reference(") {
			t.Errorf("%s has a reference", name)
		}
	}
	if m := string(files["manifest.json"]); !strings.Contains(m, `"fallbacks": [
        "baseline"
      ]`) {
		t.Error(m)
	}
	dir := build(t, files)
	compile := []string{"-O1", "-Wall", "-Wextra", "-Werror", "-Iinclude", "test/check.c", "-o", "check", "-L.", "-levotune", "-Wl,-rpath,.", "-lm"}
	run(t, dir, "gcc", compile...)
	status := func() (string, int) {
		cmd := exec.CommandContext(t.Context(), "./check")
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput() // the status says it
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := status()
	if code != 77 || strings.Count(out, "--   scale-half ") != 3 || !strings.HasSuffix(out, "3 not compared: the reference is in Python\nnot checked\n") {
		t.Errorf("status %d\n%s", code, out)
	}
	// One whose second answer is another one does not pass.
	const file = "src/kernels/scale_half_c0ffee.c"
	files[file] = []byte(strings.Replace(string(files[file]), "2 * evotune", "(1 + calls) * evotune", 1))
	dir = build(t, files)
	run(t, dir, "gcc", compile...)
	if out, code := status(); code != 1 || !strings.Contains(out, "FAIL scale-half ") {
		t.Errorf("status %d\n%s", code, out)
	}
}

// sparse is a product of a sparse matrix and a vector. Row pointers come from a function in
// Python; others would lead the kernel out of its arrays, and end its process. With own it has
// a formula for PyTorch beside the reference.
func sparse(t *testing.T, name, python, own string) *kernels.Definition {
	t.Helper()
	const arguments = "(int64_t M, int64_t NNZ, const int32_t *row, const int32_t *col, const float *val, const float *x, float *y, int32_t step)"
	toml := "format = 1\nname = \"" + name + "\"\ndescription = \"a test\"\n[problem]\ndims = [\"M\", \"NNZ\"]\noperations = \"2*NNZ\"\nbytes = \"8*NNZ\"\npipe = \"f32\"\n" +
		"[problem.reference]\npython = \"reference.py\"\nentry = \"reference\"\n" +
		"[[problem.shape]]\nname = \"a\"\nuse = \"tune\"\ndims = { M = 64, NNZ = 640 }\n[[problem.shape]]\nname = \"b\"\nuse = \"verify\"\ndims = { M = 7, NNZ = 33 }\n[[problem.shape]]\nname = \"c\"\nuse = \"sanitize\"\ndims = { M = 3, NNZ = 5 }\n"
	for _, b := range [][4]string{{"row", "i32", "M + 1", "python(rows)"}, {"col", "i32", "NNZ", "between(0, M - 1)"}, {"val", "f32", "NNZ", "normal(0,1)"}, {"x", "f32", "M", "normal(0,1)"}} {
		toml += fmt.Sprintf("[[problem.buffer]]\nname = %q\ndtype = %q\nshape = [%q]\nrole = \"in\"\ndata = %q\n", b[0], b[1], b[2], b[3])
	}
	toml += "[[problem.scalar]]\nname = \"step\"\ndtype = \"i32\"\nvalue = \"1\"\n[[problem.buffer]]\nname = \"y\"\ndtype = \"f32\"\nshape = [\"M\"]\nrole = \"out\"\n[problem.tolerance]\nf32 = 1e-5\n[[problem.control]]\nkind = \"zeros\"\n" +
		"[[implementation]]\nname = \"plain\"\nbackend = \"cpu\"\ntarget = \"native\"\ntemplate = \"k.c.tmpl\"\nentry = \"f\"\n[[implementation.parameter]]\nname = \"U\"\nvalues = [1, 2]\n[implementation.baseline]\ngenome = { U = 1 }\n"
	if own != "" {
		toml += "[torch]\nsource = \"torch.py\"\nforward = \"reference\"\n"
	}
	d, err := kernels.Load(fstest.MapFS{
		"k/kernel.toml":  {Data: []byte(toml)},
		"k/reference.py": {Data: []byte(python)},
		"k/torch.py":     {Data: []byte(own)},
		"k/k.c.tmpl": {Data: []byte("/* {{.U}} */\n#include <stdint.h>\nvoid f" + arguments + "\n{\n\tif (row[0] != 0 || row[M] != NNZ)\n\t\t__builtin_trap();\n" +
			"\tfor (int64_t m = 0; m < M; m++) {\n\t\tfloat sum = 0;\n\t\tfor (int32_t i = row[m]; i < row[m + 1]; i += step)\n\t\t\tsum += val[i] * x[col[i]];\n\t\ty[m] = sum;\n\t}\n}\n")},
	}, "k")
	if err != nil {
		t.Fatalf("%v\n%s", err, toml)
	}
	return d
}

// numpyRows is a reference of such a kernel, which no library contains.
const numpyRows = "import numpy as np\n\n\ndef rows(M, NNZ, seed):\n    return np.sort(np.r_[0, np.random.default_rng(seed).integers(0, NNZ + 1, M - 1), NNZ])\n\n\n" +
	"def reference(row, col, val, x):\n    return np.array([(val[a:b] * x[col[a:b]]).sum() for a, b in zip(row, row[1:])])\n"

// A kernel with an input that a function in Python makes is not called on other contents, and
// does not count as passed.
func TestNotRun(t *testing.T) {
	const line = "spmv: not run: a function in Python makes row, and the library does not contain it\n"
	alone := []*Winner{winnerFrom(t, sparse(t, "spmv", numpyRows, ""), "c0ffee", 1)}
	for _, c := range []struct {
		name    string
		winners []*Winner
		code    int
		ends    string
	}{
		{"alone", alone, 77, "1 not run\nnot checked\n"},
		{"beside another", append([]*Winner{winnerOf(t, "softmax", "beef", 1)}, alone...), 0, "1 not run\nall right\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := mustExport(t, c.winners, toC)
			dir := build(t, files)
			status := func(program string, sources ...string) (string, int) {
				run(t, dir, "gcc", slices.Concat([]string{"-O1", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-o", program}, sources, []string{"-L.", "-levotune", "-Wl,-rpath,.", "-lm"})...)
				cmd := exec.CommandContext(t.Context(), "./"+program)
				cmd.Dir = dir
				out, _ := cmd.CombinedOutput() // the status says it
				return string(out), cmd.ProcessState.ExitCode()
			}
			checked := []string{"test/check.c"}
			if files["src/reference_softmax.c"] != nil {
				checked = append(checked, "src/reference_softmax.c")
			}
			if out, code := status("check", checked...); code != c.code || strings.Count(out, "--   "+line) != 1 || !strings.HasSuffix(out, c.ends) || strings.Contains(out, "ok   spmv") {
				t.Errorf("status %d\n%s", code, out)
			}
			if len(c.winners) > 1 {
				return // benchmarks take a while
			}
			if out, code := status("bench", "test/bench.c"); code != 0 || !strings.HasPrefix(out, line+"spmv choice ") {
				t.Errorf("status %d\n%s", code, out)
			}
			if _, err := exec.LookPath("python3"); err == nil {
				t.Setenv("EVOTUNE_LIBRARY", filepath.Join(dir, "libevotune.so"))
				if out := run(t, dir, "python3", "python/example.py"); !strings.Contains(out, line) {
					t.Error(out)
				}
			}
			if text := string(files["go/example/main.go"]); !strings.Contains(text, strings.TrimSuffix(line, "\n")) || strings.Contains(text, "evotune.Spmv(") {
				t.Error(text)
			}
		})
	}
}

// check compiles and runs the library's own test.
func check(t *testing.T, dir string, files map[string][]byte) string {
	t.Helper()
	args := []string{"-O1", "-Wall", "-Wextra", "-Werror", "-Iinclude", "test/check.c", "-o", "check", "-L.", "-levotune", "-Wl,-rpath,.", "-lm"}
	for name := range files {
		if strings.HasPrefix(name, "src/reference_") {
			args = append(args, name)
		}
	}
	run(t, dir, "gcc", args...)
	out := run(t, dir, "./check")
	if !strings.HasSuffix(out, "all right\n") {
		t.Error(out)
	}
	return out
}

// testWisdom loads wisdom files that are right, cut, of a newer version, and of
// kernels in files of their own.
func testWisdom(t *testing.T, dir string) {
	// A kernel that the library does not have.
	later := mustExport(t, []*Winner{winnerOf(t, "softmax", "abcdef", 7)}, toC)
	if err := os.WriteFile(filepath.Join(dir, "later.c"), later["src/kernels/softmax_abcdef.c"], 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "gcc", "-O1", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-Wno-psabi", "-DEVOTUNE_PLUGIN", "-Isrc", "later.c", "-o", "abcdef.so", "-lm")
	line := func(kernel, dims, candidate string) string {
		return strings.Join([]string{kernel, dims, candidate, "*", "1.5", "-", "."}, "\t") + "\n"
	}
	const head = "evotune-wisdom 1\n"
	for _, c := range []struct {
		name, text, want string
	}{
		{"of the library", head + "# a comment\n\n" + line("softmax", "COLS=7,ROWS=5", "c0ffee"), "0 wisdom c0ffee\n"},
		{"from a file", head + line("softmax", "ROWS=5,COLS=7", "abcdef"), "0 wisdom abcdef\n"},
		{"the newest line wins", head + line("softmax", "ROWS=5,COLS=7", "abcdef") + line("softmax", "ROWS=5,COLS=7", "c0ffee"), "0 wisdom c0ffee\n"},
		{"another device", head + strings.ReplaceAll(line("softmax", "ROWS=5,COLS=7", "abcdef"), "*", "Nobody's"), "0 nearest c0ffee\n"},
		{"half a line", head + "softmax\tROWS=5,COLS=7\tabcd", "warning: w.txt:2: not a whole line: it has 3 of 7 fields, or no dot at its end; it is skipped\n0 nearest c0ffee\n"},
		{"no dot", head + strings.TrimSuffix(line("softmax", "ROWS=5,COLS=7", "abcdef"), ".\n"), "warning: w.txt:2: not a whole line: it has 7 of 7 fields, or no dot at its end; it is skipped\n0 nearest c0ffee\n"},
		{
			"bad lines beside a good one", head + line("nothing", "A=1", "c0ffee") + line("softmax", "ROWS=5", "c0ffee") + line("softmax", "ROWS=5,COLS=x", "c0ffee") + line("softmax", "ROWS=5,COLS=7", "../x") + line("softmax", "ROWS=5,COLS=7", "123456") + line("softmax", "ROWS=5,COLS=7", "abcdef"),
			"warning: w.txt:2: this library has no kernel \"nothing\"; the line is skipped\n" +
				"warning: w.txt:3: these are not the dimensions of softmax; the line is skipped\n" +
				"warning: w.txt:4: these are not the dimensions of softmax; the line is skipped\n" +
				"warning: w.txt:5: candidate ../x is not in this library: this is no name of a candidate; the line is skipped\n" +
				"warning: w.txt:6: candidate 123456 is not in this library: and there is no file of its name with .so beside the wisdom file that can be loaded; the line is skipped\n" +
				"0 wisdom abcdef\n",
		},
		{"newer", "evotune-wisdom 2\n" + line("softmax", "ROWS=5,COLS=7", "abcdef"), "warning: w.txt:1: version 2, and this library reads version 1: export and build the library again\n5 nearest c0ffee\n"},
		{"no wisdom", "hello\n", "warning: w.txt:1: not a wisdom file: the first line must be \"evotune-wisdom 1\"\n4 nearest c0ffee\n"},
		{"empty", "", "warning: w.txt:0: the file is empty\n4 nearest c0ffee\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "w.txt"), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			got := program(t, dir, `
				static float x[35], y[35], z[35];
				for (int i = 0; i < 35; i++)
					x[i] = (float)(i % 6);
				evotune_softmax(5, 7, x, y); /* what is chosen before does not stay */
				struct evotune_choice c;
				const int status = evotune_wisdom_load("w.txt", warn, NULL);
				evotune_softmax_choice(5, 7, &c);
				printf("%d %s %s\n", status, c.rule == EVOTUNE_WISDOM ? "wisdom" : c.rule == EVOTUNE_NEAREST ? "nearest" : "?", c.candidate);
				evotune_softmax(5, 7, x, z);
				for (int i = 0; i < 35; i++)
					if (!(fabsf(y[i] - z[i]) < 1e-5f))
						printf("wrong\n");`)
			if got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
	// The environment's file is read before any other, which goes before it then.
	t.Run("environment", func(t *testing.T) {
		for name, candidate := range map[string]string{"env.txt": "abcdef", "w.txt": "c0ffee"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(head+line("softmax", "ROWS=5,COLS=7", candidate)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("EVOTUNE_WISDOM", "env.txt")
		got := program(t, dir, `
			struct evotune_choice c;
			evotune_wisdom_load("w.txt", warn, NULL);
			evotune_softmax_choice(5, 7, &c);
			printf("%s\n", c.candidate);`)
		if got != "c0ffee\n" {
			t.Error(got)
		}
	})
	t.Run("again and again", func(t *testing.T) {
		one := line("softmax", "ROWS=5,COLS=7", "510")
		text := head + one + strings.Replace(one, "7", "8", 1) + strings.Replace(one, "510", "c0ffee", 1)
		if err := os.WriteFile(filepath.Join(dir, "w.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got := program(t, dir, `
			struct evotune_choice c;
			size_t before = 0;
			for (int i = 0; i < 300; i++) {
				evotune_wisdom_load("w.txt", warn, NULL);
				if (i == 10)
					before = mallinfo2().uordblks;
			}
			evotune_softmax_choice(5, 7, &c);
			printf("%s %d\n", c.candidate, mallinfo2().uordblks - before < 200000);`)
		if got != "c0ffee 1\n" {
			t.Error(got)
		}
	})
	t.Run("a folder", func(t *testing.T) {
		if got, want := program(t, dir, `printf("%d\n", evotune_wisdom_load("src", warn, NULL));`), "warning: src:0: Is a directory\n4\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("missing", func(t *testing.T) {
		if got, want := program(t, dir, `printf("%d\n", evotune_wisdom_load("nowhere.txt", warn, NULL));`), "warning: nowhere.txt:0: No such file or directory\n4\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	// What an export writes is read back without a warning.
	t.Run("exported", func(t *testing.T) {
		if got, want := program(t, dir, `printf("%d\n", evotune_wisdom_load("wisdom.txt", warn, NULL));`), "0\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestEnvironment holds the list to what the files of libraries read.
func TestEnvironment(t *testing.T) {
	read := map[string]bool{}
	pattern := regexp.MustCompile(`(?:getenv\(|environ\.get\()"(EVOTUNE_\w+)"`)
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			read[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(read)), Environment()); diff != "" {
		t.Error(diff)
	}
}
