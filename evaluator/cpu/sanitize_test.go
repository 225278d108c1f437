//go:build linux

package cpu

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// TestSanitizeAlso: what a kernel does wrong at a further sanitize shape alone, a finalist is
// refused for; and what runs there a sanitizer has seen.
func TestSanitizeAlso(t *testing.T) {
	longtest.Short(t, "waits for compilers")
	def, err := kernels.Load(os.DirFS("../testdata/redteam"), "product")
	if err != nil {
		t.Fatal(err)
	}
	plan := planOf(def)
	plan.SanitizeAlso = []kernels.Shape{{Name: "more", Use: kernels.Sanitize, Dims: map[string]int64{"M": 64, "N": 64, "K": 512}}}
	s := openPlan(t, plan, quick(asanName, guardsName))
	if !slices.ContainsFunc(s.Describe().Tools, func(tool evaluator.Tool) bool { return tool.Name == asanName && tool.Missing == "" }) {
		t.Skip("skipped: the address sanitizer does not work here")
	}
	genomes := []genome.Genome{
		s.genome(t, "KERNEL", "read-past-end-large", "SALT", 0, "REPORT", false),
		s.genome(t, "KERNEL", "honest", "SALT", 0, "REPORT", false),
	}
	for _, g := range genomes {
		r, err := s.Evaluate(t.Context(), g, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range r.Steps {
			for _, e := range step.Evidence {
				if strings.Contains(e.Check+e.Detail, "more") && e.Check == asanName {
					t.Errorf("the search looks there: %+v", e)
				}
			}
		}
		if g == genomes[1] && r.Verdict != evaluator.Correct {
			t.Errorf("the search: %s at %s: %s", r.Verdict, r.Stage, r.Reason)
		}
	}
	f, err := s.Finals(t.Context(), genomes)
	if err != nil {
		t.Fatal(err)
	}
	if e := f.Entries[0]; e.Verdict != evaluator.Sanitizer || !strings.HasPrefix(e.Reason, "finals: asan: at shape more: ") {
		t.Errorf("%s: %s", e.Verdict, e.Reason)
	}
	for _, e := range f.Entries[0].Evidence {
		if e.Check == guardsName && (e.Outcome != evaluator.Failed || !strings.Contains(e.Detail, "behind the buffers, at shape more") || strings.Contains(e.Detail, "odd")) {
			t.Errorf("not at that shape alone: %+v", e)
		}
	}
	e := f.Entries[1]
	if f.Winner != 1 || e.Verdict != evaluator.Correct {
		t.Fatalf("winner %d, %s: %s", f.Winner, e.Verdict, e.Reason)
	}
	details := map[string]string{}
	for _, row := range e.Evidence {
		details[row.Check] = string(row.Outcome) + ": " + row.Detail
	}
	for check, want := range map[string]string{
		asanName:                 "passed: in finals: no fault in one launch at shape more",
		"ubsan":                  "passed: in finals",
		guardsName:               "passed: in finals: no fault in three launches of the timed object at shape more, one with unaligned buffers",
		evaluator.SanitizeShapes: "passed: small in the search, more in finals",
	} {
		if details[check] != want {
			t.Errorf("%s: %q, want %q", check, details[check], want)
		}
	}
	if reach := details[evaluator.Reach]; !strings.HasPrefix(reach, "passed: ") || !strings.HasSuffix(reach, " at shape small, more") {
		t.Errorf("reach: %q", reach)
	}
}

// TestSanitizeAlsoUnsupported: a shape that a candidate's constraints exclude is none for it.
func TestSanitizeAlsoUnsupported(t *testing.T) {
	text, err := os.ReadFile("../testdata/redteam/product/kernel.toml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/redteam/product")); err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "[implementation.baseline]", "[[implementation.constraint]]\nexpr = \"SALT == 0 or M != 48\"\nwhy = \"for the test\"\n\n[implementation.baseline]", 1)
	if changed == string(text) {
		t.Fatal("the definition of the red team is another")
	}
	if err := os.WriteFile(dir+"/kernel.toml", []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	def, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	plan := planOf(def)
	plan.SanitizeAlso = []kernels.Shape{{Name: "more", Use: kernels.Sanitize, Dims: map[string]int64{"M": 48, "N": 16, "K": 16}}}
	needCompiler(t)
	b, err := New(quick())
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.open(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	space, err := def.Space(def.Implementations, plan.Tune, b.Limits())
	if err != nil {
		t.Fatal(err)
	}
	for salt, want := range []string{"", "at shape more it breaks the constraint"} {
		g, err := space.FromMap(map[string]any{"KERNEL": "honest", "SALT": salt, "REPORT": false})
		if err != nil {
			t.Fatal(err)
		}
		src, err := def.Implementations[0].Render(g)
		if err != nil {
			t.Fatal(err)
		}
		a, _, err := h.Build(t.Context(), src)
		if err != nil || !strings.Contains(a.Unsupported["more"], want) || (a.Unsupported["more"] == "") != (want == "") {
			t.Errorf("SALT=%d: %q, %v", salt, a.Unsupported, err)
		}
	}
}
