package kernels

import (
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
)

// nearest returns the candidate that differs least from name, ignoring case, or "" when
// none is similar enough.
func nearest(name string, candidates []string) string {
	best, least := "", len(name)/3+1
	for _, c := range candidates {
		d := genome.EditDistance(strings.ToLower(name), strings.ToLower(c))
		if d < least || d == least && best == "" && d < min(len(c), len(name)) {
			best, least = c, d
		}
	}
	return best
}

// suggest says what to do about an unknown name: it names the nearest known one, or
// all of them.
func suggest(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	if len(known) == 0 {
		return "there are none"
	}
	known = slices.Clone(known)
	more := ""
	if len(known) > 24 {
		known, more = known[:24], ", ..."
	}
	return "there are " + strings.Join(known, ", ") + more
}
