package draft

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/evotune/evotune/internal/sources"
)

// This file lets a text that is made of sources say where its lines come from. While the text is rendered, marks at the
// ends of its lines say so; then #line directives do, and compilers name the places in the sources.

// originMark is a mark: the number of the file, 0 for the source itself, and the line there.
var originMark = regexp.MustCompile(` /\*@(\d+):(\d+)@\*/(\\?\r?)$`)

// lineEnd is the end of a line before which its mark belongs.
var lineEnd = regexp.MustCompile(`\\?\r?\n`)

// unmarked matches lines that mean something else with a mark.
var unmarked = regexp.MustCompile(`^[ \t]*(//|#[ \t]*pragma[ \t]+once)`)

// mark marks the lines of a text with their numbers: where tells that of an end of a line, by the number of such ends before
// it and its offset; 0 leaves the line unmarked.
func mark(text string, file int, where func(ends, offset int) int) string {
	var b strings.Builder
	at := 0
	for i, m := range lineEnd.FindAllStringIndex(text, -1) {
		b.WriteString(text[at:m[0]])
		begin := strings.LastIndexByte(text[:m[0]], '\n') + 1
		if n := where(i, m[0]); n > 0 && !unmarked.MatchString(text[begin:m[0]]) {
			fmt.Fprintf(&b, " /*@%d:%d@*/", file, n)
		}
		b.WriteString(text[m[0]:m[1]])
		at = m[1]
	}
	return b.String() + text[at:]
}

// origins are the files that marks number.
func (s *source) origins() []string {
	return append([]string{filepath.Base(s.file)}, slices.Sorted(maps.Keys(s.original))...)
}

// markIncluded marks the lines of the files that the source includes.
func (s *source) markIncluded() map[string]string {
	all := map[string]string{}
	for i, name := range s.origins()[1:] {
		text := s.original[name]
		all[name] = mark(text, 1+i, func(ends, _ int) int { return 1 + ends })
		if s.cuda {
			all[name] = apply(all[name], guardHost(all[name]))
		}
	}
	return all
}

// withOrigins replaces the marks of a rendered text by #line directives. It begins at a line of a file, to whose
// lines the directive at its end returns.
func (s *source) withOrigins(text, file string, line int) string {
	files := s.origins()
	var b strings.Builder
	put := func(text string) {
		b.WriteString(text + "\n")
		line++
	}
	from, next := "", 0 // what the compiler takes the next line for
	inside := false     // after a backslash, where a directive would not be one
	for text := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if m := originMark.FindStringSubmatch(text); m != nil {
			text = originMark.ReplaceAllString(text, "$3")
			i, _ := strconv.Atoi(m[1])
			n, _ := strconv.Atoi(m[2])
			if name := filepath.Base(files[min(i, len(files)-1)]); sources.Quotable(name) && !inside && (name != from || n != next) {
				put(fmt.Sprintf("#line %d %q", n, name))
				from, next = name, n
			}
		}
		inside = strings.HasSuffix(strings.TrimSuffix(text, "\r"), `\`)
		put(text)
		next++
	}
	if from != "" {
		put(fmt.Sprintf("#line %d %q", line+1, file))
	}
	return b.String()
}

// withoutMarks removes the marks of a rendered text.
func withoutMarks(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = originMark.ReplaceAllString(l, "$3")
	}
	return strings.Join(lines, "\n")
}
