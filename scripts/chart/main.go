// Command chart draws the charts of the documentation from the records of
// docs/evidence/h200. Run it in the root of the repository:
//
//	go run ./scripts/chart
//
// The test of this package fails when a committed chart differs from what its
// record gives.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"github.com/evotune/evotune/internal/chart"
)

// record is the table of scripts/gpu-table.py.
const record = "docs/evidence/h200/table.json"

// figures are all charts.
var figures = []figure{
	{
		"docs/attention-h200.svg", "cudnn", "cuDNN",
		"Attention on an NVIDIA H200: time per launch (shorter is better)\nmedians of fresh processes; cuDNN with its fastest plan",
	},
	{
		"docs/products-h200.svg", "cublaslt", "cublasLt",
		"Matrix products on an NVIDIA H200: time per launch (shorter is better)\nmedians of fresh processes; cublasLt with its fastest algorithm",
	},
}

// A figure is a chart of what was measured beside a library in finals: its key in the record, and its name.
type figure struct{ to, other, name, title string }

func main() {
	for _, f := range figures {
		if err := f.write(f.to); err != nil {
			fmt.Fprintln(os.Stderr, "chart:", err)
			os.Exit(1)
		}
	}
}

func (f figure) write(to string) error {
	text, err := os.ReadFile(record)
	if err != nil {
		return err
	}
	groups, err := f.read(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	return os.WriteFile(to, f.draw(groups), 0o644)
}

// A group is one shape: the medians of evotune and of the other in microseconds, and the other's time
// over evotune's, the median over readings by turns.
type group struct {
	shape         string
	micros, other float64
	ratio         float64
}

// read returns what is beside the library in finals, the largest ratio first.
func (f figure) read(r io.Reader) ([]group, error) {
	var table []struct {
		Operator, Shape, Dtype string
		Evotune                float64            `json:"evotune_us"`
		Others                 map[string]float64 `json:"others"`
		Ran                    string             `json:"baseline_ran"`
		Speedup                float64
	}
	if err := json.NewDecoder(r).Decode(&table); err != nil {
		return nil, err
	}
	var groups []group
	for _, t := range table {
		// cuDNN is also what PyTorch called, in its own process.
		inFinals := f.other == "cublaslt" || strings.HasPrefix(t.Ran, f.name)
		if other := t.Others[f.other]; inFinals && other > 0 && t.Evotune > 0 && t.Speedup > 0 {
			name := t.Operator
			if !strings.Contains(name, t.Dtype) {
				name += " " + t.Dtype
			}
			groups = append(groups, group{name + " " + t.Shape, t.Evotune, other, t.Speedup})
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("it has nothing beside %s", f.name)
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.ratio, a.ratio) })
	return groups, nil
}

func (f figure) draw(groups []group) []byte {
	c := chart.New(vg.Length(len(groups))*40+130, "time per launch over evotune's", "")
	c.Title = f.title
	var labels []string
	bars := []struct {
		label string
		boxes *chart.Boxes
	}{{"evotune", &chart.Boxes{Color: chart.A}}, {f.name, &chart.Boxes{Color: chart.B}}}
	texts := chart.NewTexts(6)
	for row, g := range groups {
		fastest := "evotune"
		if g.ratio < 1 {
			fastest = f.name
		}
		labels = append(labels, fmt.Sprintf("%s\n%s is fastest", strings.ReplaceAll(g.shape, "-causal", " causal"), fastest))
		for i, b := range bars {
			micros, ratio := g.micros, 1.0
			if i == 1 {
				micros, ratio = g.other, g.ratio
			}
			y := -float64(row) + 0.405*(0.5-float64(i))
			b.boxes.Boxes = append(b.boxes.Boxes, chart.Box{X1: ratio, Y0: y - 0.18, Y1: y + 0.18})
			texts.Write(ratio, y, chart.Regular(12, chart.Ink), fmt.Sprintf("%.2f us  %.2fx", micros, ratio))
		}
	}
	c.Width, c.X.Min = 760, 0
	c.Y.Tick.Label.Font.Size = 13
	c.AddRows(labels)
	for _, b := range bars {
		c.Add(b.boxes)
		c.AddKey(b.label, b.boxes)
	}
	c.Add(texts)
	title, _, _ := strings.Cut(f.title, "\n")
	return c.Drawing(title).File()
}
