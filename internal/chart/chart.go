// Package chart draws with gonum/plot in one style: as SVG for pages and files,
// in light and dark and with a tip at each mark, or as PNG.
//
// A [Chart] is a plot with a title and a key above it. What plotters it has
// beyond those of gonum/plot are here, since only they have tips. They take
// finite numbers: what is not finite is for the caller to leave out, and to say.
// A [Drawing] is anything that draws on a canvas.
package chart

import (
	"image/color"
	"math"
	"strings"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colors are those of the pages; A, B and C are Okabe and Ito's, which people
// with any of the common forms of color blindness can tell apart.
var (
	Paper = color.RGBA{0xff, 0xff, 0xff, 0xff}
	Card  = color.RGBA{0xf6, 0xf7, 0xf9, 0xff}
	Ink   = color.RGBA{0x1b, 0x1f, 0x24, 0xff}
	Soft  = color.RGBA{0x5a, 0x64, 0x72, 0xff}
	Rule  = color.RGBA{0xd5, 0xda, 0xe1, 0xff}
	Grid  = color.RGBA{0xe8, 0xeb, 0xf0, 0xff}
	Idle  = color.RGBA{0x8a, 0x94, 0xa3, 0xff}
	Bad   = color.RGBA{0xb3, 0x26, 0x1e, 0xff}
	A     = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	B     = color.RGBA{0xc8, 0x59, 0x0a, 0xff}
	C     = color.RGBA{0x00, 0x7a, 0x5a, 0xff}
)

// Width is the width of a chart, in points, which are pixels in SVG.
const Width = 880

// Regular and Mono are styles of text. Sizes are in points.
func Regular(size float64, c color.Color) text.Style {
	s := text.Style{Color: c, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	s.Font = plot.DefaultFont
	s.Font.Variant, s.Font.Size = "Sans", vg.Points(size)
	return s
}

// Bold is Regular in bold letters.
func Bold(size float64, c color.Color) text.Style {
	s := Regular(size, c)
	s.Font.Weight = font.WeightBold
	return s
}

// Mono is Regular in letters of one width.
func Mono(size float64, c color.Color) text.Style {
	s := Regular(size, c)
	s.Font.Variant = "Mono"
	return s
}

// Stroke is the style of a line, with dashes that are as long as told.
func Stroke(c color.Color, width float64, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: vg.Points(width), Dashes: dashes}
}

// Equal is the style of the line that others are compared with.
func Equal() draw.LineStyle { return Stroke(Ink, 1.3, 5, 4) }

// Line is a line through points.
func Line(s draw.LineStyle, points ...plotter.XY) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: s}
}

// A Chart is a plot with its title and its key above it.
type Chart struct {
	*plot.Plot
	// Width and Height are in points. Title, which may have several lines, is on top.
	Width, Height vg.Length
	Title         string
	key           []entry
}

type entry struct {
	label  string
	thumbs []plot.Thumbnailer
}

// New makes an empty chart with labels for its axes.
func New(height vg.Length, x, y string) *Chart {
	c := &Chart{Plot: plot.New(), Width: Width, Height: height}
	c.BackgroundColor = nil
	c.X.Label.Text, c.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&c.X, &c.Y} {
		align := a.Label.TextStyle
		a.Label.TextStyle = Regular(12, Soft)
		a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign, a.Label.TextStyle.Rotation = align.XAlign, align.YAlign, align.Rotation
		align = a.Tick.Label
		a.Tick.Label = Regular(11, Soft)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = align.XAlign, align.YAlign
		a.Tick.LineStyle, a.Tick.Length, a.LineStyle = Stroke(Soft, 0.5), 4, Stroke(Soft, 1)
		a.Padding, a.Label.Padding, a.Tick.Marker = 4, 3, plot.TickerFunc(Steps)
	}
	return c
}

// AddGrid adds the grid: lines at the ticks of the axes that are asked for.
func (c *Chart) AddGrid(x, y bool) {
	g := &plotter.Grid{}
	if x {
		g.Vertical = Stroke(Grid, 1)
	}
	if y {
		g.Horizontal = Stroke(Grid, 1)
	}
	c.Add(g)
}

// AddRows makes rows of the vertical axis, the first at y 0 and on top, the next at
// -1, and so on.
func (c *Chart) AddRows(labels []string) {
	c.AddGrid(true, false)
	var ticks plot.ConstantTicks
	for i, l := range labels {
		ticks = append(ticks, plot.Tick{Value: -float64(i), Label: l})
	}
	c.Y.Tick.Marker, c.Y.Tick.Length, c.Y.Tick.Label.Color, c.Y.Width, c.Y.Padding = ticks, 0, Ink, 0, 4
	c.Y.Min, c.Y.Max = 0.5-float64(len(labels)), 0.5
}

// Span makes an axis reach from lo to hi and a share more on both sides.
func Span(a *plot.Axis, lo, hi, share float64) {
	pad := (hi - lo) * share
	if pad == 0 {
		pad = max(math.Abs(hi)*0.01, 1e-12)
	}
	a.Min, a.Max = lo-pad, hi+pad
}

// AddKey adds an entry to the key.
func (c *Chart) AddKey(label string, thumbs ...plot.Thumbnailer) {
	c.key = append(c.key, entry{label, thumbs})
}

// Drawing is the chart as a drawing; label says what it is.
func (c *Chart) Drawing(label string) Drawing {
	return Drawing{Label: label, Width: c.Width, Height: c.Height, Draw: c.draw}
}

// draw puts the title and the key above the plot.
func (c *Chart) draw(to draw.Canvas) {
	const margin, row, thumb = 6, 20, 22
	to = draw.Crop(to, margin, -2*margin, margin, -margin)
	for i, line := range strings.Split(c.Title, "\n") {
		if line == "" {
			continue
		}
		s := Regular(12, Soft)
		if i == 0 {
			s = Bold(14, Ink)
		}
		to.FillText(s, vg.Point{X: to.Min.X, Y: to.Max.Y - 8}, line)
		to.Max.Y -= row
	}
	x, s := to.Min.X, Regular(11, Ink)
	for i, e := range c.key {
		width := thumb + 6 + s.Width(e.label) + 18
		if x > to.Min.X && x+width > to.Max.X {
			x, to.Max.Y = to.Min.X, to.Max.Y-row
		}
		box := draw.Canvas{Canvas: to.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: to.Max.Y - 14}, Max: vg.Point{X: x + thumb, Y: to.Max.Y - 4},
		}}
		for _, t := range e.thumbs {
			t.Thumbnail(&box)
		}
		to.FillText(s, vg.Point{X: x + thumb + 6, Y: to.Max.Y - 9}, e.label)
		if x += width; i == len(c.key)-1 {
			to.Max.Y -= row + 4
		}
	}
	c.Draw(to)
}
