//go:build linux

package cpu

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// more is a further sanitize shape of the red team's kernels.
var more = kernels.Shape{Name: "more", Use: kernels.Sanitize, Dims: map[string]int64{"M": 64, "N": 64, "K": 512}}

// openMore opens the red team's kernels with that shape.
func openMore(t *testing.T) *setup {
	t.Helper()
	def, err := kernels.Load(os.DirFS("../testdata/redteam"), "product")
	if err != nil {
		t.Fatal(err)
	}
	plan := planOf(def)
	plan.SanitizeAlso = []kernels.Shape{more}
	s := openPlan(t, plan, quick(asanName, guardsName))
	if !s.works(t, asanName) {
		t.Skip("skipped: the address sanitizer does not work here")
	}
	return s
}

// TestSanitizeAlso: tools run at a further sanitize shape as well, and what runs there counts as seen.
func TestSanitizeAlso(t *testing.T) {
	s := openMore(t)
	build := func(kernel string) evaluator.Artifact {
		src, err := s.lab.Plan.Implementations[0].Render(s.genome(t, "KERNEL", kernel, "SALT", 0, "REPORT", false))
		if err != nil {
			t.Fatal(err)
		}
		a, _, err := s.lab.Build(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	past := build("read-past-end-large")
	for _, c := range []struct {
		tool  string
		shape kernels.Shape
		found string
	}{
		{asanName, s.lab.Plan.Sanitize, ""},
		{asanName, more, "heap-buffer-overflow"},
		{guardsName, s.lab.Plan.Sanitize, "with guard pages behind the buffers, at shape odd"}, // in the search at all shapes but this
		{guardsName, more, "with guard pages behind the buffers, at shape more"},
	} {
		f, err := s.lab.Launch(t.Context(), past, c.tool, c.shape)
		found := f.Found
		var own *evaluator.Fault
		if errors.As(err, &own) {
			found, err = own.Reason, nil
		}
		if err != nil || !strings.Contains(found, c.found) || (found == "") != (c.found == "") {
			t.Errorf("%s at %s finds %q, %v; want %q", c.tool, c.shape.Name, found, err, c.found)
		}
	}
	e, err := s.lab.Profile(t.Context(), build("honest"))
	if err != nil || len(e) != 1 || e[0].Outcome != evaluator.Passed || !strings.HasSuffix(e[0].Detail, " at shape small, more") {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestLargeFrameLong: a stack frame of 4 MiB is legal, under every tool as well.
func TestLargeFrameLong(t *testing.T) {
	longtest.Long(t, "it runs a kernel under every tool")
	b := bareOf(t, sharedLab(t, "scale", asanName, memcheckName, guardsName))
	a := b.build("frame", 1)
	for _, tool := range b.Sanitizers() {
		if f, err := b.Launch(t.Context(), a, tool, b.Plan.Sanitize); err != nil || f.Found != "" {
			t.Errorf("%s: %s, %v", tool, f.Found, err)
		}
	}
	s := b.open(evaluator.ForParity, a)
	if o, err := s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize}); err != nil || o.Guard != "" || o.Different != "" || o.Outputs[0].Error > 1e-6 {
		t.Errorf("%+v, %v", o, err)
	}
	_, _ = s.Close()
}

// TestSanitizeAlsoLong: what a kernel does wrong at a further sanitize shape alone, a finalist is
// refused for; and what runs there a sanitizer has seen.
func TestSanitizeAlsoLong(t *testing.T) {
	longtest.Long(t, "holds finals")
	s := openMore(t)
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
	other := strings.Replace(string(text), "[implementation.baseline]", "[[implementation.constraint]]\nexpr = \"SALT == 0 or M != 48\"\nwhy = \"for the test\"\n\n[implementation.baseline]", 1)
	if other == string(text) {
		t.Fatal("the definition of the red team is another")
	}
	if err := os.WriteFile(dir+"/kernel.toml", []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	def, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	plan := planOf(def)
	plan.SanitizeAlso = []kernels.Shape{{Name: "more", Use: kernels.Sanitize, Dims: map[string]int64{"M": 48, "N": 16, "K": 16}}}
	s := openPlan(t, plan, quick())
	for salt, want := range []string{"", "at shape more it breaks the constraint"} {
		src, err := def.Implementations[0].Render(s.genome(t, "KERNEL", "honest", "SALT", salt, "REPORT", false))
		if err != nil {
			t.Fatal(err)
		}
		a, _, err := s.lab.Build(t.Context(), src)
		if err != nil || !strings.Contains(a.Unsupported["more"], want) || (a.Unsupported["more"] == "") != (want == "") {
			t.Errorf("SALT=%d: %q, %v", salt, a.Unsupported, err)
		}
	}
}
