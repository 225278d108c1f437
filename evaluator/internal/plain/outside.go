package plain

import (
	"regexp"
	"strings"
)

var fileNamed = regexp.MustCompile(`(?:#\s*(?:include|include_next|import|embed)|__has_include(?:_next)?\s*\(|__has_embed\s*\(|\.(?:incbin|include))\s*\\?["<]\s*((?:/|[^">\n]*\.\./)[^">\n]*)`)

// Outside finds a file outside of a source's own folder that it names to a
// compiler; empty when it names none. A macro can hide one: this is for kernels
// without Landlock.
func Outside(source string) string {
	if m := fileNamed.FindStringSubmatch(source); m != nil {
		return strings.TrimRight(m[1], "\\")
	}
	return ""
}
