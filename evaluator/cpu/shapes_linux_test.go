package cpu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/longtest"
	"github.com/evotune/evotune/kernels"
)

// TestShapeThatNobodyComputes: where a constraint over the dimensions excludes a shape, its
// reference is not asked for, and the evidence says that nothing ran there.
func TestShapeThatNobodyComputes(t *testing.T) {
	longtest.Short(t, "computes for long")
	dir := t.TempDir()
	for _, name := range []string{"kernel.toml", "reference.c", "scale.c.tmpl"} {
		b, err := os.ReadFile(filepath.Join("testdata", "scale", name))
		text := string(b)
		switch name {
		case "kernel.toml":
			text = strings.Replace(text, "[implementation.baseline]", "[[implementation.constraint]]\nexpr = \"N != 1237\"\nwhy = \"it is for other sizes\"\n\n[implementation.baseline]", 1)
		case "reference.c":
			text = strings.Replace(text, "{\n", "{\n\tif (N == 1237)\n\t\t__builtin_trap();\n", 1)
		}
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := kernels.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, d, quick()).evaluate(t, "UNROLL", 4)
	if r.Verdict != evaluator.Correct {
		t.Fatalf("%s at %s: %s", r.Verdict, r.Stage, r.Reason)
	}
	step, _ := r.Step(evaluator.StageParity)
	for _, e := range step.Evidence {
		if strings.Contains(e.Check, "odd") && e.Outcome == evaluator.NotRun && strings.Contains(e.Detail, "it is for other sizes") {
			return
		}
	}
	t.Errorf("the evidence does not say that nothing ran at the shape: %+v", step.Evidence)
}
