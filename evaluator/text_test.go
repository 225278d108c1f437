package evaluator

import (
	"strings"
	"testing"
)

// Nothing in a result commands the terminal that it is printed on, whatever a
// lab hands over.
func TestResultsHoldNoControlCharacters(t *testing.T) {
	const evil = "two\nlines \x1b[2J\x1b]0;title\a \u009b31m \rgone"
	for name, change := range map[string]func(*actor){
		"log":     func(a *actor) { a.build.Log = evil },
		"refused": func(a *actor) { a.build.Refused, a.build.Log = evil, evil },
	} {
		l := newLab()
		change(l.actors["1"])
		r := judged(t, l, labPlan())
		text := r.Reason
		for _, s := range r.Steps {
			for _, e := range s.Evidence {
				text += e.Detail
			}
		}
		if !strings.Contains(text, "two\nlines ?[2J?]0;title? ?31m ?gone") || strings.ContainsAny(text, "\x1b\a\r\u009b") {
			t.Errorf("%s: %q", name, text)
		}
	}
}
