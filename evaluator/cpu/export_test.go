//go:build linux

package cpu

import (
	"testing"

	"github.com/evotune/evotune/evaluator"
)

// WithoutSandbox switches off the filter of system calls, as on a system that
// has none.
func WithoutSandbox(o *Options) { o.noSandbox = true }

// NeedCompiler skips a test on machines where nothing can be compiled, and
// returns the folder of the cache that the tests of one run share.
func NeedCompiler(tb testing.TB) (cache string) {
	tb.Helper()
	needCompiler(tb)
	return testCache
}

// Disturbed says that other processes kept the machine so busy that a candidate,
// which is right, could not be timed.
func Disturbed(t *testing.T, r evaluator.Result) bool {
	t.Helper()
	return disturbed(t, r)
}
