package kernels

import (
	"slices"
	"strings"

	"github.com/evotune/evotune/genome"
)

// nearest gives the candidate that differs least from name, letter case aside,
// or "" when none is near enough to be meant.
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

// suggest words what to do about an unknown name: the nearest known one, or
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
