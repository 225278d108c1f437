package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The committed chart equals what the record gives.
func TestChart(t *testing.T) {
	t.Chdir("../..")
	made := filepath.Join(t.TempDir(), "chart.svg")
	if err := run(record, made); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what %s gives: run \"go run ./scripts/chart\"", target, record)
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
	groups, err := parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 1 || groups[0].shape != "1x2x3x4-causal" {
		t.Fatalf("got %v", groups)
	}
	if g := groups[0]; g.micros[0] != 5 || g.ratio(1) != .8 || g.ratio(2) != 1.2 {
		t.Errorf("got %v", g)
	}
	if svg := string(draw(groups)); !strings.Contains(svg, "cuDNN is fastest") {
		t.Errorf("the loss is not shown:\n%s", svg)
	}

	for _, c := range []struct{ text, want string }{
		{"softmax 1x2\n", "no attention shape"},
		{strings.Replace(text, "SDPA flash", "SDPA other", 1), "lacks SDPA flash"},
		{strings.Replace(text, "6.00 5.90", "soon 5.90", 1), `line 4: "soon" is not a time`},
	} {
		if _, err := parse(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
