package ask

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestDistance(t *testing.T) {
	type dims = map[string]int64
	for _, c := range []struct {
		name string
		a, b dims
		want float64
	}{
		{"equal", dims{"M": 5, "N": 0}, dims{"M": 5, "N": 0}, 0},
		{"one doubling", dims{"M": 1023, "N": 7}, dims{"M": 511, "N": 7}, 1},
		{"two dimensions", dims{"M": 1, "N": 7}, dims{"M": 3, "N": 1}, 3},
		{"a flag", dims{"S": 15, "CAUSAL": 0}, dims{"S": 15, "CAUSAL": 1}, 65},
		{"flags before sizes", dims{"S": 1, "F": 1}, dims{"S": math.MaxInt64, "F": 1}, 62},
		{"missing", dims{"M": 1}, dims{"M": 1, "N": 1}, math.Inf(1)},
		{"other", dims{"M": 1}, dims{"N": 1}, math.Inf(1)},
		{"negative", dims{"M": -1}, dims{"M": 1}, math.Inf(1)},
		{"none", nil, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, got := range []float64{Distance(c.a, c.b), Distance(c.b, c.a)} {
				if got != c.want && !(math.Abs(got-c.want) < 1e-9) {
					t.Errorf("%g, want %g", got, c.want)
				}
			}
		})
	}
}

func TestNearest(t *testing.T) {
	known := map[string]map[string]int64{"small": {"M": 7}, "large": {"M": 1023}, "odd": {"N": 7}}
	dims := func(shape string) map[string]int64 { return known[shape] }
	for _, c := range []struct {
		name     string
		wanted   map[string]int64
		shapes   []string
		nearest  string
		distance float64
	}{
		{"", known["small"], []string{"large", "small"}, "small", 0},
		{"", map[string]int64{"M": 15}, []string{"large", "small"}, "small", 1},
		{"x", map[string]int64{"M": 511}, []string{"small", "gone", "large"}, "large", 1},
		{"gone", nil, []string{"small", "gone"}, "gone", 0}, // the same name is the same shape
		{"x", nil, []string{"small", "gone"}, "", math.Inf(1)},
		{"x", known["small"], []string{"gone", "odd"}, "", math.Inf(1)},
		{"", nil, []string{"", "gone"}, "", math.Inf(1)},
		{"small", known["small"], nil, "", math.Inf(1)},
	} {
		if nearest, distance := Nearest(c.name, c.wanted, c.shapes, dims); nearest != c.nearest || distance != c.distance {
			t.Errorf("%q %v of %q: %q at %g, want %q at %g", c.name, c.wanted, c.shapes, nearest, distance, c.nearest, c.distance)
		}
	}
}

// drawShape gives sizes with many zeros and small numbers among them.
func drawShape(t *rapid.T, label string) map[string]int64 {
	size := rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, math.MaxInt64))
	return map[string]int64{"A": size.Draw(t, label+" A"), "B": size.Draw(t, label+" B"), "C": size.Draw(t, label+" C")}
}

// TestDistanceIsAMetric draws triples of shapes.
func TestDistanceIsAMetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawShape(t, "a"), drawShape(t, "b"), drawShape(t, "c")
		ab, bc, ac := Distance(a, b), Distance(b, c), Distance(a, c)
		if ab != Distance(b, a) {
			t.Errorf("not symmetric: %g and %g", ab, Distance(b, a))
		}
		if Distance(a, a) != 0 {
			t.Errorf("%g from itself", Distance(a, a))
		}
		if ab < 0 || ab > 3*(63+flagDistance) {
			t.Errorf("%g is out of range", ab)
		}
		if ac > ab+bc+1e-9 {
			t.Errorf("a detour is shorter: %g > %g + %g", ac, ab, bc)
		}
		flags := 0.0
		for k := range a {
			if (a[k] == 0) != (b[k] == 0) {
				flags += flagDistance
			}
		}
		if ab < flags || flags == 0 && ab > 3*63 {
			t.Errorf("%g with flags of %g", ab, flags)
		}
	})
}
