package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg/draw"
)

// sample has one of every plotter, and text that is markup.
func sample() Drawing {
	c := New(200, "x", "y")
	c.Title = "<title> & \"more\"\na note"
	c.AddRows([]string{"first", "second\n</svg>"})
	dots, texts := NewDots(A, 3, draw.CircleGlyph{}), NewTexts(4)
	dots.Mark(1, 0, "a <tip>")
	dots.Mark(2, -1, "")
	texts.Write(2, -1, Mono(10, Ink), "<label>")
	boxes := &Boxes{Boxes: []Box{{X0: 1, X1: 2, Y0: -0.2, Y1: 0.2, Tip: "a box"}}, Color: B, Edge: Equal()}
	c.Add(boxes, dots, texts, Line(Stroke(C, 1), dots.XYs...))
	c.AddKey("dots", dots)
	c.AddKey("boxes", boxes)
	return c.Drawing("what it <shows>")
}

func TestSVG(t *testing.T) {
	for name, svg := range map[string]string{"element": sample().SVG(), "file": string(sample().File())} {
		var text []string
		tips := 0
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, svg)
			}
			switch v := token.(type) {
			case xml.StartElement:
				if v.Name.Local == "title" {
					tips++
				}
			case xml.CharData:
				text = append(text, string(v))
			}
		}
		for _, want := range []string{"<title> & \"more\"", "a note", "first", "second", "</svg>", "a <tip>", "a box", "<label>", "dots", "boxes"} {
			if !slices.Contains(text, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
		if tips != 2 {
			t.Errorf("%s has %d tips, not 2", name, tips)
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || !strings.Contains(svg, `aria-label="what it &lt;shows&gt;"`) {
			t.Errorf("%s:\n%s", name, svg)
		}
		if got := strings.Contains(svg, "prefers-color-scheme"); got != (name == "file") {
			t.Errorf("%s has its own style: %v", name, got)
		}
	}
}

func TestPNG(t *testing.T) {
	b, err := sample().PNG()
	if err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(b)); err != nil || img.Bounds().Dx() < Width {
		t.Errorf("%v, %v", img.Bounds(), err)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi      float64
		first, last string
		n           int
	}{
		{0, 1, "0.0", "1.0", 6},
		{-0.3, 0.3, "-0.3", "0.3", 7},
		{0.98, 1.01, "0.980", "1.010", 7},
		{0, 12345, "0", "12000", 7},
	} {
		ticks := Steps(c.lo, c.hi)
		if n := len(ticks); n != c.n || ticks[0].Label != c.first || ticks[n-1].Label != c.last {
			t.Errorf("%v to %v: %+v", c.lo, c.hi, ticks)
		}
	}
	for _, c := range [][2]float64{{0, 5e-324}, {1, math.Nextafter(1, 2)}, {-1e300, 1e300}} {
		if n := len(Steps(c[0], c[1])); n > 20 {
			t.Errorf("%v: %d ticks", c, n)
		}
	}
	if p := Powers(-300, 3); len(p) > 8 || p[0].Label != "1e-300" {
		t.Errorf("%+v", p)
	}
}
