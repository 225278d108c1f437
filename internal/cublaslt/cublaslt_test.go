package cublaslt

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/evotune/evotune/internal/longtest"
)

func TestParseMatmul(t *testing.T) {
	for name, want := range map[string]Matmul{
		"matmul_nn":               {},
		"matmul_nt":               {TransB: true},
		"matmul_tn_bias":          {TransA: true, Bias: true},
		"matmul_tt_residual":      {TransA: true, TransB: true, Residual: true},
		"matmul_nt_bias_gelu":     {TransB: true, Bias: true, Activation: "gelu"},
		"matmul_nn_relu":          {Activation: "relu"},
		"matmul_nn_bias_residual": {Bias: true, Residual: true},
		"matmul_nn_tf32":          {TF32: true},
		"matmul_nt_bias_gelu_fast": {
			TransB: true, Bias: true, Activation: "gelu", Fast: true,
		},
	} {
		want.Routine = "cublasLt:" + name
		if m, err := Parse(want.Routine); err != nil || m != want {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	for name, say := range map[string]string{
		"matmul":                  "a name is matmul_nn",
		"gemm":                    "a name is matmul_nn",
		"matmul_nx":               "a name is matmul_nn",
		"matmul_nt_silu":          `does not fuse "silu"`,
		"matmul_nt_":              `does not fuse ""`,
		"matmul_nt_gelu_bias":     "_bias is twice or out of order",
		"matmul_nt_bias_bias":     "_bias is twice or out of order",
		"matmul_nt_gelu_relu":     "two activations",
		"matmul_nt_gelu_residual": "before the activation",
		"matmul_nt_tf32_fast":     "leave one out",
	} {
		_, err := Parse("cublasLt:" + name)
		if err == nil || !strings.Contains(err.Error(), say) || !strings.HasPrefix(err.Error(), "routine cublasLt:"+name+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: want one line that says %q, got %v", name, say, err)
		}
	}
}

// made makes buffers out of types: inputs and, last, the output.
func made(types ...string) []Buffer {
	var list []Buffer
	for i, d := range types {
		b := Buffer{Name: fmt.Sprintf("x%d", i), DType: d, Role: "in"}
		if i == len(types)-1 {
			b.Role = "out"
		}
		list = append(list, b)
	}
	return list
}

func TestMatmulBuffers(t *testing.T) {
	check := func(name string, buffers []Buffer, scalars ...string) error {
		m, err := Parse("cublasLt:" + name)
		if err != nil {
			t.Fatal(err)
		}
		return m.CheckBuffers(buffers, scalars)
	}
	for _, c := range []struct {
		name    string
		buffers []Buffer
	}{
		{"matmul_nn", made("f16", "f16", "f16")},
		{"matmul_nn", made("bf16", "bf16", "f32")},
		{"matmul_tt_bias_relu", made("bf16", "bf16", "bf16", "bf16")},
		{"matmul_tn_bias_residual", made("f16", "f16", "f32", "f32", "f32")},
		{"matmul_nt", made("f32", "f32", "f32")},
		{"matmul_nt_tf32", made("f32", "f32", "f32")},
		{"matmul_nt", made("e4m3", "e5m2", "bf16")},
		{"matmul_nt_fast", made("e4m3", "e4m3", "f16")},
		{"matmul_nt_bias", made("e5m2", "e4m3", "bf16", "f32")},
	} {
		if err := check(c.name, c.buffers); err != nil {
			t.Error(err)
		}
	}
	inout := made("f16", "f16", "f16")
	inout[2].Role = "inout"
	for _, c := range []struct {
		name    string
		buffers []Buffer
		say     string
	}{
		{"matmul_nn", made("f16", "f16", "f16", "f16"), "wants the buffers A, B, C, in this order"},
		{"matmul_nn_bias_residual", made("f16", "f16", "f16"), "wants the buffers A, B, bias, residual, C"},
		{"matmul_nn", made("f64", "f64", "f64"), "buffer x0 is f64; as A it must be f16 or bf16 or f32 or e4m3 or e5m2"},
		{"matmul_nn", made("f16", "bf16", "f16"), "buffer x1 is bf16; as B it must be f16"},
		{"matmul_nn", made("f16", "f16", "bf16"), "buffer x2 is bf16; as C it must be f16 or f32"},
		{"matmul_nn_bias", made("f16", "f16", "f32", "f16"), "buffer x2 is f32; as bias it must be f16"},
		{"matmul_nt_residual", made("e4m3", "e4m3", "bf16", "f16"), "buffer x2 is bf16; as residual it must be f16"},
		{"matmul_nt", made("e4m3", "f16", "f16"), "buffer x1 is f16; as B it must be e4m3 or e5m2"},
		{"matmul_nt", made("e4m3", "e4m3", "e4m3"), "as C it must be f16 or bf16 or f32"},
		{"matmul_nn", inout, "buffer x2 is inout; as C it must be out"},
		{"matmul_nt", made("e5m2", "e5m2", "f16"), "one of them must be e4m3"},
		{"matmul_nn", made("e4m3", "e4m3", "f16"), "take matmul_nt"},
		{"matmul_tt", made("e4m3", "e4m3", "f16"), "take matmul_nt"},
		{"matmul_nt_fast", made("f16", "f16", "f16"), "_fast is for fp8, and A is f16"},
		{"matmul_nt_tf32", made("f16", "f16", "f16"), "_tf32 is for f32, and A is f16"},
	} {
		if err := check(c.name, c.buffers); err == nil || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: want an error that says %q, got %v", c.name, c.say, err)
		}
	}
	if err := check("matmul_nn", made("f16", "f16", "f16"), "f32"); err == nil || !strings.Contains(err.Error(), "1 scalars") {
		t.Errorf("a scalar: %v", err)
	}
}

// inRows computes the definition by its own indices, batch by batch.
func inRows(m Matmul, dims []int64, a, b, bias, residual []float64, each bool) []float64 {
	batch := int64(1)
	if len(dims) == 4 {
		batch, dims = dims[0], dims[1:]
	}
	M, N, K := dims[0], dims[1], dims[2]
	out := make([]float64, batch*M*N)
	for l := range batch {
		for i := range M {
			for j := range N {
				sum := 0.0
				for k := range K {
					x, y := i*K+k, k*N+j
					if m.TransA {
						x = k*M + i
					}
					if m.TransB {
						y = j*K + k
					}
					sum += a[l*M*K+x] * b[l*K*N+y]
				}
				if m.Residual {
					sum += residual[(l*M+i)*N+j]
				}
				if m.Bias && each {
					sum += bias[l*N+j]
				} else if m.Bias {
					sum += bias[j]
				}
				out[(l*M+i)*N+j] = sum
			}
		}
	}
	return out
}

// inColumns does what cublasLt's documentation says of a product.
func inColumns(m Matmul, p Product, first, second, bias, residual []float64) []float64 {
	element := func(x []float64, of Layout, trans bool, l, i, j int64) float64 {
		if trans {
			i, j = j, i
		}
		if i >= of.Rows || j >= of.Cols {
			panic("outside of a matrix")
		}
		return x[l*of.Stride+i+j*of.LD]
	}
	out := make([]float64, p.Batch*p.C.Stride)
	for l := range p.Batch {
		for i := range p.M {
			for j := range p.N {
				sum := 0.0
				for k := range p.K {
					sum += element(first, p.A, p.TransA, l, i, k) * element(second, p.B, p.TransB, l, k, j)
				}
				if m.Residual {
					sum += element(residual, p.C, false, l, i, j)
				}
				if m.Bias { // one for each of its rows
					sum += bias[l*p.BiasStride+i]
				}
				out[l*p.C.Stride+i+j*p.C.LD] = sum
			}
		}
	}
	return out
}

func TestProduct(t *testing.T) {
	numbers := func(n int64, from float64) []float64 {
		list := make([]float64, n)
		for i := range list {
			list[i] = math.Sin(from + 1.7*float64(i))
		}
		return list
	}
	for _, name := range []string{"nn", "nt", "tn", "tt", "nn_bias", "nt_bias_residual", "tn_residual", "tt_bias"} {
		for _, dims := range [][]int64{{3, 5, 2}, {1, 4, 6}, {7, 1, 3}, {4, 4, 4}, {3, 2, 5, 4}, {1, 3, 2, 2}, {2, 1, 1, 1}} {
			for _, each := range []bool{false, true} {
				m, err := Parse("cublasLt:matmul_" + name)
				if err != nil {
					t.Fatal(err)
				}
				d, batch := dims, int64(1)
				if len(d) == 4 {
					batch, d = d[0], d[1:]
				}
				vector := d[1]
				if each {
					vector *= batch
				}
				elements := []int64{batch * d[0] * d[2], batch * d[2] * d[1]}
				a, b := numbers(elements[0], 1), numbers(elements[1], 2)
				var bias, residual []float64
				if m.Bias {
					elements = append(elements, vector)
					bias = numbers(vector, 3)
				}
				if m.Residual {
					residual = numbers(batch*d[0]*d[1], 4)
					elements = append(elements, int64(len(residual)))
				}
				elements = append(elements, batch*d[0]*d[1])
				p, err := m.Product("s", dims, elements, made(slices.Repeat([]string{"f16"}, len(elements))...))
				if err != nil {
					t.Error(err)
					continue
				}
				want := inRows(m, dims, a, b, bias, residual, each)
				got := inColumns(m, p, b, a, bias, residual)
				for i := range want {
					if math.Abs(got[i]-want[i]) > 1e-12 {
						t.Errorf("%s %v, bias by product %v: element %d is %g, want %g", name, dims, each, i, got[i], want[i])
						break
					}
				}
			}
		}
	}
}

func TestProductRefuses(t *testing.T) {
	for _, c := range []struct {
		name           string
		buffers        []Buffer
		dims, elements []int64
		say            string
	}{
		{"nn", made("f16", "f16", "f16"), []int64{2, 3}, []int64{6, 6, 6}, "M, N, K or L, M, N, K"},
		{"nn", made("f16", "f16", "f16"), []int64{2, 3, 0}, []int64{1, 1, 6}, "not between 1"},
		{"nn", made("f16", "f16", "f16"), []int64{2, 3, 1 << 31}, []int64{1 << 32, 1 << 32, 6}, "not between 1"},
		{"nn", made("f16", "f16", "f16"), []int64{2, 3, 4}, []int64{9, 12, 6}, "buffer x0 has 9 elements; as A[M,K]"},
		{"tn", made("f16", "f16", "f16"), []int64{2, 3, 4}, []int64{8, 9, 6}, "buffer x1 has 9 elements; as B[K,N]"},
		{"tn", made("f16", "f16", "f16"), []int64{2, 3, 4}, []int64{9, 12, 6}, "as A[K,M]"},
		{"nt", made("f16", "f16", "f16"), []int64{5, 2, 3, 4}, []int64{40, 12, 30}, "as B[L,N,K]"},
		{"nt_bias", made("f16", "f16", "f16", "f16"), []int64{2, 3, 4}, []int64{8, 12, 2, 6}, "as bias[N]"},
		{"nt_bias", made("f16", "f16", "f16", "f16"), []int64{5, 2, 3, 4}, []int64{40, 60, 10, 30}, "as bias[N] or [L,N]"},
		{"nt_residual", made("f16", "f16", "f16", "f16"), []int64{2, 3, 4}, []int64{8, 12, 3, 6}, "as residual[M,N]"},
		{"nn", made("f16", "f16", "f16"), []int64{1 << 30, 1 << 30, 1 << 30, 1 << 30}, []int64{1, 1, 1}, "as A[L,M,K]"}, // no overflow
		{"nt", made("e4m3", "e4m3", "f16"), []int64{2, 8, 24}, []int64{48, 192, 16}, "K is 24"},
		{"nt", made("e4m3", "e4m3", "f16"), []int64{2, 12, 32}, []int64{64, 384, 24}, "N of 8"},
	} {
		m, err := Parse("cublasLt:matmul_" + c.name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Product("small", c.dims, c.elements, c.buffers)
		if err == nil || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), "at shape small") {
			t.Errorf("%s %v: want an error that says %q, got %v", c.name, c.dims, c.say, err)
		}
	}
	m, _ := Parse("cublasLt:matmul_nt")
	if _, err := m.Product("", []int64{3, 8, 32}, []int64{96, 256, 24}, made("e4m3", "e4m3", "f16")); err != nil {
		t.Errorf("fp8 with an odd M: %v", err)
	}
}

func TestEpilogue(t *testing.T) {
	for name, want := range map[string]uint32{
		"nn": 1, "nn_bias": 4, "nn_gelu": 32, "nn_bias_gelu": 36, "nn_relu": 2, "nn_bias_relu": 6, "nn_residual": 1,
	} {
		m, err := Parse("cublasLt:matmul_" + name)
		if err != nil || m.Epilogue() != want || m.Compute() != Compute32F {
			t.Errorf("%s: epilogue %d, want %d, compute %d, %v", name, m.Epilogue(), want, m.Compute(), err)
		}
	}
	if m, _ := Parse("cublasLt:matmul_nn_tf32"); m.Compute() != ComputeTF32 {
		t.Errorf("tf32 computes with %d", m.Compute())
	}
}

// TestConfig: evidence names the fastest algorithm, and is read back.
func TestConfig(t *testing.T) {
	numbers := map[int]uint32{ConfigID: 66, ConfigTile: 20, ConfigStages: 36, ConfigSplit: 1}
	c := ConfigOf(func(attribute, bytes int) (uint32, bool) { v, ok := numbers[attribute]; return v, ok }) // an older library knows no clusters
	said := "cublasLt 12.9.1, best of 4 algorithms (of 9 proposed), without 1 that gave other results: " + c.String() + ", 5.5 us with a cold cache; the first that the library proposes takes 5.5 us"
	if want := (Config{66, 20, 36, -1, 1}); c != want || c.String() != "algorithm 66, tile 20, stages 36, split 1" {
		t.Errorf("%v, %s", c, c)
	}
	if got, ok := ParseConfig(said); !ok || got != c {
		t.Errorf("%s is read as %v, %v", said, got, ok)
	}
	for _, other := range []string{"", "cuDNN 9.19.0, best of 4 plans: plan 3, 5 us with a warm cache", "cuBLAS 12.9.1"} {
		if c, ok := ParseConfig(other); ok {
			t.Errorf("%q is read as %v", other, c)
		}
	}
}

// headers are the folders with cublasLt's header: those of installed toolkits.
func headers() []string {
	var list []string
	for _, pattern := range []string{"/usr/include", "/usr/local/cuda*/include", "/opt/cuda*/include"} {
		found, _ := filepath.Glob(filepath.Join(pattern, "cublasLt.h"))
		for _, f := range found {
			list = append(list, filepath.Dir(f))
		}
	}
	return list
}

// TestHeaderLong compares every number, type and layout that are taken to be
// cublasLt's with its header.
func TestHeaderLong(t *testing.T) {
	longtest.Long(t, "it needs CUDA's headers")
	folders := headers()
	compiler, err := exec.LookPath("cc")
	if err != nil || len(folders) == 0 {
		t.Fatal("there is no C compiler or no cublasLt.h: run scripts/setup-cuda-debian.sh")
	}
	here := t.TempDir()
	if err := os.WriteFile(filepath.Join(here, "lt.h"), []byte(Header()), 0o600); err != nil {
		t.Fatal(err)
	}
	var h Heuristic
	numbers := map[string]int{
		"CUBLAS_STATUS_SUCCESS": Success, "CUBLAS_OP_N": OpN, "CUBLAS_OP_T": OpT,
		"CUBLAS_COMPUTE_32F": Compute32F, "CUBLAS_COMPUTE_32F_FAST_TF32": ComputeTF32,
		"CUBLASLT_MATMUL_DESC_TRANSA": DescTransA, "CUBLASLT_MATMUL_DESC_TRANSB": DescTransB,
		"CUBLASLT_MATMUL_DESC_EPILOGUE": DescEpilogue, "CUBLASLT_MATMUL_DESC_BIAS_POINTER": DescBias,
		"CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE": DescBiasStride, "CUBLASLT_MATMUL_DESC_FAST_ACCUM": DescFast,
		"CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE": DescBiasType,
		"CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT":  LayoutBatch, "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": LayoutStride,
		"CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES":   PreferWorkspace,
		"CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK": PreferReduction,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES": PreferAlignmentA, "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES": PreferAlignmentA + 1,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES": PreferAlignmentA + 2, "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES": PreferAlignmentA + 3,
		"CUBLASLT_REDUCTION_SCHEME_NONE": 0, "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE": ReduceComputeType,
		"CUBLASLT_EPILOGUE_DEFAULT": EpilogueNone, "CUBLASLT_EPILOGUE_BIAS": EpilogueBias,
		"CUBLASLT_EPILOGUE_GELU": EpilogueGELU, "CUBLASLT_EPILOGUE_GELU_BIAS": EpilogueGELU | EpilogueBias,
		"CUBLASLT_EPILOGUE_RELU": EpilogueReLU, "CUBLASLT_EPILOGUE_RELU_BIAS": EpilogueReLU | EpilogueBias,
		"CUBLASLT_ALGO_CONFIG_ID": ConfigID, "CUBLASLT_ALGO_CONFIG_TILE_ID": ConfigTile,
		"CUBLASLT_ALGO_CONFIG_SPLITK_NUM": ConfigSplit, "CUBLASLT_ALGO_CONFIG_STAGES_ID": ConfigStages,
		"CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID": ConfigCluster,
		"CUDA_R_32F":                            Types["f32"], "CUDA_R_16F": Types["f16"], "CUDA_R_16BF": Types["bf16"],
		"CUDA_R_8F_E4M3": Types["e4m3"], "CUDA_R_8F_E5M2": Types["e5m2"],
		"sizeof(cublasLtMatmulHeuristicResult_t)":                  int(unsafe.Sizeof(h)),
		"sizeof(cublasLtMatmulAlgo_t)":                             int(unsafe.Sizeof(h.Algorithm)),
		"offsetof(cublasLtMatmulHeuristicResult_t, algo)":          int(unsafe.Offsetof(h.Algorithm)),
		"offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize)": int(unsafe.Offsetof(h.Workspace)),
		"offsetof(cublasLtMatmulHeuristicResult_t, state)":         int(unsafe.Offsetof(h.State)),
		"offsetof(cublasLtMatmulHeuristicResult_t, wavesCount)":    int(unsafe.Offsetof(h.Waves)),
		"offsetof(cublasLtMatmulHeuristicResult_t, reserved)":      int(unsafe.Sizeof(h)) - 16,
	}
	for value, name := range Status {
		numbers[name] = value
	}
	var source strings.Builder
	source.WriteString(`#include <stddef.h>
#include <stdint.h>
#include <cublasLt.h>
#define LT_STATUS cublasStatus_t
#define LT_HANDLE cublasLtHandle_t
#define LT_DESC cublasLtMatmulDesc_t
#define LT_LAYOUT cublasLtMatrixLayout_t
#define LT_PREFERENCE cublasLtMatmulPreference_t
#define LT_HEURISTIC cublasLtMatmulHeuristicResult_t
#define LT_ALGORITHM cublasLtMatmulAlgo_t
#define LT_STREAM cudaStream_t
#define LT_COMPUTE cublasComputeType_t
#define LT_TYPE cudaDataType_t
#define LT_DESC_ATTRIBUTE cublasLtMatmulDescAttributes_t
#define LT_LAYOUT_ATTRIBUTE cublasLtMatrixLayoutAttribute_t
#define LT_PREFERENCE_ATTRIBUTE cublasLtMatmulPreferenceAttributes_t
#define LT_CONFIG_ATTRIBUTE cublasLtMatmulAlgoConfigAttributes_t
#include "lt.h"
#define SAME(field, symbol, result, parameters) \
	_Static_assert(__builtin_types_compatible_p(result (*) parameters, __typeof__(&symbol)), #symbol);
LT_FUNCTIONS(SAME)
_Static_assert(sizeof(LT_STATUS) == sizeof(int) && sizeof(LT_COMPUTE) == sizeof(int) && sizeof(LT_TYPE) == sizeof(int) &&
	sizeof(LT_DESC_ATTRIBUTE) == sizeof(int) && sizeof(LT_LAYOUT_ATTRIBUTE) == sizeof(int) &&
	sizeof(LT_PREFERENCE_ATTRIBUTE) == sizeof(int) && sizeof(LT_CONFIG_ATTRIBUTE) == sizeof(int), "an enum is not an int");
_Static_assert(sizeof(struct lt_result) == sizeof(cublasLtMatmulHeuristicResult_t) &&
	offsetof(struct lt_result, workspace) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
	offsetof(struct lt_result, state) == offsetof(cublasLtMatmulHeuristicResult_t, state), "struct lt_result");
`)
	for name, value := range numbers {
		fmt.Fprintf(&source, "_Static_assert((long)(%s) == %d, \"%s\");\n", name, value, name)
	}
	file := filepath.Join(t.TempDir(), "header.c")
	if err := os.WriteFile(file, []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			out, err := exec.Command(compiler, "-std=gnu11", "-fsyntax-only", "-I"+here, "-I"+folder, file).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%.4000s", err, out)
			}
		})
	}
}
