package kernels

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strings"
	"text/template"
)

// maxSteps bounds the lists that until and seq make.
const maxSteps = 1 << 16

// functions are what templates may call besides the functions of text/template and those that
// an effort counts. Those that compute take integers and floats; the result is an
// integer when all arguments are.
var functions = template.FuncMap{
	"add": func(a, b any, more ...any) (any, error) {
		return fold("add", func(x, y int64) (int64, bool) { s := x + y; return s, (s > x) == (y > 0) },
			func(x, y float64) float64 { return x + y }, a, b, more)
	},
	"sub": func(a, b any) (any, error) {
		return fold("sub", func(x, y int64) (int64, bool) { d := x - y; return d, (d < x) == (y > 0) },
			func(x, y float64) float64 { return x - y }, a, b, nil)
	},
	"mul": func(a, b any, more ...any) (any, error) {
		return fold("mul", product, func(x, y float64) float64 { return x * y }, a, b, more)
	},
	"div":  divide,
	"mod":  modulo,
	"ceil": ceilDivide,
	"min": func(a, b any, more ...any) (any, error) {
		return fold("min", func(x, y int64) (int64, bool) { return min(x, y), true }, math.Min, a, b, more)
	},
	"max": func(a, b any, more ...any) (any, error) {
		return fold("max", func(x, y int64) (int64, bool) { return max(x, y), true }, math.Max, a, b, more)
	},
	"log2": log2,
	"has":  func(genes map[string]any, name string) bool { _, ok := genes[name]; return ok },
	"fail": func(msg string) (string, error) { return "", errors.New(msg) },
	// text/template's index returns nothing for a missing key of a map, which would
	// circumvent the error for missing keys.
	"index": index,
}

func integer(f string, x any) (int64, error) {
	v := reflect.ValueOf(x)
	if !v.CanInt() {
		return 0, fmt.Errorf("%s wants integers, not %v", f, x)
	}
	return v.Int(), nil
}

// product multiplies, and says whether the result did not overflow.
func product(x, y int64) (int64, bool) {
	if x == 0 || y == 0 {
		return 0, true
	}
	if y == -1 { // the quotient below overflows, too
		return -x, x != math.MinInt64
	}
	p := x * y
	return p, p/y == x
}

// fold combines numbers from left to right.
func fold(f string, ints func(x, y int64) (int64, bool), floats func(x, y float64) float64, a, b any, more []any) (any, error) {
	all := append([]any{a, b}, more...)
	whole := true
	xs := make([]float64, len(all))
	for i, x := range all {
		v := reflect.ValueOf(x)
		switch {
		case v.CanInt():
			xs[i] = float64(v.Int())
		case v.CanFloat():
			xs[i] = v.Float()
			whole = false
		default:
			return nil, fmt.Errorf("%s wants numbers, not %v", f, x)
		}
	}
	if !whole {
		acc := xs[0]
		for _, x := range xs[1:] {
			acc = floats(acc, x)
		}
		return acc, nil
	}
	acc := reflect.ValueOf(all[0]).Int()
	for _, x := range all[1:] {
		var ok bool
		y := reflect.ValueOf(x).Int()
		if acc, ok = ints(acc, y); !ok {
			return nil, fmt.Errorf("%s overflows", f)
		}
	}
	return acc, nil
}

// pair reads two integers, the second of which is not zero.
func pair(f string, a, b any) (x, y int64, err error) {
	if x, err = integer(f, a); err != nil {
		return 0, 0, err
	}
	if y, err = integer(f, b); err != nil {
		return 0, 0, err
	}
	if y == 0 {
		return 0, 0, fmt.Errorf("%s: division of %d by zero", f, x)
	}
	return x, y, nil
}

// divide is the integer quotient, rounded towards zero as in C.
func divide(a, b any) (int64, error) {
	x, y, err := pair("div", a, b)
	if err != nil {
		return 0, err
	}
	return x / y, nil
}

func modulo(a, b any) (int64, error) {
	x, y, err := pair("mod", a, b)
	if err != nil {
		return 0, err
	}
	return x % y, nil
}

// ceilDivide is the quotient of two integers, rounded up.
func ceilDivide(a, b any) (int64, error) {
	x, y, err := pair("ceil", a, b)
	if err != nil {
		return 0, err
	}
	q := x / y
	if x%y != 0 && (x > 0) == (y > 0) {
		q++
	}
	return q, nil
}

// log2 is the base-2 logarithm of a power of two.
func log2(a any) (int64, error) {
	x, err := integer("log2", a)
	if err != nil {
		return 0, err
	}
	if x < 1 || bits.OnesCount64(uint64(x)) != 1 {
		return 0, fmt.Errorf("log2: %d is not a power of two", x)
	}
	return int64(bits.TrailingZeros64(uint64(x))), nil
}

// seq lists from, from+step, ... below to; the step is 1 unless given.
func seq(from, to any, step ...any) ([]int64, error) {
	lo, err := integer("seq", from)
	if err != nil {
		return nil, err
	}
	hi, err := integer("seq", to)
	if err != nil {
		return nil, err
	}
	by := int64(1)
	if len(step) > 1 {
		return nil, errors.New("seq wants from, to and at most a step")
	}
	if len(step) == 1 {
		if by, err = integer("seq", step[0]); err != nil {
			return nil, err
		}
		if by < 1 {
			return nil, fmt.Errorf("seq: the step %d must be above 0", by)
		}
	}
	if lo >= hi {
		return nil, nil
	}
	n := (uint64(hi)-uint64(lo)-1)/uint64(by) + 1
	if n > maxSteps {
		return nil, fmt.Errorf("seq: more than %d steps from %d to %d", maxSteps, lo, hi)
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = lo + int64(i)*by
	}
	return out, nil
}

// join prints a list with a separator between its items.
func join(list any, sep string) (string, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice {
		return "", fmt.Errorf("join wants a list, not %v", list)
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = fmt.Sprint(v.Index(i).Interface())
	}
	return strings.Join(parts, sep), nil
}

// index returns an item of a list, or the gene with a name.
func index(from, key any) (any, error) {
	if m, ok := from.(map[string]any); ok {
		x, ok := m[fmt.Sprint(key)]
		if !ok {
			return nil, fmt.Errorf("map has no entry for key %q", key)
		}
		return x, nil
	}
	v := reflect.ValueOf(from)
	if v.Kind() != reflect.Slice && v.Kind() != reflect.String {
		return nil, fmt.Errorf("index wants a list, not %v", from)
	}
	i, err := integer("index", key)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= int64(v.Len()) {
		return nil, fmt.Errorf("index %d is outside of a list of %d", i, v.Len())
	}
	return v.Index(int(i)).Interface(), nil
}
