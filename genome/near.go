package genome

import (
	"fmt"
	"strings"
)

// unknown writes the message about a name that is not among the known ones,
// suggesting from candidates and listing known.
func unknown(what, name string, candidates, known []string) string {
	msg := fmt.Sprintf("unknown %s %s", what, name)
	if near := Nearest(name, candidates); near != "" {
		return fmt.Sprintf("%s; did you mean %s?", msg, near)
	}
	switch {
	case len(known) == 0:
		return msg + "; none is known here"
	case len(known) > 24:
		return fmt.Sprintf("%s; known are %s and %d more", msg, strings.Join(known[:24], ", "), len(known)-24)
	}
	return fmt.Sprintf("%s; known are %s", msg, strings.Join(known, ", "))
}

// Nearest returns the candidate that differs least from name, ignoring case,
// or "" when none is near.
func Nearest(name string, candidates []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		d := EditDistance(strings.ToLower(name), strings.ToLower(c))
		if d < least && d < max(len(name), len(c)) {
			best, least = c, d
		}
	}
	return best
}

// EditDistance counts the insertions, deletions, replacements and swaps of
// neighbors that turn a into b, in bytes (optimal string alignment).
func EditDistance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			d := prev[j-1]
			if a[i-1] != b[j-1] {
				d++
			}
			d = min(d, prev[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, prev2[j-2]+1)
			}
			row[j] = d
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
