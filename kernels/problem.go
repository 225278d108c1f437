package kernels

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/internal/expr"
	"github.com/evotune/evotune/internal/naming"
)

// A DType is the type of the elements of a buffer, or of a scalar.
type DType string

// The types of elements. F16 is IEEE 754 binary16, BF16 the upper half of a
// binary32; kernels get the bits of both, see [Header]. E4M3 and E5M2 are the 8-bit
// numbers of OCP, for GPUs only: E4M3 has no infinity, and 448 is its largest
// number.
const (
	F64  DType = "f64"
	F32  DType = "f32"
	F16  DType = "f16"
	BF16 DType = "bf16"
	E4M3 DType = "e4m3"
	E5M2 DType = "e5m2"
	I64  DType = "i64"
	I32  DType = "i32"
	I16  DType = "i16"
	I8   DType = "i8"
	U32  DType = "u32"
	U16  DType = "u16"
	U8   DType = "u8"
)

// DTypes lists the types of elements.
func DTypes() []DType {
	return []DType{F64, F32, F16, BF16, E4M3, E5M2, I64, I32, I16, I8, U32, U16, U8}
}

// Size is the size of one element in bytes.
func (t DType) Size() int64 {
	switch t {
	case F64, I64:
		return 8
	case F32, I32, U32:
		return 4
	case F16, BF16, I16, U16:
		return 2
	}
	return 1
}

// Float says whether the type is a floating-point one.
func (t DType) Float() bool {
	switch t {
	case F64, F32, F16, BF16, E4M3, E5M2:
		return true
	}
	return false
}

// FP8 says whether the type is an 8-bit floating-point one, which only GPUs have.
func (t DType) FP8() bool { return t == E4M3 || t == E5M2 }

// C returns the type's name in the generated C header.
func (t DType) C() string {
	switch t {
	case F64:
		return "double"
	case F32:
		return "float"
	case F16:
		return "evotune_f16"
	case BF16:
		return "evotune_bf16"
	case E4M3:
		return "evotune_e4m3"
	case E5M2:
		return "evotune_e5m2"
	case I64:
		return "int64_t"
	case I32:
		return "int32_t"
	case I16:
		return "int16_t"
	case U32:
		return "uint32_t"
	case U16:
		return "uint16_t"
	case I8:
		return "int8_t"
	}
	return "uint8_t"
}

// Range returns the smallest and the largest integer of the range that the type holds
// exactly.
func (t DType) Range() (lo, hi float64) {
	switch t {
	case F64, I64:
		return -1 << 53, 1 << 53 // data is made as double
	case F32:
		return -1 << 24, 1 << 24
	case F16:
		return -1 << 11, 1 << 11
	case BF16:
		return -1 << 8, 1 << 8
	case E4M3:
		return -1 << 4, 1 << 4
	case E5M2:
		return -1 << 3, 1 << 3
	case I32:
		return math.MinInt32, math.MaxInt32
	case I16:
		return math.MinInt16, math.MaxInt16
	case U32:
		return 0, math.MaxUint32
	case U16:
		return 0, math.MaxUint16
	case I8:
		return math.MinInt8, math.MaxInt8
	}
	return 0, math.MaxUint8
}

// A Role says what a kernel does with a buffer.
type Role string

// The roles.
const (
	In    Role = "in"    // read only: changing it is a fault
	Out   Role = "out"   // written in full; holds NaN before
	InOut Role = "inout" // read and written
)

// A Use says what a shape is for.
type Use string

// The uses.
const (
	// Tune: benchmarked. The first shape with this use is the default.
	Tune Use = "tune"
	// Verify: checked for parity, to detect a kernel that is right only at the tuned
	// shapes.
	Verify Use = "verify"
	// Sanitize: the small one that sanitizers run on.
	Sanitize Use = "sanitize"
)

// A Shape gives every dimension of a problem a size.
type Shape struct {
	Name string           `json:"name"`
	Use  Use              `json:"use"`
	Dims map[string]int64 `json:"dims"`
	// Blocks is the largest number of blocks along each axis of the grid that are
	// launched, the first ones; 0 is all. Only [Implementation.SanitizeShape] sets it.
	Blocks int64 `json:"blocks,omitempty"`
}

// env returns the dimensions as constants for expressions.
func (s Shape) env() map[string]any {
	m := make(map[string]any, len(s.Dims)+len(limits))
	for k, v := range s.Dims {
		m[k] = v
	}
	return m
}

// A Distribution is a family of random numbers.
type Distribution string

// The distributions, with the meaning of a Data's A and B.
const (
	Uniform  Distribution = "uniform"  // on [A, B)
	Normal   Distribution = "normal"   // mean A, standard deviation B
	Integers Distribution = "integers" // each of A to B with equal chance
	Constant Distribution = "constant" // always A
	Python   Distribution = "python"   // whatever a function of the reference's file makes

	// The first elements of a random permutation of the integers below Ends[0]:
	// page tables, slots.
	Permutation Distribution = "permutation"
	// Integers from Ends[0] to Ends[1]: lengths of sequences, class labels.
	Between Distribution = "between"
	// Integers in ascending order, the first 0 and the last Ends[0]: the starts of packed
	// sequences, or of the rows of a sparse matrix.
	Offsets Distribution = "offsets"
)

// Data says how an input is filled.
type Data struct {
	Distribution Distribution `json:"distribution"`
	A            float64      `json:"a"`
	B            float64      `json:"b"`
	// Function makes the elements (Python).
	Function string `json:"function,omitempty"`
	// Ends are expressions over the dimensions (both for Between, the first for Permutation and Offsets).
	Ends [2]string `json:"ends,omitzero"`
}

// Made says that the elements have a structure, which no distribution of single elements
// has. They are made for a whole buffer at a time.
func (d Data) Made() bool {
	return d.Distribution == Python || d.Keyed()
}

// Keyed says that the elements are integers up to Ends, which depend on the shape. A key and a place decide
// each, so every launch can have contents of its own at little cost.
func (d Data) Keyed() bool {
	return d.Distribution == Permutation || d.Distribution == Between || d.Distribution == Offsets
}

// String returns the form of kernel.toml.
func (d Data) String() string {
	switch d.Distribution {
	case "":
		return ""
	case Constant:
		return fmt.Sprintf("%s(%g)", d.Distribution, d.A)
	case Python:
		return fmt.Sprintf("%s(%s)", d.Distribution, d.Function)
	case Permutation, Offsets:
		return fmt.Sprintf("%s(%s)", d.Distribution, d.Ends[0])
	case Between:
		return fmt.Sprintf("%s(%s,%s)", d.Distribution, d.Ends[0], d.Ends[1])
	}
	return fmt.Sprintf("%s(%g,%g)", d.Distribution, d.A, d.B)
}

// A Buffer is an array that a kernel gets, in row-major order.
type Buffer struct {
	Name  string   `json:"name"`
	DType DType    `json:"dtype"`
	Role  Role     `json:"role"`
	Shape []string `json:"shape"` // one expression over the dimensions per axis
	// Data fills it, and Domain is the further range in which a kernel must be right; zero
	// for outputs, and for data with a structure that edge-case inputs must keep, see Kept.
	// Denormals says that denormal elements count.
	Data      Data   `json:"data,omitzero"`
	Domain    Domain `json:"domain,omitzero"`
	Denormals bool   `json:"denormals,omitempty"`
	// Tolerance bounds the error of this output, instead of the problem's for its type;
	// nil means the problem's. It does not apply if a variant gives the output
	// another type.
	Tolerance *float64 `json:"tolerance,omitempty"`
	// Repeat is how far apart the outputs of launches with the same inputs may be,
	// relative to the root mean square of the reference's: 0 requires the same bits. The
	// judge compares them in any case, and the evidence has the difference (GPU only).
	Repeat float64 `json:"repeat,omitempty"`
	// Unwritten says that an element that the reference leaves NaN is not part of the
	// answer: the kernel need not write it, and the judge does not compare it (GPU only).
	Unwritten bool `json:"unwritten,omitempty"`

	axes []*expression
	ends []*expression // of Data.Ends
}

// Kept says that the elements stay unchanged when other buffers have edge-case inputs, to keep their
// structure.
func (b Buffer) Kept() bool { return b.Data.Made() && b.Domain == (Domain{}) }

// A Scalar is a number that a kernel gets after its buffers.
type Scalar struct {
	Name  string `json:"name"`
	DType DType  `json:"dtype"` // f64, f32, i64 or i32
	Value string `json:"value"` // an expression over the dimensions
	// Also are values that it has in some of the edge-case contents.
	Also []float64 `json:"also,omitempty"`

	expr *expression
}

// A Source is a C, CUDA or Python file of the kernel's folder.
type Source struct {
	File  string `json:"file"`
	Entry string `json:"entry"`
	Text  string `json:"-"`
}

// A Reference computes every output in double precision: a function in C, which gets what
// the kernel gets, or one in Python, which gets what its parameters name and returns the
// outputs.
type Reference struct {
	Source
	Python bool `json:"python,omitempty"`
	// Library is the module whose arrays a function in Python gets, "torch" or "numpy"; ""
	// means torch if it is installed, else numpy.
	Library string `json:"library,omitempty"`
}

// Function finds a function in a Python text by its name, and returns the line that defines
// it, counted from 1; 0 if there is none.
func (s Source) Function(name string) (line int) {
	at := regexp.MustCompile(`(?m)^def[ \t]+` + regexp.QuoteMeta(name) + `[ \t]*\(`).FindStringIndex(s.Text)
	if at == nil {
		return 0
	}
	return 1 + strings.Count(s.Text[:at[0]], "\n")
}

// A DeviceReference is the reference as a CUDA kernel: naive, in double
// precision, and sharing no code with the candidates. Its entry gets what the
// C reference gets.
type DeviceReference struct {
	Source
	// Launch has expressions over the dimensions only.
	Launch Launch `json:"launch"`
}

// A Cache says what timed launches find in the last-level cache of a GPU.
type Cache string

// The states of the cache.
const (
	// Warm: the inputs are in the cache, as far as two sets of buffers fit.
	Warm Cache = "warm"
	// Cold: the inputs are not in the cache.
	Cold Cache = "cold"
)

// A ControlKind is a way of being wrong.
type ControlKind string

// The negative controls.
const (
	Zeros   ControlKind = "zeros"    // every output is zero
	Mean    ControlKind = "constant" // every output is the mean of the reference's
	Swapped ControlKind = "swap"     // the reference with two inputs exchanged

	// Definitions do not declare these. Halved is the reference with the smaller half of
	// every output, by magnitude, set to zero; lint uses it.
	Halved ControlKind = "half"
	// Returned is an input returned as an output; LeftOut the reference on inputs in which
	// every eighth element of the last axis, or every eighth step along one axis of one input, is
	// replaced by its neighbor.
	Returned ControlKind = "input"
	LeftOut  ControlKind = "left out"
)

// A Control is a wrong answer that the tolerance must reject; otherwise the tolerance
// proves nothing.
type Control struct {
	Kind ControlKind `json:"kind"`
	// Buffers are the two inputs that Swapped exchanges. They are of one type,
	// and of one size in at least one shape. Those of Returned are the input and the output.
	// That of LeftOut, if there is one, is the only input that changes, along its Axis.
	Buffers []string `json:"buffers,omitempty"`
	Axis    int      `json:"axis,omitempty"`
}

// String names a control for people.
func (c Control) String() string {
	switch {
	case c.Kind == LeftOut && len(c.Buffers) > 0:
		return fmt.Sprintf("work left out along axis %d of %s", c.Axis, c.Buffers[0])
	case c.Kind == LeftOut:
		return "work left out"
	case c.Kind == Returned:
		return c.Buffers[0] + " returned as " + c.Buffers[1]
	case len(c.Buffers) > 0:
		return string(c.Kind) + " of " + strings.Join(c.Buffers, " and ")
	}
	return string(c.Kind)
}

// An Oracle says what candidates are compared with.
type Oracle string

// The oracles.
const (
	// Independent: a reference that shares no code with the candidates.
	Independent Oracle = "reference"
	// OwnBaseline: the reference is the kernel itself with its baseline's values. It
	// shows that all candidates agree, not that they are right.
	OwnBaseline Oracle = "baseline"
)

// A Problem is what implementations compute.
type Problem struct {
	// Dims are the names of the dimensions, in the order in which kernels get
	// them.
	Dims    []string `json:"dims"`
	Shapes  []Shape  `json:"shapes"`
	Buffers []Buffer `json:"buffers"`
	Scalars []Scalar `json:"scalars,omitempty"`
	// OperationsExpr and BytesExpr are the expressions behind Operations and
	// Bytes. If OperationsExpr is "", nothing is known about the time that operations
	// take.
	OperationsExpr string `json:"operations"`
	BytesExpr      string `json:"bytes"`
	// Pipe names the peak that bounds the operations: "f32", "f64", ...,
	// "tensor-f16", ...
	Pipe string `json:"pipe"`
	// Cache is what timed launches on a GPU find in its last-level cache.
	Cache     Cache     `json:"cache"`
	Reference Reference `json:"reference"`
	// DeviceReference is the reference for GPUs; nil when there is none.
	DeviceReference *DeviceReference `json:"device_reference,omitempty"`
	// Tolerance bounds max|output - reference| / RMS(reference) of every
	// output, by its type, unless the output has its own: see ToleranceOf.
	Tolerance map[DType]float64 `json:"tolerance"`
	Controls  []Control         `json:"controls"`
	// Oracle says whether the reference is independent of the candidates.
	Oracle Oracle `json:"oracle"`

	operations, bytes *expression
	in                *problemTable
	variant           *variantTable // nil for the problem itself
}

// Shape finds a shape by name or, if the definition has no such shape, makes the shape
// to tune for from its dimensions ("B=2,H=8,S=512,D=64"). The error
// wraps ErrUnknownShape, and lists the names.
func (p *Problem) Shape(name string) (Shape, error) {
	if strings.Contains(name, "=") {
		dims, err := p.ReadDims(name, p.Flags())
		if err != nil {
			return Shape{}, fmt.Errorf("%w %q: %w: the dimensions are %s", ErrUnknownShape, name, err, strings.Join(p.Dims, ", "))
		}
		for _, s := range p.Shapes {
			if maps.Equal(s.Dims, dims) {
				return s, nil
			}
		}
		return Shape{Name: p.DimsText(dims), Use: Tune, Dims: dims}, nil
	}
	names := make([]string, len(p.Shapes))
	for i, s := range p.Shapes {
		if s.Name == name {
			return s, nil
		}
		names[i] = s.Name
	}
	near := ""
	if n := naming.Nearest(name, names); n != "" {
		near = "did you mean " + n + "? "
	}
	return Shape{}, fmt.Errorf("%w %q: %sthere are %s", ErrUnknownShape, name, near, strings.Join(names, ", "))
}

// DimsText writes a shape as its dimensions, in the form that Shape reads.
func (p *Problem) DimsText(dims map[string]int64) string {
	parts := make([]string, len(p.Dims))
	for i, d := range p.Dims {
		parts[i] = d + "=" + strconv.FormatInt(dims[d], 10)
	}
	return strings.Join(parts, ",")
}

// ReadDims reads what DimsText writes, in any order. Every dimension must be given,
// except flags, which default to 0. All buffers must have valid sizes at the result.
func (p *Problem) ReadDims(text string, flags []string) (map[string]int64, error) {
	dims := map[string]int64{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		if !ok {
			return nil, fmt.Errorf("%q is not of the form NAME=N", part)
		}
		if !slices.Contains(p.Dims, name) {
			return nil, fmt.Errorf("there is no dimension %q", name)
		}
		if _, again := dims[name]; again {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < 0 || n > maxDim {
			return nil, fmt.Errorf("%s is %q, expected an integer from 0 to %d", name, value, int64(maxDim))
		}
		dims[name] = n
	}
	for _, name := range p.Dims {
		if _, ok := dims[name]; ok {
			continue
		}
		if !slices.Contains(flags, name) {
			return nil, fmt.Errorf("%s is missing", name)
		}
		dims[name] = 0
	}
	for _, b := range p.Buffers {
		if _, err := p.Elements(b, Shape{Name: text, Dims: dims}); err != nil {
			return nil, err
		}
	}
	return dims, nil
}

// ShapesFor lists the shapes of a use, in the order of the definition. There
// is at least one for every use.
func (p *Problem) ShapesFor(use Use) []Shape {
	var out []Shape
	for _, s := range p.Shapes {
		if s.Use == use {
			out = append(out, s)
		}
	}
	return out
}

// Buffer finds a buffer by name.
func (p *Problem) Buffer(name string) (Buffer, bool) {
	i := slices.IndexFunc(p.Buffers, func(b Buffer) bool { return b.Name == name })
	if i < 0 {
		return Buffer{}, false
	}
	return p.Buffers[i], true
}

// Outputs lists the buffers that a kernel writes.
func (p *Problem) Outputs() []Buffer {
	return slices.DeleteFunc(slices.Clone(p.Buffers), func(b Buffer) bool { return b.Role == In })
}

// Undeclared lists the controls that every definition has at a shape: each input returned as
// each output of its type and extents, and work left out, also of one input along one axis that
// no output has. Such an axis is summed over, where a part of the work hides best: a change of
// other inputs, or along an axis that an output has, shows at once.
func (p *Problem) Undeclared(s Shape) (list []Control, err error) {
	axes := make([][]int64, len(p.Buffers))
	for i, b := range p.Buffers {
		if axes[i], err = p.Axes(b, s); err != nil {
			return nil, err
		}
	}
	for i, in := range p.Buffers {
		for o, out := range p.Buffers {
			if in.Role != Out && out.Role != In && in.DType == out.DType && slices.Equal(axes[i], axes[o]) {
				list = append(list, Control{Kind: Returned, Buffers: []string{in.Name, out.Name}})
			}
		}
	}
	list = append(list, Control{Kind: LeftOut})
	all, err := p.Thinned(list[len(list)-1], s)
	if err != nil {
		return nil, err
	}
	outputs := p.Outputs()
	for i, in := range p.Buffers {
		for axis, name := range in.Shape {
			kept := slices.ContainsFunc(outputs, func(out Buffer) bool { return slices.Contains(out.Shape, name) })
			if kept || !in.thins() || axes[i][axis] == 1 {
				continue
			}
			c := Control{Kind: LeftOut, Buffers: []string{in.Name}, Axis: axis}
			switch alone, err := p.Thinned(c, s); {
			case err != nil:
				return nil, err
			case !slices.Equal(alone, all):
				list = append(list, c)
			}
		}
	}
	return list, nil
}

// A Thinning says which elements of a buffer the control LeftOut replaces: every eighth step
// along an axis of Steps, each of Inner elements. It is zero for a buffer that stays as it is.
type Thinning struct{ Steps, Inner int64 }

// thins says whether the control LeftOut replaces elements of a buffer: not those of an output,
// nor where a structure must be kept or all are equal.
func (b Buffer) thins() bool {
	return b.Role != Out && b.Data.Distribution != Constant && !b.Kept()
}

// Thinned says, by buffer, what a control of the kind LeftOut replaces at a shape.
func (p *Problem) Thinned(c Control, s Shape) ([]Thinning, error) {
	all := make([]Thinning, len(p.Buffers))
	for i, b := range p.Buffers {
		axes, err := p.Axes(b, s)
		if err != nil {
			return nil, err
		}
		axis := len(axes) - 1
		if len(c.Buffers) > 0 {
			axis = c.Axis
		}
		if !b.thins() || len(c.Buffers) > 0 && b.Name != c.Buffers[0] || axis < 0 || axis >= len(axes) || axes[axis] == 1 {
			continue
		}
		all[i] = Thinning{Steps: axes[axis], Inner: 1}
		for _, n := range axes[axis+1:] {
			all[i].Inner *= n
		}
	}
	return all, nil
}

// ToleranceOf returns the tolerance of an output, and whether there is one: its own, or
// that of its type. Every output of a loaded definition has one.
func (p *Problem) ToleranceOf(b Buffer) (float64, bool) {
	if b.Tolerance != nil {
		return *b.Tolerance, true
	}
	t, ok := p.Tolerance[b.DType]
	return t, ok
}

// roundings are the units in the last place within which an element is right: an honest
// kernel rounds twice to the output's type, as where a row is normalized and then scaled,
// and each rounding is off by half a unit of a number that the next one at most doubles.
const roundings = 1.5

// UnitsOf returns within which distance of the reference an element of an output is right
// whatever the tolerance, as a part of the largest power of two that is not above the
// element's magnitude. Large elements need it: the tolerance is relative to the output's
// scale, and an element of 16 bits that is ten times as large cannot be stored that exactly.
// It is 0 for outputs that must be exact, for integers, and for 8-bit types, in which it
// would be a quarter of the value.
func (p *Problem) UnitsOf(b Buffer) float64 {
	if limit, ok := p.ToleranceOf(b); !ok || limit == 0 || !b.DType.Float() || b.DType.FP8() {
		return 0
	}
	return roundings * b.DType.Step()
}

// maxBytes bounds a buffer, far above any memory.
const maxBytes = 1 << 40

// Axes returns the extent of every axis of a buffer at a shape.
func (p *Problem) Axes(b Buffer, s Shape) ([]int64, error) {
	env := s.env()
	out := make([]int64, len(b.axes))
	for i, e := range b.axes {
		n, err := e.prog.Int(env)
		if err != nil {
			return nil, fmt.Errorf("buffer %s at shape %s: %w", b.Name, s.Name, err)
		}
		if n < 1 || n > maxBytes {
			return nil, fmt.Errorf("buffer %s at shape %s: axis %q is %d, expected 1 to %d", b.Name, s.Name, e.src, n, int64(maxBytes))
		}
		out[i] = n
	}
	return out, nil
}

// Elements counts the elements of a buffer at a shape.
func (p *Problem) Elements(b Buffer, s Shape) (int64, error) {
	axes, err := p.Axes(b, s)
	if err != nil {
		return 0, err
	}
	n := int64(1)
	for _, a := range axes {
		if n > maxBytes/a/b.DType.Size() {
			return 0, fmt.Errorf("buffer %s at shape %s has more than %d bytes", b.Name, s.Name, int64(maxBytes))
		}
		n *= a
	}
	return n, nil
}

// allElements is how many elements all buffers have at a shape.
func (p *Problem) allElements(s Shape) (sum int64, err error) {
	for _, b := range p.Buffers {
		n, err := p.Elements(b, s)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// SanitizerLoad says how slow the slowest sanitizer is at a shape: 1 is about a second.
func (p *Problem) SanitizerLoad(s Shape) (float64, error) {
	elements, err := p.allElements(s)
	if err != nil {
		return 0, err
	}
	operations, err := p.Operations(s)
	return max(float64(elements)/smallElements, operations/smallOperations), err
}

// Made makes the contents of a buffer whose data are a permutation, lie between ends, or are offsets, at a shape.
func (p *Problem) Made(b Buffer, s Shape, seed uint64) ([]float64, error) {
	n, err := p.Elements(b, s)
	if err != nil {
		return nil, err
	}
	ends, err := b.endsAt(s, n)
	if err != nil {
		return nil, err
	}
	out := make([]float64, n)
	rng := rand.New(rand.NewPCG(seed, 2))
	switch b.Data.Distribution {
	case Between:
		for i := range out {
			out[i] = float64(ends[0] + rng.Int64N(ends[1]-ends[0]+1))
		}
		return out, nil
	case Offsets:
		out[n-1] = float64(ends[0])
		for i := range out[1 : n-1] {
			out[1+i] = float64(rng.Int64N(ends[0] + 1))
		}
		slices.Sort(out)
		return out, nil
	}
	// Fisher-Yates shuffle, for as many elements as needed. For few of many, only those that
	// have moved from their place in 0, 1, 2, ... are stored.
	if ends[0] <= 4*n {
		all := make([]int64, ends[0])
		for i := range all {
			all[i] = int64(i)
		}
		for i := range out {
			j := int64(i) + rng.Int64N(ends[0]-int64(i))
			all[i], all[j] = all[j], all[i]
			out[i] = float64(all[i])
		}
		return out, nil
	}
	moved := map[int64]int64{}
	at := func(i int64) int64 {
		if x, ok := moved[i]; ok {
			return x
		}
		return i
	}
	for i := range n {
		j := i + rng.Int64N(ends[0]-i)
		out[i], moved[j] = float64(at(j)), at(i)
	}
	return out, nil
}

// DataAt returns a buffer's Data with numbers for Ends, evaluated at a shape.
func (p *Problem) DataAt(b Buffer, s Shape) (Data, error) {
	ends, err := p.EndsAt(b, s)
	if err != nil {
		return Data{}, err
	}
	out := b.Data
	for i, x := range ends {
		out.Ends[i] = strconv.FormatInt(x, 10)
	}
	return out, nil
}

// EndsAt gives the numbers of Data.Ends of a buffer at a shape.
func (p *Problem) EndsAt(b Buffer, s Shape) ([]int64, error) {
	n, err := p.Elements(b, s)
	if err != nil {
		return nil, err
	}
	return b.endsAt(s, n)
}

// endsAt evaluates the ends of n elements at a shape.
func (b Buffer) endsAt(s Shape, n int64) (ends []int64, err error) {
	_, most := b.DType.Range()
	for _, e := range b.ends {
		x, err := e.prog.Int(s.env())
		if err != nil {
			return nil, fmt.Errorf("the data of %s at shape %s: %w", b.Name, s.Name, err)
		}
		if x < 0 || float64(x) > min(most, maxBytes) {
			return nil, fmt.Errorf("the data of %s at shape %s: %q is %d, expected 0 to %.0f", b.Name, s.Name, e.src, x, min(most, maxBytes))
		}
		ends = append(ends, x)
	}
	switch {
	case b.Data.Distribution == Permutation && ends[0] < n:
		return nil, fmt.Errorf("the data of %s at shape %s: %d elements cannot all differ below %d: give %s a larger number", b.Name, s.Name, n, ends[0], Permutation)
	case b.Data.Distribution == Offsets && n < 2:
		return nil, fmt.Errorf("the data of %s at shape %s: %s are where each of so many parts begins and the last one ends: give %s two elements at least", b.Name, s.Name, Offsets, b.Name)
	case b.Data.Distribution == Between && ends[0] > ends[1]:
		return nil, fmt.Errorf("the data of %s at shape %s: %s is empty: the first number, %d, must not be larger than the second, %d", b.Name, s.Name, b.Data, ends[0], ends[1])
	}
	return ends, nil
}

// Operations counts the floating-point operations of one launch at a shape; 0 if the
// definition does not say.
func (p *Problem) Operations(s Shape) (float64, error) {
	if p.operations == nil {
		return 0, nil
	}
	return p.cost(p.operations, "operations", s)
}

// Bytes counts the bytes that one launch at a shape must move between the
// device and its memory, however good its caches are.
func (p *Problem) Bytes(s Shape) (float64, error) { return p.cost(p.bytes, "bytes", s) }

func (p *Problem) cost(e *expression, what string, s Shape) (float64, error) {
	x, err := e.prog.Float(s.env())
	if err != nil {
		return 0, fmt.Errorf("%s at shape %s: %w", what, s.Name, err)
	}
	if x < 0 {
		return 0, fmt.Errorf("%s at shape %s: %q gives %g, which is negative", what, s.Name, e.src, x)
	}
	return x, nil
}

// ScalarValues returns the scalars at a shape, in their order.
func (p *Problem) ScalarValues(s Shape) ([]float64, error) {
	env := s.env()
	out := make([]float64, len(p.Scalars))
	for i, sc := range p.Scalars {
		x, err := sc.expr.prog.Float(env)
		if err != nil {
			return nil, fmt.Errorf("scalar %s at shape %s: %w", sc.Name, s.Name, err)
		}
		if !sc.holds(x) {
			return nil, fmt.Errorf("scalar %s at shape %s: %q gives %g, which is not of the type %s", sc.Name, s.Name, sc.expr.src, x, sc.DType)
		}
		out[i] = x
	}
	return out, nil
}

// holds says whether the scalar's type can hold a value.
func (sc Scalar) holds(x float64) bool {
	lo, hi := sc.DType.Range()
	return sc.DType.Float() || x == math.Trunc(x) && lo <= x && x <= hi
}

// An expression is a compiled expression and its position.
type expression struct {
	src  string
	at   *node
	prog *expr.Expr
}

// ReferenceGeometry returns the launch geometry of the device reference at a
// shape.
func (p *Problem) ReferenceGeometry(s Shape) (Geometry, error) {
	if p.DeviceReference == nil {
		return Geometry{}, errors.New("the problem has no reference in CUDA: add [problem.reference.cuda] with source, entry, grid and block")
	}
	geo, at, err := p.DeviceReference.Launch.at(s.env())
	if err != nil {
		return geo, fmt.Errorf("reference at shape %s: %s: %w", s.Name, at.src, err)
	}
	return geo, nil
}
