package words

import (
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for _, c := range []struct{ in, one, first string }{
		{"", "", ""},
		{"a b", "a b", "a b"},
		{"a\nb\r\n\n c\n", "a; b;  c", "a"},
		{"a\r\nb", "a; b", "a"},
		{"\n a\nb", " a; b", "a"},
	} {
		if one, first := OneLine(c.in), FirstLine(c.in); one != c.one || first != c.first {
			t.Errorf("%q: one line %q, first %q", c.in, one, first)
		}
	}
	if got := Plural(0, "line") + ", " + Plural(1, "line") + ", " + Plural(2, "line"); got != "0 lines, 1 line, 2 lines" {
		t.Error(got)
	}
	if got := Launches(0) + ", " + Launches(1) + ", " + Launches(2); got != "0 launches, 1 launch, 2 launches" {
		t.Error(got)
	}
}

// TestRedactor: no token passes, however it is cut into pieces; everything else does.
func TestRedactor(t *testing.T) {
	secret := "evt_" + strings.Repeat("aB3-_xYz9", 5)[:43]
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"a line\n", "a line\n"},
		{secret, "evt_..."},
		{"x" + secret + "\"\n" + secret + " evt_", "xevt_...\"\nevt_... evt_"},
		{"evt_store(tile), the event", "evt_store(tile), the event"},
		{strings.Repeat("e", 300) + secret, strings.Repeat("e", 300) + "evt_..."},
		{"evtevevt_" + secret, "evtevevt_..."},
	} {
		for size := 1; size <= len(c.in)+1; size++ {
			var b strings.Builder
			r := &Redactor{To: &b}
			for part := range slices.Chunk([]byte(c.in), size) {
				if n, err := r.Write(part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := r.Flush(); err != nil || b.String() != c.want {
				t.Fatalf("%q in pieces of %d: %q, %v", c.in, size, b.String(), err)
			}
		}
	}
}
