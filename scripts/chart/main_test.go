package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each committed chart equals what its record gives.
func TestChart(t *testing.T) {
	t.Chdir("../..")
	for _, f := range figures {
		made := filepath.Join(t.TempDir(), "chart.svg")
		if err := f.write(made); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(f.to)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what %s gives: run \"go run ./scripts/chart\"", f.to, f.from)
		}
	}
}

func TestProducts(t *testing.T) {
	groups, err := products(strings.NewReader(`[
		{"operator": "gemm", "shape": "1", "dtype": "f16", "evotune_us": 2, "others": {"cublaslt": 1.9}, "speedup": 0.94},
		{"operator": "gated", "shape": "1", "dtype": "f16", "evotune_us": 2, "others": {"baseline": 4}, "speedup": 2},
		{"operator": "lost", "shape": "1", "dtype": "f16", "evotune_us": null, "others": {}},
		{"operator": "linear", "shape": "8x8", "dtype": "bf16", "evotune_us": 2, "others": {"cublaslt": 3}, "speedup": 1.4}]`), nil)
	if err != nil || len(groups) != 2 || groups[0].shape != "linear bf16 8x8" || groups[1].ratios[1] != .94 {
		t.Errorf("got %v, %v", groups, err)
	}
	for _, text := range []string{"[]", "{", `[{"operator": "gated", "evotune_us": 2, "others": {"baseline": 4}, "speedup": 2}]`} {
		if _, err := products(strings.NewReader(text), nil); err == nil {
			t.Errorf("%s is a chart", text)
		}
	}
}

func TestParse(t *testing.T) {
	const text = `
attention 1x2x3x4-causal  (NVRTC, 9 registers)
                 median us   q1   q3  x winner  error
  SDPA flash          6.00 5.90 6.10     1.200    0.1
  evotune             5.00 4.90 5.10     1.000    0.1
  SDPA cuDNN          4.00 3.90 4.10     0.800    0.1

softmax 1x2  (NVRTC, 9 registers)
                 median us   q1   q3  x winner  error
  evotune             1.00 0.90 1.10     1.000    0.1
`
	attention := figures[0]
	groups, err := parse(strings.NewReader(text), attention.bars)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 1 || groups[0].shape != "1x2x3x4-causal" {
		t.Fatalf("got %v", groups)
	}
	if g := groups[0]; g.micros[0] != 5 || g.ratios[1] != .8 || g.ratios[2] != 1.2 {
		t.Errorf("got %v", g)
	}
	if svg := string(attention.draw(groups)); !strings.Contains(svg, "cuDNN is fastest") {
		t.Errorf("the loss is not shown:\n%s", svg)
	}

	for _, c := range []struct{ text, want string }{
		{"softmax 1x2\n", "no attention shape"},
		{strings.Replace(text, "SDPA flash", "SDPA other", 1), "lacks SDPA flash"},
		{strings.Replace(text, "6.00 5.90", "soon 5.90", 1), `line 4: "soon" is not a time`},
	} {
		if _, err := parse(strings.NewReader(c.text), attention.bars); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
