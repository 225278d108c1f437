//go:build cuda

package gputest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A form is a routine of cublasLt with the types of its buffers, A first and C last,
// and the reference that computes the same.
type form struct {
	routine, entry string
	types          string
	tolerance      float64
}

// operands are what a routine's buffers are.
func (f form) operands() []string {
	list := []string{"A", "B"}
	for _, word := range []string{"bias", "residual"} {
		if strings.Contains(f.routine, "_"+word) {
			list = append(list, word)
		}
	}
	return append(list, "C")
}

func (f form) problem() wire.OpenRequest {
	r := wire.OpenRequest{Harness: cubin("harness"), Reference: cubin("reference"), ReferenceEntry: f.entry}
	types := strings.Fields(f.types)
	for i, name := range f.operands() {
		b := wire.Buffer{Name: name, DType: types[i], Role: "in", Distribution: "normal", B: 1}
		if name == "C" {
			b = wire.Buffer{Name: name, DType: types[i], Role: "out", Tolerance: f.tolerance}
		}
		r.Buffers = append(r.Buffers, b)
	}
	return r
}

func (f form) shape(dims ...int64) wire.Shape {
	s := wire.Shape{Name: strings.Trim(fmt.Sprint(dims), "[]"), Dims: dims, Reference: line(2048)}
	batch, d := int64(1), dims
	if len(d) == 4 {
		batch, d = d[0], d[1:]
	}
	for _, name := range f.operands() {
		n := batch * d[0] * d[1]
		switch name {
		case "A":
			n = batch * d[0] * d[2]
		case "B":
			n = batch * d[1] * d[2]
		case "bias":
			n = d[1]
			if f.entry == "batch_nt_bias_each" {
				n *= batch
			}
		}
		s.Elements = append(s.Elements, n)
	}
	return s
}

func batches(f form) bool { return strings.HasPrefix(f.entry, "batch") }

// routine loads a vendor's.
func (c *client) routine(t *testing.T, name, routine string) wire.LoadAnswer {
	t.Helper()
	var a wire.LoadAnswer
	must(t, c.ask(wire.Load, wire.LoadRequest{Name: name, Routine: routine}, &a, time.Minute))
	if a.Fault != nil || a.Version == "" {
		t.Fatalf("%s: %+v, fault %+v", routine, a, a.Fault)
	}
	return a
}

// measured times binaries, the first as the baseline and held against the reference.
func (c *client) measured(t *testing.T, s wire.Shape, cold bool, names ...string) wire.TimeAnswer {
	t.Helper()
	q := wire.TimeRequest{Shape: s, Seed: 5, BatchNS: 1e6, Rounds: 11, Last: true, Reference: true, Cold: cold}
	for _, n := range names {
		q.Contenders = append(q.Contenders, wire.Contender{Binary: n})
	}
	var a wire.TimeAnswer
	must(t, c.ask(wire.Time, q, &a, 2*time.Minute))
	for i, x := range a.Contenders {
		if x.Fault != nil || len(x.After) != 1 || float64(x.After[0].Error) > x.After[0].Limit || x.Guard != "" || x.InputChanged != "" {
			t.Errorf("%s at %s: %+v", names[i], s.Name, x)
		}
	}
	return a
}

// TestMatmul compares every form of a product by cublasLt with the reference, before
// the fastest algorithm is chosen and after.
func TestMatmul(t *testing.T) {
	findBLAS()
	for _, f := range []form{
		{"matmul_nn", "matmul_nn", "f16 f16 f16", 5e-3},
		{"matmul_nt", "matmul_nt", "f16 f16 f16", 5e-3},
		{"matmul_tn", "matmul_tn", "f16 f16 f16", 5e-3},
		{"matmul_tt", "matmul_tt", "f16 f16 f16", 5e-3},
		{"matmul_nt", "matmul_nt", "bf16 bf16 bf16", 3e-2},
		{"matmul_nt", "matmul_nt", "bf16 bf16 f32", 1e-4},
		{"matmul_nn", "matmul_nn", "f32 f32 f32", 1e-4},
		{"matmul_nt_tf32", "matmul_nt", "f32 f32 f32", 1e-2},
		{"matmul_nt_bias", "matmul_nt_bias", "bf16 bf16 bf16 bf16", 3e-2},
		{"matmul_nt_gelu", "matmul_nt_gelu", "f16 f16 f16", 5e-3},
		{"matmul_nt_bias_gelu", "matmul_nt_bias_gelu", "f16 f16 f16 f16", 5e-3},
		{"matmul_nn_bias_relu", "matmul_nn_bias_relu", "f16 f16 f16 f16", 5e-3},
		{"matmul_nn_residual", "matmul_nn_residual", "f16 f16 f16 f16", 5e-3},
		{"matmul_tn_bias_residual", "matmul_tn_bias_residual", "bf16 bf16 bf16 bf16 bf16", 3e-2},
		{"matmul_nn", "batch_nn", "f16 f16 f16", 5e-3},
		{"matmul_tt_residual", "batch_tt_residual", "f16 f16 f16 f16", 5e-3},
		{"matmul_nt_bias", "batch_nt_bias", "f16 f16 f16 f16", 5e-3},
		{"matmul_nt_bias", "batch_nt_bias_each", "f16 f16 f16 f16", 5e-3},
		{"matmul_nt", "matmul_nt", "e4m3 e4m3 bf16", 3e-2},
		{"matmul_nt", "matmul_nt", "e4m3 e5m2 f16", 2e-2},
		{"matmul_nt_fast", "matmul_nt", "e4m3 e4m3 f16", 5e-2},
		{"matmul_nt_bias_gelu", "matmul_nt_bias_gelu", "e4m3 e4m3 bf16 bf16", 3e-2},
		{"matmul_nt_residual", "matmul_nt_residual", "e4m3 e4m3 f16 f16", 2e-2},
		{"matmul_nt_bias", "matmul_nt_bias", "e4m3 e4m3 bf16 f32", 1e-2},
	} {
		t.Run(f.routine+"_"+f.entry+"_"+strings.ReplaceAll(f.types, " ", "_"), func(t *testing.T) {
			small := strings.Contains(f.types, "e4m3")
			if small && device.Capability < 89 {
				t.Skipf("NOT RUN: fp8 needs capability 8.9, and this device has %d", device.Capability)
			}
			c := opened(t, f.problem(), nil)
			l := c.routine(t, "lt", "cublasLt:"+f.routine)
			shapes := []wire.Shape{f.shape(257, 130, 66), f.shape(1, 7, 3), f.shape(512, 256, 128), f.shape(1024, 1024, 1024)}
			switch {
			case batches(f):
				shapes = []wire.Shape{f.shape(3, 65, 34, 66), f.shape(1, 64, 32, 16), f.shape(16, 512, 256, 128)}
			case small:
				shapes = []wire.Shape{f.shape(257, 144, 80), f.shape(1, 16, 16), f.shape(512, 256, 128), f.shape(1024, 1024, 1024)}
			}
			for i, s := range shapes {
				if a := c.parity(t, "lt", wire.Geometry{}, s, 2); !clean(a) {
					t.Errorf("%s: %+v", s.Name, a)
					continue
				}
				a := c.measured(t, s, i%2 == 1, "lt")
				x := a.Contenders[0]
				if !strings.HasPrefix(x.Said, "cublasLt "+l.Version+", best of ") || a.ChoosingNS > 4e9 {
					t.Errorf("%s: it said %q after %d ns", s.Name, x.Said, a.ChoosingNS)
				}
				// What runs now is the fastest.
				if a := c.parity(t, "lt", wire.Geometry{}, s, 2); !clean(a) {
					t.Errorf("%s, by the fastest algorithm: %+v", s.Name, a)
				}
				note(t, "%s: error %.2g, %.2f us, chosen in %.0f ms: %s", s.Name, float64(x.After[0].Error), evaluator.Median(x.SamplesNS)/1e3, float64(a.ChoosingNS)/1e6, x.Said)
			}
		})
	}
}

// TestFastest: the choice is made once for a shape and a cache, and the chosen
// algorithm is not slower than cuBLAS.
func TestFastest(t *testing.T) {
	findBLAS()
	f := form{"matmul_nn", "matmul_nn", "f16 f16 f16", 5e-3}
	c := opened(t, f.problem(), nil)
	for name, routine := range map[string]string{"lt": "cublasLt:matmul_nn", "blas": "cublas:gemm"} {
		c.routine(t, name, routine)
	}
	for _, s := range []wire.Shape{f.shape(128, 4096, 4096), f.shape(1024, 1024, 1024), f.shape(2048, 2048, 2048), f.shape(4096, 4096, 4096), f.shape(8192, 8192, 8192)} {
		t.Run(s.Name, func(t *testing.T) {
			said := map[bool]string{}
			for _, cold := range []bool{false, true} {
				a := c.measured(t, s, cold, "lt", "blas")
				lt, blas := a.Contenders[0], a.Contenders[1]
				said[cold] = lt.Said
				ratio := evaluator.Median(lt.SamplesNS) / evaluator.Median(blas.SamplesNS)
				note(t, "cold %v: %.2f us, cuBLAS %.2f us, ratio %.3f, chosen in %.0f ms: %s; %s", cold, evaluator.Median(lt.SamplesNS)/1e3,
					evaluator.Median(blas.SamplesNS)/1e3, ratio, float64(a.ChoosingNS)/1e6, lt.Said, blas.Said)
				if ratio > 1.03 {
					t.Errorf("cold %v: the fastest algorithm takes %.3f of cuBLAS's time", cold, ratio)
				}
			}
			for _, cold := range []bool{true, false} {
				a := c.measured(t, s, cold, "lt")
				if a.Contenders[0].Said != said[cold] || a.ChoosingNS > 20e6 {
					t.Errorf("cold %v: %q was forgotten for %q, in %d ns", cold, said[cold], a.Contenders[0].Said, a.ChoosingNS)
				}
			}
		})
	}
}

// TestMatmulRefuses: what cublasLt cannot do is told in one line.
func TestMatmulRefuses(t *testing.T) {
	findBLAS()
	f := form{"matmul_nn", "matmul_nn", "f16 f16 f16", 5e-3}
	c := opened(t, f.problem(), nil)
	for routine, say := range map[string]string{
		"cublasLt:matmul_nn_silu": `does not fuse "silu"`,
		"cublasLt:matmul_nn_bias": "wants the buffers A, B, bias, C",
		"cublasLt:gemm":           "a name is matmul_nn",
		"cudnn:sdpa":              "unknown routine",
	} {
		err := c.ask(wire.Load, wire.LoadRequest{Name: "lt", Routine: routine}, &wire.LoadAnswer{}, time.Minute)
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: want an error that says %q, got %v", routine, say, err)
		}
	}
	c.routine(t, "lt", "cublasLt:matmul_nn")
	s := f.shape(64, 64, 64)
	s.Dims = []int64{64, 64, 32}
	var a wire.ParityAnswer
	err := c.ask(wire.Parity, wire.ParityRequest{Binary: "lt", Shape: s, Seed: 7, Repeat: 1, TimeoutNS: 1e9}, &a, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "as A[M,K]") {
		t.Errorf("a shape of other sizes: %+v, %v", a, err)
	}
}
