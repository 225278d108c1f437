package cpu

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/kernels"
)

func TestHalf(t *testing.T) {
	for x, want := range map[float64]uint16{
		0: 0, 1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 65519.99: 0x7bff, 65520: 0x7c00, math.Inf(-1): 0xfc00,
		0x1p-24: 1, 0x1p-25: 0, 0x1.8p-25: 1, 0x1p-14: 0x0400, 1 + 0x1p-11: 0x3c00, 1 + 0x1.8p-11: 0x3c01, 1 + 0x3p-11: 0x3c02,
		2 - 0x1p-12: 0x4000,
	} {
		if got := halfBits(x); got != want {
			t.Errorf("halfBits(%v) = %#04x, want %#04x", x, got, want)
		}
	}
	if v := halfValue(halfBits(math.NaN())); v == v {
		t.Errorf("NaN became %v", v)
	}
	for h := range 1 << 16 {
		v := halfValue(uint16(h))
		if v != v {
			continue
		}
		if got := halfBits(v); got != uint16(h) {
			t.Fatalf("%#04x is %v is %#04x", h, v, got)
		}
	}
}

// Whatever is rounded goes to a nearest value, and comes back as it is.
func TestRounding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-60000, 60000).Draw(t, "x")
		b := make([]byte, 8)
		for d := range dtypes {
			d := dtype(d)
			d.put(b, 0, x)
			v := d.get(b, 0)
			d.put(b, 0, v)
			if again := d.get(b, 0); again != v {
				t.Fatalf("%s: %v became %v, then %v", d, x, v, again)
			}
			unit := map[dtype]float64{f64: 0, f32: 0x1p-24, f16: 0x1p-11, bf16: 0x1.01p-8}
			if u, ok := unit[d]; ok && math.Abs(v-x) > u*math.Abs(x)+0x1p-25 {
				t.Fatalf("%s: %v became %v", d, x, v)
			}
		}
	})
}

func TestIntegersSaturate(t *testing.T) {
	b := make([]byte, 8)
	for _, c := range []struct {
		d       dtype
		x, want float64
	}{
		{i8, 200, 127},
		{i8, -200, -128},
		{u8, -1, 0},
		{u8, 300, 255},
		{i32, 1e12, math.MaxInt32},
		{i16, -1e9, math.MinInt16},
		{u16, 1e9, math.MaxUint16},
		{u16, -1, 0},
		{u32, 4294967295, math.MaxUint32},
		{u32, 1e10, math.MaxUint32},
		{i64, 12345678, 12345678},
		{i32, 2.5, 2},
		{i32, math.NaN(), 0},
	} {
		c.d.put(b, 0, c.x)
		if got := c.d.get(b, 0); got != c.want {
			t.Errorf("%s: %v became %v, want %v", c.d, c.x, got, c.want)
		}
	}
}

func TestDistributions(t *testing.T) {
	const n = 20000
	for _, c := range []struct {
		d            distribution
		lo, hi, mean float64
	}{
		{distribution{"uniform", -1, 3}, -1, 3, 1},
		{distribution{"normal", 5, 2}, -15, 25, 5},
		{distribution{"integers", -2, 2}, -2, 2, 0},
		{distribution{"constant", 7, 0}, 7, 7, 7},
	} {
		s := newStream(1, 0, 0)
		sum := 0.0
		seen := map[float64]bool{}
		for range n {
			x := c.d.draw(s)
			if x < c.lo || x > c.hi {
				t.Fatalf("%v gave %v", c.d, x)
			}
			sum += x
			seen[x] = true
		}
		if m := sum / n; math.Abs(m-c.mean) > 0.1 {
			t.Errorf("%v has mean %v", c.d, m)
		}
		if c.d.kind == "integers" && len(seen) != 5 {
			t.Errorf("%v gave %v", c.d, seen)
		}
	}
}

// Data depends on the seed, the variant and the buffer, and on nothing else.
func TestStreams(t *testing.T) {
	first := map[uint64]string{}
	for seed := range uint64(4) {
		for v := range 4 {
			for b := range 4 {
				x := newStream(seed, v, b).next()
				if was, ok := first[x]; ok {
					t.Errorf("two streams begin alike: %s", was)
				}
				first[x] = "seen"
				if newStream(seed, v, b).next() != x {
					t.Error("a stream does not repeat")
				}
			}
		}
	}
}

func TestPoison(t *testing.T) {
	for d := range dtypes {
		d := dtype(d)
		p := poisonBytes(d, 4*d.size())
		for i := range 4 {
			if v := d.get(p, i); !d.integer() && v == v {
				t.Errorf("%s: the poison is %v", d, v)
			}
		}
		s := staleBytes(d, 4*d.size(), 3, newStream(1, 1, 1))
		for i := range 4 {
			if v := d.get(s, i); v != v || math.Abs(v) > 3 {
				t.Errorf("%s: stale is %v", d, v)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	e, err := newExpected([]float64{3, -4, 0, 5})
	if err != nil {
		t.Fatal(err)
	}
	if want := math.Sqrt(50.0 / 4); math.Abs(e.rms-want) > 1e-12 {
		t.Errorf("rms %v, want %v", e.rms, want)
	}
	nan, inf := math.NaN(), math.Inf(1)
	poison := poisonBytes(f32, 16)
	for _, c := range []struct {
		name      string
		got       []float64
		err       float64
		worst     int64
		notFinite int64
	}{
		{"right", []float64{3, -4, 0, 5}, 0, 0, 0},
		{"one off", []float64{3, -4, 1, 5}, 1 / e.rms, 2, 0},
		{"not a number", []float64{3, nan, 0, 9}, inf, 1, 1},
		{"infinite", []float64{3, -4, nan, inf}, inf, 2, 2},
	} {
		b, wide := make([]byte, 16), make([]byte, 32)
		for i, v := range c.got {
			f32.put(b, i, v)
			f64.put(wide, i, v)
		}
		for _, o := range []evaluator.Output{e.compare(b, f32, 0, poison), e.compare(wide, f64, 0, nil)} {
			if o.Error != c.err && !(math.Abs(o.Error-c.err) < 1e-6) || o.Worst != c.worst || o.NotFinite != c.notFinite || o.Unwritten != 0 ||
				o.Elements != 4 || o.Want != e.values[c.worst] || o.Got != c.got[c.worst] && o.Got == o.Got {
				t.Errorf("%s: %+v", c.name, o)
			}
		}
	}
	// Of bfloat16, 10 where 9.914 is wanted is two roundings off; 10.0625 is more than that.
	large, err := newExpected([]float64{9.914, 1, -1, 1, -1, 1, 1, -1, 0})
	if err != nil {
		t.Fatal(err)
	}
	units := (&kernels.Problem{Tolerance: map[kernels.DType]float64{kernels.BF16: 0.01}}).UnitsOf(kernels.Buffer{DType: kernels.BF16})
	for _, c := range []struct {
		first, last, units, err float64
	}{
		{10, 0, units, 0},
		{10, 0, 0, 10 - 9.914},
		{10.0625, 0, units, 10.0625 - 9.914},
		{9.8125, 0, units, 9.914 - 9.8125},
		{0, 0, units, 9.914},
		{10, 0.001953125, units, 0.001953125},
		{math.Inf(1), 0, units, inf},
		{-9.914, 0, units, 2 * 9.914},
	} {
		b := make([]byte, 8*9)
		for i, v := range large.values {
			f64.put(b, i, v)
		}
		f64.put(b, 0, c.first)
		f64.put(b, 8, c.last)
		if o := large.compare(b, f64, c.units, nil); math.Abs(o.Error-c.err/large.rms) > 1e-12 {
			t.Errorf("%+v: the error is %v, want %v", c, o.Error*large.rms, c.err)
		}
	}
	half := append([]byte{}, poison...)
	f32.put(half, 0, 3)
	f32.put(half, 1, nan)
	if o := e.compare(half, f32, 0, poison); o.Unwritten != 2 || o.NotFinite != 1 || o.Worst != 2 || !math.IsInf(o.Error, 1) {
		t.Errorf("poison: %+v", o)
	}
	ip := poisonBytes(i32, 16)
	if o := e.compare(ip, i32, 0, ip); o.Unwritten != 4 || o.Worst != 0 || o.NotFinite != 0 || !(o.Error > 1) {
		t.Errorf("integer poison: %+v", o)
	}
	zero, err := newExpected([]float64{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	f32.put(b, 1, 1e-30)
	if o := zero.compare(b, f32, 0, nil); !math.IsInf(o.Error, 1) || o.Worst != 1 {
		t.Errorf("where the reference is zero nothing else is right: %+v", o)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		if _, err := newExpected([]float64{1, bad}); err == nil {
			t.Errorf("a reference of %v was taken", bad)
		}
	}
	for _, huge := range []float64{1e300, 1e-300} {
		if e, err := newExpected([]float64{huge, -huge}); err != nil || math.Abs(e.rms/huge-1) > 1e-12 {
			t.Errorf("%g: %g %v", huge, e.rms, err)
		}
	}
}

// Cores that compare parts of an output find together what one finds.
func TestCompareOnCores(t *testing.T) {
	const n = 200_003
	values, right := make([]float64, n), make([]byte, 4*n)
	from := newStream(1, 0, 0)
	for i := range values {
		x := float32(2*from.uniform() - 1)
		if i == 70_000 || i == 150_000 { // where both are as far off, the first one counts
			x = 0.5
		}
		values[i] = float64(x)
		f32.put(right, i, values[i])
	}
	poison := poisonBytes(f32, len(right))
	one, err := newExpected(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, cores := range []int{2, 3, 64} {
		e, err := expectedOn(cores, values)
		if err != nil || math.Abs(e.rms/one.rms-1) > 1e-12 || e.largest != one.largest {
			t.Fatalf("%d cores: %g and %g, not %g and %g (%v)", cores, e.rms, e.largest, one.rms, one.largest, err)
		}
		e.rms = one.rms
		for _, wrong := range []map[int]float64{
			{}, {0: 2}, {n - 1: 2}, {70_000: 3, 7: 2}, {70_000: 3, 150_000: 3}, {150_000: math.NaN(), 3: 5}, {90_000: math.Inf(1)},
		} {
			got := bytes.Clone(right)
			for i, by := range wrong {
				f32.put(got, i, values[i]+by)
			}
			if a, b := fmt.Sprintf("%+v", e.compare(got, f32, 0, poison)), fmt.Sprintf("%+v", one.compare(got, f32, 0, poison)); a != b {
				t.Errorf("%d cores, %v: %s, not %s", cores, wrong, a, b)
			}
		}
		strange := slices.Clone(values)
		strange[190_000], strange[199_000] = math.NaN(), math.Inf(1)
		if _, err := expectedOn(cores, strange); err == nil || !strings.Contains(err.Error(), "element 190000 ") {
			t.Errorf("%d cores: %v", cores, err)
		}
	}
}

// The error does not depend on the output's scale, and grows with any element.
func TestCompareScales(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		values := rapid.SliceOfN(rapid.Float64Range(0.5, 2), n, n).Draw(t, "values")
		at := rapid.IntRange(0, n-1).Draw(t, "at")
		off := rapid.Float64Range(0.01, 1).Draw(t, "off")
		scale := math.Ldexp(1, rapid.IntRange(-60, 60).Draw(t, "scale"))
		errs := [2]float64{}
		for k, s := range []float64{1, scale} {
			ref := make([]float64, n)
			b := make([]byte, 8*n)
			for i, v := range values {
				ref[i] = v * s
				f64.put(b, i, v*s)
			}
			f64.put(b, at, (values[at]+off)*s)
			e, err := newExpected(ref)
			if err != nil {
				t.Fatal(err)
			}
			o := e.compare(b, f64, 0, nil)
			if o.Worst != int64(at) || o.Error <= 0 {
				t.Fatalf("%+v", o)
			}
			errs[k] = o.Error
		}
		if math.Abs(errs[0]-errs[1]) > 1e-9*errs[0] {
			t.Fatalf("errors %v at scale %v", errs, scale)
		}
	})
}

// The scale of an output is that of all declared contents: one element may be small by chance.
func TestUsual(t *testing.T) {
	var d shapeData
	for v, x := range []float64{3, 1e-9, -4} {
		e, err := newExpected([]float64{x})
		if err != nil {
			t.Fatal(err)
		}
		d.expected[v] = []expected{{}, e}
	}
	if got := d.usual(1); math.Abs(got-math.Sqrt(25./3)) > 1e-12 {
		t.Errorf("%g", got)
	}
	if got := d.usual(2); got != 0 {
		t.Errorf("%g of an output that was not computed", got)
	}
}
