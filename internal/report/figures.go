package report

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	shading "gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	styled "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // png
	_ "gonum.org/v1/plot/vg/vgsvg" // svg

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/words"
)

// The figures of a campaign.
const (
	FigureProgress = "progress" // the best so far over evaluations
	FigureTime     = "time"     // the best so far over time
	FigureVerdicts = "verdicts" // verdicts over time
	FigureParallel = "parallel" // parallel coordinates of the genes
)

// FigureKinds lists the figures.
func FigureKinds() []string {
	return []string{FigureProgress, FigureTime, FigureVerdicts, FigureParallel}
}

// FigureFormats lists the formats that figures can have.
func FigureFormats() []string { return []string{"png", "svg"} }

// Figures draws figures of a campaign in a format, each as a file of its own. The
// same log gives the same bytes. What cannot be drawn is left out, and missing
// says why.
func (r *Campaign) Figures(kinds []string, format string) (files Files, missing []string, err error) {
	files = Files{}
	for _, kind := range kinds {
		var f *chart
		var why string
		switch kind {
		case FigureProgress:
			f, why, err = r.progressFigure(false)
		case FigureTime:
			f, why, err = r.progressFigure(true)
		case FigureVerdicts:
			f, why, err = r.verdictsFigure()
		case FigureParallel:
			f, why, err = r.parallelFigure()
		default:
			err = fmt.Errorf("there is no figure %q", kind)
		}
		if err != nil {
			return nil, nil, err
		}
		if f == nil {
			missing = append(missing, kind+": "+why)
			continue
		}
		if files[kind+"."+format], err = f.encode(format); err != nil {
			return nil, nil, fmt.Errorf("figure %s: %w", kind, err)
		}
	}
	if len(files) > 0 {
		files.Seal()
	}
	return files, missing, nil
}

// A chart is a plot with its legend on the right.
type chart struct {
	*plot.Plot
	legend plot.Legend
	width  vg.Length
}

const (
	figureWidth  = 9 * vg.Inch
	figureHeight = 5 * vg.Inch
	legendWidth  = 1.7 * vg.Inch
)

// The colours are Okabe and Ito's.
var (
	inkColor  = color.RGBA{0x1b, 0x1f, 0x24, 0xff}
	idleColor = color.RGBA{0x8a, 0x94, 0xa3, 0xff}
	bestColor = color.RGBA{0x00, 0x7a, 0x5a, 0xff}

	verdictColors = map[evaluator.Verdict]color.Color{
		evaluator.Correct:        color.RGBA{0x00, 0x9e, 0x73, 0xff},
		evaluator.Infeasible:     color.RGBA{0x99, 0x99, 0x99, 0xff},
		evaluator.Render:         color.RGBA{0xcc, 0x79, 0xa7, 0xff},
		evaluator.Compile:        color.RGBA{0xe6, 0x9f, 0x00, 0xff},
		evaluator.Inspect:        color.RGBA{0xf0, 0xe4, 0x42, 0xff},
		evaluator.Launch:         color.RGBA{0xd5, 0x5e, 0x00, 0xff},
		evaluator.Timeout:        color.RGBA{0x8b, 0x45, 0x13, 0xff},
		evaluator.Parity:         color.RGBA{0x00, 0x72, 0xb2, 0xff},
		evaluator.Sanitizer:      color.RGBA{0x56, 0xb4, 0xe9, 0xff},
		evaluator.Implausible:    color.RGBA{0x00, 0x00, 0x00, 0xff},
		evaluator.Infrastructure: color.RGBA{0xdd, 0xdd, 0xdd, 0xff},
	}
)

// newChart makes an empty chart; notes go below the title.
func (r *Campaign) newChart(title string, notes ...string) *chart {
	f := &chart{Plot: plot.New(), legend: plot.NewLegend(), width: figureWidth}
	f.Title.Text = fmt.Sprintf("%s: %s", r.Campaign, title)
	for _, n := range notes {
		f.Title.Text += "\n" + n
	}
	f.legend.Top, f.legend.Left = true, true
	for _, s := range []*styled.Style{
		&f.Title.TextStyle, &f.X.Label.TextStyle, &f.Y.Label.TextStyle,
		&f.X.Tick.Label, &f.Y.Tick.Label, &f.legend.TextStyle,
	} {
		s.Font.Variant, s.Color = "Sans", inkColor
	}
	f.Title.Padding = vg.Points(8)
	return f
}

func (f *chart) encode(format string) ([]byte, error) {
	c, err := draw.NewFormattedCanvas(f.width, figureHeight, format)
	if err != nil {
		return nil, err
	}
	whole := draw.New(c)
	whole.FillPolygon(color.White, []vg.Point{whole.Min, {X: whole.Max.X, Y: whole.Min.Y}, whole.Max, {X: whole.Min.X, Y: whole.Max.Y}})
	f.Draw(draw.Crop(whole, vg.Points(6), -legendWidth, vg.Points(6), -vg.Points(6)))
	f.legend.Draw(draw.Crop(whole, f.width-legendWidth+vg.Points(10), 0, 0, -vg.Points(48)))
	var b bytes.Buffer
	_, err = c.WriteTo(&b)
	return b.Bytes(), err
}

// line is a line with a colour.
func line(points plotter.XYs, c color.Color, width vg.Length) (*plotter.Line, error) {
	l, err := plotter.NewLine(points)
	if err == nil {
		l.Color, l.Width = c, width
	}
	return l, err
}

// clock is the time axis of a campaign: what to divide seconds by.
func (r *Campaign) clock() (label string, unit float64) {
	last := 0.0
	for _, e := range r.Evaluations {
		last = max(last, e.SpentS)
	}
	if last > 600 {
		return "time spent (min)", 60
	}
	return "time spent (s)", 1
}

// progressFigure shows the best so far over evaluations, or over time.
func (r *Campaign) progressFigure(overTime bool) (*chart, string, error) {
	title, label, at := "best so far over evaluations", "evaluation", func(e Evaluation) float64 { return float64(e.Index) }
	if overTime {
		var unit float64
		title = "best so far over time"
		label, unit = r.clock()
		at = func(e Evaluation) float64 { return e.SpentS / unit }
	}
	var order []Evaluation
	for _, e := range r.Evaluations {
		if e.Verdict != "" {
			order = append(order, e)
		}
	}
	slices.SortStableFunc(order, func(a, b Evaluation) int { return cmp.Compare(at(a), at(b)) })
	var steps, others plotter.XYs
	best := 0.0
	stride := (len(order) + maxMarks - 1) / maxMarks
	for i, e := range order {
		if e.Speedup > best {
			best = e.Speedup
			steps = append(steps, plotter.XY{X: at(e), Y: best})
		}
		if e.Speedup > 0 && i%stride == 0 {
			others = append(others, plotter.XY{X: at(e), Y: e.Speedup})
		}
	}
	if len(steps) == 0 {
		return nil, r.noneCorrect(), nil
	}
	end := at(order[len(order)-1])
	notes := []string{"Single measurements of the search; the finals decide."}
	if stride > 1 {
		notes = append(notes, fmt.Sprintf("Of those that are no new best, one in %d is drawn.", stride))
	}
	f := r.newChart(title, notes...)
	f.X.Label.Text, f.Y.Label.Text = label, "speedup over the baseline"
	grid := plotter.NewGrid()
	f.Add(grid)
	dots, err := plotter.NewScatter(others)
	if err != nil {
		return nil, "", err
	}
	dots.Color, dots.Radius, dots.Shape = idleColor, vg.Points(1.6), draw.CircleGlyph{}
	baseline, err := line(plotter.XYs{{X: 0, Y: 1}, {X: end, Y: 1}}, inkColor, vg.Points(1))
	if err != nil {
		return nil, "", err
	}
	baseline.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
	record, err := line(append(steps, plotter.XY{X: end, Y: best}), bestColor, vg.Points(2))
	if err != nil {
		return nil, "", err
	}
	record.StepStyle = plotter.PostStep
	f.Add(dots, baseline, record)
	f.legend.Add("best so far", record)
	f.legend.Add("one candidate", dots)
	f.legend.Add("the baseline", baseline)
	return f, "", nil
}

// noneCorrect says why there is no speedup to show.
func (r *Campaign) noneCorrect() string {
	if r.Evaluated == 0 {
		return "there is no result yet"
	}
	return fmt.Sprintf("none of %s is correct", words.Plural(r.Evaluated, "candidate"))
}

// verdictBins is how many pieces verdictsFigure cuts the time into.
const verdictBins = 40

// verdictsFigure counts the verdicts in pieces of equal time.
func (r *Campaign) verdictsFigure() (*chart, string, error) {
	label, unit := r.clock()
	last, pending := 0.0, 0
	for _, e := range r.Evaluations {
		if last = max(last, e.SpentS/unit); e.Verdict == "" {
			pending++
		}
	}
	if len(r.Evaluations) == pending {
		return nil, r.noneCorrect(), nil
	}
	width := last / verdictBins
	if width == 0 {
		width = 1 // everything at once
	}
	counts := map[evaluator.Verdict]*[verdictBins]int{}
	for _, e := range r.Evaluations {
		if e.Verdict == "" {
			continue
		}
		v := evaluator.Verdict(e.Verdict)
		if counts[v] == nil {
			counts[v] = &[verdictBins]int{}
		}
		counts[v][min(max(int(e.SpentS/unit/width), 0), verdictBins-1)]++ // a clock may have been set back
	}
	var notes []string
	if pending > 0 {
		notes = append(notes, words.Plural(pending, "proposal")+" without a result.")
	}
	f := r.newChart("verdicts over time", notes...)
	f.X.Label.Text, f.Y.Label.Text = label, fmt.Sprintf("results per %.3g %s", width, map[bool]string{true: "min", false: "s"}[unit == 60])
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	f.Add(grid)
	var base [verdictBins]int
	for _, v := range evaluator.Verdicts() {
		n := counts[v]
		if n == nil {
			continue
		}
		var bars []plotter.XYer
		total := 0
		for i, k := range n {
			if k == 0 {
				continue
			}
			left, right := float64(i)*width, float64(i+1)*width
			low, high := float64(base[i]), float64(base[i]+k)
			bars = append(bars, plotter.XYs{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
			base[i] += k
			total += k
		}
		p, err := plotter.NewPolygon(bars...)
		if err != nil {
			return nil, "", err
		}
		p.Color, p.Width, p.LineStyle.Color = verdictColors[v], vg.Points(0.4), color.White
		f.Add(p)
		f.legend.Add(fmt.Sprintf("%s %d", v, total), p)
	}
	f.X.Min, f.X.Max, f.Y.Min = 0, verdictBins*width, 0
	return f, "", nil
}

// maxLines bounds the candidates in parallelFigure.
const maxLines = 1500

// parallelFigure shows the genes of the correct candidates, coloured by the rank
// of their speedup, since a few slow ones would leave all others one colour.
func (r *Campaign) parallelFigure() (*chart, string, error) {
	var order []Evaluation
	for _, e := range r.Evaluations {
		if e.Speedup > 0 && len(finite([]float64{e.Speedup})) == 1 {
			order = append(order, e)
		}
	}
	if len(order) == 0 {
		return nil, r.noneCorrect(), nil
	}
	slices.SortStableFunc(order, func(a, b Evaluation) int { return cmp.Compare(a.Speedup, b.Speedup) })
	notes := []string{"Each line is a correct candidate: the faster it is among them, the darker."}
	if n := len(order); n > maxLines {
		order = order[n-maxLines:]
		notes = append(notes, fmt.Sprintf("The best %d of %d are drawn.", maxLines, n))
	}
	genomes := make([]map[string]any, len(order))
	values := map[string]map[string]bool{}
	for i, e := range order {
		genomes[i] = genome.Plain(e.Genome)
		for k := range genomes[i] {
			values[k] = map[string]bool{}
		}
	}
	var axes []axis
	alike := 0
	for _, gene := range sortedKeys(values) {
		for _, g := range genomes {
			values[gene][geneValue(g, gene)] = true
		}
		if len(values[gene]) < 2 {
			alike++
			continue
		}
		axes = append(axes, newAxis(gene, sortedKeys(values[gene])))
	}
	if len(axes) == 0 {
		return nil, "no gene has two values among the correct candidates", nil
	}
	if alike > 0 {
		notes = append(notes, words.Plural(alike, "gene")+" with one value left out.")
	}
	f := r.newChart("genes of the correct candidates", notes...)
	f.width = max(figureWidth, legendWidth+vg.Length(len(axes)+1)*0.8*vg.Inch)
	f.HideY()
	var ticks plot.ConstantTicks
	var marks plotter.XYLabels
	for i, a := range axes {
		x := float64(i)
		ticks = append(ticks, plot.Tick{Value: x, Label: shorten(a.gene, 20)})
		l, err := line(plotter.XYs{{X: x, Y: 0}, {X: x, Y: 1}}, idleColor, vg.Points(0.8))
		if err != nil {
			return nil, "", err
		}
		f.Add(l)
		for _, v := range a.labelled() {
			marks.XYs = append(marks.XYs, plotter.XY{X: x, Y: a.at[v]})
			marks.Labels = append(marks.Labels, shorten(v, 12))
		}
	}
	f.X.Tick.Marker = ticks
	f.X.Tick.Label.Rotation, f.X.Tick.Label.XAlign, f.X.Tick.Label.YAlign = math.Pi/6, draw.XRight, draw.YTop
	f.X.Min, f.X.Max, f.Y.Min, f.Y.Max = -0.6, float64(len(axes))-0.4, -0.04, 1.04
	shade, err := shades(len(order))
	if err != nil {
		return nil, "", err
	}
	named := map[int]string{0: "slowest", len(order) / 2: "median", len(order) - 1: "best"}
	for i, e := range order {
		points := make(plotter.XYs, len(axes))
		for k, a := range axes {
			points[k] = plotter.XY{X: float64(k), Y: a.at[geneValue(genomes[i], a.gene)]}
		}
		c, err := shade.At(float64(i))
		if err != nil {
			return nil, "", err
		}
		l, err := line(points, c, vg.Points(0.7))
		if err != nil {
			return nil, "", err
		}
		if i == len(order)-1 {
			l.Width = vg.Points(2.2)
		}
		f.Add(l)
		if name := named[i]; name != "" {
			f.legend.Add(fmt.Sprintf("%s %.3fx", name, e.Speedup), l)
		}
	}
	labels, err := plotter.NewLabels(marks)
	if err != nil {
		return nil, "", err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Variant, labels.TextStyle[i].Font.Size, labels.TextStyle[i].Color = "Sans", vg.Points(8), inkColor
	}
	labels.Offset = vg.Point{X: vg.Points(3), Y: vg.Points(2)}
	f.Add(labels)
	return f, "", nil
}

// absent is the value of a gene that a genome does not have: one of another
// implementation, or one that depends on another.
const absent = "absent"

// geneValue is a gene's value as text.
func geneValue(g map[string]any, gene string) string {
	if v, ok := g[gene]; ok {
		return fmt.Sprint(v)
	}
	return absent
}

// An axis is one gene of parallelFigure, with the place of each of its values
// from 0 to 1.
type axis struct {
	gene   string
	values []string
	at     map[string]float64
}

func newAxis(gene string, values []string) axis {
	number := func(s string) (float64, int) {
		if s == absent {
			return 0, -1
		}
		if x, err := strconv.ParseFloat(s, 64); err == nil {
			return x, 0
		}
		return 0, 1
	}
	slices.SortFunc(values, func(a, b string) int {
		x, i := number(a)
		y, j := number(b)
		return cmp.Or(cmp.Compare(i, j), cmp.Compare(x, y), cmp.Compare(a, b))
	})
	a := axis{gene: gene, values: values, at: map[string]float64{}}
	for i, v := range values {
		a.at[v] = float64(i) / float64(len(values)-1)
	}
	return a
}

// labelled are the values that have room for their names.
func (a axis) labelled() []string {
	const most = 14
	if len(a.values) <= most {
		return a.values
	}
	out := make([]string, most)
	for i := range out {
		out[i] = a.values[i*(len(a.values)-1)/(most-1)]
	}
	return out
}

// shades are the colours of n lines, the last the darkest. The lightest fifth of
// the palette cannot be seen on paper.
func shades(n int) (shading.ColorMap, error) {
	m := shading.Reverse(moreland.Kindlmann())
	m.SetMin(-float64(n) / 4)
	m.SetMax(float64(n))
	_, err := m.At(0)
	return m, err
}
