// Package cublaslt describes products to NVIDIA's cublasLt, in one place for those that call it: the
// worker, which measures candidates against them, and exported libraries, which call them where nothing
// faster was found. It calls nothing itself. lt.h has the functions.
package cublaslt

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Matmul is what a routine of cublasLt computes: the form of a product, and what
// is fused with it. Matrices are in rows: A[M,K] or, transposed, [K,M]; B[K,N] or
// [N,K]; C[M,N]. With a dimension L before the others there are L products.
type Matmul struct {
	Routine        string // "cublasLt:matmul_nt_bias"
	TransA, TransB bool
	Bias           bool   // bias[N] is added to every row; or bias[L,N]
	Activation     string // "", "gelu" by tanh, or "relu", after the bias
	Residual       bool   // residual[M,N] is added
	TF32           bool   // f32 is multiplied as tf32
	Fast           bool   // sums of fp8 are not promoted
}

// matmulOptions may follow a form, in this order.
var matmulOptions = []string{"bias", "gelu", "relu", "residual", "tf32", "fast"}

const matmulNames = "a name is matmul_nn, _nt, _tn or _tt (t: A is [K,M], B is [N,K]), then what is fused, in this order: _bias, _gelu or _relu, _residual; then _tf32 for f32 or _fast for fp8"

// Parse reads the name of a routine.
func Parse(routine string) (Matmul, error) {
	m := Matmul{Routine: routine}
	fail := func(format string, args ...any) (Matmul, error) {
		return Matmul{}, fmt.Errorf("routine %s: %s", routine, fmt.Sprintf(format, args...))
	}
	words := strings.Split(strings.TrimPrefix(routine, "cublasLt:"), "_")
	if words[0] != "matmul" || len(words) < 2 || !slices.Contains([]string{"nn", "nt", "tn", "tt"}, words[1]) {
		return fail("unknown; %s", matmulNames)
	}
	m.TransA, m.TransB = words[1][0] == 't', words[1][1] == 't'
	last := -1
	for _, w := range words[2:] {
		at := slices.Index(matmulOptions, w)
		switch {
		case at < 0:
			return fail("cublasLt does not fuse %q; %s. What it cannot fuse, such as a gate, needs a baseline with a genome", w, matmulNames)
		case at <= last:
			return fail("_%s is twice or out of order; %s", w, matmulNames)
		}
		last = at
		switch w {
		case "bias":
			m.Bias = true
		case "gelu", "relu":
			if m.Activation != "" {
				return fail("it has two activations; %s", matmulNames)
			}
			m.Activation = w
		case "residual":
			m.Residual = true
		case "tf32":
			m.TF32 = true
		case "fast":
			m.Fast = true
		}
	}
	switch {
	case m.Activation != "" && m.Residual:
		return fail("cublasLt adds a residual before the activation, not after it: leave out _%s or _residual", m.Activation)
	case m.TF32 && m.Fast:
		return fail("_tf32 is for f32 and _fast for fp8: leave one out")
	}
	return m, nil
}

// Operands are the buffers that the routine wants, in order.
func (m Matmul) Operands() []string {
	list := []string{"A", "B"}
	if m.Bias {
		list = append(list, "bias")
	}
	if m.Residual {
		list = append(list, "residual")
	}
	return append(list, "C")
}

// FP8 says that a type has 8 bits.
func FP8(dtype string) bool { return dtype == "e4m3" || dtype == "e5m2" }

// A Buffer is one of a problem's: its type, such as "f16", and its role, "in", "out" or "inout".
type Buffer struct{ Name, DType, Role string }

// size is that of an element of an output of fp8 products, in bytes.
func (b Buffer) size() int64 {
	if b.DType == "f32" {
		return 4
	}
	return 2
}

// CheckBuffers holds a problem against what the routine computes.
func (m Matmul) CheckBuffers(buffers []Buffer, scalars []string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("routine %s: %s", m.Routine, fmt.Sprintf(format, args...))
	}
	want := m.Operands()
	if len(buffers) != len(want) || len(scalars) != 0 {
		return fail("it wants the buffers %s, in this order, and no scalars; the problem has %d buffers and %d scalars", strings.Join(want, ", "), len(buffers), len(scalars))
	}
	out := buffers[len(buffers)-1].DType
	first := buffers[0].DType
	types := map[string][]string{"A": {"f16", "bf16", "f32", "e4m3", "e5m2"}, "B": {first}, "bias": {out}, "residual": {out}}
	switch {
	case FP8(first):
		types["B"], types["C"] = []string{"e4m3", "e5m2"}, []string{"f16", "bf16", "f32"}
		if out == "f32" {
			types["bias"] = []string{"bf16"}
		}
	case first == "f32":
		types["C"] = []string{"f32"}
	default:
		types["C"] = []string{first, "f32"}
	}
	for i, b := range buffers {
		role := "in"
		if want[i] == "C" {
			role = "out"
		}
		if b.Role != role {
			return fail("buffer %s is %s; as %s it must be %s", b.Name, b.Role, want[i], role)
		}
		if !slices.Contains(types[want[i]], b.DType) {
			return fail("buffer %s is %s; as %s it must be %s", b.Name, b.DType, want[i], strings.Join(types[want[i]], " or "))
		}
	}
	switch {
	case FP8(first) && first == "e5m2" && buffers[1].DType == "e5m2":
		return fail("A and B are e5m2, which cublasLt does not multiply: one of them must be e4m3")
	case FP8(first) && (m.TransA || !m.TransB):
		return fail("cublasLt multiplies fp8 as A[M,K] and B[N,K] alone: take matmul_nt")
	case m.Fast && !FP8(first):
		return fail("_fast is for fp8, and A is %s: leave it out", first)
	case m.TF32 && first != "f32":
		return fail("_tf32 is for f32, and A is %s: leave it out", first)
	}
	return nil
}

// A Product is a matmul at a shape in cublasLt's terms, whose matrices are in
// columns. What is in rows is in columns the transpose, and C' = B' A': its A is
// our B, and its m is our N.
type Product struct {
	M, N, K        int64
	Batch          int64
	TransA, TransB bool
	A, B, C        Layout // C is of the residual as well
	BiasStride     int64  // from the bias of a product to that of the next
}

// A Layout is a matrix in columns: element (i,j) of the l-th is at l*Stride + i + j*LD.
type Layout struct{ Rows, Cols, LD, Stride int64 }

func columns(rows, cols int64) Layout { return Layout{rows, cols, rows, rows * cols} }

// maxElements bounds a buffer; no device has as much memory.
const maxElements = 1 << 40

// Product gives the product at a shape, or says why there is none. The elements are those of the buffers.
func (m Matmul) Product(shape string, dims, elements []int64, buffers []Buffer) (Product, error) {
	fail := func(format string, args ...any) (Product, error) {
		return Product{}, fmt.Errorf("routine %s at shape %s: %s", m.Routine, shape, fmt.Sprintf(format, args...))
	}
	d := dims
	if len(d) != 3 && len(d) != 4 || len(elements) != len(buffers) {
		return fail("it wants the dimensions M, N, K or L, M, N, K, and there are %d", len(d))
	}
	batch := int64(1)
	if len(d) == 4 {
		batch, d = d[0], d[1:]
	}
	if slices.Min(dims) < 1 || slices.Max(dims) > math.MaxInt32 {
		return fail("a dimension of %v is not between 1 and 2^31-1", dims)
	}
	rows, cols, k := d[0], d[1], d[2]
	p := Product{M: cols, N: rows, K: k, Batch: batch, TransA: m.TransB, TransB: m.TransA}
	p.A, p.B, p.C = columns(cols, k), columns(k, rows), columns(cols, rows)
	if p.TransA {
		p.A = columns(k, cols)
	}
	if p.TransB {
		p.B = columns(rows, k)
	}
	index := "[L,"
	if len(dims) == 3 {
		index = "["
	}
	formA, formB := index+"M,K]", index+"K,N]"
	if m.TransA {
		formA = index + "K,M]"
	}
	if m.TransB {
		formB = index + "N,K]"
	}
	for i, operand := range m.Operands() {
		each, form := cols*rows, index+"M,N]"
		switch operand {
		case "A":
			each, form = rows*k, formA
		case "B":
			each, form = cols*k, formB
		case "bias":
			each, form = cols, "[N]"
			if elements[i] == cols {
				continue
			}
			if batch > 1 {
				form, p.BiasStride = "[N] or [L,N]", cols
			}
		}
		if each > maxElements/batch || elements[i] != batch*each {
			return fail("buffer %s has %d elements; as %s%s with the dimensions %v it must have others", buffers[i].Name, elements[i], operand, form, dims)
		}
	}
	if FP8(buffers[0].DType) {
		// Rows of fp8 matrices begin at multiples of 16 bytes.
		if out := buffers[len(buffers)-1]; k%16 != 0 || cols*out.size()%16 != 0 {
			return fail("cublasLt multiplies fp8 where K is a multiple of 16 and N of %d; K is %d and N is %d", 16/out.size(), k, cols)
		}
	}
	return p, nil
}

// What campaigns ask the library for, and exported libraries too.
const (
	// Workspace is in bytes: twice what the vendor recommends for its newest devices, for more algorithms to
	// choose from.
	Workspace = 64 << 20
	// Algorithms is how many algorithms are asked for.
	Algorithms = 64
)

// Numbers of cublasLt's documented interface. A test compares them with its header.
const (
	Success = 0

	OpN = 0 // CUBLAS_OP_N
	OpT = 1

	Compute32F     = 68
	ComputeTF32    = 77
	DescTransA     = 3
	DescTransB     = 4
	DescEpilogue   = 7
	DescBias       = 8
	DescBiasStride = 10
	DescFast       = 25
	DescBiasType   = 26

	LayoutBatch  = 5
	LayoutStride = 6

	PreferWorkspace  = 1
	PreferReduction  = 3
	PreferAlignmentA = 5   // then those of B, C and D
	Alignment        = 256 // bytes, where nothing is said of it

	// ReduceComputeType adds the sums of a split product in single precision.
	ReduceComputeType = 2

	EpilogueNone = 1
	EpilogueReLU = 2
	EpilogueBias = 4 // with an activation, both bits
	EpilogueGELU = 32

	ConfigID      = 0
	ConfigTile    = 1
	ConfigSplit   = 2
	ConfigStages  = 6
	ConfigCluster = 8
)

// Types are numbers of types, Status names of what cuBLAS and cublasLt return.
var (
	Types  = map[string]int{"f32": 0, "f16": 2, "bf16": 14, "e4m3": 28, "e5m2": 29}
	Status = map[int]string{
		1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", 7: "CUBLAS_STATUS_INVALID_VALUE",
		8: "CUBLAS_STATUS_ARCH_MISMATCH", 11: "CUBLAS_STATUS_MAPPING_ERROR", 13: "CUBLAS_STATUS_EXECUTION_FAILED",
		14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED",
	}
)

// Names are how the linker knows the library, the newest first.
func Names() []string {
	return []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"}
}

// Epilogue is what cublasLt does with the sums.
func (m Matmul) Epilogue() uint32 {
	bits := uint32(0)
	if m.Bias {
		bits |= EpilogueBias
	}
	switch m.Activation {
	case "gelu":
		bits |= EpilogueGELU
	case "relu":
		bits |= EpilogueReLU
	}
	return max(bits, EpilogueNone)
}

// Compute is the type of the sums, and how the inputs are multiplied.
func (m Matmul) Compute() int {
	if m.TF32 {
		return ComputeTF32
	}
	return Compute32F
}

// A Heuristic is a result of cublasLt's search for algorithms, as in its header.
type Heuristic struct {
	Algorithm [8]uint64
	Workspace uint64
	State     int32
	Waves     float32
	_         [4]int32
}

// configs are the attributes of an algorithm that tell it apart, with how evidence calls them and their
// bytes.
var configs = []struct {
	what             string
	attribute, bytes int
}{{"algorithm", ConfigID, 4}, {"tile", ConfigTile, 4}, {"stages", ConfigStages, 4}, {"cluster", ConfigCluster, 2}, {"split", ConfigSplit, 4}}

// A Config has the library's numbers of an algorithm; -1 for one that the library does not tell.
type Config [5]int64

// ConfigOf asks for each attribute, of so many bytes.
func ConfigOf(ask func(attribute, bytes int) (value uint32, ok bool)) (c Config) {
	for i, a := range configs {
		c[i] = -1
		if v, ok := ask(a.attribute, a.bytes); ok {
			c[i] = int64(v)
		}
	}
	return c
}

// String is what evidence calls the algorithm: "algorithm 66, tile 20, stages 36, cluster 3, split 1".
func (c Config) String() string {
	var words []string
	for i, v := range c {
		if v >= 0 {
			words = append(words, fmt.Sprintf("%s %d", configs[i].what, v))
		}
	}
	return strings.Join(words, ", ")
}

var configText = regexp.MustCompile(`: (algorithm \d+(?:, [a-z]+ \d+)*),`)

// ParseConfig finds the algorithm in what evidence says of a search for the fastest.
func ParseConfig(said string) (c Config, ok bool) {
	found := configText.FindStringSubmatch(said)
	if found == nil {
		return c, false
	}
	c = Config{-1, -1, -1, -1, -1}
	for _, words := range strings.Split(found[1], ", ") {
		what, number, _ := strings.Cut(words, " ")
		for i, a := range configs {
			if a.what == what {
				c[i], _ = strconv.ParseInt(number, 10, 32) // digits
			}
		}
	}
	return c, true
}

//go:embed lt.h
var functions string

// Header is lt.h with the numbers, for programs in C. It is private to its includer.
func Header() string {
	var b strings.Builder
	b.WriteString(functions + "\n/* Numbers of its documented interface, and what it is asked for. */\nenum {\n")
	for _, n := range []struct {
		name  string
		value int
	}{
		{"OP_N", OpN},
		{"OP_T", OpT},
		{"DESC_TRANS_A", DescTransA},
		{"DESC_TRANS_B", DescTransB},
		{"DESC_EPILOGUE", DescEpilogue},
		{"DESC_BIAS", DescBias},
		{"DESC_BIAS_STRIDE", DescBiasStride},
		{"DESC_FAST", DescFast},
		{"DESC_BIAS_TYPE", DescBiasType},
		{"LAYOUT_BATCH", LayoutBatch},
		{"LAYOUT_STRIDE", LayoutStride},
		{"PREFER_WORKSPACE", PreferWorkspace},
		{"PREFER_REDUCTION", PreferReduction},
		{"PREFER_ALIGNMENT_A", PreferAlignmentA},
		{"REDUCE_COMPUTE_TYPE", ReduceComputeType},
		{"SCALE", Types["f32"]},
		{"ALIGNMENT", Alignment},
		{"WORKSPACE", Workspace},
		{"ALGORITHMS", Algorithms},
	} {
		fmt.Fprintf(&b, "\tLT_%s = %d,\n", n.name, n.value)
	}
	for _, code := range slices.Sorted(maps.Keys(Status)) {
		fmt.Fprintf(&b, "\tLT_%s = %d,\n", strings.TrimPrefix(Status[code], "CUBLAS_STATUS_"), code)
	}
	fmt.Fprintf(&b, "\tLT_CONFIGS = %d\n};\nstatic const struct { int attribute, bytes; } lt_configs[LT_CONFIGS] = {", len(configs))
	for _, a := range configs {
		fmt.Fprintf(&b, "{%d, %d}, ", a.attribute, a.bytes)
	}
	b.WriteString("};\nstatic const char *const lt_names[] = {")
	for _, n := range Names() {
		fmt.Fprintf(&b, "%q, ", n)
	}
	b.WriteString("};\n")
	return b.String()
}
