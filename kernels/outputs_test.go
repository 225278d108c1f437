package kernels_test

import (
	"strings"
	"testing"

	"github.com/evotune/evotune/kernels"
)

// An output's own tolerance stands in the place of that of its type.
func TestOwnTolerance(t *testing.T) {
	const data, table = `data = "constant(0.25)"`, "[problem.tolerance]\nf32 = 1e-5\n"
	own := change(t, data, data+"\ntolerance = 1e-3")
	alone := strings.Replace(own, table, "", 1)
	of := func(p *kernels.Problem) float64 {
		c, _ := p.Buffer("C")
		x, ok := p.ToleranceOf(c)
		if !ok {
			t.Error("output C has no tolerance")
		}
		return x
	}
	for text, want := range map[string]float64{base: 1e-5, own: 1e-3, alone: 1e-3} {
		if got := of(&mustLoad(t, folder(text)).Problem); got != want {
			t.Errorf("a tolerance of %g, want %g", got, want)
		}
	}
	if _, err := kernels.Load(folder(strings.Replace(base, table, "", 1)), "k"); err == nil || !strings.Contains(err.Error(), "[problem] lacks tolerance: add a table [problem.tolerance] with a number for every type of output") {
		t.Errorf("no tolerance at all: %v", err)
	}
	// A variant has it too, but not for another type.
	d := mustLoad(t, folder(own+cuda+variant))
	if a, b := of(&d.Problem), of(d.ProblemOn("cuda")); a != 1e-3 || b != 1e-3 {
		t.Errorf("tolerances of %g and, in f16, %g", a, b)
	}
	if c, _ := d.ProblemOn("cuda").Buffer("C"); c.Tolerance != nil {
		t.Errorf("the tolerance in f32, %g, is that in f16", *c.Tolerance)
	}
	d = mustLoad(t, folder(own+cuda+strings.Replace(strings.Replace(variant, `, C = "f16"`, "", 1), "[problem.variant.tolerance]\nf16 = 1e-3\n", "", 1)))
	if got := of(d.ProblemOn("cuda")); got != 1e-3 {
		t.Errorf("a tolerance of %g in a variant of the same type, want 1e-3", got)
	}
	if _, err := kernels.Load(folder(alone+cuda+strings.Replace(variant, "[problem.variant.tolerance]\nf16 = 1e-3\n", "", 1)), "k"); err == nil ||
		!strings.Contains(err.Error(), "[problem.variant.tolerance] lacks f16, the type of output C") {
		t.Errorf("no tolerance in f16: %v", err)
	}
}

// gpuOnly is base for GPUs alone, with a piece replaced.
func gpuOnly(tb testing.TB, old, replacement string) string {
	tb.Helper()
	text := change(tb, old, replacement)
	return text[:strings.Index(text, "[[implementation]]")] + cuda
}

func TestOutputKeys(t *testing.T) {
	const role, data = "role = \"inout\"\n", `data = "constant(0.25)"`
	d := mustLoad(t, folder(gpuOnly(t, role+data, "role = \"out\"\nrepeat = 1e-6\nunwritten = \"nan\"")))
	if c, _ := d.Problem.Buffer("C"); c.Repeat != 1e-6 || !c.Unwritten || c.Tolerance != nil {
		t.Errorf("output C is %+v", c)
	}
	if a, _ := d.Problem.Buffer("A"); a.Repeat != 0 || a.Unwritten {
		t.Errorf("input A is %+v", a)
	}
	if _, err := kernels.Load(folder(gpuOnly(t, role+data, "role = \"out\"\nunwritten = \"nan\"")+strings.Replace(variant, `C = "f16"`, `C = "i32"`, 1)), "k"); err == nil ||
		!strings.Contains(err.Error(), "buffer C has unwritten, and i32 has no NaN") {
		t.Errorf("integers in a variant: %v", err)
	}
	for text, want := range map[string]string{
		gpuOnly(t, data, data+"\ntolerance = 0.2"):  "a tolerance of 0.2 of the output's scale proves next to nothing",
		gpuOnly(t, data, data+"\ntolerance = 0.01"): "every output of the type f32 has a tolerance of its own: remove this one",
		gpuOnly(t, data, data+"\nrepeat = 0.01"):    "launches may differ by 0.01, and two that are within the tolerance of 1e-05 of the reference",
		gpuOnly(t, "f32 = 1e-5", "f32 = 0.2"):       "a tolerance of 0.2 of the output's scale proves next to nothing",
		gpuOnly(t, data, data):                      "",
		gpuOnly(t, data, data+"\nrepeat = 2e-5"):    "",
	} {
		found := false
		var all []string
		for _, f := range lint(mustLoad(t, folder(text)), 2) {
			found = found || want != "" && strings.Contains(f, want)
			if strings.Contains(f, "tolerance") || strings.Contains(f, "launches may") {
				all = append(all, f)
			}
		}
		if found != (want != "") || want == "" && all != nil {
			t.Errorf("found %q, want %q", all, want)
		}
	}
}
