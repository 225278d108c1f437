package kernels

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A template that loops, calls itself or makes texts without end is refused in short time and
// with little memory.
func TestEffort(t *testing.T) {
	im := &Implementation{}
	doubled := func(make string) string { return `{{$a := "xxxxxxxx"}}{{range until 60}}{{$a = ` + make + `}}{{end}}` }
	for _, c := range []struct{ text, want string }{
		{`{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`, "exceeded maximum template depth"},
		{`{{define "a"}}{{template "b" .}}{{template "b" .}}{{end}}{{define "b"}}{{template "c" .}}{{template "c" .}}{{end}}{{define "c"}}{{range 10000000}}{{end}}{{end}}{{template "a" .}}`, "actions"},
		{`{{range 1000000000000}}{{end}}`, "actions"},
		{`{{range until 1000}}{{$x := until 60000}}{{end}}`, "bytes of texts and lists"},
		{doubled(`printf "%s%s" $a $a`), "bytes of texts and lists"},
		{doubled(`printf "%[1]s%[1]s" $a`), "bytes of texts and lists"},
		{doubled(`printf "%q" (print $a $a)`), "bytes of texts and lists"},
		{doubled(`print $a $a`), "bytes of texts and lists"},
		{doubled(`println $a $a`), "bytes of texts and lists"},
		{doubled(`join (list $a $a) $a`), "bytes of texts and lists"},
		{`{{$a := list 1}}{{range until 60}}{{$a = list $a $a}}{{end}}{{$a}}`, "use one list"},
		{`{{$a := "\\\\"}}{{range until 60}}{{$a = js $a}}{{end}}`, "for web pages"},
		{`{{printf "%999999d" 1}}`, "width above 999"},
		{`{{printf "%.999999f" 1.0}}`, "width above 999"},
		{`{{printf "%*d" 999999 1}}`, "width above 999"},
		{`{{printf "%[2]*[1]d" 1 999999}}`, "width above 999"},
		{`{{range until 60000}}0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890{{end}}`, "rendered text is longer"},
		{`{{add 1 (print "` + strings.Repeat("x", 5000) + `")}}`, "wants numbers"},
	} {
		began := time.Now()
		_, err := im.execute(parseUnit("k.c.tmpl", c.text), map[string]any{})
		if !errors.Is(err, ErrRender) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2*maxMessage || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.100s: %.300v, want %s", c.text, err, c.want)
		}
		if took := time.Since(began); took > maxRender {
			t.Errorf("%.100s took %s", c.text, took)
		}
	}
	for text, want := range map[string]string{
		`{{printf "%03d %.2f %-5s| %q %s" 7 1.5 "ab" "c" (list 1 "a")}}`:                            "007 1.50 ab   | \"c\" [%!s(int=1) a]",
		`{{join (until 3) ", "}} {{print 1 "a"}} {{range until 2}}{{.}};{{end}}{{range 2}}x{{end}}`: "0, 1, 2 1a 0;1;xx",
	} {
		if got, err := im.execute(parseUnit("k.c.tmpl", text), nil); err != nil || got != want {
			t.Errorf("%s gives %q, %v, want %q", text, got, err, want)
		}
	}
}
