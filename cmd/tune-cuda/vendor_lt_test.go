//go:build cuda

package main

import (
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator/cuda/wire"
	"github.com/evotune/evotune/internal/cublaslt"
)

// TestDescribe: the library itself takes every attribute that the worker sets, by its
// number and size. That needs no GPU.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name    string
		buffers []buffer
		dims    []int64
	}{
		{"matmul_nn", made("f16", "f16", "f16"), []int64{64, 32, 16}},
		{"matmul_tt_bias_gelu", made("bf16", "bf16", "bf16", "bf16"), []int64{3, 64, 32, 16}},
		{"matmul_tn_bias_residual", made("f16", "f16", "f32", "f32", "f32"), []int64{64, 32, 16}},
		{"matmul_nt_tf32", made("f32", "f32", "f32"), []int64{64, 32, 16}},
		{"matmul_nt_bias_fast", made("e4m3", "e5m2", "bf16", "bf16"), []int64{64, 32, 16}},
	} {
		m, err := cublaslt.Parse("cublasLt:" + c.name)
		if err != nil {
			t.Fatal(err)
		}
		l := newLT(m, &problem{buffers: c.buffers})
		if err := l.open(); err != nil {
			t.Skipf("NOT RUN: %v", err)
		}
		batch, d := int64(1), c.dims
		if len(d) == 4 {
			batch, d = d[0], d[1:]
		}
		s := wire.Shape{Name: "s", Dims: c.dims}
		for _, o := range m.Operands() {
			s.Elements = append(s.Elements, batch*map[string]int64{"A": d[0] * d[2], "B": d[1] * d[2], "bias": d[1], "residual": d[0] * d[1], "C": d[0] * d[1]}[o])
		}
		made, err := m.Product(s.Name, s.Dims, s.Elements, operandsOf(c.buffers))
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.describe(made)
		if err != nil {
			t.Errorf("%s: cublasLt %s: %v", c.name, l.version(), err)
		}
		t.Logf("cublasLt %s takes %s", l.version(), c.name)
		l.freeProduct(p)
		// A number that is not an attribute's is told of, so the check can fail.
		wrong := &ltSetter{}
		if p, err = l.describe(made); err == nil {
			setAttribute(wrong, "wrong", int8(1), l.descriptor(p, cublaslt.DescTransA))
			if wrong.err == nil || !strings.Contains(wrong.err.Error(), "INVALID_VALUE") {
				t.Errorf("an attribute of the wrong size was taken: %v", wrong.err)
			}
		}
		l.freeProduct(p)
		l.free()
	}
}
