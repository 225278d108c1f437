// Package naming says what is wrong with the names in a declaration: which known name an unknown one
// probably means, and which names need each other in a circle.
package naming

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the known name that differs least from name, ignoring case,
// or "" when none is near.
func Nearest(name string, known []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, k := range known {
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d < least && d < max(len(name), len(k)) {
			best, least = k, d
		}
	}
	return best
}

// Unknown writes the message about a name that is not among the known ones,
// suggesting from candidates and listing known.
func Unknown(what, name string, candidates, known []string) string {
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

// Suggest says what to do about an unknown name: it names the nearest known one, or
// all of them.
func Suggest(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
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

// distance counts the insertions, deletions, replacements and swaps of
// neighbors that turn a into b, in bytes (optimal string alignment).
func distance(a, b string) int {
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

// Cycle looks for an element that needs itself, directly or through others. It returns
// the path from the first element of all that leads to a cycle, up to where the path
// meets itself; nil when there is none.
func Cycle[T comparable](all []T, needs func(T) []T) []T {
	const onTheWay, done = 1, 2
	state := map[T]int{}
	var visit func(x T, trail []T) []T
	visit = func(x T, trail []T) []T {
		trail = append(trail, x)
		switch state[x] {
		case onTheWay:
			return trail
		case done:
			return nil
		}
		state[x] = onTheWay
		for _, other := range needs(x) {
			if found := visit(other, trail); found != nil {
				return found
			}
		}
		state[x] = done
		return nil
	}
	for _, x := range all {
		if found := visit(x, nil); found != nil {
			return found
		}
	}
	return nil
}
