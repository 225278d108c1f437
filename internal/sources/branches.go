package sources

import (
	"regexp"
	"strings"
)

var (
	// elsewhere matches macros that only compilers for other systems define.
	elsewhere   = regexp.MustCompile(`^(_?WIN(32|64)|_MSC_VER|__(APPLE|MACH|MINGW32|CYGWIN|HIP|HIPCC|HIP_PLATFORM_\w+|SYCL_DEVICE_ONLY)(__)?|USE_ROCM)$`)
	conditional = regexp.MustCompile(`^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)`)
	defines     = regexp.MustCompile(`^(!?)\s*(?:defined\s*)?(?:\(\s*(\w+)\s*\)|(\w+))(\s*[<>=!]=?\s*\w+)?$`)
)

// Ours blanks the branches of #if that only other systems compile, and keeps the lines: what they include
// need not be there.
func Ours(text string) string {
	type level struct{ dead, done bool } // this branch; a branch that always holds was before
	var open []level
	var b strings.Builder
	for line := range strings.Lines(text) {
		m := conditional.FindStringSubmatch(line)
		if m == nil {
			if len(open) > 0 && open[len(open)-1].dead {
				line = line[len(strings.TrimRight(line, "\r\n")):]
			}
			b.WriteString(line)
			continue
		}
		b.WriteString(line)
		var above bool // a dead branch is around
		if n := len(open) - 1; strings.HasPrefix(m[1], "if") {
			above = n >= 0 && open[n].dead
		} else if n < 0 {
			continue
		} else {
			above = n > 0 && open[n-1].dead
		}
		holds, known := condition(m[1], m[2])
		switch m[1] {
		case "endif":
			open = open[:len(open)-1]
		case "if", "ifdef", "ifndef":
			open = append(open, level{above || known && !holds, known && holds})
		default:
			l := &open[len(open)-1]
			l.dead, l.done = above || l.done || known && !holds, l.done || known && holds
		}
	}
	return b.String()
}

// condition says whether a branch is compiled here, if that is known.
func condition(directive, text string) (holds, known bool) {
	text = strings.TrimSpace(Comment.ReplaceAllString(text, ""))
	switch directive {
	case "else", "endif":
		return true, directive == "else"
	case "ifdef":
		return false, elsewhere.MatchString(text)
	case "ifndef":
		return true, elsewhere.MatchString(text)
	}
	known = true
	for any := range strings.SplitSeq(text, "||") {
		all, sure := true, true
		for term := range strings.SplitSeq(any, "&&") {
			m := defines.FindStringSubmatch(strings.TrimSpace(term))
			if m == nil || !elsewhere.MatchString(m[2]+m[3]) {
				sure = false
			} else if m[1] == "" {
				all = false
			}
		}
		switch {
		case !all: // whatever the other terms are
		case sure:
			return true, true
		default:
			known = false
		}
	}
	return false, known
}
