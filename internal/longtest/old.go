package longtest

import (
	"os"
	"testing"
)

// All says whether the second set runs too. It goes when its last caller has gone to Long or Nightly.
func All(tb testing.TB) bool {
	tb.Helper()
	return os.Getenv(Variable) == "all"
}

// Skip skips a test of the second set, unless that set runs.
func Skip(tb testing.TB, why string) {
	tb.Helper()
	if !All(tb) {
		tb.Skipf("%s: %s=all runs it", why, Variable)
	}
}
