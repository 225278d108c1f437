//go:build linux

package cpu

import "testing"

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
