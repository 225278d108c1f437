// Command chart draws the charts of the documentation from the records of
// docs/evidence/h200. Run it in the root of the repository:
//
//	go run ./scripts/chart
//
// The test of this package fails when a committed chart differs from what its
// record gives.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
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

// figures are all charts.
var figures = []figure{
	{
		"docs/evidence/h200/pytorch.txt", "docs/attention-h200.svg", parse,
		[]bar{
			{"evotune", "evotune", chart.A}, {"SDPA cuDNN", "cuDNN", chart.B}, {"SDPA flash", "flash", chart.Idle},
		},
		"fp16 attention on an NVIDIA H200: time per launch (shorter is better)\nbatch x heads x length x head size",
	},
	{
		"docs/evidence/h200/table.json", "docs/products-h200.svg", products,
		[]bar{
			{"evotune", "evotune", chart.A}, {"cublaslt", "cublasLt", chart.B},
		},
		"Matrix products on an NVIDIA H200: time per launch (shorter is better)\nmedians of fresh processes; cublasLt with its fastest algorithm",
	},
}

// A figure is a chart: what is drawn of a record, how the record is read, and into which file.
type figure struct {
	from, to string
	read     func(io.Reader, []bar) ([]group, error)
	bars     []bar // contenders, as the record names them
	title    string
}

func main() {
	for _, f := range figures {
		if err := f.write(f.to); err != nil {
			fmt.Fprintln(os.Stderr, "chart:", err)
			os.Exit(1)
		}
	}
}

func (f figure) write(to string) error {
	text, err := os.ReadFile(f.from)
	if err != nil {
		return err
	}
	groups, err := f.read(bytes.NewReader(text), f.bars)
	if err != nil {
		return fmt.Errorf("%s: %w", f.from, err)
	}
	return os.WriteFile(to, f.draw(groups), 0o644)
}

type bar struct {
	name, label string
	color       color.Color
}

// A group is one shape. micros are the medians of bars, in microseconds, and ratios their times
// over that of evotune.
type group struct {
	shape          string
	micros, ratios []float64
}

// ordered puts groups in the order of the second bar's time over evotune's, the largest first.
func ordered(groups []group) []group {
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.ratios[1], a.ratios[1]) })
	return groups
}

// products reads the table of scripts/gpu-table.py, and returns what is beside cublasLt. A ratio
// is the median over readings by turns.
func products(r io.Reader, _ []bar) ([]group, error) {
	var table []struct {
		Operator, Shape, Dtype string
		Evotune                float64            `json:"evotune_us"`
		Others                 map[string]float64 `json:"others"`
		Speedup                float64
	}
	if err := json.NewDecoder(r).Decode(&table); err != nil {
		return nil, err
	}
	var groups []group
	for _, t := range table {
		if other := t.Others["cublaslt"]; other > 0 && t.Evotune > 0 && t.Speedup > 0 {
			groups = append(groups, group{t.Operator + " " + t.Dtype + " " + t.Shape, []float64{t.Evotune, other}, []float64{1, t.Speedup}})
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("it has nothing beside cublasLt")
	}
	return ordered(groups), nil
}

// parse reads the output of bench/pytorch/compare.py and returns its attention
// shapes, ordered by cuDNN's time over evotune's, the largest first.
func parse(r io.Reader, bars []bar) ([]group, error) {
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
				groups = append(groups, group{shape: fields[1], micros: make([]float64, len(bars))})
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
	for i, g := range groups {
		if i := slices.Index(g.micros, 0); i >= 0 {
			return nil, fmt.Errorf("attention %s lacks %s", g.shape, bars[i].name)
		}
		for _, us := range g.micros {
			groups[i].ratios = append(groups[i].ratios, us/g.micros[0])
		}
	}
	return ordered(groups), nil
}

func (f figure) draw(groups []group) []byte {
	c := chart.New(vg.Length(len(groups))*vg.Length(20*len(f.bars))+130, "time per launch over evotune's", "")
	c.Title = f.title
	var labels []string
	parts := make([]*chart.Boxes, len(f.bars))
	for i, b := range f.bars {
		parts[i] = &chart.Boxes{Color: b.color}
	}
	texts := chart.NewTexts(6)
	for row, g := range groups {
		shape := strings.ReplaceAll(g.shape, "-causal", " causal")
		fastest := slices.Index(g.ratios, slices.Min(g.ratios))
		labels = append(labels, fmt.Sprintf("%s\n%s is fastest", shape, f.bars[fastest].label))
		for i := range f.bars {
			y := -float64(row) + 0.81/float64(len(f.bars))*(float64(len(f.bars)-1)/2-float64(i))
			parts[i].Boxes = append(parts[i].Boxes, chart.Box{X1: g.ratios[i], Y0: y - 0.36/float64(len(f.bars)), Y1: y + 0.36/float64(len(f.bars))})
			texts.Write(g.ratios[i], y, chart.Regular(12, chart.Ink), fmt.Sprintf("%.2f us  %.2fx", g.micros[i], g.ratios[i]))
		}
	}
	c.Width, c.X.Min = 760, 0
	c.Y.Tick.Label.Font.Size = 13
	c.AddRows(labels)
	for i, b := range f.bars {
		c.Add(parts[i])
		c.AddKey(b.label, parts[i])
	}
	c.Add(texts)
	title, _, _ := strings.Cut(f.title, "\n")
	return c.Drawing(title).File()
}
