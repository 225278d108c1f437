// Package panics turns a panic into an error: a fault of evotune in one evaluation must
// not end a service, or other campaigns.
package panics

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Catch sets the error if the function that defers it panics: one line with the place.
// It sees the panics of its own goroutine alone.
func Catch(err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = fmt.Errorf("evotune failed at %s, which is a fault of evotune: %v", place(), p)
}

// place is where the panic began: the first line of evotune's behind the runtime's.
func place() string {
	var at [64]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(3, at[:])]) // behind Callers, place and Catch
	for panicked := false; ; {
		f, more := frames.Next()
		switch of := strings.HasPrefix(f.Function, "runtime."); {
		case of:
			panicked = panicked || f.Function == "runtime.gopanic"
		case panicked:
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
