package kernels

import (
	"slices"
	"strings"
)

// nearest gives the candidate that differs least from name, letter case aside,
// or "" when none is near enough to be meant.
func nearest(name string, candidates []string) string {
	best, least := "", len(name)/3+1
	for _, c := range candidates {
		d := distance(strings.ToLower(name), strings.ToLower(c))
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

// distance counts the insertions, deletions and replacements that turn a into
// b, a swap of neighbours counting as one (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return len(a) + len(b)
	}
	row := make([][]int, len(a)+1)
	for i := range row {
		row[i] = make([]int, len(b)+1)
		row[i][0] = i
	}
	for j := range row[0] {
		row[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(row[i-1][j]+1, row[i][j-1]+1, row[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, row[i-2][j-2]+1)
			}
			row[i][j] = d
		}
	}
	return row[len(a)][len(b)]
}
