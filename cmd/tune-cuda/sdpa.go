package main

import (
	"fmt"
	"slices"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// An attention is what cudnn:attention computes at a shape: O = softmax(scale Q K^T) V, of Q and O
// [b,hq,s,d], K and V [b,hkv,s,d], where hq/hkv heads of queries that follow one another share a head of
// keys and values. With causal, query i sees keys 0 to i only.
type attention struct {
	b, hq, hkv, s, d int64
	causal           bool
	scale            float32
}

const attentionWants = "cudnn:attention wants dims B, H, S, D, CAUSAL or B, HQ, HKV, S, D, CAUSAL, buffers Q[B,HQ,S,D], K and V[B,HKV,S,D] and O[B,HQ,S,D], all f16 or all bf16, and one scalar, the scale, in f32"

// checkAttention holds a problem against what cudnn:attention computes.
func checkAttention(buffers []buffer, scalars []string) error {
	if len(buffers) != 4 || !slices.Equal(scalars, []string{"f32"}) {
		return fmt.Errorf("%s; the problem has %d buffers and the scalars %v", attentionWants, len(buffers), scalars)
	}
	for i, role := range []string{"in", "in", "in", "out"} {
		if b := buffers[i]; b.Role != role || b.DType != buffers[0].DType || b.DType != "f16" && b.DType != "bf16" {
			return fmt.Errorf("%s; buffer %s is %s, %s", attentionWants, b.Name, b.DType, b.Role)
		}
	}
	return nil
}

// attentionAt gives the attention at a shape, or says why there is none.
func attentionAt(s wire.Shape) (attention, error) {
	fail := func() (attention, error) {
		return attention{}, fmt.Errorf("shape %s, dimensions %v, %v elements: %s", s.Name, s.Dims, s.Elements, attentionWants)
	}
	d := s.Dims
	if len(d) == 5 {
		d = slices.Insert(slices.Clone(d), 2, d[1])
	}
	if len(d) != 6 || len(s.Scalars) != 1 || slices.Min(d[:5]) < 1 || d[5] < 0 || d[5] > 1 || d[1]%d[2] != 0 {
		return fail()
	}
	a := attention{b: d[0], hq: d[1], hkv: d[2], s: d[3], d: d[4], causal: d[5] == 1, scale: float32(s.Scalars[0])}
	q, k := a.b*a.hq*a.s*a.d, a.b*a.hkv*a.s*a.d
	if !slices.Equal(s.Elements, []int64{q, k, k, q}) {
		return fail()
	}
	return a, nil
}
