package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A dtype is how the elements of a buffer are stored.
type dtype uint8

const (
	f64 dtype = iota
	f32
	f16
	bf16
	i64
	i32
	i16
	i8
	u32
	u16
	u8
)

var dtypes = [...]struct {
	name    string
	bytes   int
	integer bool
}{
	f64:  {"f64", 8, false},
	f32:  {"f32", 4, false},
	f16:  {"f16", 2, false},
	bf16: {"bf16", 2, false},
	i64:  {"i64", 8, true},
	i32:  {"i32", 4, true},
	i16:  {"i16", 2, true},
	i8:   {"i8", 1, true},
	u32:  {"u32", 4, true},
	u16:  {"u16", 2, true},
	u8:   {"u8", 1, true},
}

func parseDType(name string) (dtype, error) {
	for d := range dtypes {
		if dtypes[d].name == name {
			return dtype(d), nil
		}
	}
	return 0, fmt.Errorf("the CPU backend has no dtype %q", name)
}

func (d dtype) String() string { return dtypes[d].name }
func (d dtype) size() int      { return dtypes[d].bytes }
func (d dtype) integer() bool  { return dtypes[d].integer }

// put stores x as element i of b, rounded to nearest even; integers saturate.
func (d dtype) put(b []byte, i int, x float64) {
	order := binary.NativeEndian
	switch d {
	case f64:
		order.PutUint64(b[8*i:], math.Float64bits(x))
	case f32:
		order.PutUint32(b[4*i:], math.Float32bits(float32(x)))
	case f16:
		order.PutUint16(b[2*i:], halfBits(x))
	case bf16:
		order.PutUint16(b[2*i:], brainBits(x))
	case i64:
		order.PutUint64(b[8*i:], uint64(saturate(x, math.MinInt64, math.MaxInt64)))
	case i32:
		order.PutUint32(b[4*i:], uint32(saturate(x, math.MinInt32, math.MaxInt32)))
	case i16:
		order.PutUint16(b[2*i:], uint16(saturate(x, math.MinInt16, math.MaxInt16)))
	case i8:
		b[i] = byte(saturate(x, math.MinInt8, math.MaxInt8))
	case u32:
		order.PutUint32(b[4*i:], uint32(saturate(x, 0, math.MaxUint32)))
	case u16:
		order.PutUint16(b[2*i:], uint16(saturate(x, 0, math.MaxUint16)))
	case u8:
		b[i] = byte(saturate(x, 0, math.MaxUint8))
	}
}

// putAll writes the elements of b.
func (d dtype) putAll(b []byte, values []float64) {
	for i, x := range values {
		d.put(b, i, x)
	}
}

// get reads element i of b.
func (d dtype) get(b []byte, i int) float64 {
	order := binary.NativeEndian
	switch d {
	case f64:
		return math.Float64frombits(order.Uint64(b[8*i:]))
	case f32:
		return float64(math.Float32frombits(order.Uint32(b[4*i:])))
	case f16:
		return halfValue(order.Uint16(b[2*i:]))
	case bf16:
		return float64(math.Float32frombits(uint32(order.Uint16(b[2*i:])) << 16))
	case i64:
		return float64(int64(order.Uint64(b[8*i:])))
	case i32:
		return float64(int32(order.Uint32(b[4*i:])))
	case i16:
		return float64(int16(order.Uint16(b[2*i:])))
	case i8:
		return float64(int8(b[i]))
	case u32:
		return float64(order.Uint32(b[4*i:]))
	case u16:
		return float64(order.Uint16(b[2*i:]))
	default:
		return float64(b[i])
	}
}

func saturate(x float64, lo, hi int64) int64 {
	x = math.RoundToEven(x)
	switch {
	case math.IsNaN(x):
		return 0
	case x <= float64(lo):
		return lo
	case x >= float64(hi):
		return hi
	}
	return int64(x)
}

// halfBits rounds to IEEE 754 binary16, to nearest even.
func halfBits(x float64) uint16 {
	sign := uint16(math.Float64bits(x) >> 48 & 0x8000)
	a := math.Abs(x)
	switch {
	case math.IsNaN(x):
		return 0x7e00
	case a >= 65520: // half way from the largest finite value to the next
		return sign | 0x7c00
	case a < 0x1p-14: // subnormal: multiples of 2^-24
		return sign | uint16(math.RoundToEven(a*0x1p24))
	}
	frac, exp := math.Frexp(a)                         // a = frac 2^exp, frac in [1/2, 1)
	m := uint16(math.RoundToEven((frac*2 - 1) * 1024)) // may be 1024: carries into the exponent
	return sign | (uint16(exp-1+15)<<10 + m)
}

// halfOf is halfBits of a number of single precision, several times faster; half is right only where the
// number is a normal one in both.
func halfOf(x float32) (half uint16, normal bool) {
	bits := math.Float32bits(x)
	m := bits & 0x7fffffff
	return uint16(bits>>16&0x8000 | ((m+0xfff+m>>13&1)>>13 - 112<<10)), m-0x38800000 < 0x0f000000
}

func halfValue(h uint16) float64 {
	sign := 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	e, m := int(h>>10&0x1f), float64(h&0x3ff)
	switch e {
	case 0:
		return sign * m * 0x1p-24
	case 31:
		if m != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1+m/1024, e-15)
}

// brainBits rounds to bfloat16, to nearest even. The way over float32 rounds
// twice, which differs from one rounding only for values that data never has
// to hit exactly.
func brainBits(x float64) uint16 {
	if x != x {
		return 0x7fc0
	}
	return brainOf(float32(x))
}

// brainOf is brainBits of a number, of single precision.
func brainOf(x float32) uint16 {
	b := math.Float32bits(x)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func appendFloat(b []byte, x float64) []byte {
	return binary.NativeEndian.AppendUint64(b, math.Float64bits(x))
}
