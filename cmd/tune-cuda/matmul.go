package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A matmul is what a routine of cublasLt computes: the form of a product, and what
// is fused with it. Matrices are in rows: A[M,K] or, transposed, [K,M]; B[K,N] or
// [N,K]; C[M,N]. With a dimension L before the others there are L products.
type matmul struct {
	routine        string // "cublasLt:matmul_nt_bias"
	transA, transB bool
	bias           bool   // bias[N] is added to every row; or bias[L,N]
	activation     string // "", "gelu" by tanh, or "relu", after the bias
	residual       bool   // residual[M,N] is added
	tf32           bool   // f32 is multiplied as tf32
	fast           bool   // sums of fp8 are not promoted
}

// matmulOptions may follow a form, in this order.
var matmulOptions = []string{"bias", "gelu", "relu", "residual", "tf32", "fast"}

const matmulNames = "a name is matmul_nn, _nt, _tn or _tt (t: A is [K,M], B is [N,K]), then what is fused, in this order: _bias, _gelu or _relu, _residual; then _tf32 for f32 or _fast for fp8"

// parseMatmul reads the name of a routine.
func parseMatmul(routine string) (matmul, error) {
	m := matmul{routine: routine}
	fail := func(format string, args ...any) (matmul, error) {
		return matmul{}, fmt.Errorf("routine %s: %s", routine, fmt.Sprintf(format, args...))
	}
	words := strings.Split(strings.TrimPrefix(routine, "cublasLt:"), "_")
	if words[0] != "matmul" || len(words) < 2 || !slices.Contains([]string{"nn", "nt", "tn", "tt"}, words[1]) {
		return fail("unknown; %s", matmulNames)
	}
	m.transA, m.transB = words[1][0] == 't', words[1][1] == 't'
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
			m.bias = true
		case "gelu", "relu":
			if m.activation != "" {
				return fail("it has two activations; %s", matmulNames)
			}
			m.activation = w
		case "residual":
			m.residual = true
		case "tf32":
			m.tf32 = true
		case "fast":
			m.fast = true
		}
	}
	switch {
	case m.activation != "" && m.residual:
		return fail("cublasLt adds a residual before the activation, not after it: leave out _%s or _residual", m.activation)
	case m.tf32 && m.fast:
		return fail("_tf32 is for f32 and _fast for fp8: leave one out")
	}
	return m, nil
}

// operands are the buffers that the routine wants, in order.
func (m matmul) operands() []string {
	list := []string{"A", "B"}
	if m.bias {
		list = append(list, "bias")
	}
	if m.residual {
		list = append(list, "residual")
	}
	return append(list, "C")
}

func fp8(dtype string) bool { return dtype == "e4m3" || dtype == "e5m2" }

// check holds a problem against what the routine computes.
func (m matmul) checkBuffers(buffers []buffer, scalars []string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("routine %s: %s", m.routine, fmt.Sprintf(format, args...))
	}
	want := m.operands()
	if len(buffers) != len(want) || len(scalars) != 0 {
		return fail("it wants the buffers %s, in this order, and no scalars; the problem has %d buffers and %d scalars", strings.Join(want, ", "), len(buffers), len(scalars))
	}
	out := buffers[len(buffers)-1].DType
	first := buffers[0].DType
	types := map[string][]string{"A": {"f16", "bf16", "f32", "e4m3", "e5m2"}, "B": {first}, "bias": {out}, "residual": {out}}
	switch {
	case fp8(first):
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
	case fp8(first) && first == "e5m2" && buffers[1].DType == "e5m2":
		return fail("A and B are e5m2, which cublasLt does not multiply: one of them must be e4m3")
	case fp8(first) && (m.transA || !m.transB):
		return fail("cublasLt multiplies fp8 as A[M,K] and B[N,K] alone: take matmul_nt")
	case m.fast && !fp8(first):
		return fail("_fast is for fp8, and A is %s: leave it out", first)
	case m.tf32 && first != "f32":
		return fail("_tf32 is for f32, and A is %s: leave it out", first)
	}
	return nil
}

// A product is a matmul at a shape in cublasLt's terms, whose matrices are in
// columns. What is in rows is in columns the transpose, and C' = B' A': its A is
// our B, and its m is our N.
type product struct {
	m, n, k        int64
	batch          int64
	transA, transB bool
	a, b, c        layout // c is of the residual as well
	biasStride     int64  // from the bias of a product to that of the next
}

// A layout is a matrix in columns: element (i,j) of the l-th is at l*stride + i + j*ld.
type layout struct{ rows, cols, ld, stride int64 }

func columns(rows, cols int64) layout { return layout{rows, cols, rows, rows * cols} }

// product gives the product at a shape, or says why there is none.
func (m matmul) product(s wire.Shape, buffers []buffer) (product, error) {
	fail := func(format string, args ...any) (product, error) {
		return product{}, fmt.Errorf("routine %s at shape %s: %s", m.routine, s.Name, fmt.Sprintf(format, args...))
	}
	d := s.Dims
	if len(d) != 3 && len(d) != 4 || len(s.Elements) != len(buffers) {
		return fail("it wants the dimensions M, N, K or L, M, N, K, and there are %d", len(d))
	}
	batch := int64(1)
	if len(d) == 4 {
		batch, d = d[0], d[1:]
	}
	if slices.Min(s.Dims) < 1 || slices.Max(s.Dims) > math.MaxInt32 {
		return fail("a dimension of %v is not between 1 and 2^31-1", s.Dims)
	}
	rows, cols, k := d[0], d[1], d[2]
	p := product{m: cols, n: rows, k: k, batch: batch, transA: m.transB, transB: m.transA}
	p.a, p.b, p.c = columns(cols, k), columns(k, rows), columns(cols, rows)
	if p.transA {
		p.a = columns(k, cols)
	}
	if p.transB {
		p.b = columns(rows, k)
	}
	index := "[L,"
	if len(s.Dims) == 3 {
		index = "["
	}
	formA, formB := index+"M,K]", index+"K,N]"
	if m.transA {
		formA = index + "K,M]"
	}
	if m.transB {
		formB = index + "N,K]"
	}
	for i, operand := range m.operands() {
		each, form := cols*rows, index+"M,N]"
		switch operand {
		case "A":
			each, form = rows*k, formA
		case "B":
			each, form = cols*k, formB
		case "bias":
			each, form = cols, "[N]"
			if s.Elements[i] == cols {
				continue
			}
			if batch > 1 {
				form, p.biasStride = "[N] or [L,N]", cols
			}
		}
		if each > maxBytes/batch || s.Elements[i] != batch*each {
			return fail("buffer %s has %d elements; as %s%s with the dimensions %v it must have others", buffers[i].Name, s.Elements[i], operand, form, s.Dims)
		}
	}
	if fp8(buffers[0].DType) {
		// Rows of fp8 matrices begin at multiples of 16 bytes.
		if out := buffers[len(buffers)-1]; k%16 != 0 || cols*out.size()%16 != 0 {
			return fail("cublasLt multiplies fp8 where K is a multiple of 16 and N of %d; K is %d and N is %d", 16/out.size(), k, cols)
		}
	}
	return p, nil
}

// Numbers of cublasLt's documented interface. A test compares them with its header.
const (
	ltSuccess = 0

	ltN = 0 // CUBLAS_OP_N
	ltT = 1

	ltCompute32F     = 68
	ltComputeTF32    = 77
	ltDescTransA     = 3
	ltDescTransB     = 4
	ltDescEpilogue   = 7
	ltDescBias       = 8
	ltDescBiasStride = 10
	ltDescFast       = 25
	ltDescBiasType   = 26

	ltLayoutBatch  = 5
	ltLayoutStride = 6

	ltPreferWorkspace = 1
	ltPreferReduction = 3

	// Sums of a split product are added in single precision.
	ltReduceComputeType = 2

	ltEpilogueNone = 1
	ltEpilogueReLU = 2
	ltEpilogueBias = 4 // with an activation, both bits
	ltEpilogueGELU = 32

	ltConfigID      = 0
	ltConfigTile    = 1
	ltConfigSplit   = 2
	ltConfigStages  = 6
	ltConfigCluster = 8
)

// ltTypes are numbers of types, blasStatus names of what cuBLAS and cublasLt return.
var (
	ltTypes    = map[string]int{"f32": 0, "f16": 2, "bf16": 14, "e4m3": 28, "e5m2": 29}
	blasStatus = map[int]string{
		1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", 7: "CUBLAS_STATUS_INVALID_VALUE",
		8: "CUBLAS_STATUS_ARCH_MISMATCH", 11: "CUBLAS_STATUS_MAPPING_ERROR", 13: "CUBLAS_STATUS_EXECUTION_FAILED",
		14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED",
	}
)

// epilogue is what cublasLt does with the sums.
func (m matmul) epilogue() uint32 {
	bits := uint32(0)
	if m.bias {
		bits |= ltEpilogueBias
	}
	switch m.activation {
	case "gelu":
		bits |= ltEpilogueGELU
	case "relu":
		bits |= ltEpilogueReLU
	}
	return max(bits, ltEpilogueNone)
}

// compute is the type of the sums, and how the inputs are multiplied.
func (m matmul) compute() int {
	if m.tf32 {
		return ltComputeTF32
	}
	return ltCompute32F
}

// A heuristic is a result of cublasLt's search for algorithms, as in its header.
type heuristic struct {
	algorithm [8]uint64
	workspace uint64
	state     int32
	waves     float32
	_         [4]int32
}

// besideCUBLAS is where cublasLt is beside a cuBLAS in a folder of its own.
func besideCUBLAS(file string) string {
	return filepath.Join(filepath.Dir(file), strings.Replace(filepath.Base(file), "libcublas.", "libcublasLt.", 1))
}
