// Package plain makes text of others, compilers and candidates, fit to be
// stored and printed: a terminal obeys the control characters that it gets.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text replaces, by question marks, what is not UTF-8 and each character that
// is not to be seen: escapes and other control characters, marks that turn the
// direction of writing, a carriage return within a line. New lines and tabs stay.
func Text(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// Line makes one line of text: what Text would replace, and white space, become
// single spaces.
func Line(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)), " ")
}

// First is the first line of text, as Line gives it.
func First(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return Line(line)
}
