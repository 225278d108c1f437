package chart

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Drawing draws on a canvas of its size, in points.
type Drawing struct {
	Label         string // what it shows, for those who cannot see it
	Width, Height vg.Length
	Draw          func(draw.Canvas)
}

// Style is what a page with drawings has in its style. In the dark, drawings are
// light on dark; fonts are those with the widths that places were computed with.
const Style = `.plot{max-width:100%;height:auto}.plot.large{max-width:none}
.plot text{font-family:"Liberation Sans",Arial,Helvetica,sans-serif!important}
.plot text[style*=Mono]{font-family:"Liberation Mono","Courier New",Courier,monospace!important}
@media (prefers-color-scheme:dark){.plot{filter:invert(.91) hue-rotate(180deg)}}
`

// canvas is SVG with tips, which lie over the drawing.
type canvas struct {
	*vgsvg.Canvas
	tips strings.Builder
}

// Tip gives a rectangle of a canvas a tip where the canvas can have some.
func Tip(c draw.Canvas, r vg.Rectangle, tip string) {
	under := c.Canvas
	for part, ok := under.(draw.Canvas); ok; part, ok = under.(draw.Canvas) {
		under = part.Canvas // a plot draws on parts of a canvas
	}
	svg, ok := under.(*canvas)
	if !ok || tip == "" {
		return
	}
	_, height := svg.Size()
	fmt.Fprintf(&svg.tips, `<rect x="%.5g" y="%.5g" width="%.5g" height="%.5g"><title>%s</title></rect>`+"\n",
		r.Min.X.Points(), (height - r.Max.Y).Points(), r.Size().X.Points(), r.Size().Y.Points(), html.EscapeString(tip))
}

// SVG is the drawing as an element of a page that has [Style].
func (d Drawing) SVG() string { return d.element("") }

// File is the drawing as an SVG file of its own, on paper.
func (d Drawing) File() []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + d.element("<style>"+Style+"</style>\n"+`<rect width="100%" height="100%" fill="#fff"/>`+"\n"))
}

// PNG is the drawing as pixels on paper, without tips.
func (d Drawing) PNG() ([]byte, error) {
	var b bytes.Buffer
	c := vgimg.New(d.Width, d.Height) // white
	d.Draw(draw.New(c))
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(&b)
	return b.Bytes(), err
}

func (d Drawing) element(before string) string {
	c := &canvas{Canvas: vgsvg.New(d.Width, d.Height)}
	d.Draw(draw.NewCanvas(c, d.Width, d.Height))
	var b strings.Builder
	c.WriteTo(&b) //nolint:errcheck // a strings.Builder takes everything
	// The element of vgsvg has its size in units of paper and no name.
	_, drawn, _ := strings.Cut(b.String(), "<g ")
	drawn, _, _ = strings.Cut("<g "+drawn, "</svg>")
	if tips := c.tips.String(); tips != "" {
		drawn += `<g fill="none" pointer-events="all">` + "\n" + tips + "</g>\n"
	}
	class := "plot"
	if d.Width > 1.3*Width {
		class += " large" // to be scrolled, not shrunk
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="%s" viewBox="0 0 %.5g %.5g" width="%.5g" height="%.5g" role="img" aria-label="%s">`+"\n%s%s</svg>\n",
		class, d.Width, d.Height, d.Width, d.Height, html.EscapeString(d.Label), before, drawn)
}
