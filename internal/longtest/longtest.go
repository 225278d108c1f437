// Package longtest divides the tests in sets that do not overlap.
//
//   - "go test ./..." runs the default set. It needs Go and gcc, takes minutes, guards
//     each rule once, and its outcome does not depend on what else the machine does.
//   - .ci/run then runs the long set: what takes longer, and what needs nvcc, NVRTC, a
//     browser or PyTorch. Its tests call [Long], and their names end in Long.
//   - .ci/nightly runs the rest in parts: soaks, all kills, the whole red team, tests
//     that measure. Its tests call [Nightly], and their names end in Nightly.
//
// EVOTUNE_TEST chooses the set: empty, "long", or a part of the nightly set. The names
// are what -run selects by, so that no test runs in two sets:
//
//	EVOTUNE_TEST=long go test -run 'Long$' ./...
//	EVOTUNE_TEST=kills go test -run 'Nightly$' ./...
//
// Only tests import this package.
package longtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Variable names the environment variable that chooses the set.
const Variable = "EVOTUNE_TEST"

// Set is the long set's name in the environment.
const Set = "long"

// Parts are the parts of .ci/nightly that consist of tests.
func Parts() []string {
	return []string{"cuda", "kills", "measure", "redteam", "soak"}
}

// chosen returns the set that runs. It ends the test if there is no such set.
func chosen(tb testing.TB) string {
	tb.Helper()
	set := os.Getenv(Variable)
	if set != "" && set != Set && !slices.Contains(Parts(), set) {
		tb.Fatalf("%s is %q: leave it empty, or set it to %s or to a part of the nightly set: %s",
			Variable, set, Set, strings.Join(Parts(), ", "))
	}
	return set
}

// named ends a test whose name does not say which set it belongs to.
func named(tb testing.TB, suffix string) {
	tb.Helper()
	name, _, _ := strings.Cut(tb.Name(), "/")
	if !strings.HasSuffix(name, suffix) {
		tb.Fatalf("the name of a test of this set ends in %s", suffix)
	}
}

// Long skips a test of the long set, unless that set runs. Call it first.
func Long(tb testing.TB, why string) {
	tb.Helper()
	named(tb, "Long")
	if chosen(tb) != Set {
		tb.Skipf("%s: %s=%s runs it", why, Variable, Set)
	}
}

// Nightly skips a test of a part of the nightly set, unless that part runs. Call it first.
func Nightly(tb testing.TB, part, why string) {
	tb.Helper()
	named(tb, "Nightly")
	if !slices.Contains(Parts(), part) {
		tb.Fatalf("%q is not a part of the nightly set: %s", part, strings.Join(Parts(), ", "))
	}
	if chosen(tb) != part {
		tb.Skipf("%s: %s=%s runs it", why, Variable, part)
	}
}

// CacheVariable names the environment variable of [Cache].
const CacheVariable = "EVOTUNE_TEST_CACHE"

// Cache gives the folder where tests keep what takes long to compile, each thing under the hash of
// all that it depends on, so that another test, or a later run, finds it. Where
// EVOTUNE_TEST_CACHE names none it is a folder of the test's own.
func Cache(tb testing.TB) string {
	tb.Helper()
	if dir := os.Getenv(CacheVariable); dir != "" {
		return dir
	}
	return tb.TempDir()
}

// Short skips a test under -short, which CI sets for the race detector. Such a test mostly
// computes or waits; shorter ones run the same concurrent code.
func Short(tb testing.TB, why string) {
	tb.Helper()
	if testing.Short() {
		tb.Skipf("%s: -short leaves it out", why)
	}
}
