package labs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/evotune/evotune/kernels"
)

var atLine = regexp.MustCompile(`^reference\.c:(\d+):(?:\d+:)? (?:fatal )?(?:error: )?(.*)`)

// ReferenceRefused is why the reference does not compile, as its author knows it: the kernel itself has its lines elsewhere, and
// what has another signature than the declared one is to have that.
func ReferenceRefused(spec *kernels.Problem, summary string) string {
	m := atLine.FindStringSubmatch(summary)
	switch {
	case spec.Oracle == kernels.OwnBaseline && m != nil:
		lines := strings.Split(spec.Reference.Text, "\n")
		if n, err := strconv.Atoi(m[1]); err == nil && n >= 1 && n <= len(lines) {
			summary = fmt.Sprintf("%q: %s", strings.TrimSpace(lines[n-1]), m[2])
		}
		return summary + ": without a reference the kernel itself is one, and runs there as C: give a reference of its own"
	case strings.Contains(summary, "conflicting types for"):
		return summary + ": it must be " + kernels.ReferencePrototype(spec)
	}
	return summary
}
