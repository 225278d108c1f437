package backendtest

import (
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Python gives an interpreter that has a library, numpy or torch: that of EVOTUNE_PYTHON, the
// one on the PATH or the system's. The test is skipped where none has it.
func Python(tb testing.TB, library string) string {
	tb.Helper()
	path := FindPython(library)
	if path == "" {
		tb.Skipf("skipped: no Python has %s (apt-get install python3-%s)", library, library)
	}
	return path
}

// imports remembers which Python has which library: one is started for each of them once.
var imports sync.Map

// FindPython is Python for what skips by itself; "" where none has the library.
func FindPython(library string) string {
	for _, path := range []string{os.Getenv("EVOTUNE_PYTHON"), "python3", "/usr/bin/python3"} {
		program, err := exec.LookPath(path)
		if err != nil {
			continue
		}
		has, known := imports.Load([2]string{program, library})
		if !known {
			has = exec.Command(program, "-c", "import "+library).Run() == nil
			imports.Store([2]string{program, library}, has)
		}
		if has == true {
			return path
		}
	}
	return ""
}
