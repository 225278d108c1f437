//go:build linux

package cpu

import (
	"math"
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

// furtherLab is a lab on the kernel "scale" with a wide domain and a scalar that changes.
func furtherLab(t *testing.T, pairs ...string) bare {
	t.Helper()
	pairs = append([]string{
		"kernel.toml", `data = "normal(1,2)"`, "data = \"normal(1,2)\"\ndomain = \"[-1e4, 1e4]\"",
		"kernel.toml", `value = "2.5"`, "value = \"2.5\"\nalso = [-3]",
	}, pairs...)
	return bareOf(t, open(t, changed(t, pairs...), quick()))
}

// Contents that bite reach the candidate and the reference alike, with the scalars of
// their turn, and an honest candidate is right on all of them.
func TestFurtherContents(t *testing.T) {
	b := furtherLab(t)
	s := b.open(evaluator.ForParity, b.build("nothing", 1))
	t.Cleanup(func() { _, _ = s.Close() }) // a lab waits for its sessions
	factors := map[float64]bool{}
	for _, c := range b.Plan.Definition.Problem.Further() {
		o, err := s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize, Further: c.Name})
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Outputs) != 1 || o.Outputs[0].Error != 0 || o.Outputs[0].NotFinite != 0 || o.InputChanged != "" || o.Guard != "" {
			t.Errorf("%s: %+v", c.Name, o)
		}
		d := b.problem.Sanitize.further[c.Name]
		factors[d.Scalars[0]] = true
		e, x := d.expected[0][1], d.inputs[0][0]
		for i, want := range e.values {
			if got := d.Scalars[0] * f32.get(x, i); got != want {
				t.Fatalf("%s: element %d is %v, want %v", c.Name, i, want, got)
			}
		}
		if want := math.Abs(d.Scalars[0]); c.Name == "ends" && math.Abs(e.slack-1e4*want*(0x1p-19+0x1p-23)) > 1e-6 {
			t.Errorf("the slack at the ends of the domain is %g", e.slack)
		}
	}
	if len(factors) != 2 || !factors[2.5] || !factors[-3] {
		t.Errorf("the scalars were %v", factors)
	}
	// Declared contents follow with the declared scalar.
	o, err := s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize})
	if err != nil || o.Outputs[0].Error > 1e-6 {
		t.Errorf("%v: %+v", err, o)
	}
	for _, r := range []evaluator.CompareRequest{{Shape: b.Plan.Sanitize, Further: "bland"}, {Shape: b.Plan.Tune[0], Further: "ends"}} {
		if _, err := s.Compare(t.Context(), r); err == nil || !strings.Contains(err.Error(), "has no contents called") {
			t.Errorf("%s %s: %v", r.Shape.Name, r.Further, err)
		}
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A reference without a finite answer makes contents silent, and no more than these.
func TestSilentReference(t *testing.T) {
	b := furtherLab(t, "reference.c", "y[i] = factor * x[i]", "y[i] = factor * x[i] / (x[i] != 0)")
	s := b.open(evaluator.ForParity, b.build("nothing", 1))
	t.Cleanup(func() { _, _ = s.Close() }) // a lab waits for its sessions
	for name, want := range map[string]string{"zeros": "the reference gives no finite answer", "constant": ""} {
		o, err := s.Compare(t.Context(), evaluator.CompareRequest{Shape: b.Plan.Sanitize, Further: name})
		if err != nil || !strings.HasPrefix(o.NotCompared, want) || (want == "") != (o.NotCompared == "") {
			t.Errorf("%s: %v, %q", name, err, o.NotCompared)
		}
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What exceeds the slack is the error, also where the reference is zero.
func TestSlack(t *testing.T) {
	for _, c := range []struct {
		want, slack, got, error float64
	}{
		{2, 0.5, 2.5, 0},
		{2, 0.5, 3.5, 0.5},
		{2, 0, 3, 0.5},
		{0, 1e-3, 1e-3, 0},
		{0, 1e-3, 2e-3, math.Inf(1)},
		{0, 0, 0, 0},
		{2, 0.5, math.NaN(), math.Inf(1)},
		{2, math.Inf(1), 7, 0},
	} {
		e, err := newExpected([]float64{c.want})
		if err != nil {
			t.Fatal(err)
		}
		e.slack = c.slack
		out := make([]byte, 8)
		f64.put(out, 0, c.got)
		if o := e.compare(out, f64, 0, nil); o.Error != c.error {
			t.Errorf("%+v: error %g", c, o.Error)
		}
	}
}

// The halved control has half of the reference and zeros.
func TestHalved(t *testing.T) {
	b := openBare(t)
	outputs, err := b.Control(t.Context(), kernels.Control{Kind: kernels.Halved}, b.Plan.Sanitize)
	if err != nil || len(outputs) != 1 {
		t.Fatal(outputs, err)
	}
	e := b.problem.Sanitize.expected[0][1]
	below := 0
	for _, v := range e.values {
		if math.Abs(v) <= outputs[0].Error*e.rms*(1+1e-9) {
			below++
		}
	}
	if n := len(e.values); below != (n+1)/2 {
		t.Errorf("the error of %g leaves out %d of %d", outputs[0].Error, below, n)
	}
}
