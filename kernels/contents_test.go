package kernels

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

// biting loads a kernel of one input, whose table has the given lines, and one output.
func biting(t testing.TB, lines string) (*Definition, error) {
	t.Helper()
	text := strings.NewReplacer("INPUT", lines).Replace(`format = 1
name = "k"
description = "a kernel"
[problem]
dims = ["R", "C"]
operations = "R*C"
bytes = "R*C"
pipe = "f32"
[problem.reference]
source = "r.c"
entry = "r"
[[problem.shape]]
name = "a"
dims = { R = 4, C = 5 }
use = "tune"
[[problem.shape]]
name = "b"
dims = { R = 3, C = 5 }
use = "verify"
[[problem.shape]]
name = "c"
dims = { R = 3, C = 5 }
use = "sanitize"
[[problem.buffer]]
name = "X"
shape = ["R", "C"]
INPUT
[[problem.buffer]]
name = "Y"
dtype = "f32"
shape = ["R"]
role = "out"
[problem.tolerance]
f32 = 1e-4
[[problem.control]]
kind = "zeros"
[[implementation]]
name = "i"
backend = "cpu"
target = "native"
template = "t.c"
entry = "k"
flags = []
[[implementation.parameter]]
name = "P"
values = [1, 2]
[implementation.baseline]
genome = { P = 1 }
`)
	return Load(fstest.MapFS{
		"k/kernel.toml": {Data: []byte(text)}, "k/r.c": {Data: []byte("void r() {}")}, "k/t.c": {Data: []byte("void k() { {{.P}} }")},
	}, "k")
}

func furtherNames(p *Problem) string {
	var names []string
	for _, c := range p.Further() {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// Which contents there are follows from domain, data and type.
func TestFurtherNames(t *testing.T) {
	for _, c := range []struct{ input, domain, want string }{
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"normal(0,1)\"", "[-6, 6]", "offset ramp outliers constant ties negative positive broad ends tiny sparse zeros somewhere"},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"uniform(-1,1)\"", "[-1, 1]", "offset ramp outliers constant ties negative positive ends tiny sparse zeros somewhere"},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"uniform(1,2)\"\ndomain = \"[0.5, 100]\"", "[0.5, 100]", "offset ramp outliers constant ties broad ends somewhere"},
		{"dtype = \"f16\"\nrole = \"in\"\ndata = \"uniform(0.5,1)\"\ndomain = \"(0, 1]\"", "[6.103515625e-05, 1]", "offset ramp outliers constant ties broad ends somewhere"},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"normal(0,1)\"\ndomain = \"[-9, 9]\"\ndenormals = true", "[-9, 9]", "offset ramp outliers constant ties negative positive broad ends tiny sparse zeros somewhere denormal"},
		{"dtype = \"i32\"\nrole = \"in\"\ndata = \"integers(0,9)\"", "[0, 9]", "offset ramp outliers constant ties ends sparse zeros somewhere"},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"constant(2)\"", "[2, 2]", ""},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"constant(2)\"\ndomain = \"[1, 2)\"", "", "the domain of X does not hold its data constant(2): widen it"},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"uniform(-1,1)\"\ndomain = \"[0, 1]\"", "", "the domain of X does not hold its data uniform(-1,1): widen it"},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"uniform(-1,1)\"\ndomain = \"-1 to 1\"", "", `the domain "-1 to 1" of X is not an interval: write "[-1e4, 1e4]", or "(0, 1]" where an end does not belong to it`},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"uniform(-1,1)\"\ndomain = \"[2, -2]\"", "", "the domain of X is empty in f32: put the smaller end first"},
		{"dtype = \"f16\"\nrole = \"in\"\ndata = \"uniform(-1,1)\"\ndomain = \"[-1e5, 1e5]\"", "", `the ends of the domain "[-1e5, 1e5]" of X must be numbers that f16 holds, from -65504 to 65504`},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"uniform(-1,1)\"\ndomain = \"[-inf, nan]\"", "", `the ends of the domain "[-inf, nan]" of X must be numbers that f32 holds`},
		{"dtype = \"f32\"\nrole = \"in\"\ndata = \"uniform(0,1)\"\ndomain = \"[0, 1]\"\ndenormals = true", "", "the domain of X has no room for denormals around zero: widen it, or remove denormals"},
		{"dtype = \"i32\"\nrole = \"in\"\ndata = \"integers(0,9)\"\ndenormals = true", "", "buffer X: only inputs of a floating-point type can hold denormals: remove denormals"},
		{"dtype = \"f32\"\nrole = \"out\"\ndomain = \"[0, 1]\"", "", "buffer X is an output, whose elements the kernel makes: remove domain"},
	} {
		d, err := biting(t, c.input)
		if err != nil {
			if c.domain != "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s:\n%v", c.input, err)
			}
			continue
		}
		if got := furtherNames(&d.Problem); got != c.want || d.Problem.Buffers[0].Domain.String() != c.domain {
			t.Errorf("%s:\n%s in %s, want %s in %s", c.input, got, d.Problem.Buffers[0].Domain, c.want, c.domain)
		}
	}
}

// What is made lies in the domain, is what the type holds, is the same again, and is what
// its name says.
func TestFurtherMake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dtype := rapid.SampledFrom(DTypes()).Draw(t, "dtype")
		b := Buffer{Name: "X", DType: dtype, Role: In}
		lo, width := float64(rapid.IntRange(-100, 100).Draw(t, "lo")), float64(rapid.IntRange(1, 100).Draw(t, "width"))
		if dtype == U8 {
			lo = math.Abs(lo)
		}
		b.Data = Data{Distribution: Uniform, A: lo, B: lo + width}
		if !dtype.Float() {
			b.Data.Distribution = Integers
		}
		b.Domain = Domain{lo - float64(rapid.IntRange(0, 20).Draw(t, "below")), lo + width + float64(rapid.IntRange(0, 20).Draw(t, "above"))}.within(dtype)
		if !(b.Domain.Lo <= b.Domain.Hi) {
			t.Skip("the type has no number there")
		}
		b.Denormals = dtype.Float() && b.Domain.Lo < 0 && b.Domain.Hi > 0
		p := &Problem{Buffers: []Buffer{b}}
		n, row := int64(rapid.IntRange(1, 200).Draw(t, "n")), int64(rapid.IntRange(1, 50).Draw(t, "row"))
		for _, c := range p.Further() {
			x := c.Make(0, n, row, 7, nil)
			if !slices.Equal(x, c.Make(0, n, row, 7, nil)) {
				t.Fatalf("%s: other contents the second time", c.Name)
			}
			least, most := slices.Min(x), slices.Max(x)
			for i, v := range x {
				if !b.Domain.Holds(v) || dtype.Round(v) != v {
					t.Fatalf("%s: element %d is %v: in %s, as %s holds it?", c.Name, i, v, b.Domain, dtype)
				}
			}
			wrong := false
			switch c.Name {
			case "offset":
				wrong = dtype.Float() && most-least > (b.Domain.Hi-b.Domain.Lo)/64
			case "constant":
				wrong = least != most
			case "negative":
				wrong = most > 0
			case "positive":
				wrong = least < 0
			case "zeros":
				wrong = least != 0 || most != 0
			case "ends":
				wrong = slices.ContainsFunc(x, func(v float64) bool { return v != b.Domain.Lo && v != b.Domain.Hi })
			case "denormal":
				wrong = math.Max(-least, most) > dtype.normal()
			case "tiny":
				largest := math.Max(math.Abs(lo), math.Abs(lo+width)) * dtype.small()
				wrong = math.Max(-least, most) > dtype.Round(largest) // few types hold all ends
			}
			if wrong {
				t.Fatalf("%s is %v in %s", c.Name, x, b.Domain)
			}
		}
	})
}

// Outliers of many sizes, rows with few values, zeros of both signs.
func TestFurtherRows(t *testing.T) {
	d, err := biting(t, "dtype = \"f32\"\nrole = \"in\"\ndata = \"normal(0,1)\"\ndomain = \"[-1e4, 1e4]\"")
	if err != nil {
		t.Fatal(err)
	}
	made := func(name string) []float64 {
		c, err := d.Problem.FurtherNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		return c.Make(0, 64*100, 100, 1, nil)
	}
	x := made("outliers")
	sizes := map[int]bool{}
	for r := range 32 {
		row := slices.Clone(x[100*r : 100*r+100])
		slices.SortFunc(row, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) })
		if math.Abs(row[99]) < 5.9 || math.Abs(row[98]) > 5.5 {
			t.Errorf("row %d: the two largest are %g and %g", r, row[98], row[99])
		}
		sizes[int(math.Log2(math.Abs(row[99])))] = true
	}
	if len(sizes) < 10 {
		t.Errorf("outliers of %d sizes alone", len(sizes))
	}
	for r := range 8 {
		row := slices.Sorted(slices.Values(made("ties")[100*r : 100*r+100]))
		if n := len(slices.Compact(row)); n != 1+r%4 {
			t.Errorf("row %d with ties has %d values", r, n)
		}
	}
	signs := map[bool]bool{}
	for _, v := range made("zeros") {
		signs[math.Signbit(v)] = true
	}
	if len(signs) != 2 {
		t.Error("zeros of one sign alone")
	}
	zeros := 0
	for _, v := range made("sparse") {
		if v == 0 {
			zeros++
		}
	}
	if zeros < 5400 || zeros > 5800 {
		t.Errorf("%d of 6400 are zero", zeros)
	}
	odd := 0 // contents with a row that holds what is not declared
	for seed := range uint64(40) {
		c, err := d.Problem.FurtherNamed("somewhere")
		if err != nil {
			t.Fatal(err)
		}
		rows := map[int]bool{}
		for i, v := range c.Make(0, 64*100, 100, seed, nil) {
			if math.Abs(v) > 5.9 {
				rows[i/100] = true
			}
		}
		if odd += len(rows); len(rows) > 1 {
			t.Errorf("seed %d: %d rows are unlike the others", seed, len(rows))
		}
	}
	if odd < 30 {
		t.Errorf("%d of 40 contents have a row that is unlike the others", odd)
	}
	if _, err := d.Problem.FurtherNamed("bland"); err == nil {
		t.Error("unknown contents were found")
	}
}

// The manual has every row of the table.
func TestFurtherInManual(t *testing.T) {
	text, err := os.ReadFile("../docs/kernel-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "### Edge-case inputs")
	table, _, _ = strings.Cut(table, "Declare the widest")
	for _, c := range further {
		if !strings.Contains(table, "`"+c.name+"`") {
			t.Errorf("docs/kernel-format.md does not have %s", c.name)
		}
	}
}

// Scalars with further values take turns.
func TestFurtherScalars(t *testing.T) {
	const scalar = "dtype = \"f32\"\nrole = \"in\"\ndata = \"normal(0,1)\"\n[[problem.scalar]]\nname = \"s\"\ndtype = \"i32\"\nvalue = \"R\"\nalso = "
	d, err := biting(t, scalar+"[7, -1]")
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, c := range d.Problem.Further()[:4] {
		v, err := c.Scalars(&d.Problem, d.Problem.Shapes[0])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v...)
	}
	if want := []float64{4, 7, -1, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, bad := range []string{"[0.5]", "[3e9]", "[\"a\"]"} {
		if _, err := biting(t, scalar+bad); err == nil || !strings.Contains(err.Error(), "also of scalar s must be a list of numbers that i32 holds") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Rounding agrees with the hardware's where there is one.
func TestRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-3e38, 3e38).Draw(t, "x")
		if got := F32.Round(x); got != float64(float32(x)) {
			t.Fatalf("%v: %v, want %v", x, got, float32(x))
		}
	})
	for _, c := range []struct {
		t       DType
		x, want float64
	}{
		{F16, 1 + 0x1p-11, 1},
		{F16, 1 + 0x1.8p-10, 1 + 0x1p-9},
		{F16, 0x1.8p-24, 0x1p-23},
		{F16, 65504, 65504},
		{F16, -0x1p-26, 0},
		{BF16, 1 + 0x1p-8, 1},
		{BF16, 3, 3},
		{F64, 0.1, 0.1},
		{I8, 2.5, 2},
		{I32, -7, -7},
		{F32, 0, 0},
	} {
		if got := c.t.Round(c.x); got != c.want {
			t.Errorf("%s of %v: %v, want %v", c.t, c.x, got, c.want)
		}
	}
	if !math.Signbit(F16.Round(math.Copysign(0, -1))) {
		t.Error("a negative zero became positive")
	}
}

// Nearby is near, the same again, and away from zero where it goes one way.
func TestNearby(t *testing.T) {
	x := []float64{1, -2, 0, 1e4}
	for _, b := range []Buffer{{DType: F32}, {DType: F16}, {DType: F64}, {DType: I32}} {
		by := map[DType]float64{F32: 0x1p-19, F16: 0x1p-19, F64: 0x1p-48, I32: 0}[b.DType]
		for way := range 2 {
			y := b.Nearby(x, way, 3)
			if fmt.Sprint(y) != fmt.Sprint(b.Nearby(x, way, 3)) {
				t.Errorf("%s: other neighbours the second time", b.DType)
			}
			for i := range x {
				if d := y[i] - x[i]; math.Abs(math.Abs(d)-by*math.Abs(x[i])) > 1e-15*math.Abs(x[i]) || way == 1 && d < 0 {
					t.Errorf("%s, way %d: %v became %v", b.DType, way, x[i], y[i])
				}
			}
		}
	}
}

// A variant has the domain that it declares, or that of the problem as its type holds it.
func TestDomainsOfVariants(t *testing.T) {
	for _, c := range []struct{ variant, want, fault string }{
		{"dtype = { X = \"f16\" }", "[-65504, 65504]", ""},
		{"dtype = { X = \"f16\" }\ndomain = { X = \"[-8, 8]\" }", "[-8, 8]", ""},
		{"domain = { Y = \"[-8, 8]\" }", "", `domain of a variant has no key "Y"`},
		{"domain = { X = 8 }", "", "the domain of X is an integer, expected a string"},
		{"domain = { X = \"[3, 8]\" }", "", "the domain of X does not hold its data"},
	} {
		d, err := biting(t, "dtype = \"f32\"\nrole = \"in\"\ndata = \"normal(0,1)\"\ndomain = \"[-1e6, 1e6]\"\n[[problem.variant]]\nbackend = \"cuda\"\n"+c.variant)
		switch {
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v", c.variant, err)
		case c.fault == "" && err != nil:
			t.Errorf("%s: %v", c.variant, err)
		case err == nil && d.ProblemOn("cuda").Buffers[0].Domain.String() != c.want:
			t.Errorf("%s: %s", c.variant, d.ProblemOn("cuda").Buffers[0].Domain)
		}
	}
}
