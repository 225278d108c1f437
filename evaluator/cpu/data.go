package cpu

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/evotune/evotune/evaluator"
)

// A stream makes the numbers of one buffer: SplitMix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", 2014), which is fast and
// the same everywhere.
type stream uint64

// newStream seeds a stream from the plan's seed, the variant of the data and
// the buffer's index.
func newStream(seed uint64, variant, buffer int) *stream {
	s := stream(seed)
	s = stream(s.next() ^ uint64(variant)*0x9e3779b97f4a7c15)
	s = stream(s.next() ^ uint64(buffer)*0xd1b54a32d192ed03)
	s = stream(s.next())
	return &s
}

func (s *stream) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform is in [0, 1).
func (s *stream) uniform() float64 { return float64(s.next()>>11) * 0x1p-53 }

// A distribution is where the elements of an input come from.
type distribution struct {
	kind string // uniform, normal, integers, constant
	a, b float64
}

// draw makes one element.
func (d distribution) draw(s *stream) float64 {
	switch d.kind {
	case "uniform":
		return d.a + (d.b-d.a)*s.uniform()
	case "normal": // Box and Muller, 1958; one of the pair is enough
		r := math.Sqrt(-2 * math.Log(1-s.uniform()))
		return d.a + d.b*r*math.Cos(2*math.Pi*s.uniform())
	case "integers": // both ends included
		lo, hi := int64(math.Ceil(d.a)), int64(math.Floor(d.b))
		n, _ := bits.Mul64(s.next(), uint64(hi-lo)+1)
		return float64(lo + int64(n))
	default:
		return d.a
	}
}

// fill makes the contents of a buffer.
func (d distribution) fill(b []byte, t dtype, s *stream) {
	n := len(b) / t.size()
	if t == f32 && len(b) > 0 { // the common case, made fast
		out := view[float32](b)
		for i := range out {
			out[i] = float32(d.draw(s))
		}
		return
	}
	for i := range n {
		t.put(b, i, d.draw(s))
	}
}

// view sees bytes that are aligned as numbers.
func view[T any](b []byte) []T {
	var one T
	if n := len(b) / int(unsafe.Sizeof(one)); n > 0 {
		return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
	}
	return nil
}

// bytesOf sees numbers as bytes.
func bytesOf(values []float64) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 8*len(values))
}

// poison is what an output holds before a launch: NaN for floating-point
// types, an unlikely pattern for integers.
func poisonBytes(t dtype, n int) []byte {
	unit := []byte{0xa5, 0x5a, 0xc3, 0x3c, 0x96, 0x69, 0x5a, 0xa5}
	switch t {
	case f64:
		unit = make([]byte, 8)
		t.putBits(unit, 0x7ff8dead5eed0bad)
	case f32:
		unit = make([]byte, 4)
		t.putBits(unit, 0x7fc0dead)
	case f16:
		unit = make([]byte, 2)
		t.putBits(unit, 0x7ead)
	case bf16:
		unit = make([]byte, 2)
		t.putBits(unit, 0x7fed)
	}
	return bytes.Repeat(unit, n/len(unit)+1)[:n]
}

// putBits stores the low bits of v as one element.
func (t dtype) putBits(b []byte, v uint64) {
	for i := range t.size() {
		shift := 8 * i
		if !littleEndian {
			shift = 8 * (t.size() - 1 - i)
		}
		b[i] = byte(v >> shift)
	}
}

var littleEndian = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}()

// stale makes the contents of an output that looks like an answer and is not:
// finite numbers of the right size. A candidate that trusts what it finds, or
// works only on poison, is found out by it.
func staleBytes(t dtype, n int, scale float64, s *stream) []byte {
	b := make([]byte, n)
	for i := range n / t.size() {
		t.put(b, i, scale*(2*s.uniform()-1))
	}
	return b
}

// expected is one output of the reference.
type expected struct {
	values       []float64
	rms, largest float64 // the largest by magnitude
	// slack is how far honest answers may lie from this one, by the inputs alone.
	slack float64
	cores int // that compare with it; 0 is one
}

// A notFinite is an element of the reference that nothing can be compared with.
type notFinite struct {
	at    int
	value float64
}

func (e *notFinite) Error() string {
	return fmt.Sprintf("element %d of its output is %v", e.at, e.value)
}

func newExpected(values []float64) (expected, error) { return expectedOn(1, values) }

// expectedOn is newExpected with so many cores, which then compare as well.
func expectedOn(cores int, values []float64) (expected, error) {
	e := expected{values: values, cores: cores}
	sum := 0.0
	for _, m := range spread(cores, len(values), func(from, to int) magnitudes { return measure(values, from, to) }) {
		if m.strange >= 0 {
			return expected{}, &notFinite{m.strange, values[m.strange]}
		}
		e.largest, sum = max(e.largest, m.largest), sum+m.squares
	}
	switch {
	case e.largest == 0:
	case e.largest > 1e-140 && sum <= math.MaxFloat64:
		e.rms = math.Sqrt(sum / float64(len(values)))
	default: // squares are too small or too large for a number
		sum = 0
		for _, v := range values {
			sum += (v / e.largest) * (v / e.largest)
		}
		e.rms = e.largest * math.Sqrt(sum/float64(len(values)))
	}
	return e, nil
}

// magnitudes are those of some values: the largest one, the sum of their squares, and the first element that is not a finite
// number, or -1.
type magnitudes struct {
	largest, squares float64
	strange          int
}

func measure(values []float64, from, to int) magnitudes {
	var sums [4]float64 // adding to one waits for the addition before
	largest := 0.0
	for i, v := range values[from:to] {
		a := math.Abs(v)
		if !(a <= math.MaxFloat64) {
			return magnitudes{strange: from + i}
		}
		if a > largest {
			largest = a
		}
		sums[i%4] += v * v
	}
	return magnitudes{largest, sums[0] + sums[1] + sums[2] + sums[3], -1}
}

// spread has cores work on parts of n elements, if they are many, and gives what they found, in order.
func spread[T any](cores, n int, do func(from, to int) T) []T {
	const many = 1 << 15 // far more work than starting it
	found := make([]T, max(min(cores, n/many), 1))
	var all sync.WaitGroup
	for i := range found[1:] {
		all.Go(func() { found[i+1] = do((i+1)*n/len(found), (i+2)*n/len(found)) })
	}
	found[0] = do(0, n/len(found))
	all.Wait()
	return found
}

// mean is the mean of the output.
func (e expected) mean() float64 {
	m := 0.0
	for _, v := range e.values {
		m += v / float64(len(e.values))
	}
	return m
}

// near says whether an element that is off by d is as near to what is wanted as its type
// allows; units are kernels.Problem.UnitsOf.
func near(d, want, units float64) bool {
	const exponent = 0x7ff << 52 // of a double: what is left is a power of two
	return units > 0 && d <= units*math.Float64frombits(math.Float64bits(want)&exponent)
}

// A difference is the largest one between elements of an output and what is wanted, and where the first such is; strange
// says that one is not a finite number.
type difference struct {
	most    float64
	at      int
	strange bool
}

func (e expected) differ(got []byte, t dtype, units float64, from, to int) (f difference) {
	singles := t == f32 // the common case, made fast
	some := view[float32](got)
	for i, want := range e.values[from:to] {
		var v float64
		if singles {
			v = float64(some[from+i])
		} else {
			v = t.get(got, from+i)
		}
		d := math.Abs(v - want)
		if !(d <= f.most) { // true for NaN as well
			if math.IsNaN(d) || math.IsInf(d, 0) {
				f.strange = true
				continue
			}
			if !near(d, want, units) {
				f.most, f.at = d, from+i
			}
		}
	}
	return f
}

// compare holds an output against the reference. Elements that are as near as the output's
// type allows are right; see near. The poison is what the output
// held before the launch; an element that is wrong and still holds it was not
// written. Worst names such an element first, then one that is not finite.
func (e expected) compare(got []byte, t dtype, units float64, poison []byte) evaluator.Output {
	o := evaluator.Output{Elements: int64(len(e.values))}
	if len(e.values) == 0 {
		return o
	}
	worst, at, strange := 0.0, 0, false
	for _, f := range spread(e.cores, len(e.values), func(from, to int) difference { return e.differ(got, t, units, from, to) }) {
		strange = strange || f.strange
		if f.most > worst {
			worst, at = f.most, f.at
		}
	}
	switch beyond := worst - e.slack; {
	case strange || beyond > 0 && e.rms == 0:
		o.Error = math.Inf(1)
	case beyond > 0:
		o.Error = beyond / e.rms
	}
	if strange || t.integer() && worst > 0 {
		at = e.count(&o, got, t, poison, at)
	}
	o.Worst, o.Got, o.Want = int64(at), t.get(got, at), e.values[at]
	return o
}

// count counts the elements that were not written and those that are not finite,
// and gives the one to name.
func (e expected) count(o *evaluator.Output, got []byte, t dtype, poison []byte, at int) int {
	size := t.size()
	for i, want := range e.values {
		v := t.get(got, i)
		switch {
		case v != want && poison != nil && bytes.Equal(got[i*size:(i+1)*size], poison[i*size:(i+1)*size]):
			if o.Unwritten++; o.Unwritten == 1 {
				at = i
			}
		case math.IsNaN(v) || math.IsInf(v, 0):
			if o.NotFinite++; o.NotFinite == 1 && o.Unwritten == 0 {
				at = i
			}
		}
	}
	return at
}
