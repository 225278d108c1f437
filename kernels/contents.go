package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A Domain is the closed interval in which every element of an input lies. Kernels need
// not be right outside of it.
type Domain struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// String returns the form of kernel.toml.
func (d Domain) String() string { return fmt.Sprintf("[%g, %g]", d.Lo, d.Hi) }

// Holds says whether a value lies in the domain.
func (d Domain) Holds(x float64) bool { return d.Lo <= x && x <= d.Hi }

// normalReach is how many standard deviations around its mean the domain of
// normally distributed data reaches when none is declared.
const normalReach = 6

// Domain is the natural interval of the data: the range of a bounded
// distribution, and six standard deviations around the mean of a normal one.
func (d Data) Domain() Domain {
	switch d.Distribution {
	case Normal:
		return Domain{d.A - normalReach*d.B, d.A + normalReach*d.B}
	case Constant:
		return Domain{d.A, d.A}
	}
	return Domain{d.A, d.B}
}

// Round returns the value of the type that is nearest to x, ties to even.
func (t DType) Round(x float64) float64 {
	digits, least := 53, -1074 // of the significand, and the exponent of the smallest step
	switch t {
	case F64:
		return x
	case F32:
		if r := float32(x); !math.IsInf(float64(r), 0) {
			return float64(r)
		}
		digits, least = 24, -149
	case F16:
		digits, least = 11, -24
	case BF16:
		digits, least = 8, -133
	case E4M3:
		digits, least = 4, -9
	case E5M2:
		digits, least = 3, -16
	case I64, I32, I16, I8, U32, U16, U8:
		return math.RoundToEven(x)
	}
	_, exp := math.Frexp(x)
	step := math.Ldexp(1, max(exp-digits, least))
	return math.RoundToEven(x/step) * step
}

// Holds says whether the type has a number near x; for an integer type, x itself.
func (t DType) Holds(x float64) bool {
	return t.span().Holds(x) && (t.Float() || x == math.Trunc(x))
}

// span is the range of the type, within the limits of data.
func (t DType) span() Domain {
	var hi float64
	switch t {
	case F64:
		hi = 1e300 // the limit of what the reference computes with
	case F32:
		hi = math.MaxFloat32
	case F16:
		hi = 65504
	case BF16:
		hi = 0xffp120
	case E4M3:
		hi = 448
	case E5M2:
		hi = 57344
	default:
		lo, hi := t.Range()
		return Domain{lo, hi}
	}
	return Domain{-hi, hi}
}

// next is the next number of the type in a direction, skipping denormal ones.
func (t DType) next(x, direction float64) float64 {
	if !t.Float() {
		if direction > 0 {
			return math.Floor(x) + 1
		}
		return math.Ceil(x) - 1
	}
	if t.FP8() {
		return t.nextOfFew(x, direction)
	}
	by := math.Max(math.Abs(x)*t.Step(), t.normal())
	return t.Round(x + direction*by)
}

// nextOfFew is next for types with so few numbers that none may be left out.
func (t DType) nextOfFew(x, direction float64) float64 {
	if x == 0 {
		return math.Copysign(t.normal(), direction)
	}
	_, exp := math.Frexp(x)
	step := math.Ldexp(t.Step(), exp-1)
	next := x
	for _, by := range []float64{step / 2, step} { // half of it below a power of two
		if next = t.Round(x + direction*by); next != x {
			break
		}
	}
	switch normal := t.normal(); {
	case math.Abs(next) >= normal:
		return next
	case x*direction < 0: // towards zero
		return 0
	default:
		return math.Copysign(normal, direction)
	}
}

// within moves the ends inwards to numbers that the type holds.
func (d Domain) within(t DType) Domain {
	all := t.span()
	lo, hi := math.Max(d.Lo, all.Lo), math.Min(d.Hi, all.Hi)
	if r := t.Round(lo); r < lo {
		lo = t.next(r, 1)
	} else {
		lo = r
	}
	if r := t.Round(hi); r > hi {
		hi = t.next(r, -1)
	} else {
		hi = r
	}
	return Domain{lo, hi}
}

// Step is the distance from 1 to the next value of the type; 0 for integers.
func (t DType) Step() float64 {
	switch t {
	case F64:
		return 0x1p-52
	case F32:
		return 0x1p-23
	case F16:
		return 0x1p-10
	case BF16:
		return 0x1p-7
	case E4M3:
		return 0x1p-3
	case E5M2:
		return 0x1p-2
	}
	return 0
}

// normal is the smallest normal number of a floating-point type; 0 for integers.
func (t DType) normal() float64 {
	switch t {
	case F64:
		return 0x1p-1022
	case F32, BF16:
		return 0x1p-126
	case F16, E5M2:
		return 0x1p-14
	case E4M3:
		return 0x1p-6
	}
	return 0
}

// small is the factor that makes data small, such that the product of two is
// still a normal number.
func (t DType) small() float64 {
	switch t {
	case F16, E5M2:
		return 0x1p-5
	case E4M3:
		return 0x1p-2
	}
	return 0x1p-30
}

// A Further is edge-case contents of the inputs, which parity compares besides the
// declared ones: a kernel that relies on properties of the declared data is wrong on
// them. All values lie in the domains of the buffers.
type Further struct {
	Name string
	// turn says which of their values scalars take: the values take turns, unless plain
	// is set.
	turn  int
	plain bool
	fills []*filling // by buffer; nil for outputs
}

// A filling makes the elements of one buffer.
type filling struct {
	row  rowMaker
	b    Buffer
	zero bool      // whether the domain has a zero
	made []float64 // declared data that are there: all of them, or of a function in Python those to draw from
	at   int       // where the row is among them
	rows int       // the number of rows
	one  int       // the row that is unlike all others
}

// A rowMaker makes row r of a buffer. Its numbers are rounded to the type and clamped
// to the domain afterwards.
type rowMaker func(f *filling, row []float64, r int, rng *rand.Rand)

// further is the table of all edge-case contents: their names, and for which buffers
// they make sense. A buffer for which one does not make sense holds declared data, and
// contents that make sense for no buffer are left out.
var further = []struct {
	name string
	fits func(f *filling) bool
	row  rowMaker
}{
	// A large mean and a small spread: differences of large numbers.
	{"offset", spread, func(f *filling, row []float64, _ int, rng *rand.Rand) {
		d := f.b.Domain
		width, from := (d.Hi-d.Lo)/256, d.Hi
		if -d.Lo > d.Hi {
			width, from = -width, d.Lo
		}
		if !f.b.DType.Float() {
			width = math.Copysign(math.Max(math.Abs(width), 2), width)
		}
		for i := range row {
			row[i] = from - width*rng.Float64()
		}
	}},
	// From one end of the domain to the other, or back, cyclically; every row
	// begins elsewhere.
	{"ramp", spread, func(f *filling, row []float64, r int, _ *rand.Rand) {
		for i := range row {
			at := float64((i+r*(len(row)/5+1))%len(row)) / math.Max(float64(len(row)-1), 1)
			if r%2 == 1 {
				at = 1 - at
			}
			row[i] = f.b.Domain.Lo*(1-at) + f.b.Domain.Hi*at
		}
	}},
	// One element of each row far from the others, row by row from the end of the
	// domain down to where declared data end: a fault may show at one size only.
	{"outliers", spread, func(f *filling, row []float64, r int, rng *rand.Rand) {
		f.declared(row, rng)
		x := f.b.Domain.Hi
		if -f.b.Domain.Lo > x || -f.b.Domain.Lo == x && r%2 == 1 {
			x = f.b.Domain.Lo
		}
		near := math.Min(f.reach()/math.Abs(x), 1)
		at := rng.IntN(len(row))
		if r%4 == 3 {
			at = 0 // some kernels assume that the first element is typical
		}
		row[at] = x * math.Pow(near, float64(r%32)/31)
	}},
	{"constant", varied, nil}, // see Make
	// Few distinct values in a row: one, two, three or four.
	{"ties", varied, func(f *filling, row []float64, r int, rng *rand.Rand) {
		var values [4]float64
		f.declared(values[:1+r%4], rng)
		for i := range row {
			row[i] = values[rng.IntN(1+r%4)]
		}
	}},
	// One sign: the declared data, and in every other row the whole domain.
	{"negative", signs, func(f *filling, row []float64, r int, rng *rand.Rand) {
		f.declared(row, rng)
		for i, x := range row {
			row[i] = -math.Abs(x)
			if r%2 == 1 {
				row[i] = f.b.Domain.Lo * rng.Float64()
			}
		}
	}},
	{"positive", signs, func(f *filling, row []float64, r int, rng *rand.Rand) {
		f.declared(row, rng)
		for i, x := range row {
			row[i] = math.Abs(x)
			if r%2 == 1 {
				row[i] = f.b.Domain.Hi * rng.Float64()
			}
		}
	}},
	// The whole domain.
	{"broad", func(f *filling) bool {
		return spread(f) && (f.b.Data.Distribution == Normal || f.b.Data.Domain() != f.b.Domain)
	}, func(f *filling, row []float64, _ int, rng *rand.Rand) {
		for i := range row {
			at := rng.Float64()
			row[i] = f.b.Domain.Lo*(1-at) + f.b.Domain.Hi*at
		}
	}},
	// Only the ends of the domain: the largest magnitudes.
	{"ends", spread, func(f *filling, row []float64, _ int, rng *rand.Rand) {
		for i := range row {
			row[i] = f.b.Domain.Lo
			if rng.IntN(2) == 1 {
				row[i] = f.b.Domain.Hi
			}
		}
	}},
	// The declared data, much smaller.
	{"tiny", func(f *filling) bool { return f.zero && varied(f) && f.b.DType.Float() }, func(f *filling, row []float64, _ int, rng *rand.Rand) {
		f.declared(row, rng)
		for i := range row {
			row[i] *= f.b.DType.small()
		}
	}},
	// The declared data in one element of eight, zeros of both signs elsewhere.
	{"sparse", func(f *filling) bool { return f.zero && varied(f) }, func(f *filling, row []float64, _ int, rng *rand.Rand) {
		f.declared(row, rng)
		for i := range row {
			if rng.IntN(8) != 0 {
				row[i] = signed(0, rng)
			}
		}
	}},
	{"zeros", func(f *filling) bool { return f.zero && spread(f) }, func(_ *filling, row []float64, _ int, rng *rand.Rand) {
		for i := range row {
			row[i] = signed(0, rng)
		}
	}},
	// The declared data, and in one row an element, some in a row, or all from elsewhere in the
	// domain: the other rows give no sign of it.
	{"somewhere", spread, func(f *filling, row []float64, r int, rng *rand.Rand) {
		f.declared(row, rng)
		if r == 0 {
			f.one = rng.IntN(f.rows)
		}
		if r != f.one {
			return
		}
		part := row
		if way := rng.IntN(3); way > 0 {
			from := rng.IntN(len(row))
			part = row[from : from+1+(way-1)*rng.IntN(len(row)-from)]
		}
		x := f.b.Domain.Hi
		if -f.b.Domain.Lo > x || -f.b.Domain.Lo == x && rng.IntN(2) == 1 {
			x = f.b.Domain.Lo
		}
		near := math.Min(f.reach()/math.Abs(x), 1)
		ends := rng.IntN(2) == 1
		for i := range part {
			at := rng.Float64()
			if part[i] = f.b.Domain.Lo*(1-at) + f.b.Domain.Hi*at; ends {
				part[i] = x * math.Pow(near, rng.Float64())
			}
		}
	}},
	// Only where the definition says that denormals count.
	{"denormal", func(f *filling) bool { return f.b.Denormals }, func(f *filling, row []float64, _ int, rng *rand.Rand) {
		for i := range row {
			row[i] = signed(f.b.DType.normal()*rng.Float64(), rng)
		}
	}},
}

func signs(f *filling) bool  { return f.b.Domain.Lo < 0 && f.b.Domain.Hi > 0 }
func spread(f *filling) bool { return f.b.Domain.Lo < f.b.Domain.Hi }
func varied(f *filling) bool { return f.b.Data.Distribution != Constant }

func signed(x float64, rng *rand.Rand) float64 {
	if rng.IntN(2) == 1 {
		return -x
	}
	return x
}

// reach is the largest magnitude of the declared data.
func (f *filling) reach() float64 {
	d := f.b.Data.Domain()
	most := math.Max(math.Abs(d.Lo), math.Abs(d.Hi))
	if f.b.Data.Distribution == Python {
		for _, x := range f.made {
			most = math.Max(most, math.Abs(x))
		}
	}
	return most
}

// declared gives declared data, drawn unless they are there.
func (f *filling) declared(row []float64, rng *rand.Rand) {
	d := f.b.Data
	if d.Distribution != Python && f.made != nil {
		row = row[copy(row, f.made[f.at:]):]
	}
	for i := range row {
		switch d.Distribution {
		case Python:
			row[i] = f.made[rng.IntN(len(f.made))]
		case Uniform:
			row[i] = d.A + (d.B-d.A)*rng.Float64()
		case Normal:
			row[i] = d.A + d.B*rng.NormFloat64()
		case Integers:
			row[i] = math.Floor(d.A + (d.B-d.A+1)*rng.Float64())
		default:
			row[i] = d.A
		}
	}
}

// Declared draws n elements of the buffer as its data declare them, rounded to its type, from a seed. It does not make
// data that are made for the whole buffer; see [Data.Made].
func (b Buffer) Declared(n int64, seed uint64) []float64 {
	out := make([]float64, n)
	(&filling{b: b}).declared(out, rand.New(rand.NewPCG(seed, 3)))
	for i, x := range out {
		out[i] = b.DType.Round(x)
	}
	return out
}

// Further lists the edge-case contents that the problem's domains allow. There are none
// if every input has only one value.
func (p *Problem) Further() []Further {
	var list []Further
	for _, row := range further {
		c := Further{Name: row.name, turn: len(list), fills: make([]*filling, len(p.Buffers))}
		fits := false
		for i, b := range p.Buffers {
			if b.Role == Out {
				continue
			}
			f := &filling{b: b, zero: b.Domain.Holds(0)}
			if !b.Kept() && row.fits(f) {
				f.row, fits = row.row, true
			} else {
				f.row = func(f *filling, row []float64, _ int, rng *rand.Rand) { f.declared(row, rng) }
			}
			c.fills[i] = f
		}
		if fits {
			list = append(list, c)
		}
	}
	return list
}

// FurtherNamed finds edge-case contents by name.
func (p *Problem) FurtherNamed(name string) (Further, error) {
	list := p.Further()
	i := slices.IndexFunc(list, func(c Further) bool { return c.Name == name })
	if i < 0 {
		return Further{}, fmt.Errorf("the problem has no contents called %q", name)
	}
	return list[i], nil
}

// Declared returns the same contents of the inputs with the declared scalars.
func (c Further) Declared() Further {
	c.plain = true
	return c
}

// Scalars returns the values of the scalars at a shape: a scalar's declared value and
// its further values (Also) take turns.
func (c Further) Scalars(p *Problem, s Shape) ([]float64, error) {
	values, err := p.ScalarValues(s)
	if err != nil || c.plain {
		return values, err
	}
	for i, sc := range p.Scalars {
		if k := c.turn % (1 + len(sc.Also)); k > 0 {
			values[i] = sc.Also[k-1]
		}
	}
	return values, nil
}

// Make returns the n elements of an input buffer, rounded to the buffer's type. Row is
// the length of a row. Made are the elements of declared contents: needed if a function
// in Python makes them, otherwise nil draws them from the seed.
func (c Further) Make(buffer int, n, row int64, seed uint64, made []float64) []float64 {
	f := *c.fills[buffer]
	if f.b.Kept() {
		return slices.Clone(made)
	}
	f.made = made
	out := make([]float64, n)
	rng := rand.New(rand.NewPCG(seed, uint64(c.turn)<<32|uint64(buffer)))
	row = min(max(row, 1), n)
	f.rows = int((n + row - 1) / row)
	for from := int64(0); from < n; from += row {
		part := out[from:min(from+row, n)]
		if f.at = int(from); f.row != nil {
			f.row(&f, part, int(from/row), rng)
			continue
		}
		if from == 0 {
			f.declared(part[:1], rng)
		}
		for i := range part {
			part[i] = out[0]
		}
	}
	for i, x := range out {
		out[i] = f.fit(x)
	}
	return out
}

// fit clamps to the domain and rounds to the buffer's type, which holds the domain's
// ends.
func (f *filling) fit(x float64) float64 {
	d := f.b.Domain
	return f.b.DType.Round(math.Min(math.Max(x, d.Lo), d.Hi))
}

// Nearby changes the elements of a buffer by as much as some thirty roundings of
// single precision would, or of double where that is the buffer's type: each by a
// chance of its own (0), or all in one direction (1). The change of the reference's output
// shows how far apart honest answers may lie. Integers do not change.
func (b Buffer) Nearby(values []float64, way int, seed uint64) []float64 {
	by := 0x1p-19
	if b.DType == F64 {
		by = 0x1p-48
	}
	if !b.DType.Float() {
		by = 0
	}
	out := make([]float64, len(values))
	rng := rand.New(rand.NewPCG(seed, 1))
	for i, x := range values {
		if way == 1 {
			out[i] = x + by*math.Abs(x)
		} else {
			out[i] = x + signed(by*x, rng)
		}
	}
	return out
}
