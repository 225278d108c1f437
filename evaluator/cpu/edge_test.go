package cpu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// TestBaselineBites: where the baseline itself is wrong on edge-case inputs among timed launches, no
// candidate is compared there, and none is blamed.
func TestBaselineBites(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/redteam")); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{
		{"kernel.toml", `genome = { KERNEL = "honest"`, `genome = { KERNEL = "narrow-when-timed"`},
		{"narrow-when-timed.c", "if (++calls > 50)", "if (++calls > 0 && ROWS * COLS >= 65536)"},
		// As precise as others where it is right.
		{"narrow-when-timed.c", `#include "narrow-exp.c"`, "#define expf(x) (expf)((x) > 20 ? 20 : (x))\n#include \"no-max.c\"\n#undef expf"},
	} {
		path := filepath.Join(dir, "softmax", c[0])
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), c[1]) {
			t.Fatalf("%s is another: %v", path, err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), c[1], c[2], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	def, err := kernels.Load(os.DirFS(dir), "softmax")
	if err != nil {
		t.Fatal(err)
	}
	o := open(t, def, quick())
	src, err := def.Implementations[0].Render(o.genome(t, "KERNEL", "honest", "SALT", 1))
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := o.lab.Build(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := o.lab.Open(t.Context(), evaluator.ForTiming, a)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close() //nolint:errcheck // another test's
	s := opened.(*session)
	if _, err := s.Sample(t.Context(), evaluator.SampleRequest{
		Shape: o.lab.Plan.Tune[0], Rounds: 1, Batch: 200 * time.Microsecond, Within: map[string]float64{"Y": 1e-5},
	}); err != nil {
		t.Fatal(err)
	}
	var seen evaluator.Observation
	c := s.entries[0].now
	if err := c.onEdges(s.base, &seen, o.lab.edgesAt(c.d)); err != nil {
		t.Fatal(err)
	}
	if seen.Wrong != "" || seen.Guard != "" || !slices.Contains(seen.Edges, "tiny") || slices.Contains(seen.Edges, "offset") {
		t.Errorf("%+v", seen)
	}
}
