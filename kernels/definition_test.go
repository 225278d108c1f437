package kernels

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlags(t *testing.T) {
	shape := func(size, team, causal, bias int64) Shape {
		return Shape{Dims: map[string]int64{"SIZE": size, "TEAM": team, "CAUSAL": causal, "BIAS": bias}}
	}
	d := &Definition{
		Problem:  Problem{Dims: []string{"SIZE", "TEAM", "CAUSAL", "BIAS"}, Shapes: []Shape{shape(0, 1, 0, 0), shape(64, 1, 1, 0)}},
		Variants: map[string]*Problem{"cuda": {Shapes: []Shape{shape(1, 1, 0, 0)}}},
	}
	if diff := cmp.Diff([]string{"CAUSAL", "BIAS"}, d.Flags()); diff != "" {
		t.Error(diff)
	}
	// A size on another backend is not a flag.
	d.Variants["cuda"].Shapes[0].Dims["BIAS"] = 2
	if diff := cmp.Diff([]string{"CAUSAL"}, d.Flags()); diff != "" {
		t.Error(diff)
	}
	// The problem of one backend asks its own shapes alone, and wants both values.
	if diff := cmp.Diff([]string{"CAUSAL"}, d.Problem.Flags()); diff != "" {
		t.Error(diff)
	}
	d.Problem.Shapes[1].Dims["BIAS"] = 1
	if diff := cmp.Diff([]string{"CAUSAL", "BIAS"}, d.Problem.Flags()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"CAUSAL"}, d.Flags()); diff != "" {
		t.Error(diff)
	}
}
