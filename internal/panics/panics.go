// Package panics turns a panic into an error, so that a fault of evotune in one evaluation
// does not end a service and its other campaigns.
package panics

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Catch is deferred, and sets err to one line with the place if the function panics. Goroutines
// that the function starts need their own.
func Catch(err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = fmt.Errorf("evotune failed at %s, which is a fault of evotune: %v", place(), p)
}

// place is where the panic began: the innermost frame outside Go's runtime.
func place() string {
	var at [64]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(3, at[:])]) // 3: past Callers, place and Catch
	for {
		f, more := frames.Next()
		if !more || !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}
