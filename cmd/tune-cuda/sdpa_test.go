package main

import (
	"strings"
	"testing"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

func TestCheckAttention(t *testing.T) {
	qkvo := func(dtypes ...string) []buffer {
		list := made(dtypes...)
		for i := range list {
			list[i].Role = "in"
		}
		list[len(list)-1].Role = "out"
		return list
	}
	for _, c := range []struct {
		buffers []buffer
		scalars []string
		want    string // part of the refusal; "" is none
	}{
		{qkvo("f16", "f16", "f16", "f16"), []string{"f32"}, ""},
		{qkvo("bf16", "bf16", "bf16", "bf16"), []string{"f32"}, ""},
		{qkvo("f32", "f32", "f32", "f32"), []string{"f32"}, "is f32"},
		{qkvo("f16", "bf16", "f16", "f16"), []string{"f32"}, "is bf16"},
		{qkvo("f16", "f16", "f16"), []string{"f32"}, "3 buffers"},
		{qkvo("f16", "f16", "f16", "f16"), nil, "scalars []"},
		{qkvo("f16", "f16", "f16", "f16"), []string{"f64"}, "scalars [f64]"},
		{append(qkvo("f16", "f16", "f16", "f16")[:3:3], qkvo("f16", "f16")[0]), []string{"f32"}, "f16, in"},
	} {
		if err := checkAttention(c.buffers, c.scalars); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v: %v, want %q", c.buffers, c.scalars, err, c.want)
		}
	}
}

func TestAttentionAt(t *testing.T) {
	shape := func(scale float64, elements []int64, dims ...int64) wire.Shape {
		return wire.Shape{Name: "s", Dims: dims, Elements: elements, Scalars: []float64{scale}}
	}
	for _, c := range []struct {
		shape wire.Shape
		want  attention
	}{
		{shape(.125, []int64{2048, 2048, 2048, 2048}, 2, 4, 8, 32, 0), attention{2, 4, 4, 8, 32, false, .125}},
		{shape(.5, []int64{2048, 1024, 1024, 2048}, 2, 4, 2, 8, 32, 1), attention{2, 4, 2, 8, 32, true, .5}},
	} {
		if got, err := attentionAt(c.shape); err != nil || got != c.want {
			t.Errorf("%v: %+v, %v, want %+v", c.shape.Dims, got, err, c.want)
		}
	}
	for _, s := range []wire.Shape{
		shape(1, []int64{2048, 2048, 2048, 2048}, 2, 4, 8, 32),       // not said whether causal
		shape(1, []int64{2048, 2048, 2048, 2048}, 2, 4, 8, 32, 2),    // nor here
		shape(1, []int64{2048, 1536, 1536, 2048}, 2, 4, 3, 8, 32, 0), // heads that no others share evenly
		shape(1, []int64{2048, 2048, 2048, 2048}, 2, 4, 2, 8, 32, 0), // other buffers
		shape(1, []int64{0, 0, 0, 0}, 2, 0, 8, 32, 0),                // no heads
		{Name: "s", Dims: []int64{2, 4, 8, 32, 0}, Elements: []int64{2048, 2048, 2048, 2048}},
	} {
		if got, err := attentionAt(s); err == nil || !strings.Contains(err.Error(), "cudnn:attention wants") {
			t.Errorf("%v, %v: %+v, %v", s.Dims, s.Elements, got, err)
		}
	}
}
