package report

import (
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	shading "gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/genome"
	"github.com/evotune/evotune/internal/chart"
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
		var f *chart.Chart
		var why string
		switch kind {
		case FigureProgress:
			f, why = r.progressFigure(false)
		case FigureTime:
			f, why = r.progressFigure(true)
		case FigureVerdicts:
			f, why = r.verdictsFigure()
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
		d, name := f.Drawing(kind+" of "+r.Campaign), kind+"."+format
		switch format {
		case "svg":
			files[name] = []byte(clean(string(d.File())))
		case "png":
			if files[name], err = d.PNG(); err != nil {
				return nil, nil, fmt.Errorf("figure %s: %w", kind, err)
			}
		default:
			return nil, nil, fmt.Errorf("there is no format %q", format)
		}
	}
	if len(files) > 0 {
		files.Seal()
	}
	return files, missing, nil
}

// The colors are Okabe and Ito's.
var verdictColors = map[evaluator.Verdict]color.Color{
	evaluator.Correct:        color.RGBA{0x00, 0x9e, 0x73, 0xff},
	evaluator.Slower:         color.RGBA{0xb2, 0xdf, 0xd0, 0xff}, // a pale Correct
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

// figureHeight is that of the figures, in points.
const figureHeight = 490

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
func (r *Campaign) progressFigure(overTime bool) (*chart.Chart, string) {
	title := "best so far over evaluations"
	if overTime {
		title = "best so far over time"
	}
	c, stride := r.progress(overTime)
	if c == nil {
		return nil, r.noneCorrect()
	}
	notes := []string{"Single measurements of the search; the finals decide."}
	if stride > 1 {
		notes = append(notes, fmt.Sprintf("Of those that are no new best, one in %d is drawn.", stride))
	}
	c.Height = figureHeight
	r.title(c, title, notes...)
	return c, ""
}

// title writes above a figure what it is, and notes below that.
func (r *Campaign) title(c *chart.Chart, title string, notes ...string) {
	c.Title = strings.Join(append([]string{r.Campaign + ": " + title}, notes...), "\n")
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
func (r *Campaign) verdictsFigure() (*chart.Chart, string) {
	label, unit := r.clock()
	last, pending := 0.0, 0
	for _, e := range r.Evaluations {
		if last = max(last, e.SpentS/unit); e.Verdict == "" {
			pending++
		}
	}
	if len(r.Evaluations) == pending {
		return nil, r.noneCorrect()
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
	c := chart.New(figureHeight, label, fmt.Sprintf("results per %.3g %s", width, map[bool]string{true: "min", false: "s"}[unit == 60]))
	r.title(c, "verdicts over time", notes...)
	c.AddGrid(false, true)
	var base [verdictBins]int
	for _, v := range evaluator.Verdicts() {
		n := counts[v]
		if n == nil {
			continue
		}
		bars := &chart.Boxes{Color: verdictColors[v], Edge: chart.Stroke(chart.Paper, 0.5)}
		total := 0
		for i, k := range n {
			if k > 0 {
				bars.Boxes = append(bars.Boxes, chart.Box{
					X0: float64(i) * width, X1: float64(i+1) * width, Y0: float64(base[i]), Y1: float64(base[i] + k), Tip: fmt.Sprintf("%d %s", k, v),
				})
			}
			base[i] += k
			total += k
		}
		c.Add(bars)
		c.AddKey(fmt.Sprintf("%s %d", v, total), bars)
	}
	c.X.Min, c.X.Max, c.Y.Min = 0, verdictBins*width, 0
	return c, ""
}

// maxLines bounds the candidates in parallelFigure.
const maxLines = 1500

// parallelFigure shows the genes of the correct candidates, coloured by the rank
// of their speedup, since a few slow ones would leave all others one colour.
func (r *Campaign) parallelFigure() (*chart.Chart, string, error) {
	var order []Evaluation
	for _, e := range r.Evaluations {
		if e.Speedup > 0 && isFinite(e.Speedup) {
			order = append(order, e)
		}
	}
	if len(order) == 0 {
		return nil, r.noneCorrect(), nil
	}
	slices.SortStableFunc(order, func(a, b Evaluation) int { return cmp.Compare(a.Speedup, b.Speedup) })
	notes := []string{"Each line is a correct candidate: the faster it is among them, the more it stands out."}
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
	var axes []geneAxis
	alike := 0
	for _, gene := range slices.Sorted(maps.Keys(values)) {
		for _, g := range genomes {
			values[gene][geneValue(g, gene)] = true
		}
		if len(values[gene]) < 2 {
			alike++
			continue
		}
		axes = append(axes, newAxis(gene, slices.Sorted(maps.Keys(values[gene]))))
	}
	if len(axes) == 0 {
		return nil, "no gene has two values among the correct candidates", nil
	}
	if alike > 0 {
		notes = append(notes, words.Plural(alike, "gene")+" with one value left out.")
	}
	c := chart.New(figureHeight, "", "")
	c.Width = max(c.Width, vg.Length(len(axes)+1)*76)
	r.title(c, "genes of the correct candidates", notes...)
	c.HideY()
	var ticks plot.ConstantTicks
	marks := chart.NewTexts(3)
	for i, a := range axes {
		x := float64(i)
		ticks = append(ticks, plot.Tick{Value: x, Label: shorten(a.gene, 20)})
		c.Add(chart.Line(chart.Stroke(chart.Idle, 0.8), plotter.XY{X: x, Y: 0}, plotter.XY{X: x, Y: 1}))
		for _, v := range a.labelled() {
			marks.Write(x, a.at[v], chart.Regular(9, chart.Ink), shorten(v, 12))
		}
	}
	marks.Offset.Y = 5
	c.X.Tick.Marker = ticks
	c.X.Tick.Label.Rotation, c.X.Tick.Label.XAlign, c.X.Tick.Label.YAlign = math.Pi/6, draw.XRight, draw.YTop
	c.X.Min, c.X.Max, c.Y.Min, c.Y.Max = -0.6, float64(len(axes))-0.4, -0.04, 1.04
	shade, err := shades(len(order))
	if err != nil {
		return nil, "", err
	}
	named := map[int]string{0: "slowest", len(order) / 2: "median", len(order) - 1: "best"}
	for i, e := range order {
		color, err := shade.At(float64(i))
		if err != nil {
			return nil, "", err
		}
		l := chart.Line(chart.Stroke(color, 0.8))
		for k, a := range axes {
			l.XYs = append(l.XYs, plotter.XY{X: float64(k), Y: a.at[geneValue(genomes[i], a.gene)]})
		}
		if i == len(order)-1 {
			l.Width = vg.Points(2.4)
		}
		c.Add(l)
		if name := named[i]; name != "" {
			c.AddKey(fmt.Sprintf("%s %.3fx", name, e.Speedup), l)
		}
	}
	c.Add(marks)
	return c, "", nil
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

// A geneAxis is one gene of parallelFigure, with the place of each of its values
// from 0 to 1.
type geneAxis struct {
	gene   string
	values []string
	at     map[string]float64
}

func newAxis(gene string, values []string) geneAxis {
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
	a := geneAxis{gene: gene, values: values, at: map[string]float64{}}
	for i, v := range values {
		a.at[v] = float64(i) / float64(len(values)-1)
	}
	return a
}

// labelled are the values that have room for their names.
func (a geneAxis) labelled() []string {
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
