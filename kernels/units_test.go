package kernels

import "testing"

// What must be exact stays exact, and 8-bit types have their tolerance alone.
func TestUnitsOf(t *testing.T) {
	p := &Problem{Tolerance: map[DType]float64{F64: 1e-12, F32: 1e-5, F16: 8e-3, BF16: 6e-2, E4M3: .25, E5M2: .5, I32: 0}}
	for dtype, want := range map[DType]float64{F64: 0x1.8p-52, F32: 0x1.8p-23, F16: 0x1.8p-10, BF16: 0x1.8p-7, E4M3: 0, E5M2: 0, I32: 0, I64: 0} {
		if got := p.UnitsOf(Buffer{DType: dtype}); got != want {
			t.Errorf("%s: %v, want %v", dtype, got, want)
		}
	}
	if exact := 0.0; p.UnitsOf(Buffer{DType: BF16, Tolerance: &exact}) != 0 {
		t.Error("an output with the tolerance 0 must be exact")
	}
}
