package kernels

import (
	"slices"
	"strings"

	"github.com/evotune/evotune/internal/naming"
)

// suggest says what to do about an unknown name: it names the nearest known one, or
// all of them.
func suggest(name string, known []string) string {
	if near := naming.Nearest(name, known); near != "" {
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
