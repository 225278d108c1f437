// Command chart draws docs/attention-h200.svg, the chart of the README, from
// the record docs/evidence/h200/pytorch.txt. Run it in the root of the
// repository:
//
//	go run ./scripts/chart
//
// The test of this package fails when the committed chart differs from what the
// record gives.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"

	"github.com/evotune/evotune/internal/chart"
)

const (
	record = "docs/evidence/h200/pytorch.txt"
	target = "docs/attention-h200.svg"
)

func main() {
	if err := run(record, target); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	groups, err := parse(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.WriteFile(to, draw(groups), 0o644)
}

// bars are the contenders that are drawn, as the record names them.
var bars = []bar{
	{"evotune", "evotune", chart.A},
	{"SDPA cuDNN", "cuDNN", chart.B},
	{"SDPA flash", "flash", chart.Idle},
}

type bar struct {
	name, label string
	color       color.Color
}

// A group is one attention shape. micros are the medians of bars, in
// microseconds.
type group struct {
	shape  string
	micros []float64
}

// ratio is the time of bar i over that of evotune.
func (g group) ratio(i int) float64 { return g.micros[i] / g.micros[0] }

// parse reads the output of bench/pytorch/compare.py and returns its attention
// shapes, ordered by cuDNN's time over evotune's, the largest first.
func parse(r io.Reader) ([]group, error) {
	var groups []group
	in := false // in a block about attention
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case line[0] != ' ':
			if in = fields[0] == "attention"; in {
				groups = append(groups, group{fields[1], make([]float64, len(bars))})
			}
		case in && len(fields) > 5:
			name := strings.Join(fields[:len(fields)-5], " ")
			i := slices.IndexFunc(bars, func(b bar) bool { return b.name == name })
			if i < 0 {
				continue
			}
			us, err := strconv.ParseFloat(fields[len(fields)-5], 64)
			if err != nil || us <= 0 {
				return nil, fmt.Errorf("line %d: %q is not a time", n, fields[len(fields)-5])
			}
			groups[len(groups)-1].micros[i] = us
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("it has no attention shape")
	}
	for _, g := range groups {
		if i := slices.Index(g.micros, 0); i >= 0 {
			return nil, fmt.Errorf("attention %s lacks %s", g.shape, bars[i].name)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.ratio(1), a.ratio(1)) })
	return groups, nil
}

func draw(groups []group) []byte {
	c := chart.New(vg.Length(len(groups))*60+130, "time per launch over evotune's", "")
	c.Title = "fp16 attention on an NVIDIA H200: time per launch (shorter is better)\nbatch x heads x length x head size"
	var labels []string
	parts := make([]*chart.Boxes, len(bars))
	for i, b := range bars {
		parts[i] = &chart.Boxes{Color: b.color}
	}
	figures := chart.NewTexts(6)
	for row, g := range groups {
		shape, causal, _ := strings.Cut(g.shape, "-")
		fastest := slices.Index(g.micros, slices.Min(g.micros))
		labels = append(labels, fmt.Sprintf("%s\n%s is fastest", strings.TrimSpace(shape+" "+causal), bars[fastest].label))
		for i := range bars {
			y := -float64(row) + 0.27*float64(1-i)
			parts[i].Boxes = append(parts[i].Boxes, chart.Box{X1: g.ratio(i), Y0: y - 0.12, Y1: y + 0.12})
			figures.Write(g.ratio(i), y, chart.Regular(12, chart.Ink), fmt.Sprintf("%.2f us  %.2fx", g.micros[i], g.ratio(i)))
		}
	}
	c.Width, c.X.Min = 760, 0
	c.Y.Tick.Label.Font.Size = 13
	c.AddRows(labels)
	for i, b := range bars {
		c.Add(parts[i])
		c.AddKey(b.label, parts[i])
	}
	c.Add(figures)
	return c.Drawing("Attention on an H200: time per launch of evotune, cuDNN and flash").File()
}
