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
			t.Errorf("%s is not what %s gives: run \"go run ./scripts/chart\"", f.to, record)
		}
	}
}

func TestRead(t *testing.T) {
	const text = `[
		{"operator": "gemm", "shape": "1", "dtype": "f16", "evotune_us": 2, "others": {"cublaslt": 1.9}, "speedup": 0.94},
		{"operator": "gated", "shape": "1", "dtype": "f16", "evotune_us": 2, "others": {"baseline": 4}, "speedup": 2},
		{"operator": "lost", "shape": "1", "dtype": "f16", "evotune_us": null, "others": {}},
		{"operator": "linear", "shape": "8x8", "dtype": "bf16", "evotune_us": 2, "others": {"cublaslt": 3}, "speedup": 1.4},
		{"operator": "decode", "shape": "1", "dtype": "f16", "evotune_us": 2, "others": {"baseline": 3, "cudnn": 3}, "speedup": 1.5},
		{"operator": "attention", "shape": "1-causal", "dtype": "f16", "evotune_us": 2, "others": {"cudnn": 1}, "speedup": 0.5, "baseline_ran": "cuDNN 9.19.0, best of 5 plans"}]`
	attention, products := figures[0], figures[1]
	groups, err := products.read(strings.NewReader(text))
	if err != nil || len(groups) != 2 || groups[0].shape != "linear bf16 8x8" || groups[1].ratio != .94 {
		t.Errorf("products: %v, %v", groups, err)
	}
	groups, err = attention.read(strings.NewReader(text))
	if err != nil || len(groups) != 1 || groups[0] != (group{"attention f16 1-causal", 2, 1, .5}) {
		t.Errorf("attention: %v, %v", groups, err)
	}
	if svg := string(attention.draw(groups)); !strings.Contains(svg, "cuDNN is fastest") {
		t.Errorf("the loss is not shown:\n%s", svg)
	}
	for _, text := range []string{"[]", "{", `[{"operator": "gated", "evotune_us": 2, "others": {"baseline": 4}, "speedup": 2}]`} {
		if _, err := products.read(strings.NewReader(text)); err == nil {
			t.Errorf("%s is a chart", text)
		}
	}
}
