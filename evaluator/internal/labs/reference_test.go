package labs_test

import (
	"testing"

	"github.com/evotune/evotune/evaluator/internal/labs"
	"github.com/evotune/evotune/kernels"
)

// TestReferenceRefused: why a reference does not compile is told with what its author knows.
func TestReferenceRefused(t *testing.T) {
	spec := &kernels.Problem{Dims: []string{"N"}, Buffers: []kernels.Buffer{{Name: "x", DType: kernels.F32, Role: kernels.In}, {Name: "y", DType: kernels.F32, Role: kernels.Out}}}
	spec.Reference.Text, spec.Reference.Entry = "one\n\tauto [a, b] = f();\n", "reference"
	const own = ": without a reference the kernel itself is one, and runs on the CPU as C: give a reference of its own, a function in Python or C that computes the outputs in double precision"
	for _, c := range []struct {
		oracle        kernels.Oracle
		summary, want string
	}{
		{kernels.OwnBaseline, "reference.c:2:7: error: expected identifier", "\"auto [a, b] = f();\": expected identifier" + own},
		{kernels.OwnBaseline, "k.cu:12:7: error: expected identifier", "k.cu:12: expected identifier" + own},
		{kernels.OwnBaseline, "collect2: error: ld returned 1 exit status", "collect2: error: ld returned 1 exit status" + own},
		{kernels.Independent, "reference.c:2:7: error: expected identifier", "reference.c:2:7: error: expected identifier"},
		{kernels.Independent, "reference.c:1:6: error: conflicting types for 'reference'", "reference.c:1:6: error: conflicting types for 'reference': it must be void reference(int64_t N, const double *x, double *y);"},
	} {
		if got := labs.ReferenceRefused(&kernels.Problem{Dims: spec.Dims, Buffers: spec.Buffers, Reference: spec.Reference, Oracle: c.oracle}, c.summary); got != c.want {
			t.Errorf("of %s, %s\ngot  %s\nwant %s", c.oracle, c.summary, got, c.want)
		}
	}
}
