package report

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// An svg is a drawing under way. Its colours are classes, so that a page can
// restyle them; text is escaped.
type svg struct {
	b             strings.Builder
	width, height float64
	title         string
}

func newSVG(width, height float64, title string) *svg {
	return &svg{width: width, height: height, title: title}
}

// num writes a coordinate with as few digits as a screen can show.
func num(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		x = 0
	}
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, num(x1), num(y1), num(x2), num(y2))
}

func (s *svg) rect(x, y, w, h float64, class, tip string) {
	fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s">%s</rect>`+"\n", class, num(x), num(y), num(w), num(h), tooltip(tip))
}

func (s *svg) circle(x, y, r float64, class, tip string) {
	fmt.Fprintf(&s.b, `<circle class="%s" cx="%s" cy="%s" r="%s">%s</circle>`+"\n", class, num(x), num(y), num(r), tooltip(tip))
}

// diamond is the second marker, told from a circle without its colour.
func (s *svg) diamond(x, y, r float64, class, tip string) {
	fmt.Fprintf(&s.b, `<path class="%s" d="M%s %sL%s %sL%s %sL%s %sZ">%s</path>`+"\n", class,
		num(x), num(y-r), num(x+r), num(y), num(x), num(y+r), num(x-r), num(y), tooltip(tip))
}

func (s *svg) path(points [][2]float64, class string) {
	if len(points) == 0 {
		return
	}
	var d strings.Builder
	for i, p := range points {
		op := "L"
		if i == 0 {
			op = "M"
		}
		d.WriteString(op + num(p[0]) + " " + num(p[1]))
	}
	fmt.Fprintf(&s.b, `<path class="%s" d="%s"/>`+"\n", class, d.String())
}

// text writes one line; anchor is start, middle or end.
func (s *svg) text(x, y float64, anchor, class, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`+"\n", class, num(x), num(y), anchor, escape(text))
}

// vertical writes one line upwards, centred.
func (s *svg) vertical(x, y float64, class, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" transform="translate(%s %s) rotate(-90)" text-anchor="middle">%s</text>`+"\n", class, num(x), num(y), escape(text))
}

func tooltip(tip string) string {
	if tip == "" {
		return ""
	}
	return "<title>" + escape(tip) + "</title>"
}

// escape makes text safe in XML: what XML has no way to say is replaced.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' && r != '\n' || r == 0xFFFE || r == 0xFFFF || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")))
}

// inline is the drawing for a page that has plotStyle in its own style.
func (s *svg) inline() string { return s.element("") }

// file is the drawing as a file of its own.
func (s *svg) file() []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + s.element("<style>"+fileStyle+"</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"))
}

func (s *svg) element(style string) string {
	class := "plot"
	if s.width > 1.3*plotWidth {
		class = "plot large" // to be scrolled, not shrunk
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="%s" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">`+"\n%s%s</svg>\n",
		class, num(s.width), num(s.height), num(s.width), num(s.height), escape(s.title), style, s.b.String())
}

// The colours are Okabe and Ito's, which people with any of the common forms
// of colour blindness can tell apart; in the dark their lighter half.
const palette = `
:root{color-scheme:light dark;--paper:#fff;--card:#f6f7f9;--ink:#1b1f24;--soft:#5a6472;--rule:#d5dae1;--grid:#e8ebf0;
--a:#0072b2;--b:#c8590a;--c:#007a5a;--d:#a0447c;--bad:#b3261e;--good:#006b4f;--idle:#8a94a3}
@media (prefers-color-scheme:dark){:root{--paper:#14171c;--card:#1c2027;--ink:#e6e9ee;--soft:#a0a9b6;--rule:#39414d;--grid:#272d36;
--a:#56b4e9;--b:#f0a24a;--c:#3fc79a;--d:#dd8fbe;--bad:#ff8a80;--good:#5fd3a8;--idle:#77818f}}
`

// fileStyle is plotStyle with the colours themselves: not every program that
// shows SVG knows variables.
var fileStyle = func() string {
	light, dark, _ := strings.Cut(palette, "@media")
	resolve := func(palette string) string {
		style := plotStyle
		for _, c := range regexp.MustCompile(`(--\w+):(#\w+)`).FindAllStringSubmatch(palette, -1) {
			style = strings.ReplaceAll(style, "var("+c[1]+")", c[2])
		}
		return style
	}
	return resolve(light) + "@media (prefers-color-scheme:dark){" + resolve(dark) + "}\n"
}()

const plotStyle = `
.plot{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;max-width:100%;height:auto}.plot.large{max-width:none}
.plot text{fill:var(--ink)}.plot .soft{fill:var(--soft)}.plot .small{font-size:10.5px}.plot .strong{font-weight:600}
.plot .mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:11px}
.plot .paper{fill:var(--paper)}
.plot .axis{stroke:var(--soft);stroke-width:1}.plot .grid{stroke:var(--grid);stroke-width:1}
.plot .mark{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:5 4}
.plot .dot-a{fill:var(--a);fill-opacity:.75}.plot .dot-b{fill:var(--paper);stroke:var(--b);stroke-width:1.4}
.plot .dot-c{fill:var(--c)}.plot .dot-bad{fill:var(--bad)}.plot .dot-idle{fill:var(--idle);fill-opacity:.6}
.plot .line-a,.plot .line-b,.plot .line-c,.plot .edge,.plot .edge-main{fill:none}
.plot .line-a{stroke:var(--a);stroke-width:1.6}.plot .line-b{stroke:var(--b);stroke-width:1.6;stroke-dasharray:6 3}
.plot .line-c{stroke:var(--c);stroke-width:2.2}
.plot .box-a{fill:var(--a);fill-opacity:.14;stroke:var(--a);stroke-width:1.2}
.plot .box-b{fill:var(--b);fill-opacity:.14;stroke:var(--b);stroke-width:1.2}
.plot .median-a{stroke:var(--a);stroke-width:2.6}.plot .median-b{stroke:var(--b);stroke-width:2.6}
.plot .whisker{stroke:var(--ink);stroke-width:2}.plot .whisker-bad{stroke:var(--bad);stroke-width:1.6}
.plot .bar-a{fill:var(--a)}.plot .bar-b{fill:var(--b)}.plot .bar-c{fill:var(--c)}.plot .bar-idle{fill:var(--idle)}
.plot .node{fill:var(--card);stroke:var(--rule);stroke-width:1}.plot .node-top{fill:var(--card);stroke:var(--c);stroke-width:2.2}
.plot .node-bad{fill:var(--card);stroke:var(--bad);stroke-width:1.2}
.plot .edge{stroke:var(--idle);stroke-width:1.1}.plot .edge-main{stroke:var(--c);stroke-width:2}
`

// A scale maps values to coordinates.
type scale struct {
	lo, hi, from, to float64
	log              bool
}

func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log10(v), math.Log10(lo), math.Log10(hi)
	}
	if !(hi > lo) {
		return (s.from + s.to) / 2
	}
	return s.from + (min(max(v, lo), hi)-lo)/(hi-lo)*(s.to-s.from)
}

// span is the range of the finite values, widened by a part of itself.
func span(values []float64, widen float64) (lo, hi float64, ok bool) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range finite(values) {
		lo, hi = min(lo, v), max(hi, v)
	}
	if lo > hi {
		return 0, 1, false
	}
	pad := (hi - lo) * widen
	if pad == 0 {
		pad = max(math.Abs(hi)*0.01, 1e-12)
	}
	return lo - pad, hi + pad, true
}

// finite are the values that a plot can show.
func finite(values []float64) []float64 {
	out := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) && math.Abs(v) < 1e300 {
			out = append(out, v)
		}
	}
	return out
}

// ticks gives some five round values of a range, and how to print them.
func ticks(lo, hi float64, about int) (values []float64, digits int) {
	if !(hi > lo) {
		return []float64{lo}, 3
	}
	raw := (hi - lo) / float64(max(about, 1))
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*unit >= raw {
			step = m * unit
			break
		}
	}
	for i := math.Ceil(lo / step); i*step <= hi+step*1e-9 && len(values) < 50; i++ {
		values = append(values, i*step)
	}
	digits = int(max(0, -math.Floor(math.Log10(step))))
	if r := step / math.Pow(10, math.Floor(math.Log10(step))); math.Abs(r-2.5) < 1e-6 {
		digits++
	}
	return values, min(digits, 12)
}

// axisX draws a horizontal axis below the plot, with a grid up to top.
func (s *svg) axisX(x scale, y, top float64, label string) {
	s.line(x.from, y, x.to, y, "axis")
	if x.log {
		first, last := math.Ceil(math.Log10(x.lo)-1e-9), math.Floor(math.Log10(x.hi)+1e-9)
		step := max(1, math.Ceil((last-first+1)/8))
		for e := first; e <= last; e += step {
			p := x.at(math.Pow(10, e))
			s.line(p, top, p, y, "grid")
			s.text(p, y+16, "middle", "soft small", "1e"+strconv.Itoa(int(e)))
		}
	} else {
		values, digits := ticks(x.lo, x.hi, 8)
		for _, v := range values {
			s.line(x.at(v), top, x.at(v), y, "grid")
			s.text(x.at(v), y+16, "middle", "soft small", fixed(v, digits))
		}
	}
	s.text((x.from+x.to)/2, y+34, "middle", "soft", label)
}

// axisY draws a vertical axis at x, with a grid to the right end.
func (s *svg) axisY(y scale, x, right float64, label string) {
	s.line(x, y.from, x, y.to, "axis")
	values, digits := ticks(y.lo, y.hi, 7)
	for _, v := range values {
		s.line(x, y.at(v), right, y.at(v), "grid")
		s.text(x-6, y.at(v)+4, "end", "soft small", fixed(v, digits))
	}
	s.vertical(x-52, (y.from+y.to)/2, "soft", label)
}

func fixed(v float64, digits int) string {
	if v == 0 {
		v = 0 // no minus sign
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
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
