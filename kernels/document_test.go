package kernels

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// encode writes a string as TOML in one of its four forms and returns where
// each of its bytes stands, escapes and all. ok is false when the form cannot
// hold the string.
func encode(t *rapid.T, s string) (raw string, places []int, ok bool) {
	form := rapid.SampledFrom([]string{`"`, `'`, `"""`, "'''"}).Draw(t, "form")
	var b strings.Builder
	b.WriteString(form)
	if len(form) == 3 {
		b.WriteString(rapid.SampledFrom([]string{"", "\n", "\r\n"}).Draw(t, "first newline"))
	}
	literal := form[0] == '\''
	for _, r := range s {
		start := b.Len()
		switch {
		case literal && (r == '\'' || r == '\n' && len(form) == 1):
			return "", nil, false
		case literal:
			b.WriteRune(r)
		case r == '\n' && len(form) == 3 && b.Len() > 3 && rapid.Bool().Draw(t, "plain newline"):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '"', r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			switch rapid.IntRange(0, 3).Draw(t, "escape") {
			case 0:
				fmt.Fprintf(&b, `\U%08X`, r)
			case 1:
				if r <= 0xffff {
					fmt.Fprintf(&b, `\u%04x`, r)
					break
				}
				b.WriteRune(r)
			default:
				b.WriteRune(r)
			}
		}
		for range len(string(r)) { // errors point to the beginning of a character
			places = append(places, start)
		}
		if !literal && len(form) == 3 && rapid.IntRange(0, 9).Draw(t, "fold") == 0 {
			b.WriteString("\\  \n \t ") // swallowed up to the next character
		}
	}
	b.WriteString(form)
	return b.String(), places, true
}

// The place of a byte of a string's value is known however it is written.
func TestWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("ab*+()é→🙂\"\\'\n"))).Draw(t, "s")
		raw, places, ok := encode(t, s)
		if !ok {
			t.Skip("this form cannot hold the string")
		}
		before := rapid.SampledFrom([]string{"", "# note\n", "a = 1\r\n"}).Draw(t, "before") + "key = "
		d, err := parseDocument("f", []byte(before+raw+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		n := d.root.children["key"]
		if n.str != s {
			t.Skip("a fold swallowed white space of the string itself")
		}
		at := 0
		for _, r := range s {
			got := n.within(at)
			want := len(before) + places[at]
			// A fold before the character may count as part of it.
			if text := before + raw; got != want && strings.TrimLeft(strings.TrimPrefix(text[got:want], "\\"), " \t\r\n") != "" || got > want {
				t.Fatalf("byte %d of %q in %s is at %d, want %d", at, s, raw, got, want)
			}
			at += len(string(r))
		}
	})
}

// What a distribution prints, the loader reads back.
func TestDataRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Data{Distribution: rapid.SampledFrom([]Distribution{Uniform, Normal, Integers, Constant}).Draw(t, "distribution")}
		switch d.Distribution {
		case Uniform:
			d.A = rapid.Float64Range(-1e6, 1e6).Draw(t, "a")
			d.B = d.A + rapid.Float64Range(1, 1e6).Draw(t, "width")
		case Normal:
			d.A, d.B = rapid.Float64Range(-1e6, 1e6).Draw(t, "a"), rapid.Float64Range(1e-9, 1e6).Draw(t, "b")
		case Integers:
			d.A = float64(rapid.IntRange(-1000, 1000).Draw(t, "a"))
			d.B = d.A + float64(rapid.IntRange(0, 1000).Draw(t, "width"))
		case Constant:
			d.A = rapid.Float64Range(-1e6, 1e6).Draw(t, "a")
		}
		l := &loader{d: &document{file: "f"}}
		text := d.String()
		var err error
		var got Data
		func() {
			defer catch(&err)
			got = l.data(&node{kind: stringNode, str: text, raw: `"` + text + `"`}, text, F64)
		}()
		if err != nil || got != d {
			t.Fatalf("%s reads as %s, %v", text, got, err)
		}
	})
}
