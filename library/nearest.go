package library

import (
	"maps"
	"math"
	"slices"
)

// flagDistance is what a dimension adds that is 0 in exactly one of two shapes.
// Such a dimension is a flag (a causal mask, say), and the other side of it
// another problem: farther than any change of one size, which is at most 63.
const flagDistance = 64

// Distance says how far two shapes of one problem are from each other, in
// doublings: the sum over their dimensions of |log2((1+a)/(1+b))|, and 64 more for
// every dimension that is 0 in exactly one of them. It is symmetric and keeps the
// triangle inequality. Shapes that do not have the same dimensions, and negative
// sizes, are no two shapes of one problem: the distance is +Inf.
func Distance(a, b map[string]int64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(a)) { // a sum in one order
		x := a[name]
		y, ok := b[name]
		if !ok || x < 0 || y < 0 {
			return math.Inf(1)
		}
		if (x == 0) != (y == 0) {
			sum += flagDistance
		}
		sum += math.Abs(math.Log2(1+float64(x)) - math.Log2(1+float64(y)))
	}
	return sum
}
