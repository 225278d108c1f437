package cuda

import (
	"slices"
	"testing"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/kernels"
)

// TestKeyed: integers with a structure are made on the device, for each launch anew.
func TestKeyed(t *testing.T) {
	def, err := kernels.Load(kernels.Builtin(), "attention-varlen")
	if err != nil {
		t.Fatal(err)
	}
	q, err := newProblem(planOf(def))
	if err != nil {
		t.Fatal(err)
	}
	d := q.Tune[0]
	i := q.index("starts")
	want := wire.Keyed{Distribution: "offsets", B: d.Dims[slices.Index(q.spec.Dims, "S")]}
	if q.stored() != "" || len(d.wire.Keyed) != len(q.spec.Buffers) || d.wire.Keyed[i] != want {
		t.Errorf("%q has a few contents, %+v, want %+v", q.stored(), d.wire.Keyed, want)
	}
}
