package labs

import (
	"errors"
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

// AtShape adds to an error of the reference at a shape that is only checked where the shape's sizes are set, since
// such shapes are often made up, and a reference may need what they do not have. reference is what such errors wrap.
func AtShape(err, reference error, spec *kernels.Problem, name string, dims []int64) error {
	if !errors.Is(err, reference) {
		return err
	}
	s, unknown := spec.Shape(name)
	if unknown != nil || s.Use == kernels.Tune {
		return err
	}
	sizes := make([]string, len(dims))
	for i, n := range dims {
		sizes[i] = fmt.Sprintf("%s = %d", spec.Dims[i], n)
	}
	return fmt.Errorf("%w; if it cannot compute %s, set other dims in kernel.toml, [[problem.shape]] with name = %q and use = %q", err, strings.Join(sizes, ", "), name, s.Use)
}
