// Package words makes text fit for a line that people read.
package words

import (
	"fmt"
	"strings"
)

// OneLine joins the lines of a text.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// FirstLine is the first line of a text that is not blank.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSuffix(s, "\r")
}

// Launches counts launches of a kernel.
func Launches(n int) string {
	if n == 1 {
		return "1 launch"
	}
	return fmt.Sprintf("%d launches", n)
}

// Plural counts things that take an s.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
