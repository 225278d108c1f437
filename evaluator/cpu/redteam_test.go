//go:build linux

package cpu_test

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/backendtest"
	"github.com/evotune/evotune/evaluator/cpu"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

var redOut = flag.String("redteam.out", "", "TestRedTeamTable: write the table to this `FILE.csv`")

// A redFolder is one of the red team's definitions.
type redFolder struct {
	name  string
	def   *kernels.Definition
	space *genome.Space
	cases []backendtest.Case
}

// redFolders loads them: those that are named, or all.
func redFolders(tb testing.TB, names ...string) []redFolder {
	tb.Helper()
	if len(names) == 0 {
		names = []string{"product", "softmax", "layernorm", "rowmax", "ordered", "mask", "recurrence", "dot", "columns", "weighted", "norm"}
	}
	var all []redFolder
	for _, name := range names {
		all = append(all, redFolderAt(tb, "../testdata/redteam", name))
	}
	return all
}

func redFolderAt(tb testing.TB, dir, name string) redFolder {
	tb.Helper()
	def, err := kernels.Load(os.DirFS(dir), name)
	if err != nil {
		tb.Fatal(err)
	}
	cases, err := backendtest.LoadCases(filepath.Join(dir, name, "verdicts.toml"))
	if err != nil {
		tb.Fatal(err)
	}
	return redFolder{name, def, zooSpace(tb, def), cases}
}

// genome is that of a kernel; with report it aborts when what it tries succeeds.
func (f redFolder) genome(tb testing.TB, kernel string, salt int, report bool) genome.Genome {
	tb.Helper()
	values := map[string]any{"KERNEL": kernel, "SALT": salt}
	for _, g := range f.space.Genes() {
		if g.Name == "REPORT" {
			values["REPORT"] = report
		}
	}
	g, err := f.space.FromMap(values)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// open gives a judge of the folder's kernels, which the test closes.
func (f redFolder) open(t *testing.T, o cpu.Options) *evaluator.Ordeal {
	t.Helper()
	return openPlan(t, zooPlan(t, f.def), o)
}

// judge gives a kernel's result, and the last word of the finals on it where it is
// believed.
func judge(t *testing.T, ev evaluator.Evaluator, g genome.Genome) (evaluator.Result, evaluator.Finalist) {
	t.Helper()
	r, err := ev.Evaluate(t.Context(), g, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := evaluator.Finalist{Verdict: r.Verdict, Reason: r.Reason}
	if r.Verdict == evaluator.Correct {
		f, err := ev.Finals(t.Context(), []genome.Genome{g})
		if err != nil {
			t.Fatal(err)
		}
		e = f.Entries[0]
	}
	return r, e
}

// notYet are kernels whose verdict another part of the ordeal would have to give.
var notYet = map[string]string{
	"product/known-shapes-only": "right on all contents at every shape that the definition names",
}

// TestRedTeamBitesNightly: of the kernels that are wrong on data that bite none is believed,
// and all honest ones are. It prints a line for each kind.
func TestRedTeamBitesNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "it judges some fifty kernels")
	for _, f := range redFolders(t) {
		ev := f.open(t, cpu.Options{CacheDir: cpu.NeedCompiler(t), Sanitizers: []string{"none"}})
		for _, c := range f.cases {
			if !strings.HasPrefix(c.Group, "2.") && !strings.HasPrefix(c.Kernel, "honest") {
				continue
			}
			g := f.genome(t, c.Kernel, 0, false)
			r, err := ev.Evaluate(t.Context(), g, 0)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict == evaluator.Correct && c.Verdict != evaluator.Correct { // a search may believe it, and finals may not
				all, err := ev.Finals(t.Context(), []genome.Genome{g})
				if err != nil {
					t.Fatal(err)
				}
				r.Verdict, r.Reason = all.Entries[0].Verdict, all.Entries[0].Reason
				if r.Verdict == evaluator.Infrastructure {
					r.Disturbed = r.Reason
				}
			}
			t.Logf("RED %s/%s wants %s, gets %s %s", f.name, c.Kernel, c.Verdict, r.Verdict, r.Reason)
			step, _ := r.Step(evaluator.StageParity)
			for _, e := range step.Evidence {
				if e.Outcome == evaluator.NotRun {
					t.Errorf("%s: %s says nothing: %s", f.name, e.Check, e.Detail)
				}
			}
			if bites := c.Verdict != evaluator.Correct && !strings.HasSuffix(c.Kernel, "-when-timed"); !bites && cpu.Disturbed(t, r) { // on no data, or not in parity
				continue
			}
			or := slices.ContainsFunc(c.Or, func(o backendtest.Outcome) bool { return o.Verdict == r.Verdict })
			if why := notYet[f.name+"/"+c.Kernel]; r.Verdict != c.Verdict && !or && why == "" {
				t.Errorf("%s/%s (%s) gets %s, not %s", f.name, c.Kernel, c.Does, r.Verdict, c.Verdict)
			}
		}
	}
}

// TestFewOutputsNightly: an output of one element may be near zero by chance, and honest kernels are right then.
func TestFewOutputsNightly(t *testing.T) {
	longtest.Nightly(t, "redteam", "it judges one kernel several times")
	f := redFolders(t, "dot")[0]
	ev := f.open(t, cpu.Options{CacheDir: cpu.NeedCompiler(t), Sanitizers: []string{"none"}})
	for salt := range 16 {
		r, err := ev.Evaluate(t.Context(), f.genome(t, "honest-unrolled", salt, false), 0)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != evaluator.Correct && !cpu.Disturbed(t, r) {
			t.Errorf("%s: %s", r.Verdict, r.Reason)
		}
	}
}

// TestBaselineBitesLong: where the baseline itself is wrong on edge-case inputs among timed
// launches, no honest candidate is blamed for that.
func TestBaselineBitesLong(t *testing.T) {
	longtest.Long(t, "holds finals")
	f := redSoftmax(t, [][3]string{
		{"kernel.toml", `genome = { KERNEL = "honest"`, `genome = { KERNEL = "narrow-when-timed"`},
		{"narrow-when-timed.c", "if (++calls > 50)", "if (++calls > 0 && ROWS * COLS >= 65536)"},
		// As precise as others where it is right.
		{"narrow-when-timed.c", `#include "narrow-exp.c"`, "#define expf(x) (expf)((x) > 20 ? 20 : (x))\n#include \"no-max.c\"\n#undef expf"},
	})
	ev := f.open(t, cpu.Options{CacheDir: cpu.NeedCompiler(t), Sanitizers: []string{"none"}})
	r, e := judge(t, ev, f.genome(t, "honest", 0, false))
	if e.Verdict != evaluator.Correct {
		if !cpu.Disturbed(t, r) {
			t.Errorf("%s: %s", e.Verdict, e.Reason)
		}
		return
	}
	// The evidence lists those that were compared, and no others.
	i := slices.IndexFunc(e.Evidence, func(e evaluator.Evidence) bool { return e.Check == "edge cases 64x1024" })
	if i < 0 || !strings.Contains(e.Evidence[i].Detail, "tiny") || strings.Contains(e.Evidence[i].Detail, "offset") {
		t.Errorf("%+v", e.Evidence)
	}
}

// redSoftmax is the folder softmax with changes: file, what it has, and what it gets.
func redSoftmax(t *testing.T, changes [][3]string) redFolder {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/redteam")); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		file := filepath.Join(dir, "softmax", change[0])
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), change[1]) {
			t.Fatalf("%s is another", file)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), change[1], change[2], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return redFolderAt(t, dir, "softmax")
}

// TestBaselineImpreciseLong: where candidate and baseline differ, the reference decides who is wrong.
func TestBaselineImpreciseLong(t *testing.T) {
	longtest.Long(t, "it judges two kernels")
	// Off by some six tolerances in one row of many.
	change := [3]string{"honest-online.c", "#include \"rows.h\"", `#include "rows.h"
static void exact(int64_t ROWS, int64_t COLS, const float *X, float *Y);
void softmax(int64_t ROWS, int64_t COLS, const float *X, float *Y)
{
	exact(ROWS, COLS, X, Y);
	for (int64_t i = 0; i < ROWS * COLS; i++)
		if (COLS == 1024 && X[i] > 4.6f && X[i] < 6)
			Y[i] += 1e-6f;
}
#define softmax exact`}
	for _, baseline := range []string{"honest", "honest-online"} {
		f := redSoftmax(t, [][3]string{change, {"kernel.toml", `genome = { KERNEL = "honest"`, `genome = { KERNEL = "` + baseline + `"`}})
		ev := f.open(t, cpu.Options{CacheDir: cpu.NeedCompiler(t), Sanitizers: []string{"none"}})
		candidate, want := "honest", evaluator.Correct
		if baseline == "honest" {
			candidate, want = "honest-online", evaluator.Parity
		}
		r, e := judge(t, ev, f.genome(t, candidate, 0, false))
		if e.Verdict != want && !cpu.Disturbed(t, r) {
			t.Errorf("%s beside %s gets %s %s", candidate, baseline, e.Verdict, e.Reason)
		}
	}
}

// TestRedTeamTable judges every kernel of the red team, through all stages and in the
// finals where it is believed, and after each an honest one, whose verdict must be
// what it always is. It writes a table.
//
//	go test ./evaluator/cpu -run TestRedTeamTable -timeout 60m -redteam.out FILE.csv
func TestRedTeamTable(t *testing.T) {
	if *redOut == "" {
		t.Skip("writes a table where -redteam.out says")
	}
	table := [][]string{{"kernel", "family", "wanted", "verdict", "stage", "ratio", "honest", "its ratio", "its ns", "reason"}}
	for _, f := range redFolders(t) {
		o := zooOptions(t)
		o.Timeout = 20 * time.Second
		ev := f.open(t, o)
		for n, c := range f.cases {
			r, e := judge(t, ev, f.genome(t, c.Kernel, 3, false))
			if r.Verdict == evaluator.Correct {
				r.Stage = "finals"
			}
			row := []string{f.name + "/" + c.Kernel, c.Group, string(c.Verdict), string(e.Verdict), string(r.Stage), fmt.Sprintf("%.3f", e.Fitness), "", "", "", ""}
			row[9], _, _ = strings.Cut(e.Reason, "\n")
			after, err := ev.Evaluate(t.Context(), f.genome(t, "honest", 100+n, false), 0)
			if err != nil {
				t.Fatal(err)
			}
			row[6] = string(after.Verdict)
			if after.Verdict == evaluator.Correct {
				row[7], row[8] = fmt.Sprintf("%.3f", after.Fitness), fmt.Sprintf("%.0f", after.Timings[0].MedianNS)
			} else {
				t.Errorf("after %s: %s: %s", row[0], after.Verdict, after.Reason)
			}
			t.Log(row)
			table = append(table, row)
		}
	}
	f, err := os.Create(*redOut)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(csv.NewWriter(f).WriteAll(table), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRedTeamCompilesLong: of the red team's kernels those that may compile do.
func TestRedTeamCompilesLong(t *testing.T) {
	longtest.Long(t, "compiles some two hundred kernels")
	for _, f := range redFolders(t) {
		var sources []string
		for _, c := range f.cases {
			if c.Verdict != evaluator.Compile && c.Verdict != evaluator.Timeout {
				sources = append(sources, filepath.Join("../testdata/redteam", f.name, c.Kernel+".c"))
			}
		}
		if out, err := exec.CommandContext(t.Context(), "gcc", append([]string{"-w", "-fsyntax-only"}, sources...)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f.name, err, out)
		}
	}
}

// TestRedTeamLoads: the red team's definitions and tables of verdicts load, and each
// kernel but the baseline has a verdict.
func TestRedTeamLoads(t *testing.T) {
	for _, f := range redFolders(t) {
		listed := map[string]bool{"honest": true}
		for _, c := range f.cases {
			listed[c.Kernel] = true
		}
		for _, gene := range f.space.Genes() {
			if gene.Name != "KERNEL" {
				continue
			}
			for _, v := range gene.Values {
				if !listed[v.Any().(string)] {
					t.Errorf("%s: kernel %v has no verdict", f.name, v.Any())
				}
			}
			if len(gene.Values) != len(listed) {
				t.Errorf("%s: %d kernels, %d verdicts", f.name, len(gene.Values), len(listed))
			}
		}
	}
}
