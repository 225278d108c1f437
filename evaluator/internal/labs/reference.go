package labs

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/evotune/evotune/kernels"
)

var atLine = regexp.MustCompile(`^([^:\s]+):(\d+):(?:\d+:)? (?:fatal )?(?:error: )?(.*)`)

// ReferenceFlags are what a compiler gets for a reference besides what all get: in the kernel itself a function that only
// CUDA has is told at its line, and not by the linker.
func ReferenceFlags(spec *kernels.Problem) []string {
	if spec.Oracle == kernels.OwnBaseline {
		return []string{"-Werror=implicit-function-declaration"}
	}
	return nil
}

// ReferenceRefused is why the reference does not compile, as its author knows it: the kernel itself says where its lines come
// from, those that evotune adds are quoted, and what has another signature than the declared one is to have that.
func ReferenceRefused(spec *kernels.Problem, summary string) string {
	m := atLine.FindStringSubmatch(summary)
	switch {
	case spec.Oracle == kernels.OwnBaseline:
		lines := strings.Split(spec.Reference.Text, "\n")
		if m == nil {
			return summary + ownReference
		}
		summary = m[1] + ":" + m[2] + ": " + m[3]
		if n, err := strconv.Atoi(m[2]); err == nil && m[1] == "reference.c" && n >= 1 && n <= len(lines) {
			summary = fmt.Sprintf("%q: %s", strings.TrimSpace(lines[n-1]), m[3])
		}
		return summary + ownReference
	case strings.Contains(summary, "conflicting types for"):
		return summary + ": it must be " + kernels.ReferencePrototype(spec)
	}
	return summary
}

// ownReference is what to do where the kernel itself cannot be the reference.
const ownReference = ": without a reference the kernel itself is one, and runs on the CPU as C: give a reference of its own, a function in Python or C that computes the outputs in double precision"

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
