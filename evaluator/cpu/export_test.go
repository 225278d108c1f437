package cpu

// WithoutSandbox switches off the filter of system calls, as on a system that
// has none.
func WithoutSandbox(o *Options) { o.noSandbox = true }
