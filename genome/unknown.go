package genome

import (
	"fmt"
	"strings"

	"github.com/evotune/evotune/internal/naming"
)

// unknown writes the message about a name that is not among the known ones,
// suggesting from candidates and listing known.
func unknown(what, name string, candidates, known []string) string {
	msg := fmt.Sprintf("unknown %s %s", what, name)
	if near := naming.Nearest(name, candidates); near != "" {
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
