package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/evotune/evotune/evaluator"
	"github.com/evotune/evotune/internal/chart"
	"github.com/evotune/evotune/internal/words"
)

// A Plot is one drawing with its name and what to read from it.
type Plot struct {
	Name    string // the file, without .svg
	Title   string
	Caption string
	drawing chart.Drawing
}

// file is the drawing as a file of its own.
func (p *Plot) file() []byte { return []byte(clean(string(p.drawing.File()))) }

// The colors of boxes: those of the candidate and the baseline on paper.
var tintA, tintB = color.RGBA{0xdb, 0xea, 0xf4, 0xff}, color.RGBA{0xf7, 0xe8, 0xdd, 0xff}

// axis is the height of a horizontal axis with its label and of the margins.
const axis vg.Length = 56

// A series is the finite ones of some samples, by their places among them, with
// the marks that it is drawn with.
type series struct {
	label string
	plotter.XYs
	marks *chart.Dots
	line  draw.LineStyle
	fill  *chart.Boxes
}

// sides are the samples of a candidate and of the baseline, in the unit that suits
// both.
func sides(t evaluator.Timing, candidate string) (both [2]series, lo, hi float64, unit string) {
	unit, f := timeUnit(max(medianOf(t.SamplesNS), medianOf(t.BaselineNS)))
	both = [2]series{
		{
			label: candidate, marks: chart.NewDots(chart.A, 3, draw.CircleGlyph{}), line: chart.Stroke(chart.A, 1.5),
			fill: &chart.Boxes{Color: tintA, Edge: chart.Stroke(chart.A, 1.2)},
		},
		{
			label: "baseline", marks: chart.NewDots(chart.B, 3, draw.PyramidGlyph{}), line: chart.Stroke(chart.B, 1.5, 6, 3),
			fill: &chart.Boxes{Color: tintB, Edge: chart.Stroke(chart.B, 1.2)},
		},
	}
	lo, hi = math.Inf(1), math.Inf(-1)
	for i, samples := range [][]float64{t.SamplesNS, t.BaselineNS} {
		for j, v := range samples {
			if v *= f; isFinite(v) {
				both[i].XYs = append(both[i].XYs, plotter.XY{X: float64(j), Y: v})
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	return both, lo, hi, unit
}

// plotDistribution shows every sample at one shape, candidate over baseline,
// as strips with the box of the middle half.
func plotDistribution(name string, t evaluator.Timing, candidate string) *Plot {
	both, lo, hi, unit := sides(t, candidate)
	c := chart.New(2*54+axis, "time per launch ("+unit+")", "")
	if lo <= hi {
		chart.Span(&c.X, lo, hi, 0.06)
	}
	var labels []string
	var drawn []plot.Plotter
	for i, s := range both {
		values := make([]float64, len(s.XYs))
		for j, v := range s.XYs {
			values[j] = v.Y
		}
		if len(values) == 0 {
			labels = append(labels, s.label+"\nno samples")
			continue
		}
		slices.Sort(values)
		m, row := evaluator.Median(values), -float64(i)
		labels = append(labels, fmt.Sprintf("%s\nmedian %.4g %s", s.label, m, unit))
		s.fill.Boxes = []chart.Box{{X0: evaluator.Quantile(values, 0.25), X1: evaluator.Quantile(values, 0.75), Y0: row - 0.32, Y1: row + 0.32}}
		for _, v := range s.XYs {
			s.marks.Mark(v.Y, row+0.22*jitter(int(v.X)), fmt.Sprintf("sample %d: %.5g %s", int(v.X), v.Y, unit))
		}
		median := s.line
		median.Width, median.Dashes = 2.6, nil
		drawn = append(drawn, s.fill, chart.Line(median, plotter.XY{X: m, Y: row - 0.32}, plotter.XY{X: m, Y: row + 0.32}), s.marks)
	}
	c.AddRows(labels)
	c.Add(drawn...)
	return &Plot{
		Name: name, Title: "Samples at " + t.Shape, drawing: c.Drawing("samples at " + t.Shape),
		Caption: fmt.Sprintf("One mark per sample (a batch of %s, baseline %s). The box is the middle half, the bar in it the median.", words.Launches(t.Batch), words.Launches(t.BaselineBatch)),
	}
}

// jitter spreads marks evenly over [-1, 1] without a random number.
func jitter(i int) float64 {
	_, f := math.Modf(float64(i+1) * 0.6180339887498949)
	return 2*f - 1
}

// plotDrift shows the samples at one shape in the order in which they were
// taken; nil for fewer than two.
func plotDrift(name string, t evaluator.Timing, candidate string) *Plot {
	if len(t.SamplesNS) < 2 {
		return nil
	}
	both, lo, hi, unit := sides(t, candidate)
	c := chart.New(260, "sample, in the order taken", "time per launch ("+unit+")")
	c.AddGrid(false, true)
	for _, s := range both {
		if len(s.XYs) == 0 {
			continue
		}
		for _, v := range s.XYs {
			s.marks.Mark(v.X, v.Y, fmt.Sprintf("%.5g %s", v.Y, unit))
		}
		line := chart.Line(s.line, s.XYs...)
		c.Add(line, s.marks)
		c.AddKey(s.label, line, s.marks)
	}
	if lo <= hi {
		chart.Span(&c.Y, lo, hi, 0.08)
	}
	return &Plot{
		Name: name, Title: "Samples in their order at " + t.Shape, drawing: c.Drawing("samples over time at " + t.Shape),
		Caption: "Neighboring marks of both lines were taken back to back; what moves both is the machine, what moves one is the kernel.",
	}
}

// plotParity shows every measured error against its limit, on a logarithmic
// axis; nil when nothing was measured.
func plotParity(rows []ParityRow) *Plot {
	var labels []string
	lo, hi := math.Inf(1), math.Inf(-1)
	of := func(r ParityRow) string {
		if r.Output != "" {
			return r.Shape + " " + r.Output
		}
		return r.Shape
	}
	for _, r := range rows {
		if !(r.Limit > 0) {
			continue
		}
		if !slices.Contains(labels, of(r)) {
			labels = append(labels, of(r))
		}
		for _, v := range finite([]float64{r.Error, r.Limit}) {
			if v > 0 {
				lo, hi = min(lo, math.Log10(v)), max(hi, math.Log10(v))
			}
		}
	}
	if lo > hi {
		return nil
	}
	lo, hi = math.Floor(lo-0.3), math.Ceil(hi+0.05)
	c := chart.New(vg.Length(len(labels))*26+axis+24, "max |output − reference| / RMS(reference)", "")
	c.X.Min, c.X.Max, c.X.Tick.Marker = lo, hi, plot.TickerFunc(chart.Powers)
	good, bad, odd := chart.NewDots(chart.A, 4, draw.CircleGlyph{}), chart.NewDots(chart.Bad, 4.5, draw.PyramidGlyph{}), chart.NewTexts(6)
	limits := map[int]float64{}
	for _, r := range rows {
		if !(r.Limit > 0) {
			continue
		}
		row := slices.Index(labels, of(r))
		y := -float64(row)
		if isFinite(r.Limit) {
			limits[row] = math.Log10(r.Limit)
		}
		x, tip := lo, fmt.Sprintf("%s: %.3g of %.3g allowed", r.Check, r.Error, r.Limit)
		if r.Error > 0 {
			x = max(math.Log10(r.Error), lo)
		}
		switch {
		case !isFinite(r.Error):
			odd.Write(hi, y, chart.Bold(11, chart.Ink), "not finite")
		case r.Outcome == evaluator.Failed:
			bad.Mark(x, y, tip)
		default:
			good.Mark(x, y, tip)
		}
	}
	for i, l := range labels {
		labels[i] = shorten(l, 26)
	}
	c.AddRows(labels)
	c.AddKey("error", good)
	if len(bad.XYs) > 0 {
		c.AddKey("error above the limit", bad)
	}
	for row := range labels {
		if x, ok := limits[row]; ok {
			l := chart.Line(chart.Equal(), plotter.XY{X: x, Y: -float64(row) - 0.4}, plotter.XY{X: x, Y: -float64(row) + 0.4})
			if c.Add(l); row == 0 {
				c.AddKey("limit", l)
			}
		}
	}
	c.Add(good, bad, odd)
	return &Plot{
		Name: "parity", Title: "Parity: errors and limits", drawing: c.Drawing("parity errors and their limits"),
		Caption: "One mark per contents of the inputs; the dashed line is the limit, which the definition's wrong answers on purpose must exceed before anything is judged. An error of zero is drawn at the left edge.",
	}
}

// A ratioRow is one comparison of plotRatios.
type ratioRow struct {
	label string
	est   *Estimate
	raw   []float64
	main  bool
}

// plotRatios shows time ratios with their intervals around 1; nil when there
// are none.
func plotRatios(rows []ratioRow) *Plot {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r ratioRow) bool { return r.est == nil })
	if len(rows) == 0 {
		return nil
	}
	lo, hi := 1.0, 1.0 // what nothing is, and what most are
	var labels []string
	for _, r := range rows {
		labels = append(labels, shorten(r.label, 38))
		all := []float64{r.est.Median}
		if r.est.bounded() {
			all = append(all, r.est.Lo, r.est.Hi)
		}
		if v := slices.Sorted(slices.Values(finite(r.raw))); len(v) > 0 {
			all = append(all, evaluator.Quantile(v, 0.02), evaluator.Quantile(v, 0.98))
		}
		lo, hi = min(lo, slices.Min(all)), max(hi, slices.Max(all))
	}
	c := chart.New(vg.Length(len(rows))*34+axis+24, "time ratio (below 1 is faster)", "")
	chart.Span(&c.X, lo, hi, 0.05)
	c.AddRows(labels)
	equal := chart.Line(chart.Equal(), plotter.XY{X: 1, Y: c.Y.Min}, plotter.XY{X: 1, Y: c.Y.Max})
	pairs, medians, figures := chart.NewDots(chart.Idle, 2, draw.CircleGlyph{}), chart.NewDots(chart.A, 5, draw.CircleGlyph{}), chart.NewTexts(8)
	whiskers := &plotter.XErrorBars{LineStyle: chart.Stroke(chart.Ink, 2), CapWidth: 10}
	for i, r := range rows {
		y, m := -float64(i), r.est.Median
		for j, v := range finite(r.raw) {
			if v >= c.X.Min && v <= c.X.Max {
				pairs.Mark(v, y+0.26*jitter(j), fmt.Sprintf("%.4f", v))
			}
		}
		if r.est.bounded() {
			whiskers.XYs = append(whiskers.XYs, plotter.XY{X: m, Y: y})
			whiskers.XErrors = append(whiskers.XErrors, struct{ Low, High float64 }{r.est.Lo - m, r.est.Hi - m})
		}
		medians.Mark(m, y, fmt.Sprintf("%.4f, 95%% interval: %s", m, r.est.interval()))
		style := chart.Regular
		if r.main {
			style = chart.Bold
		}
		figures.Write(c.X.Max, y, style(11, chart.Ink), fmt.Sprintf("%.3f  (%s)", m, r.est.interval()))
	}
	c.Add(equal, pairs, whiskers, medians, figures)
	c.AddKey("median", medians)
	c.AddKey("its 95% interval", chart.Line(whiskers.LineStyle))
	c.AddKey("one pair", pairs)
	c.AddKey("equal", equal)
	return &Plot{
		Name: "ratios", Title: "Time ratios with 95% intervals", drawing: c.Drawing("time ratios with intervals"),
		Caption: "The large mark is the median of the paired ratios, the whisker its 95% interval, the small marks are the pairs.",
	}
}

// maxMarks bounds the marks of a progress, but for new bests.
const maxMarks = 4000

// progress shows every evaluation and the best so far, over evaluations or over
// time; nil when none was correct. Of those that are no new best it has one in
// stride.
func (r *Campaign) progress(overTime bool) (c *chart.Chart, stride int) {
	label, at := "evaluation", func(e Evaluation) float64 { return float64(e.Index) }
	if overTime {
		var unit float64
		label, unit = r.clock()
		at = func(e Evaluation) float64 { return e.SpentS / unit }
	}
	order := slices.DeleteFunc(slices.Clone(r.Evaluations), func(e Evaluation) bool { return e.Verdict == "" })
	slices.SortStableFunc(order, func(a, b Evaluation) int { return cmp.Compare(at(a), at(b)) })
	stride = (len(order) + maxMarks - 1) / maxMarks
	best, end, lo := 0.0, 0.0, math.Inf(1)
	steps := chart.Line(chart.Stroke(chart.C, 2))
	steps.StepStyle = plotter.PostStep
	ones, failed := chart.NewDots(chart.Idle, 2.2, draw.CircleGlyph{}), chart.NewDots(chart.Bad, 5, chart.Tick{})
	for i, e := range order {
		end = max(end, at(e))
		tip := fmt.Sprintf("%d %s %s", e.Index, e.Candidate, e.Verdict)
		good := e.Speedup > 0 && isFinite(e.Speedup)
		switch {
		case i%stride != 0 && !(good && e.Speedup > best):
		case good:
			ones.Mark(at(e), e.Speedup, fmt.Sprintf("%s %.3fx", tip, e.Speedup))
			lo = min(lo, e.Speedup)
		case e.Verdict != string(evaluator.Correct) && e.Verdict != string(evaluator.Slower):
			failed.Mark(at(e), 0, tip)
		}
		if good && e.Speedup > best {
			best = e.Speedup
			steps.XYs = append(steps.XYs, plotter.XY{X: at(e), Y: best})
		}
	}
	if best == 0 {
		return nil, stride
	}
	steps.XYs = append(steps.XYs, plotter.XY{X: end, Y: best})
	baseline := chart.Line(chart.Equal(), plotter.XY{X: 0, Y: 1}, plotter.XY{X: end, Y: 1})
	lo, hi := min(lo, 1), max(best, 1)
	for i := range failed.XYs {
		failed.XYs[i].Y = lo - 0.07*(hi-lo) // below all others
	}
	c = chart.New(310, label, "speedup over the baseline")
	c.AddGrid(false, true)
	c.Add(baseline, ones, steps)
	c.AddKey("best so far", steps)
	c.AddKey("one correct candidate", ones)
	if len(failed.XYs) > 0 {
		c.Add(failed)
		c.AddKey("one that failed", failed)
	}
	c.AddKey("the baseline", baseline)
	chart.Span(&c.Y, lo, hi, 0.12)
	return c, stride
}

// plotProgress is progress for pages.
func (r *Campaign) plotProgress(overTime bool) *Plot {
	p := &Plot{Name: "progress", Title: "Best so far over evaluations"}
	if overTime {
		p.Name, p.Title = "progress-time", "Best so far over time"
	}
	c, stride := r.progress(overTime)
	if c == nil {
		return nil
	}
	p.drawing = c.Drawing(p.Title)
	p.Caption = "Speedups of the search, each one measurement during the search; the finals decide. The dashed line is the baseline."
	if stride > 1 {
		p.Caption += fmt.Sprintf(" Of those that are no new best, one in %d is drawn.", stride)
	}
	return p
}

// A bar is one row of plotBars: pieces, and what is written after them.
type bar struct {
	label, note string
	parts       []float64
}

// A part is what the pieces of one color are.
type part struct {
	label string
	color color.Color
}

// plotBars shows rows of stacked pieces.
func plotBars(name, title, axisLabel, caption string, parts []part, rows []bar) *Plot {
	most := 0.0
	var labels []string
	boxes := make([]*chart.Boxes, len(parts))
	for i, p := range parts {
		boxes[i] = &chart.Boxes{Color: p.color}
	}
	notes := chart.NewTexts(8)
	for i, r := range rows {
		labels = append(labels, shorten(r.label, 20))
		from := 0.0
		for j, v := range r.parts {
			if v > 0 {
				boxes[j].Boxes = append(boxes[j].Boxes, chart.Box{X0: from, X1: from + v, Y0: -float64(i) - 0.36, Y1: -float64(i) + 0.36, Tip: fmt.Sprintf("%v %s", v, parts[j].label)})
				from += v
			}
		}
		most = max(most, from)
		notes.Write(from, -float64(i), chart.Regular(11, chart.Soft), r.note)
	}
	if !(most > 0) {
		return nil
	}
	c := chart.New(vg.Length(len(rows))*26+axis+24, axisLabel, "")
	c.X.Min, c.X.Max = 0, most
	c.AddRows(labels)
	for i, p := range parts {
		c.Add(boxes[i])
		c.AddKey(p.label, boxes[i])
	}
	c.Add(notes)
	return &Plot{Name: name, Title: title, Caption: caption, drawing: c.Drawing(title)}
}

// plotGenes shows the median speedup of the candidates with each value of
// each gene, the gene with the largest range first.
func plotGenes(genes []GeneEffect) *Plot {
	lo, hi := math.Inf(1), math.Inf(-1)
	var kept []GeneEffect
	var labels []string
	for _, g := range genes {
		g.Values = slices.DeleteFunc(slices.Clone(g.Values), func(v GeneValue) bool { return !isFinite(v.MedianSpeedup) })
		if len(g.Values) < 2 || len(kept) == 20 {
			continue
		}
		kept, labels = append(kept, g), append(labels, shorten(g.Gene, 24))
		lo, hi = min(lo, g.Values[0].MedianSpeedup), max(hi, g.Values[len(g.Values)-1].MedianSpeedup)
	}
	if len(kept) == 0 {
		return nil
	}
	c := chart.New(vg.Length(len(kept))*38+axis, "median speedup of the candidates that have the value", "")
	chart.Span(&c.X, lo, hi, 0.08)
	c.Y.Tick.Label.Font = chart.Mono(11, chart.Ink).Font
	c.AddRows(labels)
	for i, g := range kept {
		y, dots := -float64(i), chart.NewDots(chart.A, 3, draw.CircleGlyph{})
		for _, v := range g.Values {
			dots.Mark(v.MedianSpeedup, y, fmt.Sprintf("%s=%s: median %.3fx of %d", g.Gene, v.Value, v.MedianSpeedup, v.N))
		}
		dots.GlyphStyleFunc = func(i int) draw.GlyphStyle {
			s := dots.GlyphStyle
			s.Radius = vg.Points(min(3+math.Sqrt(float64(g.Values[i].N))*0.5, 8))
			return s
		}
		c.Add(chart.Line(chart.Stroke(chart.Soft, 1), dots.XYs[0], dots.XYs[len(dots.XYs)-1]), dots, valueLabels(g.Values, y))
	}
	return &Plot{
		Name: "genes", Title: "Genes: median speedup by value", drawing: c.Drawing("median speedup by value of each gene"),
		Caption: "Marginal medians over the correct candidates of this search, the gene with the widest range first; the size of a mark tells how many. A search does not sample evenly, so a value seen in good company looks good: a hint, not a proof.",
	}
}

// valueLabels writes values above the marks of a gene, or below where there is no
// room, or not at all: the tip of the mark has them. The best always has its label.
func valueLabels(values []GeneValue, y float64) chart.Func {
	return func(c draw.Canvas, p *plot.Plot) {
		style := chart.Regular(11, chart.Soft)
		style.XAlign = draw.XCenter
		atX, atY := p.Transforms(&c)
		free := [2]vg.Length{} // where labels above and below may begin
		for i, v := range values {
			x, label := atX(v.MedianSpeedup), shorten(v.Value, 14)
			half := style.Width(label) / 2
			side, up := 0, vg.Length(12)
			if x-half < free[0] {
				side, up = 1, -13
			}
			if x-half < free[side] && i != len(values)-1 {
				continue
			}
			c.FillText(style, vg.Point{X: x, Y: atY(y) + up}, label)
			free[side] = x + half + 4
		}
	}
}

func medianOf(v []float64) float64 {
	if v = finite(v); len(v) > 0 {
		return evaluator.Median(v)
	}
	return 0
}

// isFinite says whether a plot can show a value.
func isFinite(v float64) bool { return math.Abs(v) < 1e300 }

// finite are the values that a plot can show.
func finite(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !isFinite(v) })
}

// timeUnit is the unit in which nanoseconds of a magnitude are read best.
func timeUnit(ns float64) (name string, factor float64) {
	switch {
	case !(ns >= 1e3):
		return "ns", 1
	case ns < 1e6:
		return "µs", 1e-3
	case ns < 1e9:
		return "ms", 1e-6
	}
	return "s", 1e-9
}

// shorten cuts a label in the middle of its end.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
