package main

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

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/internal/longtest"
)

func TestParseMatmul(t *testing.T) {
	for name, want := range map[string]matmul{
		"matmul_nn":               {},
		"matmul_nt":               {transB: true},
		"matmul_tn_bias":          {transA: true, bias: true},
		"matmul_tt_residual":      {transA: true, transB: true, residual: true},
		"matmul_nt_bias_gelu":     {transB: true, bias: true, activation: "gelu"},
		"matmul_nn_relu":          {activation: "relu"},
		"matmul_nn_bias_residual": {bias: true, residual: true},
		"matmul_nn_tf32":          {tf32: true},
		"matmul_nt_bias_gelu_fast": {
			transB: true, bias: true, activation: "gelu", fast: true,
		},
	} {
		want.routine = "cublasLt:" + name
		if m, err := parseMatmul(want.routine); err != nil || m != want {
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
		_, err := parseMatmul("cublasLt:" + name)
		if err == nil || !strings.Contains(err.Error(), say) || !strings.HasPrefix(err.Error(), "routine cublasLt:"+name+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: want one line that says %q, got %v", name, say, err)
		}
	}
}

// made makes buffers out of types: inputs and, last, the output.
func made(types ...string) []buffer {
	var list []buffer
	for i, d := range types {
		b := buffer{Buffer: wire.Buffer{Name: fmt.Sprintf("x%d", i), DType: d, Role: "in"}, dtype: slices.Index(dtypes, d)}
		if i == len(types)-1 {
			b.Role = "out"
		}
		list = append(list, b)
	}
	return list
}

func TestMatmulBuffers(t *testing.T) {
	check := func(name string, buffers []buffer, scalars ...string) error {
		m, err := parseMatmul("cublasLt:" + name)
		if err != nil {
			t.Fatal(err)
		}
		return m.checkBuffers(buffers, scalars)
	}
	for _, c := range []struct {
		name    string
		buffers []buffer
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
		buffers []buffer
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
func inRows(m matmul, dims []int64, a, b, bias, residual []float64, each bool) []float64 {
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
					if m.transA {
						x = k*M + i
					}
					if m.transB {
						y = j*K + k
					}
					sum += a[l*M*K+x] * b[l*K*N+y]
				}
				if m.residual {
					sum += residual[(l*M+i)*N+j]
				}
				if m.bias && each {
					sum += bias[l*N+j]
				} else if m.bias {
					sum += bias[j]
				}
				out[(l*M+i)*N+j] = sum
			}
		}
	}
	return out
}

// inColumns does what cublasLt's documentation says of a product.
func inColumns(m matmul, p product, first, second, bias, residual []float64) []float64 {
	element := func(x []float64, of layout, trans bool, l, i, j int64) float64 {
		if trans {
			i, j = j, i
		}
		if i >= of.rows || j >= of.cols {
			panic("outside of a matrix")
		}
		return x[l*of.stride+i+j*of.ld]
	}
	out := make([]float64, p.batch*p.c.stride)
	for l := range p.batch {
		for i := range p.m {
			for j := range p.n {
				sum := 0.0
				for k := range p.k {
					sum += element(first, p.a, p.transA, l, i, k) * element(second, p.b, p.transB, l, k, j)
				}
				if m.residual {
					sum += element(residual, p.c, false, l, i, j)
				}
				if m.bias { // one for each of its rows
					sum += bias[l*p.biasStride+i]
				}
				out[l*p.c.stride+i+j*p.c.ld] = sum
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
				m, err := parseMatmul("cublasLt:matmul_" + name)
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
				s := wire.Shape{Name: "s", Dims: dims, Elements: []int64{batch * d[0] * d[2], batch * d[2] * d[1]}}
				a, b := numbers(s.Elements[0], 1), numbers(s.Elements[1], 2)
				var bias, residual []float64
				if m.bias {
					s.Elements = append(s.Elements, vector)
					bias = numbers(vector, 3)
				}
				if m.residual {
					residual = numbers(batch*d[0]*d[1], 4)
					s.Elements = append(s.Elements, int64(len(residual)))
				}
				s.Elements = append(s.Elements, batch*d[0]*d[1])
				p, err := m.product(s, made(slices.Repeat([]string{"f16"}, len(s.Elements))...))
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
		buffers        []buffer
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
		m, err := parseMatmul("cublasLt:matmul_" + c.name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.product(wire.Shape{Name: "small", Dims: c.dims, Elements: c.elements}, c.buffers)
		if err == nil || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), "at shape small") {
			t.Errorf("%s %v: want an error that says %q, got %v", c.name, c.dims, c.say, err)
		}
	}
	m, _ := parseMatmul("cublasLt:matmul_nt")
	if _, err := m.product(wire.Shape{Dims: []int64{3, 8, 32}, Elements: []int64{96, 256, 24}}, made("e4m3", "e4m3", "f16")); err != nil {
		t.Errorf("fp8 with an odd M: %v", err)
	}
}

func TestEpilogue(t *testing.T) {
	for name, want := range map[string]uint32{
		"nn": 1, "nn_bias": 4, "nn_gelu": 32, "nn_bias_gelu": 36, "nn_relu": 2, "nn_bias_relu": 6, "nn_residual": 1,
	} {
		m, err := parseMatmul("cublasLt:matmul_" + name)
		if err != nil || m.epilogue() != want || m.compute() != ltCompute32F {
			t.Errorf("%s: epilogue %d, want %d, compute %d, %v", name, m.epilogue(), want, m.compute(), err)
		}
	}
	if m, _ := parseMatmul("cublasLt:matmul_nn_tf32"); m.compute() != ltComputeTF32 {
		t.Errorf("tf32 computes with %d", m.compute())
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

// TestHeaderLong compares every number, type and layout that the worker takes to be
// cublasLt's with its header.
func TestHeaderLong(t *testing.T) {
	longtest.Long(t, "it needs CUDA's headers")
	folders := headers()
	compiler, err := exec.LookPath("cc")
	if err != nil || len(folders) == 0 {
		t.Fatal("there is no C compiler or no cublasLt.h: run scripts/setup-cuda-debian.sh")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var h heuristic
	numbers := map[string]int{
		"CUBLAS_STATUS_SUCCESS": ltSuccess, "CUBLAS_OP_N": ltN, "CUBLAS_OP_T": ltT,
		"CUBLAS_COMPUTE_32F": ltCompute32F, "CUBLAS_COMPUTE_32F_FAST_TF32": ltComputeTF32,
		"CUBLASLT_MATMUL_DESC_TRANSA": ltDescTransA, "CUBLASLT_MATMUL_DESC_TRANSB": ltDescTransB,
		"CUBLASLT_MATMUL_DESC_EPILOGUE": ltDescEpilogue, "CUBLASLT_MATMUL_DESC_BIAS_POINTER": ltDescBias,
		"CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE": ltDescBiasStride, "CUBLASLT_MATMUL_DESC_FAST_ACCUM": ltDescFast,
		"CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE": ltDescBiasType,
		"CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT":  ltLayoutBatch, "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": ltLayoutStride,
		"CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES":   ltPreferWorkspace,
		"CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK": ltPreferReduction,
		"CUBLASLT_REDUCTION_SCHEME_NONE":             0, "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE": ltReduceComputeType,
		"CUBLASLT_EPILOGUE_DEFAULT": ltEpilogueNone, "CUBLASLT_EPILOGUE_BIAS": ltEpilogueBias,
		"CUBLASLT_EPILOGUE_GELU": ltEpilogueGELU, "CUBLASLT_EPILOGUE_GELU_BIAS": ltEpilogueGELU | ltEpilogueBias,
		"CUBLASLT_EPILOGUE_RELU": ltEpilogueReLU, "CUBLASLT_EPILOGUE_RELU_BIAS": ltEpilogueReLU | ltEpilogueBias,
		"CUBLASLT_ALGO_CONFIG_ID": ltConfigID, "CUBLASLT_ALGO_CONFIG_TILE_ID": ltConfigTile,
		"CUBLASLT_ALGO_CONFIG_SPLITK_NUM": ltConfigSplit, "CUBLASLT_ALGO_CONFIG_STAGES_ID": ltConfigStages,
		"CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID": ltConfigCluster,
		"CUDA_R_32F":                            ltTypes["f32"], "CUDA_R_16F": ltTypes["f16"], "CUDA_R_16BF": ltTypes["bf16"],
		"CUDA_R_8F_E4M3": ltTypes["e4m3"], "CUDA_R_8F_E5M2": ltTypes["e5m2"],
		"sizeof(cublasLtMatmulHeuristicResult_t)":                  int(unsafe.Sizeof(h)),
		"sizeof(cublasLtMatmulAlgo_t)":                             int(unsafe.Sizeof(h.algorithm)),
		"offsetof(cublasLtMatmulHeuristicResult_t, algo)":          int(unsafe.Offsetof(h.algorithm)),
		"offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize)": int(unsafe.Offsetof(h.workspace)),
		"offsetof(cublasLtMatmulHeuristicResult_t, state)":         int(unsafe.Offsetof(h.state)),
		"offsetof(cublasLtMatmulHeuristicResult_t, wavesCount)":    int(unsafe.Offsetof(h.waves)),
		"offsetof(cublasLtMatmulHeuristicResult_t, reserved)":      int(unsafe.Sizeof(h)) - 16,
	}
	for value, name := range blasStatus {
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
	sizeof(LT_PREFERENCE_ATTRIBUTE) == sizeof(int) && sizeof(LT_CONFIG_ATTRIBUTE) == sizeof(int), "an enum is no int");
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

func TestSaid(t *testing.T) {
	for _, c := range []struct {
		r                standing
		proposed, passed int
		cold             bool
		want             string
	}{
		{
			standing{best: 3, ns: 179.24e3, first: 188.02e3, tried: 17},
			17, 0, false,
			"cublasLt 12.9.1, best of 17 algorithms: algorithm 66, tile 20, 179.2 us with a warm cache; the first that the library proposes takes 188 us",
		},
		{
			standing{ns: 5.5e3, first: 5.5e3, tried: 4, wrong: 1},
			9, 0, true,
			"cublasLt 12.9.1, best of 4 algorithms (of 9 proposed), without 1 that gave other results: algorithm 66, tile 20, 5.5 us with a cold cache; the first that the library proposes takes 5.5 us",
		},
		{
			standing{best: 1, ns: 5e3, first: 6e3, tried: 7},
			9, 2, false,
			"cublasLt 12.9.1, best of 7 algorithms (of 9 proposed): algorithm 66, tile 20, 5 us with a warm cache; the first of them that can be run takes 6 us",
		},
	} {
		if got := saidOf("cublasLt 12.9.1", "algorithms", c.r, c.proposed, c.passed, c.cold, "algorithm 66, tile 20"); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

func TestBesideCUBLAS(t *testing.T) {
	for file, want := range map[string]string{
		"/a/libcublas.so.12": "/a/libcublasLt.so.12", "libcublas.so": "libcublasLt.so", "/libcublas.d/libcublas.so": "/libcublas.d/libcublasLt.so",
	} {
		if got := besideCUBLAS(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}
