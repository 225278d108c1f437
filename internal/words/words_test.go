package words

import "testing"

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
