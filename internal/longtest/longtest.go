// Package longtest divides the tests in two sets.
//
// "go test ./..." runs the first: it takes minutes, and its
// outcome does not depend on what else the machine does. EVOTUNE_TEST=all adds the
// second: real measurements, whole zoos, many kills, and everything that
// compiles for long. .ci/run runs both. A test that is left out says so and how to
// run it, and something of the same kind stays in the first set.
//
// Only tests import this package.
package longtest

import (
	"os"
	"testing"
)

// Variable names the environment variable that chooses the set: empty, or "all".
const Variable = "EVOTUNE_TEST"

// All says whether the second set runs too. It ends the test if the variable has a
// value that means nothing.
func All(tb testing.TB) bool {
	tb.Helper()
	switch v := os.Getenv(Variable); v {
	case "":
		return false
	case "all":
		return true
	default:
		tb.Fatalf("%s is %q: leave it empty, or set it to all", Variable, v)
		return false
	}
}

// Skip skips a test of the second set, unless that set runs.
func Skip(tb testing.TB, why string) {
	tb.Helper()
	if !All(tb) {
		tb.Skipf("%s: %s=all runs it", why, Variable)
	}
}

// Short skips a test under -short, which CI sets for the race detector. Such a test mostly
// computes or waits; shorter ones run the same concurrent code.
func Short(tb testing.TB, why string) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("%s: -short leaves it out", why)
	}
}
