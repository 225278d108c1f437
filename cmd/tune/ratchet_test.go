package main

import (
	"path/filepath"
	"testing"

	"github.com/evotune/evotune"
)

// Of winners beside one baseline the fastest counts; a baseline of another compiler
// makes other ratios, and those of the newest campaign count. Finals of which nothing
// was kept say nothing.
func TestRatchetUpdate(t *testing.T) {
	path, file := manyCandidates(t, 3, 5), filepath.Join(t.TempDir(), "ratchet.json")
	tune(t, exitNoCandidate, "ratchet", "--baseline", file, "--update", "--store", path)
	for i, c := range []struct {
		fitness  float64
		compiler string
		best     string
	}{
		{0.5, "gcc 1", "0000000000000001"},
		{0.4, "gcc 1", "0000000000000002"},
		{0.45, "gcc 1", "0000000000000002"},
		{0.6, "gcc 2", "0000000000000004"},
		{0.55, "gcc 2", "0000000000000005"},
		{0.58, "gcc 2", "0000000000000005"},
	} {
		addProven(t, path, "softmax", int64(i+1), c.fitness, c.compiler)
		tune(t, exitOK, "ratchet", "--baseline", file, "--update", "--store", path)
		r, err := evotune.ReadRatchet(file)
		if err != nil || len(r.Entries) != 1 || r.Entries[0].Candidate != c.best || r.Entries[0].Compiler != c.compiler {
			t.Errorf("after %v by %s: %+v (%v), want %s", c.fitness, c.compiler, r.Entries, err, c.best)
		}
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]float64{"3%": 0.03, "0.05": 0.05, "0": 0, "0.5%": 0.005} {
		var p percent
		if err := p.Set(text); err != nil || float64(p) != want {
			t.Errorf("%s: %v, %v", text, float64(p), err)
		}
	}
	for _, text := range []string{"", "%", "-1%", "NaN", "much", "3%%", "1000000%"} {
		var p percent
		if err := p.Set(text); err == nil {
			t.Errorf("%q was taken for %v", text, float64(p))
		}
	}
}
