package cuda

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/kernels"
)

// TestKeyed: integers with a structure are made on the device, for each launch anew; what is written for others
// is read again, by content.
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
	if list := drawn(q.spec.Buffers[0], 13, 1); len(list) != 13 || slices.Max(list) > 30 || drawn(q.spec.Buffers[i], 13, 1) != nil {
		t.Errorf("%s and starts are drawn as %v, %v", q.spec.Buffers[0].Name, list, drawn(q.spec.Buffers[i], 13, 1))
	}
	file := filepath.Join(t.TempDir(), "made")
	var raw []byte
	for k := range wire.MadeContents {
		raw = wire.AppendElements(raw, "i32", slices.Repeat([]float64{float64(k)}, int(d.Elements[i])))
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for k := range wire.MadeContents {
		made, err := q.readMade(d, file, k)
		if err != nil || made[0] != nil || !slices.Equal(made[i], slices.Repeat([]float64{float64(k)}, int(d.Elements[i]))) {
			t.Errorf("content %d: %v, %v", k, made, err)
		}
	}
	if made, err := q.readMade(d, "", 0); err != nil || made[i] != nil {
		t.Errorf("without a file: %v, %v", made, err)
	}
	if q.stored() != "" || len(d.wire.Keyed) != len(q.spec.Buffers) || d.wire.Keyed[i] != want {
		t.Errorf("%q has a few contents, %+v, want %+v", q.stored(), d.wire.Keyed, want)
	}
}
