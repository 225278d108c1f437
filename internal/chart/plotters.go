package chart

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Func is a plotter of one function.
type Func func(c draw.Canvas, p *plot.Plot)

// Plot implements plot.Plotter.
func (f Func) Plot(c draw.Canvas, p *plot.Plot) { f(c, p) }

// Dots are marks, each with a tip if there are any.
type Dots struct {
	*plotter.Scatter
	Tips []string
}

// NewDots makes dots without points; [Dots.Mark] adds them.
func NewDots(c color.Color, radius float64, shape draw.GlyphDrawer) *Dots {
	return &Dots{Scatter: &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: c, Radius: vg.Points(radius), Shape: shape}}}
}

// Mark adds a point with its tip.
func (d *Dots) Mark(x, y float64, tip string) {
	d.XYs, d.Tips = append(d.XYs, plotter.XY{X: x, Y: y}), append(d.Tips, tip)
}

// Plot implements plot.Plotter.
func (d *Dots) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range d.XYs {
		at, style := vg.Point{X: x(v.X), Y: y(v.Y)}, d.GlyphStyle
		if d.GlyphStyleFunc != nil {
			style = d.GlyphStyleFunc(i)
		}
		c.DrawGlyphNoClip(style, at)
		Tip(c, style.Rectangle().Add(at), d.Tips[i])
	}
}

// Tick is a mark: a line upwards.
type Tick struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (Tick) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.StrokeLine2(draw.LineStyle{Color: s.Color, Width: vg.Points(1.6)}, at.X, at.Y-s.Radius, at.X, at.Y+s.Radius)
}

// A Box is a rectangle from one corner to the other, with its tip.
type Box struct {
	X0, Y0, X1, Y1 float64
	Tip            string
}

// Boxes are rectangles of one color, with an edge if that has a width.
type Boxes struct {
	Boxes []Box
	Color color.Color
	Edge  draw.LineStyle
}

// Plot implements plot.Plotter.
func (b *Boxes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, v := range b.Boxes {
		Rectangle(c, vg.Rectangle{Min: vg.Point{X: x(v.X0), Y: y(v.Y0)}, Max: vg.Point{X: max(x(v.X1), x(v.X0)+1), Y: y(v.Y1)}}, b.Color, b.Edge, v.Tip)
	}
}

// DataRange implements plot.DataRanger.
func (b *Boxes) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax, ymin, ymax = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, v := range b.Boxes {
		xmin, xmax, ymin, ymax = min(xmin, v.X0), max(xmax, v.X1), min(ymin, v.Y0), max(ymax, v.Y1)
	}
	return xmin, xmax, ymin, ymax
}

// Thumbnail implements plot.Thumbnailer.
func (b *Boxes) Thumbnail(c *draw.Canvas) {
	Rectangle(*c, c.Rectangle, b.Color, b.Edge, "")
}

// Rectangle fills a rectangle, draws its edge and gives it a tip.
func Rectangle(c draw.Canvas, r vg.Rectangle, fill color.Color, edge draw.LineStyle, tip string) {
	corners := []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}, r.Min}
	c.FillPolygon(fill, corners)
	if edge.Width > 0 {
		c.StrokeLines(edge, corners)
	}
	Tip(c, r, tip)
}

// Texts are labels of one style beside points.
type Texts struct{ plotter.Labels }

// NewTexts makes labels that are right of their points and an offset apart;
// [Texts.Write] adds them.
func NewTexts(offset float64) *Texts {
	// Most letters and digits have nothing below their line, for which room is kept.
	return &Texts{plotter.Labels{Offset: vg.Point{X: vg.Points(offset), Y: 1.5}}}
}

// Write adds a label at a point.
func (t *Texts) Write(x, y float64, s text.Style, label string) {
	t.XYs, t.Labels.Labels, t.TextStyle = append(t.XYs, plotter.XY{X: x, Y: y}), append(t.Labels.Labels, label), append(t.TextStyle, s)
}

// Plot implements plot.Plotter. Unlike that of plotter.Labels it has no point that
// rounding moves off the edge.
func (t *Texts) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range t.XYs {
		c.FillText(t.TextStyle[i], vg.Point{X: x(v.X), Y: y(v.Y)}.Add(t.Offset), t.Labels.Labels[i])
	}
}

// Powers are the ticks of an axis of common logarithms: some eight at the most.
func Powers(lo, hi float64) []plot.Tick {
	first, last := math.Ceil(lo-1e-9), math.Floor(hi+1e-9)
	step := max(1, math.Ceil((last-first+1)/8))
	var ticks []plot.Tick
	for e := first; e <= last; e += step {
		ticks = append(ticks, plot.Tick{Value: e, Label: "1e" + strconv.Itoa(int(e))})
	}
	return ticks
}

// Steps are the ticks of a linear axis: some eight round values, each with its label.
// Those of gonum/plot label every third or so.
func Steps(lo, hi float64) []plot.Tick {
	raw := (hi - lo) / 8
	power := math.Floor(math.Log10(raw))
	unit := math.Pow(10, power)
	step, digits := 10*unit, max(0, -power-1)
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= raw {
			step, digits = m*unit, max(0, -power)
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(lo/step - 1e-9); i*step <= hi+step*1e-9 && len(ticks) < 20; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step+0, 'f', int(min(digits, 12)), 64)})
	}
	return ticks
}
