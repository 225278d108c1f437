package expr

import (
	"math"
	"testing"
)

// TestQuotient: integers that a float cannot hold are divided exactly, and zero keeps the sign that floats give it.
func TestQuotient(t *testing.T) {
	for _, c := range []struct {
		a, b int64
		want float64
	}{
		{math.MaxInt64, 3, 3074457345618258602.0},
		{math.MaxInt64, math.MaxInt64 - 1, 1},
		{1<<53 + 1, 1<<53 + 1, 1},
		{0, -math.MaxInt64, math.Copysign(0, -1)},
		{0, math.MaxInt64, 0},
	} {
		a, b := Int(c.a), Int(c.b)
		if got := quotient(&a, &b); math.Float64bits(got) != math.Float64bits(c.want) {
			t.Errorf("%d / %d is %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
