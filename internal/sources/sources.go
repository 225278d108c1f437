// Package sources reads sources in C, CUDA and Python without a compiler: what is code, what they include, which functions
// they have.
package sources

import (
	"regexp"
	"strings"
	"unicode"
)

// LocalInclude matches a line that includes a file with quotes; its group is the file's name.
var LocalInclude = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"\r\n]+)".*$`)

// Comment matches one comment in C of one line.
var Comment = regexp.MustCompile(`//.*|/\*.*?\*/`)

// NotCode matches comments, strings and characters in C.
var NotCode = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`)

var directiveLine = regexp.MustCompile(`(?m)^[ \t]*#(?:[^\n]*\\\r?\n)*[^\n]*`)

// Bare blanks what is not code, and keeps every offset.
func Bare(text string) string {
	blank := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, strings.ToValidUTF8(s, " "))
	}
	same := func(s string) string { // a rune of several bytes becomes several blanks
		out := []byte(s)
		for i, c := range out {
			if c >= 0x80 {
				out[i] = ' '
			}
		}
		return blank(string(out))
	}
	text = NotCode.ReplaceAllStringFunc(text, same)
	return directiveLine.ReplaceAllStringFunc(text, same)
}

// Quotable says whether a #line directive can have the name of a file.
func Quotable(name string) bool {
	return !strings.ContainsAny(name, `"\`) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}
