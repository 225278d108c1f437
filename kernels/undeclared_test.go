package kernels_test

import (
	"slices"
	"testing"

	"github.com/evotune/evotune/kernels"
)

// Work left out is tried of one input along an axis that is summed over: what changes at once in the
// outputs, along their own axes or by the other inputs, would hide that a part of the sum is missing.
func TestUndeclared(t *testing.T) {
	const output = `shape = ["M", "N"]`
	for _, c := range []struct {
		output string
		want   []string
	}{
		{output, []string{"C returned as C", "work left out", "work left out along axis 1 of A", "work left out along axis 0 of B"}},
		{`shape = ["N"]`, []string{
			"C returned as C", "work left out", "work left out along axis 0 of A", "work left out along axis 1 of A", "work left out along axis 0 of B", "work left out along axis 0 of mask",
		}},
		{`shape = ["M", "K", "N"]`, []string{"C returned as C", "work left out"}},
	} {
		d := mustLoad(t, folder(change(t, output, c.output)))
		s := d.Problem.Shapes[0]
		controls, err := d.Problem.Undeclared(s)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range controls {
			got = append(got, x.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.output, got, c.want)
		}
	}
	// Of one input alone nothing is tried twice, nor along an axis of one step.
	d := mustLoad(t, folder(base))
	d.Problem.Buffers = slices.DeleteFunc(slices.Clone(d.Problem.Buffers), func(b kernels.Buffer) bool { return b.Name == "B" || b.Name == "mask" })
	for k, want := range map[int64]int{1: 2, 32: 2} {
		s := kernels.Shape{Name: "s", Dims: map[string]int64{"M": 4, "N": 4, "K": k}}
		if controls, err := d.Problem.Undeclared(s); err != nil || len(controls) != want {
			t.Errorf("K = %d: %v, %v", k, controls, err)
		}
	}
	// Every eighth step along an axis is all that lies behind it.
	thinned, err := d.Problem.Thinned(kernels.Control{Kind: kernels.LeftOut, Buffers: []string{"A"}, Axis: 0}, d.Problem.Shapes[0])
	if want := (kernels.Thinning{Steps: 64, Inner: 32}); err != nil || thinned[0] != want {
		t.Errorf("%+v, %v, want %+v", thinned, err, want)
	}
}
